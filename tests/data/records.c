/* See records.h. */
#include "tests/data/records.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "data/sources.h"
#include "tests/test.h"

static void write_features(FILE *out, const struct cox_batch *b, size_t r)
{
    for (uint64_t i = b->begin[r]; i < b->begin[r + 1]; i++) {
        (void)fputc(' ', out);
        if (b->fields != NULL) {
            (void)fprintf(out, "%" PRIu32 ":", b->fields[i]);
        }
        (void)fprintf(out, "%" PRIu64, b->keys[i]);
        if (b->values != NULL) {
            (void)fprintf(out, ":%.9g", (double)b->values[i]);
        }
    }
}

static char *text_of(const struct cox_batch *b, size_t r)
{
    char *text;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    if (b->labels != NULL) {
        (void)fprintf(out, "%.9g", (double)b->labels[r]);
    }
    if (b->weights != NULL) {
        (void)fprintf(out, " *%.9g", (double)b->weights[r]);
    }
    for (uint32_t i = 0; i < b->n_dense; i++) {
        (void)fprintf(out, " [%.9g]", (double)b->dense[r * b->n_dense + i]);
    }
    if (b->begin != NULL) {
        write_features(out, b, r);
        (void)fputs(b->bytes != NULL ? " |" : "", out);
    }
    for (size_t i = 0; b->bytes != NULL && i < b->bytes[r].len; i++) {
        uint8_t c = b->bytes[r].data[i];
        (void)fprintf(out, c >= ' ' && c < 127 ? "%c" : "\\%02x", c);
    }
    (void)fclose(out);
    return text;
}

static void add(struct records *to, const struct cox_batch *batch)
{
    to->all = reallocarray(to->all, to->n + batch->n, sizeof(*to->all));
    assert_non_null(to->all);
    for (size_t r = 0; r < batch->n; r++) {
        to->all[to->n++] = text_of(batch, r);
    }
}

/* Takes the source. */
static void read_source(const struct coxi_task *task, struct coxi_source *source,
                        struct records *to)
{
    struct coxi_reader *reader = NULL;
    struct cox_batch batch = COX_BATCH_INIT;
    to->code = coxi_reader_open(task, source, &reader);
    while (to->code == 0) {
        to->code = coxi_reader_next(reader, &batch);
        if (to->code == 0) {
            assert_true(batch.n > 0);
            assert_true(batch.n <= (task->batch_size > 0 ? task->batch_size : 256));
            add(to, &batch);
        }
    }
    (void)snprintf(to->error, sizeof(to->error), "%s", coxi_test_error());
    if (reader != NULL) {
        coxi_reader_counts(reader, &to->counts);
    }
    coxi_reader_close(reader);
}

void records_read(const struct coxi_task *task, struct records *to)
{
    struct coxi_source source;
    to->code = coxi_source_open(task->file, &source);
    if (to->code == 0) {
        read_source(task, &source, to);
    }
    (void)snprintf(to->error, sizeof(to->error), "%s", coxi_test_error());
}

void records_read_cut(const struct coxi_task *task, const uint64_t *cuts, size_t n,
                      struct records *to)
{
    struct coxi_task part = *task;
    to->code = COX_EEOF;
    for (size_t i = 0; to->code == COX_EEOF && i <= n; i++) {
        part.begin = i > 0 ? cuts[i - 1] : 0;
        part.end = i < n ? cuts[i] : UINT64_MAX;
        records_read(&part, to);
    }
}

/* ---- damage */

enum { LONGER = 16 };

/* Changes, removes or repeats some bytes; returns the new length. */
static size_t mutate(uint64_t *rng, uint8_t *bytes, size_t len)
{
    static const uint8_t odd[] = {0, 0xff, 0x7f, 0x80, '\n', '"', ',', '\t', ':', ' '};
    for (uint64_t n = 1 + coxi_rand(rng) % 4; n > 0; n--) {
        size_t at = coxi_rand(rng) % (len + 1);
        size_t some = coxi_rand(rng) % (LONGER / 4 + 1);
        switch (coxi_rand(rng) % 6) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << coxi_rand(rng) % 8);
            break;
        case 1:
            bytes[at] = (uint8_t)coxi_rand(rng);
            break;
        case 2:
            bytes[at] = odd[coxi_rand(rng) % sizeof(odd)];
            break;
        case 3: /* cut */
            len = coxi_rand(rng) % 8 == 0 ? at : len;
            break;
        case 4: /* without some */
            some = some < len - at ? some : len - at;
            memmove(bytes + at, bytes + at + some, len - at - some);
            len -= some;
            break;
        default: /* some twice */
            memmove(bytes + at + some, bytes + at, len - at);
            len += some;
        }
    }
    return len;
}

void records_read_file(const struct coxi_task *task, struct memory_file *file,
                       struct records *to)
{
    struct coxi_source source;
    assert_code(0, memory_source(file, task->file, &source));
    read_source(task, &source, to);
}

void records_read_memory(const struct coxi_task *task, const void *bytes, size_t len,
                         struct records *to)
{
    struct memory_file file = {.data = bytes, .len = len};
    records_read_file(task, &file, to);
}

void records_mutate(const struct coxi_task *task, const void *bytes, size_t len,
                    int rounds)
{
    uint64_t rng = len;
    uint8_t *copy = malloc(len + LONGER + 1);
    assert_non_null(copy);
    for (int i = 0; i < rounds; i++) {
        struct records records = {0};
        struct coxi_task changed = *task;
        memcpy(copy, bytes, len);
        memset(copy + len, 0, LONGER + 1);
        changed.decoding.on_bad_record =
            i % 2 == 0 ? COX_BAD_FAIL : COX_BAD_SKIP_RECORD;
        records_read_memory(&changed, copy, mutate(&rng, copy, len), &records);
        if (records.code != COX_EEOF && strstr(records.error, task->file) == NULL) {
            fail_msg("round %d: %d, %s", i, records.code, records.error);
        }
        records_free(&records);
    }
    free(copy);
}

void records_free(struct records *records)
{
    for (size_t i = 0; i < records->n; i++) {
        free(records->all[i]);
    }
    free((void *)records->all);
    *records = (struct records){0};
}

struct coxi_task records_task(const char *file, uint32_t format)
{
    return (struct coxi_task){.dataset = "d",
                              .file = file,
                              .end = UINT64_MAX,
                              .batch_size = 3,
                              .prefetch = 2,
                              .seed = 7,
                              .decoding = {.format = format}};
}

static void assert_list(const struct records *records, const char *const *expected,
                        size_t n)
{
    if (records->code != COX_EEOF) {
        fail_msg("the reader ended with %d: %s", records->code, records->error);
    }
    for (size_t i = 0; i < records->n && i < n; i++) {
        assert_string_equal(expected[i], records->all[i]);
    }
    assert_int_equal(n, records->n);
}

void records_assert(const struct records *records, const char *const *expected,
                    size_t n)
{
    assert_list(records, expected, n);
}

void records_assert_same(const struct records *a, const struct records *b)
{
    assert_list(b, (const char *const *)a->all, a->n);
}

void records_assert_cuts(const struct coxi_task *task, const void *bytes, size_t len,
                         size_t n)
{
    struct records whole = {0};
    coxi_test_write(task->file, bytes, len);
    records_read(task, &whole);
    assert_int_equal(COX_EEOF, whole.code);
    assert_int_equal(n, whole.n);
    for (uint64_t cut = 1; cut < len + 3; cut++) {
        struct records parts = {0};
        records_read_cut(task, &cut, 1, &parts);
        records_assert_same(&whole, &parts);
        records_free(&parts);
    }
    records_free(&whole);
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

size_t records_cuts(uint64_t *rng, size_t len, uint64_t *cuts, size_t most)
{
    size_t n = 1 + coxi_rand(rng) % most;
    for (size_t i = 0; i < n; i++) {
        cuts[i] = 1 + coxi_rand(rng) % (len + 3);
    }
    qsort(cuts, n, sizeof(*cuts), by_size);
    return n;
}
