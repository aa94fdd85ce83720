/* coxswain data shard. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/cli/data_tool.h"
#include "tests/program.h"

enum { MANY = 10007 };

/* Two files with the lines 0 to MANY - 1, padded. */
static void make_lines(char **ret_a, char **ret_b)
{
    char *text[2];
    size_t len;
    for (int i = 0; i < 2; i++) {
        FILE *out = open_memstream(&text[i], &len);
        assert_non_null(out);
        for (int n = i * MANY / 2; n < (i + 1) * MANY / 2; n++) {
            (void)fprintf(out, "%d some more words\n", n);
        }
        (void)fclose(out);
    }
    *ret_a = data_write("a.txt", text[0]);
    *ret_b = data_write("b.txt", text[1]);
    free(text[0]);
    free(text[1]);
}

/* Notes the numbers at the beginnings of a file's lines in order; returns how many. */
static size_t read_numbers(const char *path, int *to)
{
    size_t len;
    size_t n = 0;
    char *text = coxi_test_read(path, &len);
    for (char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        to[n++] = (int)strtol(line, NULL, 10);
    }
    free(text);
    return n;
}

TEST(every_record_is_in_one_of_balanced_files)
{
    char *a;
    char *b;
    static int numbers[MANY];
    static uint8_t seen[MANY];
    size_t n = 0;
    size_t rising = 0;
    make_lines(&a, &b);
    data_prints("10007 records in 4 files", 0, "shard", "--files=4", "--memory=64K", a,
                b, coxi_test_path("s.txt"));
    for (int i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "s-0000%d.txt", i);
        size_t some = read_numbers(coxi_test_path(name), numbers + n);
        assert_int_equal(i < 3 ? MANY / 4 + 1 : MANY / 4, some);
        n += some;
    }
    assert_int_equal(MANY, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(0, seen[numbers[i]]++);
        rising += i > 0 && numbers[i] > numbers[i - 1];
    }
    /* half of them, within six standard deviations (the square root of n / 12) */
    assert_true(rising > MANY / 2 - 180 && rising < MANY / 2 + 180);
}

TEST(the_order_is_that_of_the_seed)
{
    char *a;
    char *b;
    make_lines(&a, &b);
    free(data_tool(0, "shard", "--files=1", a, b, coxi_test_path("x.txt")));
    free(data_tool(0, "shard", "--files=1", a, b, coxi_test_path("y.txt")));
    free(data_tool(0, "shard", "--files=1", "--seed=2", a, b, coxi_test_path("z.txt")));
    data_assert_same(coxi_test_path("x.txt"), coxi_test_path("y.txt"));
    size_t len;
    char *x = coxi_test_read(coxi_test_path("x.txt"), &len);
    char *z = coxi_test_read(coxi_test_path("z.txt"), &len);
    assert_string_not_equal(x, z);
    free(x);
    free(z);
}

TEST(headers_are_at_the_beginning_of_each_file)
{
    char *a = data_write("h.csv", "name,value\na,1\nb,2\n");
    char *b = data_write("i.csv", "name,value\nc,3\n");
    data_prints("3 records in 2 files", 0, "shard", "--header", "--files=2", a, b,
                coxi_test_path("o.csv"));
    for (int i = 0; i < 2; i++) {
        size_t len;
        char *text =
            coxi_test_read(coxi_test_path(i > 0 ? "o-00001.csv" : "o-00000.csv"), &len);
        assert_int_equal(0, strncmp(text, "name,value\n", 11));
        assert_int_equal(11 + (i == 0 ? 8 : 4), len);
        free(text);
    }
}

TEST(more_files_than_records_are_made)
{
    char *a = data_write("few.txt", "one\ntwo\n");
    data_prints("2 records in 3 files", 0, "shard", "--files=3", a,
                coxi_test_path("few.recordio"));
    data_prints("0 records", 0, "verify", coxi_test_path("few-00002.recordio"));
}

TEST(files_that_an_earlier_larger_set_would_leave_are_refused)
{
    char *in = data_write("some.txt", "one\ntwo\nthree\n");
    char *out = coxi_test_path("set.txt");
    data_prints("3 records in 4 files", 0, "shard", "--files=4", in, out);
    data_prints("3 records in 4 files", 0, "shard", "--files=4", in, out);
    data_prints("set-00002.txt and 1 more are of an earlier set with more files", 2,
                "shard", "--files=2", in, out);
    data_prints("remove them, or name another output", 2, "generate", "--files=2",
                "texts", out);
    data_prints("set-00003.txt is of an earlier set", 2, "shard", "--files=3", in, out);
    assert_int_equal(0, unlink(coxi_test_path("set-00002.txt")));
    assert_int_equal(0, unlink(coxi_test_path("set-00003.txt")));
    /* names of other sets, or of none */
    (void)data_write("set-00002.txt.old", "");
    (void)data_write("set-2.txt", "");
    (void)data_write("set-00002x.txt", "");
    (void)data_write("other-00002.txt", "");
    (void)data_write("set-00002.csv", "");
    data_prints("3 records in 2 files", 0, "shard", "--files=2", in, out);
    data_prints("3 records in 1 file", 0, "shard", "--files=1", in, out);
}

static bool has_buckets(const char *dir)
{
    DIR *all = opendir(dir);
    bool has = false;
    assert_non_null(all);
    for (struct dirent *one; (one = readdir(all)) != NULL;) {
        has |= strstr(one->d_name, ".buckets-") != NULL;
    }
    (void)closedir(all);
    return has;
}

TEST(a_failed_shard_leaves_nothing)
{
    char *good = data_write("good.txt", "one\ntwo\n");
    char *bad = data_write("bad.recordio", "no chunk is here at all");
    data_prints("bad.recordio:0: ", 1, "shard", "--files=2", good, bad,
                coxi_test_path("none.txt"));
    assert_false(has_buckets(coxi_test_dir()));
    assert_int_equal(-1, access(coxi_test_path("none-00000.txt"), F_OK));
    data_prints("is read and written", 2, "shard", "--files=1", good, good);
}

TEST(a_failed_shard_leaves_an_earlier_set_as_it_was)
{
    static const char *const seeds[] = {"1", "2", "3", "4"};
    enum { SMALL = 400, LARGE = 200000 };
    char *text = malloc(SMALL * 2 + LARGE + 1);
    assert_non_null(text);
    char *at = text;
    for (int i = 0; i < SMALL; i++) {
        at = stpcpy(at, "x\n");
    }
    memset(at, 'y', LARGE);
    at[LARGE] = '\0';
    char *in = data_write("in.txt", text);
    char *first = data_write("old-00000.txt", "old 0\n");
    /* the record does not fit into memory: a failure after other records were written */
    for (size_t i = 0; i < sizeof(seeds) / sizeof(*seeds); i++) {
        data_prints("does not fit into memory", 1, "shard", "--files=100",
                    "--memory=64K", "--seed", seeds[i], in, coxi_test_path("old.txt"));
        size_t len;
        char *old = coxi_test_read(first, &len);
        assert_string_equal("old 0\n", old);
        free(old);
        assert_int_equal(-1, access(coxi_test_path("old-00001.txt"), F_OK));
        assert_false(has_buckets(coxi_test_dir()));
    }
    free(text);
}
