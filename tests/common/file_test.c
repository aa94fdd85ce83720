#include "common/file.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/test.h"

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int n_entries(const char *path)
{
    int n = 0;
    DIR *stream = opendir(path);
    assert_non_null(stream);
    while (readdir(stream) != NULL) {
        n++;
    }
    (void)closedir(stream);
    return n - 2; /* . and .. */
}

TEST(a_path_is_formatted_unless_it_is_too_long)
{
    static char name[2 * PATH_MAX];
    char path[PATH_MAX];
    assert_code(0, coxi_path(path, "%s/%d", "dir", 7));
    assert_string_equal("dir/7", path);
    memset(name, 'n', PATH_MAX - 1);
    assert_code(0, coxi_path(path, "%s", name));
    assert_int_equal(PATH_MAX - 1, strlen(path));
    name[PATH_MAX - 1] = 'n';
    assert_code(COX_EINVAL, coxi_path(path, "%s", name));
    assert_error_names("nnnn");
}

/* ---- reading */

TEST(a_file_is_read_whole_with_a_nul_behind_it)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    char *path = coxi_test_path("file");
    coxi_test_write(path, "a\0b", 3);
    assert_code(0, coxi_file_read(path, 3, &bytes, &len));
    assert_int_equal(3, len);
    assert_memory_equal("a\0b", bytes, 4);
    free(bytes);
    coxi_test_write(path, "", 0);
    assert_code(0, coxi_file_read(path, 0, &bytes, &len));
    assert_int_equal(0, len);
    assert_int_equal(0, bytes[0]);
    free(bytes);
}

TEST(files_that_cannot_be_read_are_told_apart)
{
    uint8_t *bytes = NULL;
    size_t len = 77;
    char *path = coxi_test_path("file");
    char *under = coxi_test_path("file/under");
    char *missing = coxi_test_path("missing");
    coxi_test_write(path, "abcd", 4);
    assert_code(COX_ELIMIT, coxi_file_read(path, 3, &bytes, &len));
    assert_error_names(path);
    assert_error_names("4 bytes");
    assert_error_names("limit is 3");
    assert_code(COX_ENOENT, coxi_file_read(missing, 100, &bytes, &len));
    assert_error_names(missing);
    assert_code(COX_EIO, coxi_file_read(under, 100, &bytes, &len));
    assert_error_names(under);
    assert_code(COX_EIO, coxi_file_read(coxi_test_dir(), 1 << 20, &bytes, &len));
    assert_error_names("not a file");
    assert_code(COX_EIO, coxi_file_read("/dev/zero", 1 << 20, &bytes, &len));
    assert_null(bytes);
    assert_int_equal(77, len);
}

static void assert_last_line(const char *text, const char *expected)
{
    char line[8] = "before";
    char *path = coxi_test_path("lines");
    coxi_test_write(path, text, strlen(text));
    coxi_file_last_line(path, line, sizeof(line));
    assert_string_equal(expected, line);
}

TEST(the_last_line_of_a_file_is_found)
{
    assert_last_line("", "");
    assert_last_line("one", "one");
    assert_last_line("one\n", "one");
    assert_last_line("one\ntwo\n", "two");
    assert_last_line("one\ntwo", "two");
    assert_last_line("one\n\n", "");
    assert_last_line("one\nlonger than it fits\n", "longer ");
    char line[8] = "before";
    coxi_file_last_line(coxi_test_path("missing"), line, sizeof(line));
    assert_string_equal("", line);
}

TEST(a_long_last_line_is_told_from_its_start)
{
    enum { LONGEST = 5000 };
    static char text[LONGEST + 2];
    for (size_t len = 1; len <= LONGEST; len += len < 1000 || len > 1030 ? 111 : 1) {
        memset(text, '.', len);
        text[0] = '>';
        text[len] = '\n';
        text[len + 1] = '\0';
        char line[LONGEST + 2];
        char *path = coxi_test_path("long");
        coxi_test_write(path, text, len + 1);
        coxi_file_last_line(path, line, sizeof(line));
        assert_int_equal('>', line[0]);
        assert_int_equal(len, strlen(line));
    }
}

/* ---- writing */

TEST(a_file_is_written_over_what_was_there)
{
    char *path = coxi_test_path("file");
    assert_code(0, coxi_file_write(path, "a longer one", 12));
    assert_code(0, coxi_file_write(path, "shorter", 7));
    char *text = coxi_test_read(path, NULL);
    assert_string_equal("shorter", text);
    free(text);
    assert_code(0, coxi_file_write(path, "", 0));
    size_t len = 77;
    free(coxi_test_read(path, &len));
    assert_int_equal(0, len);
    assert_int_equal(1, n_entries(coxi_test_dir()));
}

enum { SHORT_LEN = 30000, LONG_LEN = 200000 };

struct rewriting {
    const char *path;
    atomic_bool done;
    int n_failed;
};

static void *rewrite(void *arg)
{
    static char all_a[SHORT_LEN];
    static char all_b[LONG_LEN];
    struct rewriting *rewriting = arg;
    memset(all_a, 'a', sizeof(all_a));
    memset(all_b, 'b', sizeof(all_b));
    for (int i = 0; i < 40; i++) {
        int r = i % 2 == 0 ? coxi_file_write(rewriting->path, all_b, LONG_LEN)
                           : coxi_file_write(rewriting->path, all_a, SHORT_LEN);
        rewriting->n_failed += r != 0;
    }
    atomic_store(&rewriting->done, true);
    return NULL;
}

TEST(whoever_reads_meanwhile_sees_the_old_file_or_the_new_one)
{
    struct rewriting rewriting = {.path = coxi_test_path("file")};
    pthread_t thread;
    atomic_init(&rewriting.done, false);
    coxi_test_write(rewriting.path, "a", 1);
    assert_int_equal(0, pthread_create(&thread, NULL, rewrite, &rewriting));
    while (!atomic_load(&rewriting.done)) {
        size_t len = 0;
        char *text = coxi_test_read(rewriting.path, &len);
        assert_true(text[0] == 'a' ? len == 1 || len == SHORT_LEN
                                   : text[0] == 'b' && len == LONG_LEN);
        assert_int_equal(len, strspn(text, text[0] == 'a' ? "a" : "b"));
        free(text);
    }
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(0, rewriting.n_failed);
}

/* Acts like a full disk, also for root: no file may grow past the limit. */
TEST(a_file_that_does_not_fit_leaves_the_old_one)
{
    static char much[100000];
    struct rlimit old;
    char *path = coxi_test_path("file");
    assert_code(0, coxi_file_write(path, "old", 3));
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(0, getrlimit(RLIMIT_FSIZE, &old));
    struct rlimit tight = {.rlim_cur = 50000, .rlim_max = old.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_FSIZE, &tight));
    int r = coxi_file_write(path, much, sizeof(much));
    (void)setrlimit(RLIMIT_FSIZE, &old);
    assert_code(COX_EIO, r);
    assert_error_names(path);
    assert_error_names("File too large");
    char *text = coxi_test_read(path, NULL);
    assert_string_equal("old", text);
    free(text);
    assert_int_equal(1, n_entries(coxi_test_dir()));
}

TEST(a_place_that_takes_no_file_is_eio_and_named)
{
    char *path = coxi_test_path("directory");
    coxi_test_write(coxi_test_path("file"), "", 0);
    assert_int_equal(0, mkdir(path, 0700));
    assert_code(COX_EIO, coxi_file_write(coxi_test_path("file/under"), "x", 1));
    assert_error_names("file/under");
    assert_code(COX_EIO, coxi_file_write(coxi_test_path("missing/x"), "x", 1));
    assert_error_names("missing/x");
    assert_code(COX_EIO, coxi_file_write(path, "x", 1));
    assert_error_names(path);
    assert_int_equal(2, n_entries(coxi_test_dir()));
}

/* ---- directories */

TEST(a_directory_is_made_with_those_above_it)
{
    char *path = coxi_test_path("a/b/c");
    assert_code(0, coxi_directory_make(path));
    assert_true(is_directory(path));
    assert_code(0, coxi_directory_make(path));
    assert_code(0, coxi_directory_make(coxi_test_path("a/b//d/")));
    assert_true(is_directory(coxi_test_path("a/b/d")));
    assert_code(0, coxi_directory_make("/"));
    assert_int_equal(0, symlink("a", coxi_test_path("link")));
    assert_code(0, coxi_directory_make(coxi_test_path("link")));
    assert_code(0, coxi_directory_make(coxi_test_path("link/e")));
    assert_true(is_directory(coxi_test_path("a/e")));
}

TEST(a_directory_that_cannot_be_made_is_eio_and_named)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    assert_code(COX_EIO, coxi_directory_make(coxi_test_path("file/under/it")));
    assert_error_names("file/under: Not a directory");
    assert_code(COX_EIO, coxi_directory_make(file));
    assert_error_names(file);
    assert_error_names("there is a file");
    assert_code(COX_EIO, coxi_directory_make("/proc/coxswain/x"));
    assert_error_names("/proc/coxswain");
    assert_code(COX_EIO, coxi_directory_make(""));
}

TEST(a_directory_is_removed_with_what_is_in_it)
{
    assert_code(0, coxi_directory_make(coxi_test_path("a/b/c")));
    coxi_test_write(coxi_test_path("a/file"), "x", 1);
    coxi_test_write(coxi_test_path("a/b/.hidden"), "x", 1);
    assert_int_equal(0, chmod(coxi_test_path("a/file"), 0));
    coxi_directory_remove(coxi_test_path("a"));
    assert_false(exists(coxi_test_path("a")));
    coxi_directory_remove(coxi_test_path("a"));
}

TEST(removing_a_directory_follows_no_link)
{
    char *kept = coxi_test_path("kept/file");
    assert_code(0, coxi_directory_make(coxi_test_path("kept")));
    assert_code(0, coxi_directory_make(coxi_test_path("a/b")));
    coxi_test_write(kept, "x", 1);
    assert_int_equal(0, symlink(coxi_test_path("kept"), coxi_test_path("a/b/link")));
    assert_int_equal(0, symlink(kept, coxi_test_path("a/file")));
    assert_int_equal(0, symlink("/nowhere", coxi_test_path("a/dangling")));
    coxi_directory_remove(coxi_test_path("a"));
    assert_false(exists(coxi_test_path("a")));
    assert_int_equal(0, symlink("kept", coxi_test_path("itself")));
    coxi_directory_remove(coxi_test_path("itself"));
    assert_false(exists(coxi_test_path("itself")));
    assert_true(exists(kept));
}

static int make_temporary(const char *tmpdir, char path[64])
{
    const char *old = getenv("TMPDIR");
    char *kept = old != NULL ? strdup(old) : NULL;
    assert_int_equal(0, setenv("TMPDIR", tmpdir, 1));
    int r = coxi_directory_temporary(path);
    (void)(kept != NULL ? setenv("TMPDIR", kept, 1) : unsetenv("TMPDIR"));
    free(kept);
    return r;
}

TEST(a_temporary_directory_is_ours_alone)
{
    char one[64];
    char two[64];
    struct stat st;
    (void)umask(0);
    assert_code(0, make_temporary(coxi_test_dir(), one));
    assert_code(0, make_temporary(coxi_test_dir(), two));
    assert_memory_equal(coxi_test_dir(), one, strlen(coxi_test_dir()));
    assert_string_not_equal(one, two);
    assert_int_equal(0, stat(one, &st));
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(0700, st.st_mode & 07777);
    assert_int_equal(geteuid(), st.st_uid);
}

TEST(a_temporary_directory_has_a_short_path)
{
    char path[64] = "";
    assert_code(0, make_temporary("", path));
    assert_memory_equal("/tmp/coxswain-", path, 14);
    coxi_directory_remove(path);
    assert_code(
        0, make_temporary("/a/very/long/path/that/leaves/no/room/for/a/socket", path));
    assert_memory_equal("/tmp/coxswain-", path, 14);
    coxi_directory_remove(path);
    char *missing = coxi_test_path("missing");
    assert_code(COX_EIO, make_temporary(missing, path));
    assert_error_names(missing);
}

TEST(only_directories_are_synced)
{
    char *file = coxi_test_path("file");
    coxi_test_write(file, "", 0);
    assert_code(0, coxi_directory_sync(coxi_test_dir()));
    assert_code(COX_EIO, coxi_directory_sync(file));
    assert_error_names(file);
    assert_code(COX_EIO, coxi_directory_sync(coxi_test_path("missing")));
    assert_error_names("missing");
}

TEST(the_program_s_directory_holds_it)
{
    char directory[PATH_MAX];
    char path[PATH_MAX];
    assert_code(0, coxi_program_directory(directory));
    assert_code(
        0, coxi_path(path, "%.4000s/%s", directory, program_invocation_short_name));
    assert_int_equal(0, access(path, X_OK));
}

TEST(file_is_not_written_through_a_link_that_waits_at_its_temporary_name)
{
    char trap[PATH_MAX];
    size_t len = 0;
    const char *path = coxi_test_path("file");
    const char *victim = coxi_test_path("victim");
    coxi_test_write(victim, "precious", 8);
    assert_code(0, coxi_path(trap, "%s.%d.tmp", path, (int)getpid()));
    assert_int_equal(0, symlink(victim, trap));
    assert_code(0, coxi_file_write(path, "new", 3));
    char *bytes = coxi_test_read(victim, &len);
    assert_string_equal("precious", bytes);
    free(bytes);
    bytes = coxi_test_read(path, &len);
    assert_string_equal("new", bytes);
    free(bytes);
}

TEST(own_directory_is_one_where_no_other_user_may_write)
{
    struct stat st;
    const char *path = coxi_test_path("a/own");
    mode_t before = umask(0);
    assert_code(0, coxi_directory_own(path));
    (void)umask(before);
    assert_int_equal(0, stat(path, &st));
    assert_int_equal(S_IFDIR | 0700, st.st_mode);
    assert_int_equal(0, chmod(path, 0755));
    assert_code(0, coxi_directory_own(path));
    assert_int_equal(0, chmod(path, 0770));
    assert_code(COX_EIO, coxi_directory_own(path));
    assert_error_names("other users may write");
    assert_int_equal(0, chmod(path, 0702));
    assert_code(COX_EIO, coxi_directory_own(path));
    if (geteuid() == 0) { /* only root can give a directory away */
        assert_int_equal(0, chmod(path, 0700));
        assert_int_equal(0, chown(path, 65534, 65534));
        assert_code(COX_EIO, coxi_directory_own(path));
        assert_error_names("another user");
    }
}

TEST(file_that_is_a_fifo_is_no_file)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    const char *path = coxi_test_path("fifo");
    assert_int_equal(0, mkfifo(path, 0600));
    assert_code(COX_EIO, coxi_file_read(path, 100, &bytes, &len));
    assert_error_names("not a file");
}
