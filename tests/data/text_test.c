/* Texts as records. The keys are those of Python's xxhash. */
#include "coxswain/dataset.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { MUTATIONS = 10000 };

#define THE   "14632902600990866813"
#define QUICK "11854836010350326562"

static struct records read_with(const char *text, uint64_t buckets)
{
    struct records records = {0};
    struct coxi_task task = records_task("file", COX_TEXT);
    task.decoding.buckets = buckets;
    records_read_memory(&task, text, strlen(text), &records);
    return records;
}

TEST(a_file_that_changes_while_it_is_read_is_a_conflict)
{
    struct records records = {0};
    struct coxi_task task = records_task("file", COX_TEXT);
    struct memory_file file = {.len = 300000, .changes_at = 290000};
    records_read_file(&task, &file, &records);
    assert_int_equal(COX_ECONFLICT, records.code);
    assert_non_null(strstr(records.error, "file changed while it was read"));
    records_free(&records);
}

TEST(a_reader_keeps_prefetch_and_two_batches)
{
    enum { BATCHES = 24, LINE = 3 << 20, PREFETCH = 2 };
    struct coxi_task task = records_task("file", COX_TEXT);
    struct memory_file file = {.len = (uint64_t)BATCHES * LINE, .line = LINE};
    struct coxi_source source;
    struct coxi_reader *reader;
    struct cox_batch batch = COX_BATCH_INIT;
    const void *arrays[BATCHES] = {0};
    size_t n = 0;
    task.batch_size = 1;
    task.prefetch = PREFETCH;
    assert_code(0, memory_source(&file, "file", &source));
    assert_code(0, coxi_reader_open(&task, &source, &reader));
    for (int i = 0; i < BATCHES; i++) {
        size_t at = 0;
        assert_code(0, coxi_reader_next(reader, &batch));
        assert_int_equal(LINE - 1, batch.bytes[0].len);
        while (at < n && arrays[at] != batch.bytes) {
            at++;
        }
        arrays[at] = batch.bytes;
        n += at == n;
    }
    assert_code(COX_EEOF, coxi_reader_next(reader, &batch));
    assert_true(n <= PREFETCH + 2);
    coxi_reader_close(reader);
}

TEST(tasks_of_a_byte_behind_4_gib_have_each_line_once)
{
    enum { LINE = 16, LINES = 3 };
    const uint64_t far = (uint64_t)5 << 30;
    struct memory_file file = {.len = far + 1000, .line = LINE};
    struct records records = {0};
    struct coxi_task task = records_task("file", COX_TEXT);
    for (uint64_t at = far + 1; at <= far + (uint64_t)LINES * LINE; at++) {
        task.begin = at;
        task.end = at + 1;
        records_read_file(&task, &file, &records);
        assert_int_equal(COX_EEOF, records.code);
    }
    assert_int_equal(LINES, records.n);
    task.begin = far + 999; /* within the last line, which has no newline */
    task.end = UINT64_MAX;
    records_read_file(&task, &file, &records);
    assert_int_equal(LINES, records.n);
    task.begin = far + 992; /* where it begins */
    records_read_file(&task, &file, &records);
    assert_int_equal(LINES + 1, records.n);
    records_free(&records);
}

TEST(words_become_keys_and_lines_stay)
{
    static const char *const expected[] = {
        " " THE " " QUICK " |the quick",
        " " QUICK " " THE " " QUICK " |\\09quick  the\\0b\\0cquick\\0d ",
        " " THE " |the",
    };
    struct records records =
        read_with("the quick\r\n\n \t\r\n\tquick  the\v\fquick\r \nthe", 0);
    records_assert(&records, expected, 3);
    assert_int_equal(0, records.counts.bad);
    records_free(&records);
}

TEST(keys_can_be_few)
{
    static const char *const expected[] = {" 813 562 |the quick"};
    struct records records = read_with("the quick\n", 1000);
    records_assert(&records, expected, 1);
    records_free(&records);
}

TEST(files_without_words_have_no_records)
{
    static const char *const texts[] = {"", "\n", "\r\n \n", " "};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct records records = read_with(texts[i], 0);
        records_assert(&records, NULL, 0);
    }
}

static const char mixed[] = "the quick\r\n\n \nbrown fox jumps\n\tover\nthe lazy";

TEST(each_byte_can_be_a_cut)
{
    struct coxi_task task = records_task(coxi_test_path("file"), COX_TEXT);
    records_assert_cuts(&task, mixed, strlen(mixed), 4);
}

TEST(ten_thousand_changed_files_are_read_or_refused)
{
    struct coxi_task task = records_task("file", COX_TEXT);
    records_mutate(&task, mixed, strlen(mixed), MUTATIONS);
}
