/*
 * Closures whose worker dies after all their updates are applied and before it has sent
 * their results: a future that is done has its results. Calls of
 * coxi_future_keep, which stores a result, go through this file (ld --wrap), and can
 * fail for lack of memory.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/coordinator/actor.h"
#include "tests/test.h"

static atomic_bool no_memory;

int __real_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len);
int __wrap_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len);

int __wrap_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len)
{
    return atomic_exchange(&no_memory, false) ? COX_ENOMEM
                                              : __real_coxi_future_keep(f, result, len);
}

/* Schedules a step that counts and returns something. */
static struct cox_future *schedule(struct yard *yard)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(yard->crew.c, crew_function(&yard->crew, "straggle"),
                                NULL, &future));
    return future;
}

/* Schedules a closure; its first attempt is applied, and its worker is lost. */
static struct cox_future *lose_applied(struct yard *yard)
{
    struct actor actor;
    struct cox_future *future = schedule(yard);
    actor_enter(&actor, yard, 1);
    const struct coxi_closure_head head = actor_take(&actor);
    actor_commit(&actor, &head, 1);
    actor_leave(&actor);
    yard_wait_lost(yard, 1);
    return future;
}

static void assert_attempt(int32_t attempt, struct cox_future *future)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, 8000));
    assert_code(0, cox_future_result(future, "attempt", &value));
    assert_int_equal(attempt, *(const int32_t *)value.data);
}

TEST(closure_that_is_cancelled_when_all_is_applied_runs_again_for_what_it_returned)
{
    struct yard yard;
    struct program worker;
    yard_open(&yard, NULL);
    struct cox_future *future = lose_applied(&yard);
    assert_code(0, cox_future_cancel(future));
    yard_worker(&yard, &worker, "anna");
    assert_attempt(2, future);
    assert_int_equal(1, crew_read(&yard.crew, yard.counter));
    assert_code(0, cox_join(yard.crew.c, 8000));
    cox_future_free(future);
    yard_close(&yard);
    yard_kill(&worker);
}

TEST(closure_that_cannot_run_again_for_what_it_returned_says_that_all_is_applied)
{
    struct yard yard;
    struct actor actor;
    yard_open(&yard, NULL);
    struct cox_future *future = lose_applied(&yard);
    assert_code(0, cox_future_cancel(future));
    actor_enter(&actor, &yard, 2);
    const struct coxi_closure_head head = actor_take(&actor);
    assert_int_equal(2, head.attempt);
    fake_worker_answer(actor.client, &head, COX_ESTEP);
    assert_code(COX_EREPLAY, cox_future_wait(future, 8000));
    assert_error_names("all its updates are applied");
    assert_code(COX_EREPLAY, cox_join(yard.crew.c, 8000));
    assert_int_equal(1, crew_read(&yard.crew, yard.counter));
    cox_future_free(future);
    actor_leave(&actor);
    yard_close(&yard);
}

/* Ends a closure that is applied, but whose results are lost; asserts that the closure
 * fails with COX_EREPLAY. */
static void fail_for_results(struct yard *yard)
{
    struct actor actor;
    struct cox_future *future = lose_applied(yard);
    assert_code(0, cox_future_cancel(future));
    actor_enter(&actor, yard, 2);
    const struct coxi_closure_head head = actor_take(&actor);
    fake_worker_answer(actor.client, &head, COX_ESTEP);
    assert_code(COX_EREPLAY, cox_future_wait(future, 8000));
    assert_code(COX_EREPLAY, cox_join(yard->crew.c, 8000));
    cox_future_free(future);
    actor_leave(&actor);
}

TEST(closure_that_is_applied_and_has_no_results_is_done_again_on_a_ps_that_comes_back)
{
    struct yard yard;
    struct program worker;
    char address[256];
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    yard_open(&yard, &options);
    fail_for_results(&yard);
    yard_worker(&yard, &worker, "anna");
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    program_kill(&yard.ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&yard.ps));
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    assert_int_equal(1, crew_read(&yard.crew, yard.counter));
    yard_close(&yard);
    yard_kill(&worker);
}

/* There is no worker, so nothing can run again. */
TEST(closure_of_which_nobody_holds_the_future_is_done_when_all_is_applied)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct cox_future *future = lose_applied(&yard);
    assert_code(0, cox_future_cancel(future));
    cox_future_free(future);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(1, yard_stats(&yard).done);
    yard_close(&yard);
}

/* The ps is lost while the client asks it what it has applied of the closure. By then
 * the worker has reported the closure's second attempt as done. */
TEST(what_a_closure_keeps_that_runs_again_is_of_its_last_attempt)
{
    struct yard yard;
    struct actor actor;
    struct program worker;
    struct cox_future *future;
    char address[256];
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_call call = COX_CALL_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    yard_open(&yard, &options);
    call.keep = 1;
    assert_code(0, cox_schedule(yard.crew.c, crew_function(&yard.crew, "straggle"),
                                &call, &future));
    actor_enter(&actor, &yard, 1);
    (void)actor_take(&actor);
    actor_leave(&actor);
    yard_wait_lost(&yard, 1);
    actor_enter(&actor, &yard, 2);
    struct coxi_closure_head head = actor_take(&actor);
    struct cox_future *next = schedule(&yard);
    const struct coxi_closure_head other = actor_take(&actor);
    program_pause(&yard.ps);
    actor_keep(&actor, &head);
    fake_worker_answer(actor.client, &other, 0);
    /* the ps are being asked about the first closure now */
    assert_code(0, cox_future_wait(next, 8000));
    program_kill(&yard.ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&yard.ps));
    (void)snprintf(address, sizeof(address), "%s", yard.ps_address);
    daemon_start(&yard.ps, "coxswain-ps", 0, address, yard.ps_address);
    actor_follow(&actor, &yard);
    head = actor_take(&actor);
    assert_int_equal(3, head.attempt);
    actor_commit(&actor, &head, 1);
    actor_keep(&actor, &head);
    assert_code(0, cox_future_wait(future, 8000));
    actor_leave(&actor);
    yard_wait_lost(&yard, 2);
    yard_worker(&yard, &worker, "anna");
    assert_code(0, cox_future_fetch(future, 8000));
    assert_int_equal(1, crew_read(&yard.crew, yard.counter));
    cox_future_free(next);
    cox_future_free(future);
    yard_close(&yard);
    yard_kill(&worker);
}

TEST(closing_does_not_wait_for_what_a_closure_returned)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct cox_future *future = lose_applied(&yard);
    yard_close(&yard);
    assert_code(COX_EREPLAY, cox_future_wait(future, 0));
    assert_error_names("all its updates are applied");
    cox_future_free(future);
}

static void *join(void *arg)
{
    static int code;
    code = cox_join(((struct yard *)arg)->crew.c, 8000);
    return &code;
}

/* The error of one closure cancels all others except the applied one, because only its
 * result is missing. */
TEST(error_of_another_closure_does_not_take_what_an_applied_one_returned)
{
    struct yard yard;
    struct actor actor;
    struct coxi_closure_head head;
    pthread_t thread;
    void *code;
    yard_open(&yard, NULL);
    struct cox_future *applied = lose_applied(&yard);
    actor_enter(&actor, &yard, 2);
    head = actor_take(&actor);
    struct cox_future *failing = schedule(&yard);
    const struct coxi_closure_head other = actor_take(&actor);
    fake_worker_answer(actor.client, &other, COX_ESTEP);
    assert_code(COX_ESTEP, cox_future_wait(failing, 8000));
    assert_int_equal(0, pthread_create(&thread, NULL, join, &yard));
    (void)caller_expect(actor.client, COXI_RECALL);
    fake_worker_answer(actor.client, &head, COX_ECANCELLED);
    head = actor_take(&actor);
    assert_int_equal(3, head.attempt);
    actor_finish(&actor, &head);
    assert_int_equal(0, pthread_join(thread, &code));
    assert_code(COX_ESTEP, *(int *)code);
    assert_code(0, cox_future_wait(applied, 0));
    cox_future_free(applied);
    cox_future_free(failing);
    actor_leave(&actor);
    yard_close(&yard);
}

TEST(closure_whose_result_finds_no_memory_is_done_again_for_a_ps_that_is_lost)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_future *future;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&crew, 1, 1, "hold", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    atomic_store(&no_memory, true);
    assert_code(
        0, cox_schedule(crew.c, crew_function(&crew, "number_off"), NULL, &future));
    assert_code(COX_ENOMEM, cox_future_wait(future, 8000));
    assert_error_names("all its updates are applied");
    cox_future_free(future);
    assert_code(COX_ENOMEM, cox_join(crew.c, 8000));
    assert_int_equal(1, crew_read(&crew, c0));
    crew_kill(crew_ps_process(&crew, 0));
    assert_int_equal(1, crew_read(&crew, c0));
    crew_close(&crew);
}
