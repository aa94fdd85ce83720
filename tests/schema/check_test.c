/* Checks stay in builds without assertions. */
#ifndef NDEBUG
#define NDEBUG
#endif

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/maybe.h"
#include "tests/test.h"

/* Asks none for its index in another process; returns the end of that process, and the
 * text that it wrote to standard error. */
static int ask_none(char *ret_text, size_t room)
{
    int ends[2];
    int status = 0;
    coxi_test_expect_crashes();
    assert_int_equal(0, pipe(ends));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        _exit(coxi_maybe_index(coxi_maybe_none()) == 0 ? 1 : 2);
    }
    (void)close(ends[1]);
    ssize_t len = read(ends[0], ret_text, room - 1);
    ret_text[len > 0 ? len : 0] = '\0';
    (void)close(ends[0]);
    assert_int_equal(pid, waitpid(pid, &status, 0));
    return status;
}

TEST(check_ends_the_process_in_every_build)
{
    char text[256];
    int status = ask_none(text, sizeof(text));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(SIGABRT, WTERMSIG(status));
    assert_non_null(strstr(text, "maybe.h:"));
    assert_non_null(strstr(text, "check failed: coxi_maybe_is_some(maybe)"));
}
