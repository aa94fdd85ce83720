/* A client is closed in each phase of its life. Within its deadline and 2 s its threads
 * and processes are gone, and its memory is freed (the sanitizer checks that). */
#include <errno.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/closing/phase.h"
#include "tests/test.h"

enum { CLOSE_MS = 500 };

struct closing {
    struct cox_coordinator *c;
    int code;
};

static void close_it(void *arg)
{
    struct closing *closing = arg;
    closing->code = cox_close(closing->c, CLOSE_MS);
}

/* True if no thread of the library is left in this process; nng's threads stay. */
static bool has_no_threads(void *arg)
{
    glob_t names = {0};
    bool found = false;
    (void)arg;
    (void)glob("/proc/self/task/*/comm", 0, NULL, &names);
    for (size_t i = 0; i < names.gl_pathc; i++) {
        char name[32] = "";
        FILE *file = fopen(names.gl_pathv[i], "re");
        if (file != NULL) {
            (void)!fgets(name, sizeof(name), file);
            (void)fclose(file);
        }
        found = found || strncmp(name, "cox:", 4) == 0;
    }
    globfree(&names);
    return !found;
}

/* True if all descendants of this process have ended: orphans become its children
 * (PR_SET_CHILD_SUBREAPER). */
static bool has_no_children(void *arg)
{
    (void)arg;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static void assert_closes(struct phase *phase)
{
    struct closing closing = {.c = phase->crew.c};
    struct timespec until = coxi_deadline(CLOSE_MS + PHASE_GRACE_MS);
    struct phase_run run;
    uint64_t start_ms = coxi_now_ms();
    phase_run_start(&run, close_it, &closing);
    if (!phase_run_join(&run, &until)) {
        fail_msg("cox_close(c, %d) has not returned after %llu ms", (int)CLOSE_MS,
                 (unsigned long long)(coxi_now_ms() - start_ms));
    }
    assert_true(closing.code == 0 || closing.code == COX_ETIMEDOUT);
    phase_end(phase);
    coxi_test_until(has_no_threads, NULL, "the end of the library's threads");
    coxi_test_until(has_no_children, NULL, "the end of all processes");
}

static void closes(void (*reach)(struct phase *phase))
{
    struct phase phase;
    coxi_test_expect_crashes(); /* processes end while steps run in them */
    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    reach(&phase);
    assert_closes(&phase);
}

TEST(close_returns_in_time_when_nothing_is_under_way)
{
    closes(phase_reach_idle);
}

TEST(close_returns_in_time_while_a_step_does_not_end)
{
    closes(phase_reach_step);
}

TEST(close_returns_in_time_while_a_worker_stands_still)
{
    closes(phase_reach_stopped_worker);
}

TEST(close_returns_in_time_while_a_ps_stands_still)
{
    closes(phase_reach_stopped_ps);
}

TEST(close_returns_in_time_while_a_ps_is_lost_and_does_not_come_back)
{
    closes(phase_reach_lost_ps);
}

TEST(close_returns_in_time_while_a_ps_is_restored)
{
    closes(phase_reach_restore);
}

TEST(close_returns_in_time_while_a_step_is_replayed)
{
    closes(phase_reach_replay);
}

TEST(close_returns_in_time_while_a_ps_does_not_answer_what_is_voided)
{
    closes(phase_reach_voiding);
}

TEST(close_returns_in_time_while_what_is_voided_waits_for_a_lost_ps)
{
    closes(phase_reach_held_voiding);
}

TEST(close_returns_in_time_while_a_checkpoint_is_written)
{
    closes(phase_reach_checkpoint);
}

TEST(close_returns_in_time_while_a_triggered_checkpoint_is_written)
{
    closes(phase_reach_triggered_checkpoint);
}

TEST(close_returns_in_time_while_the_disk_does_not_answer)
{
    closes(phase_reach_slow_disk);
}

TEST(close_returns_in_time_while_the_disk_does_not_answer_a_trigger)
{
    closes(phase_reach_slow_disk_triggered);
}

TEST(close_returns_in_time_while_the_backlog_waits_for_its_modules)
{
    closes(phase_reach_resume);
}

TEST(close_returns_in_time_while_the_log_is_full)
{
    closes(phase_reach_full_log);
}

TEST(close_returns_in_time_while_a_callback_waits)
{
    closes(phase_reach_callback);
}

TEST(close_returns_in_time_while_a_thread_joins)
{
    closes(phase_reach_join);
}

TEST(close_returns_in_time_while_a_thread_waits_for_a_future)
{
    closes(phase_reach_wait);
}

TEST(close_returns_in_time_while_a_thread_reads_of_a_lost_ps)
{
    closes(phase_reach_read);
}

TEST(close_returns_in_time_while_a_thread_waits_for_room_in_the_queue)
{
    closes(phase_reach_schedule);
}
