/* See test.h. */
#include "tests/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"

enum {
    TESTS_MAX = 128,
    TMPDIR_MAX = 16, /* sockets will lie below: their paths must be short */
};

static struct CMUnitTest tests[TESTS_MAX];
static size_t n_tests;
static char directory[64];

void coxi_test_add(const char *name, void (*run)(void **state))
{
    if (n_tests == TESTS_MAX) {
        abort();
    }
    tests[n_tests++] = (struct CMUnitTest){.name = name, .test_func = run};
}

const char *coxi_test_error(void)
{
    return coxi_error_text();
}

/* Processes that are just being killed may still write into it. */
static void remove_directory(void)
{
    enum { TRIES = 1000 };
    for (int i = 0; i < TRIES && getenv("COX_TEST_KEEP") == NULL; i++) {
        coxi_directory_remove(directory);
        if (access(directory, F_OK) != 0) {
            break;
        }
        (void)poll(NULL, 0, 2);
    }
}

const char *coxi_test_dir(void)
{
    if (directory[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        bool is_short = tmp != NULL && *tmp != '\0' && strlen(tmp) <= TMPDIR_MAX;
        (void)snprintf(directory, sizeof(directory), "%s/cox-test-XXXXXX",
                       is_short ? tmp : "/tmp");
        if (mkdtemp(directory) == NULL) {
            abort();
        }
        (void)atexit(remove_directory);
    }
    return directory;
}

/* Text that stays until the program ends; equal texts are one. */
static char *keep_text(const char *text)
{
    struct kept {
        struct kept *next;
        char text[512];
    };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct kept *first;
    (void)pthread_mutex_lock(&lock);
    struct kept *kept = first;
    while (kept != NULL && strcmp(kept->text, text) != 0) {
        kept = kept->next;
    }
    if (kept == NULL) {
        kept = malloc(sizeof(*kept));
        if (kept == NULL) {
            abort();
        }
        (void)snprintf(kept->text, sizeof(kept->text), "%s", text);
        kept->next = first;
        first = kept;
    }
    (void)pthread_mutex_unlock(&lock);
    return kept->text;
}

char *coxi_test_path(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", coxi_test_dir(), name);
    return keep_text(path);
}

const char *coxi_test_bin(void)
{
    const char *bin = getenv("COX_BIN_DIR");
    return bin != NULL ? bin : COXI_TEST_BIN;
}

const char *coxi_test_module(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s.so", COXI_TEST_MODULES, name);
    return keep_text(path);
}

static void add_options(const char *variable, const char *options)
{
    char all[2048];
    const char *old = getenv(variable);
    (void)snprintf(all, sizeof(all), "%s:%s", old != NULL ? old : "", options);
    assert_int_equal(0, setenv(variable, all, 1));
}

void coxi_test_expect_crashes(void)
{
    const struct rlimit no_core = {0, 0};
    assert_int_equal(0, setrlimit(RLIMIT_CORE, &no_core));
    add_options("ASAN_OPTIONS", "handle_segv=0:handle_abort=0:detect_leaks=0");
    add_options("TSAN_OPTIONS", "handle_segv=0:handle_abort=0:report_thread_leaks=0");
}

void coxi_test_keep_no_freed_memory(void)
{
    add_options("ASAN_OPTIONS", "quarantine_size_mb=1");
}

void coxi_test_write(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(len, fwrite(bytes, 1, len, file));
    assert_int_equal(0, fclose(file));
}

int coxi_test_hold_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    /* the lease sends SIGIO when somebody tries to open it */
    assert_true(signal(SIGIO, SIG_IGN) != SIG_ERR);
    assert_int_equal(0, fcntl(fd, F_SETLEASE, F_WRLCK));
    return fd;
}

bool coxi_test_is_wanted(void *fd)
{
    return fcntl(*(int *)fd, F_GETLEASE) != F_WRLCK;
}

uint64_t coxi_test_unhash(uint64_t hash)
{
    /* x ^= x >> 33, undone by itself, and multiplications by the factors' inverses */
    hash ^= hash >> 33;
    hash *= 0x9cb4b2f8129337db;
    hash ^= hash >> 33;
    hash *= 0x4f74430c22a54005;
    return hash ^ hash >> 33;
}

char *coxi_test_read(const char *path, size_t *ret_len)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_code(0, coxi_file_read(path, (size_t)1 << 30, &bytes, &len));
    if (ret_len != NULL) {
        *ret_len = len;
    }
    return (char *)bytes;
}

void coxi_test_until(bool (*condition)(void *arg), void *arg, const char *what)
{
    uint64_t start_ms = coxi_now_ms();
    while (!condition(arg)) {
        if (coxi_now_ms() - start_ms > 8000) {
            fail_msg("%s did not come true in 8 s", what);
        }
        (void)poll(NULL, 0, 2);
    }
}

int coxi_test_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        n += task->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return n;
}

bool coxi_test_has_threads(void *arg)
{
    return coxi_test_threads() == *(int *)arg;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return _cmocka_run_group_tests(argv[0], tests, n_tests, NULL, NULL);
}
