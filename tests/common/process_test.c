/* Processes: which one it is, and whether it lives. */
#include "common/process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

/* Makes a process that waits for a signal, and tells which it is. */
static struct coxi_process_id begin(void)
{
    struct coxi_process_id id = {0};
    struct coxi_process process;
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(pid > 0);
    assert_true(coxi_process_self(&id));
    assert_true(coxi_process_read(pid, &process));
    id.pid = pid;
    id.began_ticks = process.began_ticks;
    return id;
}

static void end(const struct coxi_process_id *id)
{
    siginfo_t info;
    assert_int_equal(0, kill(id->pid, SIGKILL));
    assert_int_equal(0, waitid(P_PID, (id_t)id->pid, &info, WEXITED | WNOWAIT));
}

TEST(a_process_lives_until_it_is_killed)
{
    struct coxi_process_id id = begin();
    assert_int_equal(COXI_PROCESS_LIVES, coxi_process_look(&id));
    end(&id);
    assert_int_equal(COXI_PROCESS_GONE, coxi_process_look(&id)); /* a zombie */
    assert_int_equal(id.pid, waitpid(id.pid, NULL, 0));
    assert_int_equal(COXI_PROCESS_GONE, coxi_process_look(&id));
}

TEST(this_process_lives)
{
    struct coxi_process_id id;
    assert_true(coxi_process_self(&id));
    assert_int_equal(getpid(), id.pid);
    assert_int_equal(COXI_PROCESS_LIVES, coxi_process_look(&id));
    assert_true(coxi_process_resident_bytes(id.pid) > 0);
}

TEST(another_process_with_the_same_pid_is_no_sign_of_life)
{
    struct coxi_process_id id;
    assert_true(coxi_process_self(&id));
    id.began_ticks--;
    assert_int_equal(COXI_PROCESS_GONE, coxi_process_look(&id));
}

TEST(a_process_elsewhere_may_live)
{
    struct coxi_process_id self;
    assert_true(coxi_process_self(&self));
    struct coxi_process_id id = self;
    id.boot[0] = id.boot[0] == '0' ? '1' : '0';
    assert_int_equal(COXI_PROCESS_UNKNOWN, coxi_process_look(&id));
    id = self;
    id.pid_namespace++;
    assert_int_equal(COXI_PROCESS_UNKNOWN, coxi_process_look(&id));
    id = self;
    id.pid = 0;
    assert_int_equal(COXI_PROCESS_UNKNOWN, coxi_process_look(&id));
}

TEST(a_process_that_is_not_there_cannot_be_read)
{
    struct coxi_process process = {.n_threads = 7};
    assert_false(coxi_process_read(-1, &process));
    assert_int_equal(7, process.n_threads);
    assert_int_equal(0, coxi_process_resident_bytes(-1));
}
