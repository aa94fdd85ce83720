/* See sample.h. */
#include "tests/checkpoint/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint/draft.h"
#include "checkpoint/latest.h"
#include "checkpoint/listing.h"
#include "checkpoint/manifest.h"
#include "checkpoint/place.h"
#include "checkpoint/safetensors.h"
#include "common/file.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "tests/test.h"

enum { TENSORS_MAX = 16, PS_MAX = 4 };

float sample_w(const struct sample *sample, uint64_t i)
{
    return (float)i * 0.5F + sample->plus;
}

int64_t sample_n(uint64_t i)
{
    return (int64_t)i * -1000000007;
}

uint64_t sample_key(uint64_t row)
{
    return row * 0x9e3779b97f4a7c15u;
}

float sample_value(const struct sample *sample, uint64_t row, uint64_t column)
{
    return (float)row + (float)column * 0.25F + sample->plus;
}

/* ---- one shard */

struct shard {
    struct coxi_st_tensor tensors[TENSORS_MAX];
    size_t n;
    char names[TENSORS_MAX][64];
    uint64_t *keys;
    uint64_t *removed;
    float *floats;
    size_t n_floats;
    size_t floats_max;
};

/* Makes a shard with room for all tensors of a sample. */
static struct shard *shard_new(const struct sample *sample)
{
    struct shard *shard = calloc(1, sizeof(*shard));
    assert_non_null(shard);
    shard->floats_max = 2 * SAMPLE_DIM * sample->n_rows + 2 * SAMPLE_W;
    shard->keys = calloc(sample->n_rows + 1, sizeof(*shard->keys));
    shard->removed = calloc(sample->n_removed + 1, sizeof(*shard->removed));
    shard->floats = calloc(shard->floats_max, sizeof(*shard->floats));
    assert_true(shard->keys != NULL && shard->removed != NULL && shard->floats != NULL);
    return shard;
}

static void shard_free(struct shard *shard)
{
    free(shard->keys);
    free(shard->removed);
    free(shard->floats);
    free(shard);
}

static void add(struct shard *shard, const char *name, const char *dtype, uint64_t rows,
                uint64_t columns, size_t size, const void *data)
{
    struct coxi_st_tensor *t = &shard->tensors[shard->n];
    (void)snprintf(shard->names[shard->n], sizeof(shard->names[0]), "%s", name);
    *t = (struct coxi_st_tensor){.name = shard->names[shard->n],
                                 .dtype = dtype,
                                 .rank = columns > 0 ? 2 : 1,
                                 .shape = {rows, columns},
                                 .data = data};
    t->bytes = rows * (columns > 0 ? columns : 1) * size;
    shard->n++;
}

static float *take_floats(struct shard *shard, size_t n)
{
    float *floats = shard->floats + shard->n_floats;
    assert_true(shard->n_floats + n <= shard->floats_max);
    shard->n_floats += n;
    return floats;
}

static void add_table(struct shard *shard, const struct sample *sample, uint32_t ps)
{
    static const uint64_t step = 9;
    uint64_t n = 0;
    uint64_t n_removed;
    float *values = take_floats(shard, sample->n_rows * SAMPLE_DIM);
    float *state = take_floats(shard, sample->n_rows * SAMPLE_DIM);
    for (uint64_t row = sample->rows_from; row < sample->n_rows; row++) {
        if (coxi_key_ps(sample_key(row), sample->n_ps) != ps) {
            continue;
        }
        for (uint64_t column = 0; column < SAMPLE_DIM; column++) {
            values[n * SAMPLE_DIM + column] = sample_value(sample, row, column);
            state[n * SAMPLE_DIM + column] = 0.5F;
        }
        shard->keys[n++] = sample_key(row);
    }
    add(shard, "t/keys", "U64", n, 0, 8, shard->keys);
    if (sample->base != 0) {
        n_removed = 0;
        for (uint64_t row = 0; row < sample->n_removed; row++) {
            if (coxi_key_ps(sample_key(row), sample->n_ps) == ps) {
                shard->removed[n_removed++] = sample_key(row);
            }
        }
        add(shard, "t/removed", "U64", n_removed, 0, 8, shard->removed);
    }
    add(shard, "t/step", "U64", 1, 0, 8, &step);
    add(shard, "t/values", "F32", n, SAMPLE_DIM, 4, values);
    add(shard, "t/adagrad", "F32", n, SAMPLE_DIM, 4, state);
}

static void add_w(struct shard *shard, const struct sample *sample,
                  const struct coxi_variable *w, uint32_t ps)
{
    static const uint64_t step = 5;
    char name[64] = "w";
    char part[80];
    const struct coxi_shard *of = coxi_variable_shard(w, ps);
    if (of == NULL) {
        return;
    }
    if (w->n_shards > 1) {
        (void)snprintf(name, sizeof(name), "w/part_%td", of - w->shards);
    }
    float *values = take_floats(shard, of->count * 2);
    float *state = take_floats(shard, of->count * 2);
    for (uint64_t i = 0; i < of->count * 2; i++) {
        values[i] = sample_w(sample, of->begin * 2 + i);
        state[i] = 0.25F;
    }
    (void)snprintf(part, sizeof(part), "%s/step", name);
    add(shard, part, "U64", 1, 0, 8, &step);
    add(shard, name, "F32", of->count, 2, 4, values);
    (void)snprintf(part, sizeof(part), "%s/adagrad", name);
    add(shard, part, "F32", of->count, 2, 4, state);
}

static void write_shard(const char *path, const struct sample *sample, uint32_t ps,
                        const struct shard *shard, struct coxi_manifest_shard *ret)
{
    char file[PATH_MAX];
    char run[32];
    char number[32];
    char index[16];
    char base[32];
    struct coxi_st_writer *writer;
    (void)snprintf(run, sizeof(run), "%016" PRIx64, sample->run);
    (void)snprintf(number, sizeof(number), "%" PRIu64,
                   sample->as_written ? sample->shards_number : sample->number);
    (void)snprintf(index, sizeof(index), "%" PRIu32, ps);
    const struct coxi_st_metadata metadata[] = {
        {"format", "coxswain-1"}, {"run", run},  {"generation", "1"},
        {"checkpoint", number},   {"ps", index}, {"base", base}};
    (void)snprintf(base, sizeof(base), "%" PRIu64, sample->base);
    ret->base = sample->base;
    coxi_manifest_file(ps, sample->n_ps, ret->file);
    assert_code(0, coxi_path(file, "%s/%s", path, ret->file));
    assert_code(0, coxi_st_create(file, shard->tensors, shard->n, metadata,
                                  sample->base != 0 ? 6 : 5, &writer));
    for (size_t i = 0; i < shard->n; i++) {
        assert_code(
            0, coxi_st_write(writer, shard->tensors[i].data, shard->tensors[i].bytes));
    }
    assert_code(0, coxi_st_finish(writer, &ret->bytes, &ret->crc32));
}

/* ---- all of it */

void sample_write(const char *dir, const struct sample *sample)
{
    static const int64_t n_data[SAMPLE_N] = {0, -1000000007, -2000000014};
    static const uint16_t half_data[SAMPLE_HALF] = {0x3f80, 0xc000, 0, 0x3f00};
    const struct coxi_optimizer adagrad = {.kind = COXI_OPTIMIZER_ADAGRAD,
                                           .learning_rate = 0.1F,
                                           .epsilon = 1e-7F,
                                           .initial_accumulator = 0.5F};
    uint32_t last = sample->n_ps - 1;
    struct coxi_shard w_shards[2] = {{.ps = last}, {.ps = 0}};
    struct coxi_shard n_shard = {last, 0, SAMPLE_N};
    struct coxi_shard half_shard = {0, 0, SAMPLE_HALF};
    struct coxi_variable w = {.id = 0,
                              .name = "w",
                              .kind = COXI_KIND_DENSE,
                              .dtype = COX_F32,
                              .rank = 2,
                              .shape = {7, 2},
                              .shards = w_shards,
                              .n_shards = last > 0 ? 2 : 1,
                              .optimizer = adagrad};
    struct coxi_variable n = {.id = 1,
                              .name = "n",
                              .kind = COXI_KIND_DENSE,
                              .dtype = COX_I64,
                              .rank = 1,
                              .shape = {SAMPLE_N},
                              .shards = &n_shard,
                              .n_shards = 1};
    struct coxi_variable half = {.id = 2,
                                 .name = "half",
                                 .kind = COXI_KIND_DENSE,
                                 .dtype = COX_BF16,
                                 .rank = 1,
                                 .shape = {SAMPLE_HALF},
                                 .shards = &half_shard,
                                 .n_shards = 1};
    struct coxi_variable t = {.id = 3,
                              .name = "t",
                              .kind = COXI_KIND_TABLE,
                              .dtype = COX_F32,
                              .rank = 1,
                              .shape = {SAMPLE_DIM},
                              .optimizer = adagrad,
                              .initializer = {COXI_INIT_CONSTANT, 0.125F, 0, 0}};
    struct coxi_variable *all[] = {&w, &n, sample->without_half ? NULL : &half, &t};
    struct coxi_manifest_shard shards[PS_MAX] = {0};
    struct coxi_manifest manifest = {.session = {.run = sample->run, .generation = 1},
                                     .number = sample->number,
                                     .base = sample->base,
                                     .next_closure = 17,
                                     .time_s = 1769860800.5,
                                     .final = sample->final,
                                     .shards = shards,
                                     .n_shards = sample->n_ps,
                                     .variables = all,
                                     .n_variables = 4};
    char path[PATH_MAX];
    struct coxi_draft draft;
    bool in_store = coxi_place_in_store(dir);
    coxi_shards_div(7, (uint32_t)w.n_shards, w_shards);
    assert_code(0, coxi_path(path, "%s/ckpt-%" PRIu64, dir, sample->number));
    if (in_store) {
        assert_code(0, coxi_draft_begin(dir, sample->number, &draft));
    } else {
        assert_code(0, coxi_directory_make(path));
    }
    for (uint32_t ps = 0; ps < sample->n_ps; ps++) {
        struct shard *shard = shard_new(sample);
        add_table(shard, sample, ps);
        if (ps == last && sample->base == 0) {
            add(shard, "n", "I64", SAMPLE_N, 0, 8, n_data);
        }
        add_w(shard, sample, &w, ps);
        if (ps == 0 && sample->base == 0 && !sample->without_half) {
            add(shard, "half", "BF16", SAMPLE_HALF, 0, 2, half_data);
        }
        write_shard(path, sample, ps, shard, &shards[ps]);
        shard_free(shard);
    }
    if (in_store) {
        assert_code(0, coxi_draft_publish(&draft, &manifest));
    } else {
        assert_code(0, coxi_manifest_write(&manifest, path));
        assert_code(0, coxi_latest_write(dir, sample->number));
    }
}

void sample_assert_there(const char *dir, const char *expected)
{
    char text[256] = "";
    size_t used = 0;
    struct coxi_listed *all = NULL;
    size_t n = 0;
    assert_code(0, coxi_checkpoints_list(dir, &all, &n));
    for (size_t i = 0; i < n; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%" PRIu64 "%s",
                                 i > 0 ? " " : "", all[i].number,
                                 all[i].unfinished ? ".tmp" : "");
    }
    free(all);
    assert_string_equal(expected, text);
}
