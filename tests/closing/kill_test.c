/* A client is killed in each phase of its life: 2 s later no process of its local
 * cluster is left. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/closing/phase.h"
#include "tests/test.h"

/* Starts a child that brings a client to a phase, reports that, and stays there. */
static pid_t start(void (*reach)(struct phase *phase))
{
    static struct phase phase;
    int said[2];
    char byte = 0;
    (void)coxi_test_dir(); /* before the fork, so that both have one directory */
    assert_int_equal(0, pipe(said));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)close(said[0]);
        reach(&phase);
        (void)!write(said[1], "", 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(said[1]);
    if (read(said[0], &byte, 1) != 1) {
        fail_msg("the client has not reached its phase");
    }
    (void)close(said[0]);
    return pid;
}

/* Waits until this process has no children, for at most `within_ms`. Orphans become its
 * children (PR_SET_CHILD_SUBREAPER). */
static bool are_gone(uint64_t within_ms)
{
    uint64_t end_ms = coxi_now_ms() + within_ms;
    for (;;) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid < 0 && errno == ECHILD) {
            return true;
        }
        if (pid == 0 && coxi_now_ms() >= end_ms) {
            return false;
        }
        (void)poll(NULL, 0, pid == 0 ? 2 : 0);
    }
}

static void killed(void (*reach)(struct phase *phase))
{
    coxi_test_expect_crashes();
    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t pid = start(reach);
    assert_int_equal(0, kill(pid, SIGKILL));
    assert_true(are_gone(PHASE_GRACE_MS));
}

TEST(a_client_that_is_killed_when_nothing_is_under_way_leaves_no_daemon)
{
    killed(phase_reach_idle);
}

TEST(a_client_that_is_killed_while_a_step_runs_leaves_no_daemon)
{
    killed(phase_reach_step);
}

TEST(a_client_that_is_killed_while_a_worker_stands_still_leaves_no_daemon)
{
    killed(phase_reach_stopped_worker);
}

TEST(a_client_that_is_killed_while_a_ps_stands_still_leaves_no_daemon)
{
    killed(phase_reach_stopped_ps);
}

TEST(a_client_that_is_killed_while_a_ps_is_lost_leaves_no_daemon)
{
    killed(phase_reach_lost_ps);
}

TEST(a_client_that_is_killed_while_a_ps_is_restored_leaves_no_daemon)
{
    killed(phase_reach_restore);
}

TEST(a_client_that_is_killed_while_a_step_is_replayed_leaves_no_daemon)
{
    killed(phase_reach_replay);
}

TEST(a_client_that_is_killed_while_a_ps_is_asked_about_a_closure_leaves_no_daemon)
{
    killed(phase_reach_voiding);
}

TEST(a_client_that_is_killed_while_a_checkpoint_is_written_leaves_no_daemon)
{
    killed(phase_reach_checkpoint);
}

TEST(a_client_that_is_killed_while_its_backlog_waits_leaves_no_daemon)
{
    killed(phase_reach_resume);
}

TEST(a_client_that_is_killed_while_the_log_is_full_leaves_no_daemon)
{
    killed(phase_reach_full_log);
}

TEST(a_client_that_is_killed_while_a_callback_waits_leaves_no_daemon)
{
    killed(phase_reach_callback);
}
