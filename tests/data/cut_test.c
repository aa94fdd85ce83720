/* How data sets are cut into tasks, and in which order these come. */
#include "data/cut.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#define PIECE ((size_t)100)

static const struct coxi_cut cut = {.task_bytes = PIECE, .splits = true};

/* Writes a file of `len` bytes in the test's directory; returns its path. */
static const char *make(const char *name, size_t len)
{
    uint8_t *bytes = calloc(len + 1, 1);
    const char *path = coxi_test_path(name);
    coxi_test_write(path, bytes, len);
    free(bytes);
    return path;
}

static struct coxi_files find(const char *pattern)
{
    struct coxi_files files;
    const char *patterns[] = {coxi_test_path(pattern)};
    assert_code(0, coxi_files_find(patterns, 1, &cut, &files));
    return files;
}

TEST(files_of_a_pattern_come_in_the_order_of_their_bytes)
{
    (void)make("part-10", 1);
    (void)make("part-2", 1);
    (void)make("part-B", 1);
    (void)make("part-a", 1);
    (void)make("other", 1);
    struct coxi_files files = find("part-*");
    assert_int_equal(files.n, 4);
    static const char *const names[] = {"part-10", "part-2", "part-B", "part-a"};
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(strrchr(files.all[i].name, '/') + 1, names[i]);
        assert_int_equal(files.all[i].mark.bytes, 1);
        assert_true(files.all[i].mark.changed_ns != 0);
    }
    coxi_files_fini(&files);
}

/* Asserts that a file that is there and `other` are refused, and that the error names
 * `named`. */
static void assert_refused(const char *other, int code, const char *named)
{
    struct coxi_files files;
    const char *patterns[] = {make("here", 1), other};
    assert_code(code, coxi_files_find(patterns, 2, &cut, &files));
    assert_error_names(named);
}

TEST(patterns_leave_out_indexes_and_parts)
{
    (void)make("piece-1", 1);
    (void)make("piece-1.coxi", 1);
    (void)make("piece-2.part", 1);
    (void)make("index-of.coxi", 1);
    struct coxi_files files = find("piece-*");
    assert_int_equal(1, files.n);
    coxi_files_fini(&files);
    files = find("*.part");
    assert_int_equal(1, files.n);
    coxi_files_fini(&files);
    const char *patterns[] = {coxi_test_path("index-o*")};
    assert_code(COX_ENOENT, coxi_files_find(patterns, 1, &cut, &files));
    assert_error_names("index-o*");
}

TEST(a_pattern_without_files_is_named)
{
    struct coxi_files files;
    assert_refused(coxi_test_path("nothing-*"), COX_ENOENT, "nothing-*");
    assert_refused(coxi_test_path("missing"), COX_ENOENT, "missing");
    assert_refused("", COX_EINVAL, "files[1]");
    assert_refused(NULL, COX_EINVAL, "files[1]");
    assert_refused("gopher://host/file", COX_EINVAL, "gopher");
    assert_code(COX_EINVAL, coxi_files_find(NULL, 0, &cut, &files));
}

TEST(a_file_that_two_patterns_match_is_refused)
{
    struct coxi_files files;
    (void)make("twice", 1);
    const char *patterns[] = {coxi_test_path("tw*"), coxi_test_path("*ce")};
    assert_code(COX_EINVAL, coxi_files_find(patterns, 2, &cut, &files));
    assert_error_names("twice is listed twice");
    patterns[1] = coxi_test_path("././/twice");
    assert_code(COX_EINVAL, coxi_files_find(patterns, 2, &cut, &files));
    assert_error_names("twice is listed twice");
}

TEST(a_relative_path_becomes_absolute_in_a_directory_of_any_name)
{
    char before[4096];
    struct coxi_files files;
    const char *patterns[] = {"fi?e"};
    const char *dir = coxi_test_path("[x]*\\");
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_non_null(getcwd(before, sizeof(before)));
    assert_int_equal(chdir(dir), 0);
    coxi_test_write("file", "x", 1);
    int r = coxi_files_find(patterns, 1, &cut, &files);
    assert_int_equal(chdir(before), 0);
    assert_code(0, r);
    assert_int_equal(files.n, 1);
    assert_int_equal(files.all[0].name[0], '/');
    assert_int_equal(access(files.all[0].name, R_OK), 0);
    coxi_files_fini(&files);
}

/* Asserts that the tasks cover each byte of each file once, in order. */
static void assert_covered(const struct coxi_files *files)
{
    size_t file = SIZE_MAX;
    uint64_t end = UINT64_MAX;
    uint64_t bytes = 0;
    for (uint64_t place = 0; place < files->n_tasks; place++) {
        struct coxi_cut_task task = coxi_files_task(files, place);
        size_t i = (size_t)(task.file - files->all);
        if (i != file) {
            assert_true(end == UINT64_MAX);
            end = 0;
            file = i;
        }
        assert_int_equal(task.begin, end);
        end = task.end;
        uint64_t stop = end == UINT64_MAX ? files->all[i].mark.bytes : end;
        assert_int_equal(task.bytes, stop - task.begin);
        assert_true(task.bytes > 0);
        bytes += task.bytes;
    }
    assert_true(end == UINT64_MAX);
    assert_int_equal(bytes, files->bytes);
}

TEST(tasks_cover_every_byte_once)
{
    (void)make("cut-a", 0);
    (void)make("cut-b", 1);
    (void)make("cut-c", PIECE);
    (void)make("cut-d", PIECE + 1);
    (void)make("cut-e", 0);
    (void)make("cut-f", 10 * PIECE - 3);
    (void)make("cut-g", 0);
    (void)make("cut-h.gz", 5 * PIECE);
    struct coxi_files files = find("cut-*");
    assert_int_equal(files.n, 8);
    assert_int_equal(files.n_tasks, 0 + 1 + 1 + 2 + 0 + 10 + 0 + 1);
    assert_covered(&files);
    coxi_files_fini(&files);
}

TEST(files_of_a_format_that_does_not_split_are_whole)
{
    struct coxi_files files;
    const struct coxi_cut whole = {.task_bytes = PIECE};
    const char *patterns[] = {make("whole-a", 10 * PIECE), make("whole-b", PIECE)};
    assert_code(0, coxi_files_find(patterns, 2, &whole, &files));
    assert_int_equal(files.n_tasks, 2);
    assert_covered(&files);
    coxi_files_fini(&files);
}

TEST(empty_files_have_no_task)
{
    (void)make("empty-a", 0);
    (void)make("empty-b.gz", 0);
    struct coxi_files files = find("empty-*");
    assert_int_equal(files.n, 2);
    assert_int_equal(files.n_tasks, 0);
    coxi_files_fini(&files);
}

TEST(a_huge_file_is_cut_without_being_read)
{
    const char *path = make("huge", 0);
    uint64_t bytes = (uint64_t)100 << 30;
    assert_int_equal(truncate(path, (off_t)bytes), 0);
    struct coxi_files files;
    const struct coxi_cut small = {.task_bytes = 100000, .splits = true};
    assert_code(0, coxi_files_find(&path, 1, &small, &files));
    assert_int_equal(files.n_tasks, (bytes + 99999) / 100000);
    assert_covered(&files);
    coxi_files_fini(&files);
}

/* ---- the order */

TEST(an_order_is_a_permutation)
{
    for (uint64_t n = 1; n < 300; n++) {
        uint8_t seen[300] = {0};
        for (uint64_t i = 0; i < n; i++) {
            uint64_t place = coxi_order(n, 7, n, i);
            assert_true(place < n);
            assert_int_equal(seen[place]++, 0);
        }
    }
    enum { LARGE = 1000003 };
    uint8_t *seen = calloc(LARGE, 1);
    for (uint64_t i = 0; i < LARGE; i++) {
        assert_int_equal(seen[coxi_order(LARGE, 1, 2, i)]++, 0);
    }
    free(seen);
    assert_true(coxi_order(UINT64_MAX, 1, 1, 12345) != coxi_order(UINT64_MAX, 1, 1, 1));
}

TEST(an_order_depends_on_seed_and_epoch_alone)
{
    enum { N = 1000 };
    size_t same_seed = 0;
    size_t same_epoch = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t place = coxi_order(N, 5, 3, i);
        assert_int_equal(place, coxi_order(N, 5, 3, i));
        same_seed += place == coxi_order(N, 5, 4, i);
        same_epoch += place == coxi_order(N, 6, 3, i);
    }
    /* about one in N is expected by chance */
    assert_true(same_seed < 10 && same_epoch < 10);
}

/* Each of the 120 orders of five tasks must come about equally often. With 119 degrees
 * of freedom, chi-square exceeds 200 once in 200,000 times. */
TEST(every_order_of_five_is_about_equally_likely)
{
    enum { N = 5, ORDERS = 120, DRAWS = 60000 };
    size_t counts[ORDERS] = {0};
    for (uint64_t epoch = 0; epoch < DRAWS; epoch++) {
        uint64_t places[N];
        size_t rank = 0;
        for (uint64_t i = 0; i < N; i++) {
            places[i] = coxi_order(N, 42, epoch, i);
        }
        for (size_t i = 0; i < N; i++) {
            size_t less = 0;
            for (size_t k = i + 1; k < N; k++) {
                less += places[k] < places[i];
            }
            rank = rank * (N - i) + less;
        }
        counts[rank]++;
    }
    double chi = 0;
    for (size_t i = 0; i < ORDERS; i++) {
        double expected = (double)DRAWS / ORDERS;
        double off = (double)counts[i] - expected;
        chi += off * off / expected;
    }
    assert_true(chi < 200);
}

TEST(seeds_of_tasks_differ)
{
    assert_true(coxi_task_seed(1, 0, 0) != coxi_task_seed(1, 0, 1));
    assert_true(coxi_task_seed(1, 0, 1) != coxi_task_seed(1, 1, 0));
    assert_true(coxi_task_seed(1, 0, 0) != coxi_task_seed(2, 0, 0));
    assert_true(coxi_task_seed(1, 2, 3) == coxi_task_seed(1, 2, 3));
}
