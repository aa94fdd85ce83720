/* What a forked child closes. */
#include "common/unforked.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* The child's exit code: 1 if it has `held`, plus 2 if it lacks `other`. */
static int fork_and_look(int held, int other)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(is_open(held) + 2 * !is_open(other));
    }
    assert_true(pid > 0);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(a_forked_child_closes_what_is_held_and_nothing_else)
{
    struct coxi_unforked what = {.fd = open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    coxi_unforked_hold(&what);
    assert_int_equal(0, fork_and_look(what.fd, other));
    coxi_unforked_drop(&what);
    assert_int_equal(1, fork_and_look(what.fd, other));
    assert_true(is_open(what.fd));
    (void)close(other);
    (void)close(what.fd);
}

/* Takes memory of many sizes, and gives it back, until *arg is true. */
static void *take_memory(void *arg)
{
    const atomic_bool *over = arg;
    for (size_t i = 0; !atomic_load(over); i++) {
        void *volatile some = malloc((size_t)32 << (i % 12));
        free(some);
    }
    return NULL;
}

/* Another thread may have the allocator's lock when this one forks; in the child nobody
 * gives it back. */
TEST(a_forked_child_takes_no_memory)
{
    enum { THREADS = 4, CHILDREN = 100 };
    struct coxi_unforked what = {.fd = open("/dev/null", O_RDONLY | O_CLOEXEC)};
    int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_t threads[THREADS];
    atomic_bool over = false;
    coxi_unforked_hold(&what);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, take_memory, &over));
    }
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(0, fork_and_look(what.fd, other));
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    coxi_unforked_drop(&what);
    (void)close(other);
    (void)close(what.fd);
}
