/* Tasks as they travel, and the decoding that they have. */
#include "data/task.h"

#include <stdio.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "tests/test.h"

static const struct cox_column columns[] = {
    {.name = "click", .kind = COX_COLUMN_LABEL, .missing = 0.5F},
    {.name = "age", .kind = COX_COLUMN_DENSE, .log = 1, .missing = -1},
    {.name = "ad", .kind = COX_COLUMN_KEY, .integers = 1, .buckets = 1000000},
};
enum { N_COLUMNS = sizeof(columns) / sizeof(*columns) };

static const struct coxi_decoding csv = {
    .format = COX_CSV,
    .columns = columns,
    .n_columns = N_COLUMNS,
    .header = 1,
    .separator = ';',
    .on_bad_record = COX_BAD_SKIP_RECORD,
};

static struct coxi_task sample(void)
{
    return (struct coxi_task){
        .dataset = "clicks",
        .file = "/data/clicks/part-00017.csv",
        .epoch = 3,
        .place = 1017,
        .position = 400123,
        .begin = 4194304,
        .end = UINT64_MAX,
        .mark = {8123456, 1769000000123456789, 0xdeadbeef},
        .source = COX_SOURCE_CLIENT,
        .failures = 2,
        .batch_size = 256,
        .shuffle_window = 10000,
        .prefetch = 2,
        .seed = 0x9e3779b97f4a7c15,
        .decoding = csv,
    };
}

static void assert_same(const struct coxi_task *a, const struct coxi_task *b)
{
    char text[512] = "";
    const struct coxi_differences list = {text, sizeof(text)};
    assert_string_equal(a->dataset, b->dataset);
    assert_string_equal(a->file, b->file);
    assert_true(a->epoch == b->epoch && a->place == b->place);
    assert_true(a->position == b->position);
    assert_true(a->begin == b->begin && a->end == b->end);
    assert_true(a->mark.bytes == b->mark.bytes);
    assert_true(a->mark.changed_ns == b->mark.changed_ns);
    assert_true(a->mark.head_crc == b->mark.head_crc);
    assert_true(a->source == b->source && a->failures == b->failures);
    assert_true(a->batch_size == b->batch_size && a->prefetch == b->prefetch);
    assert_true(a->shuffle_window == b->shuffle_window && a->seed == b->seed);
    coxi_decoding_differ(&a->decoding, &b->decoding, &list);
    assert_string_equal(text, "");
}

TEST(a_task_travels_whole)
{
    struct coxi_buffer packed = {0};
    struct coxi_task task = sample();
    struct coxi_task got;
    assert_code(0, coxi_task_pack(&task, &packed));
    assert_code(0, coxi_task_unpack(packed.data, packed.len, &got));
    assert_same(&task, &got);
    coxi_task_fini(&got);
    coxi_buffer_fini(&packed);
}

TEST(a_task_without_columns_takes_few_bytes)
{
    struct coxi_buffer packed = {0};
    struct coxi_task task = sample();
    task.decoding = (struct coxi_decoding){.format = COX_CRITEO, .buckets = 1000000};
    assert_code(0, coxi_task_pack(&task, &packed));
    assert_true(packed.len <= 128);
    coxi_buffer_fini(&packed);
}

/* The sample, packed; a copy of its own, so that a sanitizer sees a read past its
 * end. */
static uint8_t *packed_copy(size_t len)
{
    struct coxi_buffer packed = {0};
    struct coxi_task task = sample();
    assert_code(0, coxi_task_pack(&task, &packed));
    uint8_t *copy = calloc(len + 1, 1);
    memcpy(copy, packed.data, len < packed.len ? len : packed.len);
    coxi_buffer_fini(&packed);
    return copy;
}

static size_t packed_len(void)
{
    struct coxi_buffer packed = {0};
    struct coxi_task task = sample();
    assert_code(0, coxi_task_pack(&task, &packed));
    size_t len = packed.len;
    coxi_buffer_fini(&packed);
    return len;
}

static void assert_no_task(uint8_t *bytes, size_t len, const char *named)
{
    struct coxi_task got;
    assert_code(COX_EFORMAT, coxi_task_unpack(bytes, len, &got));
    assert_error_names(named);
    free(bytes);
}

TEST(bytes_that_are_no_task_are_refused)
{
    size_t whole = packed_len();
    for (size_t len = 0; len < whole; len++) {
        assert_no_task(packed_copy(len), len, "");
    }
    assert_no_task(packed_copy(whole + 1), whole + 1, "goes on");
    uint8_t *newer = packed_copy(whole);
    newer[0]++;
    assert_no_task(newer, whole, "version");
}

TEST(changed_bytes_are_a_task_or_refused)
{
    size_t whole = packed_len();
    uint64_t seed = 16;
    for (int i = 0; i < 20000; i++) {
        struct coxi_task got;
        uint8_t *changed = packed_copy(whole);
        for (uint64_t k = coxi_rand(&seed) % 4; k < 4; k++) {
            changed[coxi_rand(&seed) % (whole + 1)] = (uint8_t)coxi_rand(&seed);
        }
        int r = coxi_task_unpack(changed, whole, &got);
        assert_true(r == 0 || r == COX_EFORMAT);
        if (r == 0) {
            assert_true(got.begin <= got.end && got.batch_size > 0);
            coxi_task_fini(&got);
        }
        free(changed);
    }
}

TEST(counts_travel_whole)
{
    struct coxi_buffer packed = {0};
    struct coxi_reader_counts counts = {
        .records = 1000, .bytes = UINT64_MAX, .bad = 3, .first_bad = {1, 200, 3000}};
    struct coxi_reader_counts got;
    (void)snprintf(counts.first_reason, sizeof(counts.first_reason),
                   "a field is no "
                   "number");
    assert_code(0, coxi_counts_pack(&counts, &packed));
    assert_code(0, coxi_counts_unpack(packed.data, packed.len, &got));
    assert_memory_equal(&counts, &got, sizeof(got));
    for (size_t len = 0; len < packed.len; len++) {
        assert_code(COX_EFORMAT, coxi_counts_unpack(packed.data, len, &got));
    }
    coxi_buffer_fini(&packed);
}

/* ---- decoding */

static void assert_refused(struct coxi_decoding decoding, const char *named)
{
    assert_code(COX_EINVAL, coxi_decoding_check(&decoding));
    assert_error_names(named);
}

TEST(a_decoding_that_makes_no_sense_is_refused)
{
    assert_code(0, coxi_decoding_check(&csv));
    assert_refused((struct coxi_decoding){.format = 0}, "format is 0");
    assert_refused((struct coxi_decoding){.format = 8}, "format is 8");
    assert_refused((struct coxi_decoding){.format = COX_LIBSVM, .content = 1},
                   "content is 1, for format libsvm");
    assert_refused((struct coxi_decoding){.format = COX_TFRECORD, .content = 2},
                   "content is 2");
    assert_refused((struct coxi_decoding){.format = COX_LIBFFM, .buckets = 9},
                   "buckets");
    assert_refused((struct coxi_decoding){.format = COX_TEXT, .header = 1},
                   "header is for csv and criteo, not for text");
    assert_refused((struct coxi_decoding){.format = COX_CRITEO, .header = 2},
                   "header is 2: 0 or 1");
    assert_refused((struct coxi_decoding){.format = COX_TEXT, .separator = ' '},
                   "separator");
    assert_refused((struct coxi_decoding){.format = COX_TEXT, .on_bad_record = 3},
                   "on_bad_record");
    assert_refused((struct coxi_decoding){.format = COX_CSV, .separator = ','},
                   "0 columns");
    assert_refused(
        (struct coxi_decoding){.format = COX_TEXT, .columns = columns, .n_columns = 1},
        "1 columns");
    struct coxi_decoding quoted = csv;
    quoted.separator = '"';
    assert_refused(quoted, "separator");
    quoted.separator = '-';
    assert_refused(quoted, "separator");
    quoted.separator = '\t';
    quoted.header = 0;
    assert_refused(quoted, "column 'click': without a header");
}

static void assert_column_refused(struct cox_column column, const char *named)
{
    struct coxi_decoding decoding = csv;
    decoding.columns = &column;
    decoding.n_columns = 1;
    assert_refused(decoding, named);
}

TEST(a_column_that_makes_no_sense_is_refused)
{
    char name[300] = "";
    memset(name, 'x', sizeof(name) - 1);
    assert_column_refused((struct cox_column){.kind = 1}, "column 0");
    assert_column_refused((struct cox_column){.name = name, .kind = 1}, "column 0");
    assert_column_refused((struct cox_column){.name = "a"}, "kind 0");
    assert_column_refused((struct cox_column){.name = "a", .kind = 6}, "kind 6");
    assert_column_refused((struct cox_column){.name = "a", .kind = 4, .width = 1},
                          "width 1");
    assert_column_refused((struct cox_column){.name = "a", .kind = 3, .width = 2},
                          "one number");
    assert_column_refused((struct cox_column){.name = "a", .kind = 4, .log = 1}, "log");
    assert_column_refused((struct cox_column){.name = "a", .kind = 3, .integers = 1},
                          "integers");
    assert_column_refused((struct cox_column){.name = "a", .kind = 1, .buckets = 1},
                          "buckets");
    const struct cox_column labels[] = {{.name = "a", .kind = COX_COLUMN_LABEL},
                                        {.name = "b", .kind = COX_COLUMN_LABEL}};
    struct coxi_decoding decoding = csv;
    decoding.columns = labels;
    decoding.n_columns = 2;
    assert_refused(decoding, "'b' is the second label");
}

TEST(differences_are_named)
{
    char text[512] = "";
    const struct coxi_differences list = {text, sizeof(text)};
    struct cox_column other[N_COLUMNS];
    struct coxi_decoding decoding = csv;
    memcpy(other, columns, sizeof(other));
    other[2].buckets = 7;
    other[0].missing = 0;
    decoding.columns = other;
    decoding.separator = ',';
    coxi_decoding_differ(&csv, &decoding, &list);
    assert_string_equal(text, "separator is ;, not ,; click.missing is 0.5, not 0; "
                              "ad.buckets is 1000000, not 7");
}
