/* coxswain checkpoint: what is in a checkpoint, and is it whole. */
#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "common/daemon.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/file.h"
#include "common/manifest.h"
#include "common/option.h"
#include "common/safetensors.h"

struct config {
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, json),
     .help = "print one JSON object instead of a table"},
};

static const struct coxi_program program = {
    .name = "coxswain checkpoint",
    .usage = "show [options] DIR",
    .summary =
        "Verifies every checksum of a checkpoint and prints what is in it. DIR is a\n"
        "checkpoint (.../ckpt-3) or a checkpoint directory, of which the latest is\n"
        "shown.",
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* What is told of a tensor; for floating-point and integer types over all elements. */
struct summary {
    uint64_t elements;
    double sum;
    double least;
    double most;
};

static void add(struct summary *summary, double x)
{
    summary->elements++;
    summary->sum += x;
    summary->least = x < summary->least ? x : summary->least;
    summary->most = x > summary->most ? x : summary->most;
}

#define ADD_ALL(type)                                                                  \
    for (uint64_t i = 0; i < tensor->bytes / sizeof(type); i++) {                      \
        add(&summary, (double)((const type *)tensor->data)[i]);                        \
    }                                                                                  \
    break

static struct summary summarize(const struct coxi_st_tensor *tensor)
{
    struct summary summary = {.least = DBL_MAX, .most = -DBL_MAX};
    switch (coxi_dtype_parse(tensor->dtype)) {
    case COX_F32:
        ADD_ALL(float);
    case COX_F64:
        ADD_ALL(double);
    case COX_I32:
        ADD_ALL(int32_t);
    case COX_I64:
        ADD_ALL(int64_t);
    case COX_U8:
        ADD_ALL(uint8_t);
    default: /* keys and half-precision types are counted only */
        summary.elements = UINT64_MAX;
        break;
    }
    return summary;
}

/* ---- output */

static void shape_text(const struct coxi_st_tensor *tensor, char *text, size_t len)
{
    size_t used = (size_t)snprintf(text, len, "[");
    for (uint32_t i = 0; i < tensor->rank && used < len; i++) {
        used += (size_t)snprintf(text + used, len - used, "%s%" PRIu64,
                                 i > 0 ? ", " : "", tensor->shape[i]);
    }
    if (used < len) {
        (void)snprintf(text + used, len - used, "]");
    }
}

static void print_head(const struct coxi_manifest *m)
{
    time_t seconds = (time_t)m->time_s;
    struct tm local;
    char when[64] = "";
    if (localtime_r(&seconds, &local) != NULL) {
        (void)strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &local);
    }
    (void)printf("checkpoint %" PRIu64 "%s  run %016" PRIx64 "  generation %" PRIu64
                 "  written %s\n",
                 m->number, m->final ? " (final)" : "", m->session.run,
                 m->session.generation, when);
    (void)printf("\n%-32s %12s %-10s %s\n", "shard", "bytes", "crc32", "watermark");
    for (uint32_t i = 0; i < m->n_shards; i++) {
        (void)printf("%-32s %12" PRIu64 " %08" PRIx32 "   %" PRIu64 "\n",
                     m->shards[i].file, m->shards[i].bytes, m->shards[i].crc32,
                     m->shards[i].watermark);
    }
    (void)printf("\n%-28s %3s %-5s %-16s %12s %14s %12s %12s\n", "tensor", "ps", "type",
                 "shape", "bytes", "sum", "least", "most");
}

static void print_tensor(uint32_t ps, const struct coxi_st_tensor *tensor)
{
    char shape[64];
    shape_text(tensor, shape, sizeof(shape));
    struct summary s = summarize(tensor);
    (void)printf("%-28s %3" PRIu32 " %-5s %-16s %12" PRIu64, tensor->name, ps,
                 tensor->dtype, shape, tensor->bytes);
    if (s.elements > 0 && s.elements != UINT64_MAX) {
        (void)printf(" %14.6g %12.6g %12.6g", s.sum, s.least, s.most);
    }
    (void)printf("\n");
}

static json_t *tensor_json(uint32_t ps, const struct coxi_st_tensor *tensor)
{
    struct summary s = summarize(tensor);
    json_t *shape = json_array();
    for (uint32_t i = 0; i < tensor->rank; i++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i]));
    }
    json_t *object = json_pack("{s:s, s:i, s:s, s:o, s:I}", "name", tensor->name, "ps",
                               (int)ps, "dtype", tensor->dtype, "shape", shape, "bytes",
                               (json_int_t)tensor->bytes);
    if (s.elements > 0 && s.elements != UINT64_MAX && isfinite(s.sum)) {
        (void)json_object_set_new(object, "sum", json_real(s.sum));
        (void)json_object_set_new(object, "least", json_real(s.least));
        (void)json_object_set_new(object, "most", json_real(s.most));
    }
    return object;
}

/* Opens every shard, and prints or collects its tensors. */
static int each_shard(const char *path, const struct coxi_manifest *m, json_t *tensors)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < m->n_shards; i++) {
        char file[PATH_MAX];
        struct coxi_st_file *shard;
        r = coxi_path(file, "%s/%s", path, m->shards[i].file);
        if (r == 0) {
            r = coxi_st_open(file, m->shards[i].bytes, &m->shards[i].crc32, &shard);
        }
        if (r != 0) {
            break;
        }
        for (size_t t = 0; t < coxi_st_count(shard); t++) {
            if (tensors != NULL) {
                (void)json_array_append_new(tensors,
                                            tensor_json(i, coxi_st_at(shard, t)));
            } else {
                print_tensor(i, coxi_st_at(shard, t));
            }
        }
        coxi_st_close(shard);
    }
    return r;
}

static int show_json(const char *path, const struct coxi_manifest *m)
{
    char run[32];
    (void)snprintf(run, sizeof(run), "%016" PRIx64, m->session.run);
    json_t *tensors = json_array();
    int r = each_shard(path, m, tensors);
    json_t *root =
        json_pack("{s:I, s:s, s:b, s:o}", "checkpoint", (json_int_t)m->number, "run",
                  run, "final", m->final, "tensors", tensors);
    char *text =
        r == 0 ? json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (text != NULL) {
        (void)printf("%s\n", text);
    }
    free(text);
    json_decref(root);
    return r;
}

static int show_table(const char *path, const struct coxi_manifest *m)
{
    print_head(m);
    int r = each_shard(path, m, NULL);
    if (r == 0) {
        (void)printf("\nall %" PRIu32 " checksums are right\n", m->n_shards);
    }
    return r;
}

/* The checkpoint that `dir` is, or the latest one in it. */
static int find_checkpoint(const char *dir, char path[PATH_MAX])
{
    uint64_t number = 0;
    int r = coxi_path(path, "%s/manifest.json", dir);
    if (r == 0 && access(path, F_OK) == 0) {
        return coxi_path(path, "%s", dir);
    }
    if (r == 0) {
        r = coxi_latest_read(dir, &number);
    }
    if (r == COX_ENOENT) {
        return coxi_error(r, "%s is no checkpoint and holds none", dir);
    }
    return r == 0 ? coxi_path(path, "%s/ckpt-%" PRIu64, dir, number) : r;
}

static int show(const char *dir, bool json)
{
    char path[PATH_MAX];
    struct coxi_manifest *manifest;
    int r = find_checkpoint(dir, path);
    if (r == 0) {
        r = coxi_manifest_read(path, &manifest);
    }
    if (r != 0) {
        return r;
    }
    r = json ? show_json(path, manifest) : show_table(path, manifest);
    coxi_manifest_free(manifest);
    return r;
}

int coxi_command_checkpoint(int argc, char **argv)
{
    struct config config = {0};
    int rest = 0;
    int r = coxi_options_parse(&program, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && (rest != argc - 2 || strcmp(argv[rest], "show") != 0)) {
        r = coxi_error(COX_EINVAL, "say: coxswain checkpoint show [--json] DIR");
    }
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    if (show(argv[argc - 1], config.json) != 0) {
        (void)fflush(stdout);
        (void)coxi_exit_config(program.name);
        return COXI_EXIT_FAILED;
    }
    return EXIT_SUCCESS;
}
