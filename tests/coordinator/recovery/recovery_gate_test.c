/*
 * While a ps is being recovered, nothing but the current batch of the replay runs.
 * Calls of coxi_pull_rows go through this file (ld --wrap).
 */
#include <signal.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"
#include "net/pulls.h"
#include "tests/coordinator/inside.h"
#include "tests/coordinator/keep.h"
#include "tests/coordinator/recovery/gated.h"
#include "tests/test.h"

enum { SAMPLES = 40 }; /* runs of "straggle", so that its average time is known */

/* ---- second attempts */

/* All workers are busy until the ps is lost, so the straggler gets no second attempt
 * before that. */
TEST(a_straggler_gets_no_second_attempt_while_a_ps_is_recovered)
{
    struct gated s;
    struct crew_hold busy[2];
    struct crew_hold slow;
    gated_open(&s, 1, 3, NULL, NULL);
    gated_run_many(&s, "straggle", SAMPLES);
    assert_code(0,
                cox_checkpoint_save(s.crew.c, NULL, NULL)); /* no sample is replayed */
    gated_pass(&s);
    gated_assign(&s, s.c0, 1000);
    for (int i = 0; i < 2; i++) {
        crew_hold(&busy[i], &s.crew, "hold", false);
        crew_hold_wait(&busy[i]);
    }
    crew_hold(&slow, &s.crew, "straggle", true);
    crew_hold_wait(&slow);
    gated_lose_ps(&s, 0, 1);
    for (int i = 0; i < 2; i++) {
        crew_hold_end(&busy[i]);
    }
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_wait(slow.future, GATED_NOT_WITHIN_MS));
    assert_int_equal(0, gated_stats(&s).speculated);
    crew_hold_end(&s.gate);
    crew_hold_end(&slow);
    gated_join(&s);
    assert_int_equal(1001, crew_read(&s.crew, s.c0));
    cox_future_free(slow.future);
    crew_close(&s.crew);
}

/* ---- results that are made again */

/* A call of module kept, on worker 0. */
static struct cox_future *start_kept(struct gated *s, const char *step, bool keep,
                                     struct cox_future *takes)
{
    struct keep kept = {.crew = s->other, .counter = s->c0};
    struct cox_future *future = keep_start(
        &kept,
        &(struct keep_call){
            .step = step, .own = 1, .keep = keep, .only_worker = 1, .takes = {takes}});
    gated_join(s);
    return future;
}

/* A call of echo that keeps "x" on worker 0 and touches no ps. x is the x of `takes`,
 * or 5 if that is NULL. */
static struct cox_future *start_echo(struct gated *s, struct cox_future *takes)
{
    const int64_t five = 5;
    const struct cox_value arg = COX_SCALAR("x", COX_I64, &five);
    const struct cox_input input = {"x", takes, "x"};
    struct cox_future *future;
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = takes == NULL;
    call.inputs = &input;
    call.n_inputs = takes != NULL;
    call.keep = 1;
    call.only_worker = 1;
    assert_code(
        0, cox_schedule(s->crew.c, crew_function(&s->crew, "echo"), &call, &future));
    gated_join(s);
    return future;
}

TEST(a_kept_result_is_not_made_again_while_a_ps_is_recovered)
{
    struct gated s;
    gated_open(&s, 1, 2, "kept", NULL);
    gated_pass(&s);
    gated_assign(&s, s.c0, 1000);
    struct cox_future *kept = start_kept(&s, "add", true, NULL);
    gated_lose_worker(&s, 0, 1);
    coxi_test_until(gated_are_ready, &(struct gated_count){&s, 2},
                    "the worker is back");
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_fetch(kept, GATED_NOT_WITHIN_MS));
    crew_hold_end(&s.gate);
    assert_code(0, cox_future_fetch(kept, GATED_SOON_MS));
    gated_join(&s);
    assert_int_equal(1001, crew_read(&s.crew, s.c0));
    assert_int_equal(1, gated_stats(&s).made_again);
    cox_future_free(kept);
    crew_close(&s.crew);
}

/* The closures that made the results have touched no ps, so they are not replayed. The
 * user asks for one of the results before the replay needs it. */
TEST(kept_results_that_the_replay_needs_are_made_again_for_it)
{
    struct gated s;
    gated_open(&s, 1, 2, "kept", NULL);
    gated_pass(&s);
    gated_assign(&s, s.c0, 1000);
    struct cox_future *first = start_echo(&s, NULL);
    struct cox_future *second = start_echo(&s, first);
    struct cox_future *taker = start_kept(&s, "add", false, second);
    gated_lose_worker(&s, 0, 1);
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_future_fetch(first, 0));
    crew_hold_end(&s.gate);
    gated_join(&s);
    assert_int_equal(1006, crew_read(&s.crew, s.c0));
    assert_int_equal(2, gated_stats(&s).made_again);
    cox_future_free(first);
    cox_future_free(second);
    cox_future_free(taker);
    crew_close(&s.crew);
}

/* The worker is stopped when it is asked for the result. Another step runs there, so
 * that the replay's gate is on the other worker. */
TEST(a_result_that_the_replay_waits_for_is_made_again_when_its_worker_dies)
{
    struct gated s;
    struct crew_hold busy;
    gated_open(&s, 1, 2, "kept", NULL);
    struct cox_future *kept = start_echo(&s, NULL);
    struct cox_future *taker = start_kept(&s, "add", false, kept);
    gated_pass(&s);
    crew_hold_on(&busy, &s.crew, "hold", 1, false);
    crew_hold_wait(&busy);
    assert_int_equal(0, kill(crew_step_process(&s.crew, 0), SIGSTOP));
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate); /* by then the stopped worker was asked */
    gated_lose_worker(&s, 0, 1);
    crew_hold_end(&busy);
    crew_hold_end(&s.gate);
    gated_join(&s);
    assert_int_equal(7, crew_read(&s.crew, s.c0));
    assert_int_equal(1, gated_stats(&s).made_again);
    cox_future_free(kept);
    cox_future_free(taker);
    crew_close(&s.crew);
}

/* ---- another ps is lost meanwhile */

TEST(a_replay_in_which_another_ps_is_lost_begins_anew)
{
    struct gated s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = 600000; /* so that only the test opens the gate */
    gated_open(&s, 2, 1, NULL, &options);
    gated_assign(&s, s.c1, 500);
    gated_pass(&s);
    gated_run_many(&s, "carry", 4); /* adds c1 to c0 */
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    gated_lose_ps(&s, 1, 2);
    crew_hold_end(&s.gate);
    gated_join(&s);
    assert_int_equal(2001, crew_read(&s.crew, s.c0));
    assert_int_equal(500, crew_read(&s.crew, s.c1));
    crew_close(&s.crew);
}

/*
 * The recovery of the first ps has already taken longer than ps_recovery_ms. The
 * launcher is stopped, so the second ps is away for a while: only a short one, because
 * it must start and be restored in the rest of its time.
 */
TEST(a_ps_has_its_time_to_come_back_from_its_own_loss)
{
    enum { RECOVERY_MS = 3000 };
    struct gated s;
    struct gated_count wanted = {&s, 2};
    struct cox_options options = COX_OPTIONS_INIT;
    options.ps_recovery_ms = RECOVERY_MS;
    gated_open(&s, 2, 1, NULL, &options);
    gated_pass(&s);
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&s.gate);
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, RECOVERY_MS + 200));
    pid_t launcher = crew_launcher(&s.crew);
    assert_int_equal(0, kill(launcher, SIGSTOP));
    crew_kill(crew_ps_process(&s.crew, 1));
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, GATED_NOT_WITHIN_MS));
    assert_int_equal(0, kill(launcher, SIGCONT));
    coxi_test_until(gated_have_recovered, &wanted, "the second ps");
    crew_hold_end(&s.gate);
    gated_join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

static bool is_back_or_over(void *arg)
{
    const struct gated_count *wanted = arg;
    return cox_join(wanted->s->crew.c, 0) == COX_EPSLOST || gated_have_recovered(arg);
}

/* The test kills the ps again and again, as if the replay did. It waits until the ps is
 * back before it kills it again, because the client does not notice the loss of a
 * process that it has not reached. */
TEST(a_ps_that_is_lost_again_and_again_before_it_is_whole_ends_the_run)
{
    enum { LOSSES_MAX = 200 };
    struct gated s;
    struct gated_count back = {&s, 0};
    struct cox_options options = COX_OPTIONS_INIT;
    options.ps_recovery_ms = 3000;
    gated_open(&s, 1, 1, NULL, &options);
    gated_pass(&s);
    while (back.n < LOSSES_MAX && cox_join(s.crew.c, 0) != COX_EPSLOST) {
        crew_kill(crew_ps_process(&s.crew, 0));
        back.n++;
        coxi_test_until(is_back_or_over, &back, "the return of the ps");
    }
    assert_code(COX_EPSLOST, cox_join(s.crew.c, 0));
    crew_close(&s.crew);
}

/* ---- ids */

struct skip {
    struct cox_coordinator *c;
    uint64_t n;
};

static void skip_some(void *arg)
{
    struct skip *skip = arg;
    coxi_lock(&skip->c->lock);
    skip->c->ids.next += skip->n;
    coxi_unlock(&skip->c->lock);
}

/* Raises the next id by `n`, as if `n` closures that touch no ps had run. The ps were
 * told the watermark before that. */
static void skip_ids(struct gated *s, uint64_t n)
{
    struct skip skipped = {s->crew.c, n};
    inside_run(s->crew.c, skip_some, &skipped);
}

/* The first closure is held until the second is done, so their ids are as far apart as
 * allowed. The third is farther from the first than the window that a ps accepts. */
TEST(a_replay_ends_over_more_ids_than_a_ps_takes_at_once)
{
    struct gated s;
    gated_open(&s, 1, 2, NULL, NULL);
    crew_hold(&s.gate, &s.crew, "hold_and_count", false);
    crew_hold_wait(&s.gate);
    skip_ids(&s, 900000);
    struct cox_future *second;
    assert_code(
        0, cox_schedule(s.crew.c, crew_function(&s.crew, "straggle"), NULL, &second));
    assert_code(0, cox_future_wait(second, GATED_SOON_MS));
    crew_hold_end(&s.gate);
    gated_join(&s);
    skip_ids(&s, 160000);
    /* the ps has taken the watermark when this returns */
    assert_int_equal(2, crew_read(&s.crew, s.c0));
    gated_run_many(&s, "straggle", 1);
    gated_lose_ps(&s, 0, 1);
    gated_join(&s);
    assert_int_equal(3, crew_read(&s.crew, s.c0));
    cox_future_free(second);
    crew_close(&s.crew);
}

/* Closures that touched no ps are not in the log, so they make no checkpoint due, and
 * the replay is empty. */
TEST(a_ps_takes_what_comes_behind_many_closures_that_touched_none)
{
    struct gated s;
    gated_open(&s, 1, 1, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        skip_ids(&s, 900000);
        gated_run_many(&s, "nothing", 1);
    }
    crew_kill(crew_ps_process(&s.crew, 0));
    gated_run_many(&s, "number_off", 5); /* scheduled while the ps is away */
    assert_int_equal(5, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

static bool is_over(void *arg)
{
    struct gated *s = arg;
    return cox_join(s->crew.c, GATED_SOON_MS) == COX_EREPLAY;
}

/* Kills ps 0, and lets its replay fail. */
static void end_run(struct gated *s)
{
    (void)unlink(s->gate.path); /* without its FIFO the step fails */
    crew_kill(crew_ps_process(&s->crew, 0));
    coxi_test_until(is_over, s, "the end of the run");
}

TEST(a_replay_that_fails_ends_the_run_and_names_closure_and_ps)
{
    struct gated s;
    gated_open(&s, 2, 1, NULL, NULL);
    gated_pass(&s);
    end_run(&s);
    assert_error_names("hold_and_count");
    assert_error_names("because ps 0 was lost");
    (void)cox_close(s.crew.c, GATED_SOON_MS);
}

int __real_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret);
int __wrap_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret);

/* the test's client, whose run ends during the next read; or NULL */
static struct gated *ends;
static int read_code; /* what that read returns */

int __wrap_coxi_pull_rows(const struct coxi_pull_from *from,
                          const struct coxi_variable *v, uint64_t begin, uint64_t count,
                          void *ret)
{
    struct gated *s = ends;
    ends = NULL;
    if (s == NULL) {
        return __real_coxi_pull_rows(from, v, begin, count, ret);
    }
    end_run(s);
    return read_code == 0 ? 0 : coxi_error(read_code, "ps 0 is lost");
}

static void check_read(int code)
{
    struct gated s;
    int64_t value;
    gated_open(&s, 2, 1, NULL, NULL);
    gated_pass(&s);
    read_code = code;
    ends = &s;
    assert_code(COX_EREPLAY, cox_variable_read(s.crew.c, s.c0, &value, sizeof(value)));
    assert_error_names("because ps 0 was lost");
    (void)cox_close(s.crew.c, GATED_SOON_MS);
}

TEST(a_read_that_lost_its_ps_says_why_the_run_has_ended)
{
    check_read(COX_EPSLOST);
}

/* The values may come from a ps that was not completely restored. */
TEST(a_read_in_which_a_replay_failed_says_so)
{
    check_read(0);
}
