/* See records.h. */
#include "tests/data/records.h"

#include <inttypes.h>
#include <stdio.h>

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

void records_read(const struct coxi_task *task, struct records *to)
{
    struct coxi_source source;
    struct coxi_reader *reader = NULL;
    struct cox_batch batch = COX_BATCH_INIT;
    to->code = coxi_source_open(task->file, &source);
    to->code = to->code == 0 ? coxi_reader_open(task, &source, &reader) : to->code;
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
