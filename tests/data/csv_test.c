/* CSV files. */
#include <stdio.h>

#include "common/rand.h"
#include "coxswain/dataset.h"
#include "tests/data/records.h"
#include "tests/test.h"

enum { MUTATIONS = 10000 };

static const struct cox_column columns[] = {
    {.name = "id", .kind = COX_COLUMN_KEY, .integers = 1},
    {.name = "y", .kind = COX_COLUMN_LABEL, .missing = -1},
    {.name = "age", .kind = COX_COLUMN_DENSE, .log = 1, .missing = 0.5F},
    {.name = "text", .kind = COX_COLUMN_BYTES},
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

static struct coxi_task task_of(const char *file, char separator)
{
    struct coxi_task task = records_task(file, COX_CSV);
    task.decoding.columns = columns;
    task.decoding.n_columns = COLUMNS;
    task.decoding.header = 1;
    task.decoding.separator = separator;
    assert_code(0, coxi_decoding_check(&task.decoding));
    return task;
}

static struct records read_text(const char *text)
{
    struct records records = {0};
    struct coxi_task task = task_of("file", ',');
    records_read_memory(&task, text, strlen(text), &records);
    return records;
}

TEST(the_header_names_the_columns)
{
    static const char *const expected[] = {"1 [1.09861231] 0:7 |some text",
                                           "0.5 [0.5] 0:18446744073709551615 |",
                                           "-1 [0] 0:0 | a\"b "};
    struct records records = read_text("y,other,text,age,id\n"
                                       "1,x,some text,2,7\n"
                                       "\r\n"
                                       ".5,,,,-1\r\n"
                                       ",\"\", a\"b , -1 ,0");
    records_assert(&records, expected, 3);
    records_free(&records);
}

TEST(quotes_hold_anything)
{
    static const char *const expected[] = {
        "1 [0] 0:1 |a,b", "2 [0] 0:2 |say \"hi\"", "3 [0] 0:3 |two\\0d\\0alines\\0a",
        "4 [0] 0:4 |\"",  "5 [0] 0:5 |",           "6 [0] 0:6 |six"};
    struct records records = read_text("\"id\",\"age\",\"text\",\"y\"\r\n"
                                       "1,0,\"a,b\",1\r\n"
                                       "\"2\",\"0\",\"say \"\"hi\"\"\",\"2\"\n"
                                       "3,0,\"two\r\nlines\n\",3\n"
                                       "4,0,\"\"\"\",4\n"
                                       "5,0,\"\",5\n"
                                       "6,0,six,\"6\"");
    records_assert(&records, expected, 6);
    records_free(&records);
}

TEST(names_in_the_header_may_have_quotes_and_separators)
{
    static const struct cox_column quoted[] = {
        {.name = "a \"b\", c", .kind = COX_COLUMN_LABEL},
        {.name = "\"", .kind = COX_COLUMN_DENSE},
        {.name = "d\"e", .kind = COX_COLUMN_BYTES},
    };
    static const char *const expected[] = {"1 [2]x"};
    const char *text = "\"a \"\"b\"\", c\",\"\"\"\",d\"e,\"a \"\"b\"\"\"\n1,2,x,3\n";
    struct records records = {0};
    struct coxi_task task = task_of("file", ',');
    task.decoding.columns = quoted;
    task.decoding.n_columns = sizeof(quoted) / sizeof(*quoted);
    records_read_memory(&task, text, strlen(text), &records);
    records_assert(&records, expected, 1);
    records_free(&records);
}

TEST(a_byte_order_mark_is_left_out)
{
    static const char *const expected[] = {"1 [0] 0:1 |x"};
    struct records records = read_text("\xef\xbb\xbfy,age,id,text\n1,0,1,x\n");
    records_assert(&records, expected, 1);
    records_free(&records);
}

TEST(files_without_records_are_valid)
{
    static const char *const texts[] = {"", "\n", "y,age,id,text", "y,age,id,text\n\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct records records = read_text(texts[i]);
        records_assert(&records, NULL, 0);
    }
}

/* If each of these were read to the file's end, no deadline would do. */
TEST(quotes_that_are_never_closed_are_bad_records)
{
    enum { LINES = 500000 };
    static const char header[] = "y,age,text,id\n";
    static const char line[] = "a\",\"\n"; /* within quotes, too, it opens others */
    size_t len = strlen(header) + LINES * strlen(line);
    char *text = malloc(len + 1);
    assert_non_null(text);
    char *at = stpcpy(text, header);
    for (int i = 0; i < LINES; i++) {
        at = stpcpy(at, line);
    }
    struct records records = {0};
    struct coxi_task task = task_of("file", ',');
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    records_read_memory(&task, text, len, &records);
    records_assert(&records, NULL, 0);
    assert_int_equal(LINES, records.counts.bad);
    assert_string_equal("a quote is not closed", records.counts.first_reason);
    records_free(&records);
    free(text);
}

/* If each piece were moved with all before it, no deadline would do. */
TEST(a_line_of_many_pieces_is_read)
{
    struct records records = {0};
    struct coxi_task task = task_of("file", ',');
    struct memory_file file = {.len = 160 << 20};
    records_read_file(&task, &file, &records);
    assert_int_equal(COX_EFORMAT, records.code);
    assert_non_null(strstr(records.error, "its header has no column"));
    records_free(&records);
}

TEST(a_header_that_does_not_fit_is_an_error)
{
    static const struct {
        const char *text;
        const char *reason;
    } bad[] = {
        {"y,age,text\n", "file:0: its header has no column 'id'"},
        {"y,age,text,id,y\n", "file:0: its header has more than one column 'y'"},
        {"y,age,\"text\n", "file:0: its header: a quote is not closed"},
        {"y,age,\"text\"x,id\n", "file:0: its header: text behind"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct records records = read_text(bad[i].text);
        assert_int_equal(COX_EFORMAT, records.code);
        assert_non_null(strstr(records.error, bad[i].reason));
        records_free(&records);
    }
}

TEST(malformed_records_are_named_or_left_out)
{
    static const struct {
        const char *line;
        const char *reason;
    } bad[] = {
        {"1,0,1", "3 fields, and the header has 4"},
        {"1,0,1,x,", "5 fields, and the header has 4"},
        {"x", "1 field, and the header has 4"},
        {"x,0,1,x", "column 'y' is no number"},
        {"1,0 0,1,x", "column 'age' is no number"},
        {"1,nan,1,x", "column 'age' is no number"},
        {"1,\"\"\"\",1,x", "column 'age' is no number"},
        {"1,0,1,\"x\"y", "text behind a field's closing quote"},
        {"1,0,1,\"x\" ", "text behind a field's closing quote"},
    };
    static const char *const expected[] = {"2 [0] 0:2 |x", "3 [0] 0:3 |y"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char text[128];
        struct records left = {0};
        struct coxi_task task = task_of("file", ',');
        (void)snprintf(text, sizeof(text), "y,age,id,text\n2,0,2,x\n%s\n3,0,3,y\n",
                       bad[i].line);
        struct records records = read_text(text);
        if (records.code != COX_EFORMAT || strstr(records.error, "file:22: ") == NULL ||
            strstr(records.error, bad[i].reason) == NULL) {
            fail_msg("'%s': %d, %s", bad[i].line, records.code, records.error);
        }
        task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
        records_read_memory(&task, text, strlen(text), &left);
        records_assert(&left, expected, 2);
        assert_int_equal(1, left.counts.bad);
        records_free(&left);
        records_free(&records);
    }
}

/* What comes behind its line is read. */
TEST(a_quote_that_is_not_closed_is_one_bad_record)
{
    static const char text[] = "y,age,id,text\n1,0,1,\"x\n2,0,2,y\n3,0,3,z";
    static const char *const expected[] = {"2 [0] 0:2 |y", "3 [0] 0:3 |z"};
    struct coxi_task task = task_of("file", ',');
    struct records records = {0};
    task.decoding.on_bad_record = COX_BAD_SKIP_RECORD;
    records_read_memory(&task, text, strlen(text), &records);
    records_assert(&records, expected, 2);
    assert_int_equal(1, records.counts.bad);
    assert_int_equal(14, records.counts.first_bad[0]);
    assert_string_equal("a quote is not closed", records.counts.first_reason);
    records_free(&records);
}

/* As CSV with tabs and without a header, Criteo's files are the same records. */
TEST(criteos_lines_are_the_same_as_csv)
{
    static const char text[] =
        "1\t5\t110\t\t-3\t\t1\t0\t14\t7\t1\t\t306\t70000\t62770d79\te21f5d58\tafea442f"
        "\t945c7fcf\t38b02748\t6fcd6dcb\t3580aa21\t28808903\t46dedfa6\t2e027dc1"
        "\t0c7c4231\t95981d1f\t\tbe4ee537\t8a0b74cc\tlonger\tshort\tb8170bba"
        "\t9512c20b\tc38e2f28\t14f65a5d\t25b1b089\td7c1fc0b\t\t\t\n";
    struct cox_column all[40] = {{.name = "0", .kind = COX_COLUMN_LABEL}};
    char names[40][12];
    struct records criteo = {0};
    struct records csv = {0};
    struct coxi_task task = records_task("file", COX_CRITEO);
    task.decoding.buckets = 100000;
    records_read_memory(&task, text, strlen(text), &criteo);
    for (int i = 1; i < 40; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "%d", i);
        all[i] = i < 14
                     ? (struct cox_column){.kind = COX_COLUMN_DENSE, .log = 1}
                     : (struct cox_column){.kind = COX_COLUMN_KEY, .buckets = 100000};
        all[i].name = names[i];
    }
    task.decoding = (struct coxi_decoding){
        .format = COX_CSV, .columns = all, .n_columns = 40, .separator = '\t'};
    assert_code(0, coxi_decoding_check(&task.decoding));
    records_read_memory(&task, text, strlen(text), &csv);
    assert_int_equal(1, csv.n);
    records_assert_same(&criteo, &csv);
    records_free(&criteo);
    records_free(&csv);
}

/* ---- cuts */

static const char mixed[] = "y,age,id,text\r\n1,0,1,x\n\n2,0,2,\"a;\"\"b\"\r\n3,1,3,z";

TEST(each_byte_can_be_a_cut)
{
    struct coxi_task task = task_of(coxi_test_path("file"), ',');
    records_assert_cuts(&task, mixed, strlen(mixed), 3);
}

TEST(each_byte_can_be_a_cut_behind_a_byte_order_mark)
{
    static const struct {
        const char *text;
        size_t n;
    } files[] = {{"\xef\xbb\xbf"
                  "1,2\n3,4\n",
                  2},
                 {"\xef\xbb\xbf", 0},
                 {"\xef\xbb\xbf\n1,2", 1},
                 {"1,2\n", 1},
                 {"\xef\xbb", 1}};
    static const struct cox_column first[] = {{.name = "0", .kind = COX_COLUMN_BYTES}};
    struct coxi_task task = task_of(coxi_test_path("file"), ',');
    task.decoding.columns = first;
    task.decoding.n_columns = 1;
    task.decoding.header = 0;
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        records_assert_cuts(&task, files[i].text, strlen(files[i].text), files[i].n);
    }
}

TEST(each_byte_can_be_a_cut_in_empty_lines_before_the_header)
{
    static const char text[] = "\n\n\n\r\n\n\ny,age,id,text\n\n1,0,1,x\n2,0,2,y";
    struct coxi_task task = task_of(coxi_test_path("file"), ',');
    records_assert_cuts(&task, text, strlen(text), 2);
}

/* Records whose texts are often whole lines of such a file. */
static size_t lines_in_quotes(uint64_t *rng, char *text, size_t room)
{
    size_t len = (size_t)snprintf(text, room, "y,age,id,text\n");
    for (int i = 0; i < 100; i++) {
        const char *quoted = coxi_rand(rng) % 4 == 0   ? "\"a\n7,8,9,no\nb\""
                             : coxi_rand(rng) % 4 == 0 ? "\"\"\"\n\"\"\""
                                                       : "plain";
        len += (size_t)snprintf(text + len, room - len, "%d,0,%d,%s\n", i, i, quoted);
    }
    return len;
}

/* Cut within quotes, a file is an error and never silently wrong. */
TEST(newlines_in_quotes_are_right_or_refused)
{
    uint64_t rng = 5;
    int refused = 0;
    char *path = coxi_test_path("file");
    struct coxi_task task = task_of(path, ',');
    for (int round = 0; round < 100; round++) {
        char text[8192];
        struct records whole = {0};
        struct records parts = {0};
        size_t len = lines_in_quotes(&rng, text, sizeof(text));
        uint64_t cut = 1 + coxi_rand(&rng) % len;
        coxi_test_write(path, text, len);
        records_read(&task, &whole);
        assert_int_equal(100, whole.n);
        records_read_cut(&task, &cut, 1, &parts);
        if (parts.code == COX_EFORMAT) {
            assert_non_null(strstr(parts.error, "a newline within quotes"));
            refused++;
        } else {
            records_assert_same(&whole, &parts);
        }
        records_free(&whole);
        records_free(&parts);
    }
    assert_true(refused > 10 && refused < 90);
}

/* A field that is longer than a piece of the file. */
TEST(a_long_quoted_text_is_read)
{
    enum { LONG = 1000000 };
    struct records records = {0};
    char *text = malloc(LONG + 64);
    assert_non_null(text);
    size_t head = (size_t)snprintf(text, 64, "y,age,id,text\n1,0,1,\"");
    for (size_t i = 0; i < LONG; i++) {
        text[head + i] = i % 50 == 0 ? '\n' : 'a';
    }
    (void)snprintf(text + head + LONG, 16, "\"\n2,0,2,x\n");
    struct coxi_task task = task_of("file", ',');
    records_read_memory(&task, text, strlen(text), &records);
    assert_int_equal(COX_EEOF, records.code);
    assert_int_equal(2, records.n);
    assert_string_equal("2 [0] 0:2 |x", records.all[1]);
    records_free(&records);
    free(text);
}

TEST(ten_thousand_changed_files_are_read_or_refused)
{
    struct coxi_task task = task_of("file", ',');
    records_mutate(&task, mixed, strlen(mixed), MUTATIONS);
}
