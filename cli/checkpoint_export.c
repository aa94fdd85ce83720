/* coxswain checkpoint export: writes whole variables for other programs. Shards are
 * joined on the way; only a buffer is in memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoints.h"
#include "checkpoint/place.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/npz.h"
#include "cli/numbers.h"
#include "common/error.h"
#include "common/file.h"
#include "common/floats.h"
#include "net/daemon.h"

struct config {
    const char *format;
    const char *variable;
    bool state;
    bool compress;
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "format",
     .type = COXI_OPTION_CHOICE,
     .offset = offsetof(struct config, format),
     .choices = "npz|safetensors",
     .fallback = "npz",
     .help = "format of OUT"},
    COXI_CHECKPOINT_VARIABLE(struct config),
    {.name = "state",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, state),
     .help = "also export optimizer state and steps"},
    {.name = "compress",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, compress),
     .help = "deflate the arrays of an npz"},
    COXI_CHECKPOINT_JSON(struct config),
};

static const struct coxi_program program = {
    .name = "coxswain checkpoint export",
    .usage = "[options] DIR OUT",
    .summary = "Writes variables of a checkpoint (or of the latest one in DIR) to a "
               "file: a dense\nvariable as NAME, a table as NAME/keys and NAME/values "
               "with rows in the same\norder, state as NAME/STATE. In an npz, BF16 "
               "becomes float32, which holds each\nvalue exactly." COXI_CHECKPOINT_PLACE
               " OUT is a local file.",
    .prefix = "COX_CHECKPOINT",
    .mixed = true,
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static bool is_chosen(const struct config *config, const struct coxi_whole *whole)
{
    bool plain = strcmp(whole->part, "values") == 0 || strcmp(whole->part, "keys") == 0;
    return (plain || config->state) &&
           coxi_name_matches(config->variable, whole->variable->name);
}

/* ---- npz */

static const struct {
    const char *dtype;
    const char *descr;
} descrs[] = {{"F32", "<f4"}, {"F64", "<f8"}, {"I32", "<i4"}, {"I64", "<i8"},
              {"U8", "|u1"},  {"F16", "<f2"}, {"U64", "<u8"}, {"BF16", "<f4"}};

static const char *descr_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof(descrs) / sizeof(*descrs); i++) {
        if (strcmp(dtype, descrs[i].dtype) == 0) {
            return descrs[i].descr;
        }
    }
    return NULL;
}

static int write_plain(void *arg, const void *data, size_t len)
{
    return coxi_npz_write(arg, data, len);
}

/* Writes BF16 as F32. */
static int write_widened(void *arg, const void *data, size_t len)
{
    enum { FLOATS = 4096 };
    float floats[FLOATS];
    size_t n = len / sizeof(uint16_t);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n;) {
        size_t count = n - i < FLOATS ? n - i : FLOATS;
        coxi_floats_widen(COX_BF16, (const uint16_t *)data + i, count, floats);
        r = coxi_npz_write(arg, floats, count * sizeof(*floats));
        i += count;
    }
    return r;
}

static int write_array(struct coxi_npz *npz, const struct coxi_checkpoint *checkpoint,
                       const struct coxi_whole *whole)
{
    const char *descr = descr_of(whole->dtype);
    if (descr == NULL) {
        return coxi_error(COX_EINVAL, "numpy has no type for '%s', which is %s",
                          whole->name, whole->dtype);
    }
    int r = coxi_npz_begin(npz, whole->name, descr, whole->rank, whole->shape);
    for (size_t i = 0; r == 0 && i < whole->n_pieces; i++) {
        const struct coxi_piece *piece = &whole->pieces[i];
        bool narrow = strcmp(piece->tensor->dtype, "BF16") == 0;
        r = coxi_st_stream(checkpoint->shards[piece->ps], piece->tensor,
                           narrow ? write_widened : write_plain, npz);
    }
    return r;
}

static int export_npz(const struct coxi_checkpoint *checkpoint,
                      const struct config *config, const char *path)
{
    struct coxi_npz *npz;
    int r = coxi_npz_create(path, config->compress, &npz);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < checkpoint->n_wholes; i++) {
        if (is_chosen(config, &checkpoint->wholes[i])) {
            r = write_array(npz, checkpoint, &checkpoint->wholes[i]);
        }
    }
    if (r != 0) {
        coxi_npz_abandon(npz);
        return r;
    }
    return coxi_npz_finish(npz);
}

/* ---- safetensors */

/* Lists the chosen tensors, large elements first, which keeps all of them aligned. */
static size_t choose_in_order(const struct coxi_checkpoint *checkpoint,
                              const struct config *config,
                              const struct coxi_whole **ret)
{
    size_t n = 0;
    for (size_t size = 8; size > 0; size /= 2) {
        for (size_t i = 0; i < checkpoint->n_wholes; i++) {
            const struct coxi_whole *whole = &checkpoint->wholes[i];
            if (is_chosen(config, whole) && coxi_number_size(whole->dtype) == size) {
                ret[n++] = whole;
            }
        }
    }
    return n;
}

static int write_some(void *arg, const void *data, size_t len)
{
    return coxi_st_write(arg, data, len);
}

static int write_tensors(const struct coxi_checkpoint *checkpoint,
                         struct coxi_st_writer *file, const struct coxi_whole **wholes,
                         size_t n)
{
    int r = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t p = 0; r == 0 && p < wholes[i]->n_pieces; p++) {
            const struct coxi_piece *piece = &wholes[i]->pieces[p];
            r = coxi_st_stream(checkpoint->shards[piece->ps], piece->tensor, write_some,
                               file);
        }
    }
    return r;
}

static int write_safetensors(const struct coxi_checkpoint *checkpoint, const char *path,
                             const struct coxi_whole **wholes,
                             struct coxi_st_tensor *tensors, size_t n)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    struct coxi_st_writer *file;
    char run[32];
    char number[32];
    uint64_t bytes;
    uint32_t crc32;
    (void)snprintf(run, sizeof(run), "%016llx", (unsigned long long)m->session.run);
    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)m->number);
    const struct coxi_st_metadata metadata[] = {{"run", run}, {"checkpoint", number}};
    for (size_t i = 0; i < n; i++) {
        tensors[i] = (struct coxi_st_tensor){.name = wholes[i]->name,
                                             .dtype = wholes[i]->dtype,
                                             .rank = wholes[i]->rank,
                                             .bytes = wholes[i]->bytes};
        memcpy(tensors[i].shape, wholes[i]->shape, sizeof(tensors[i].shape));
    }
    int r = coxi_st_create(path, tensors, n, metadata, 2, &file);
    if (r != 0) {
        return r;
    }
    r = write_tensors(checkpoint, file, wholes, n);
    if (r != 0) {
        coxi_st_abandon(file);
        return r;
    }
    return coxi_st_finish(file, &bytes, &crc32);
}

static int export_safetensors(const struct coxi_checkpoint *checkpoint,
                              const struct config *config, const char *path)
{
    const struct coxi_whole **wholes =
        calloc(checkpoint->n_wholes + 1, sizeof(*wholes));
    struct coxi_st_tensor *tensors = calloc(checkpoint->n_wholes + 1, sizeof(*tensors));
    int r = wholes == NULL || tensors == NULL ? coxi_error_memory("an export") : 0;
    if (r == 0) {
        size_t n = choose_in_order(checkpoint, config, wholes);
        r = write_safetensors(checkpoint, path, wholes, tensors, n);
    }
    free(wholes);
    free(tensors);
    return r;
}

/* ---- the command */

static json_t *chosen_json(const struct coxi_checkpoint *checkpoint,
                           const struct config *config)
{
    json_t *names = json_array();
    for (size_t i = 0; i < checkpoint->n_wholes; i++) {
        if (is_chosen(config, &checkpoint->wholes[i])) {
            (void)json_array_append_new(names, json_string(checkpoint->wholes[i].name));
        }
    }
    return names;
}

/* Writes under a temporary name first, so OUT is whole or does not exist. */
static int write_out(const struct coxi_checkpoint *checkpoint,
                     const struct config *config, const char *out)
{
    char temporary[PATH_MAX];
    int r = coxi_path(temporary, "%s.tmp", out);
    if (r == 0 && access(out, F_OK) == 0) {
        r = coxi_error(COX_EEXIST, "%s is there already: remove it, or name another",
                       out);
    }
    if (r != 0) {
        return r;
    }
    (void)unlink(temporary); /* left by an export that did not finish */
    r = strcmp(config->format, "npz") == 0
            ? export_npz(checkpoint, config, temporary)
            : export_safetensors(checkpoint, config, temporary);
    if (r == 0 && rename(temporary, out) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s", out);
    }
    if (r != 0) {
        (void)unlink(temporary);
    }
    return r;
}

static int check_out(const char *out)
{
    char taken[PATH_MAX];
    return coxi_place_in_store(out) || coxi_place_take(out, taken) != 0
               ? coxi_error(COX_EINVAL,
                            "cannot write %s: OUT is a local file, which you may copy "
                            "to a store",
                            out)
               : 0;
}

static int export_to(const char *dir, const char *out, const struct config *config)
{
    struct coxi_checkpoint *checkpoint;
    int r = check_out(out);
    r = r == 0 ? coxi_checkpoint_use(dir, COXI_CHECKPOINT_STREAMED, &checkpoint) : r;
    if (r != 0) {
        return r;
    }
    if (!coxi_checkpoint_is_held(checkpoint)) {
        coxi_checkpoint_warn(&program, dir);
    }
    json_t *chosen = chosen_json(checkpoint, config);
    size_t n = json_array_size(chosen);
    if (n == 0) {
        r = coxi_error(COX_ENOENT, "%s has no variable '%s'", checkpoint->path,
                       config->variable != NULL ? config->variable : "*");
    }
    if (r == 0) {
        r = write_out(checkpoint, config, out);
    }
    if (r == 0 && config->json) {
        r = coxi_checkpoint_print(
            json_pack("{s:s, s:O}", "file", out, "tensors", chosen));
    } else if (r == 0) {
        (void)printf("%zu tensors of %s are in %s\n", n, checkpoint->path, out);
    }
    json_decref(chosen);
    coxi_checkpoint_close(checkpoint);
    return r;
}

int coxi_checkpoint_export(int argc, char **argv)
{
    struct config config = {0};
    char **words;
    int code;
    if (!coxi_command_options(&program, argc, argv, &config, 2, &words, &code)) {
        return code;
    }
    return coxi_checkpoint_exit(&program, export_to(words[0], words[1], &config));
}
