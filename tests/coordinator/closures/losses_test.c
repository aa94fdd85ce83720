/* Which lost workers count against a closure: those that died while its step ran. */
#include <signal.h>
#include <stdlib.h>

#include "coordinator/closures/closure.h"
#include "coordinator/closures/losses.h"
#include "coordinator/coordinator.h"
#include "tests/coordinator/actor.h"
#include "tests/test.h"

enum { ENOUGH = 16 }; /* a closure fails after this many losses */

static struct cox_future *schedule(struct yard *yard)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(yard->crew.c, crew_function(&yard->crew, "straggle"),
                                NULL, &future));
    return future;
}

/*
 * Lets the worker's process die `n` times, each time while it has the closure. After
 * each death but the last, the next process reports that the step was running (`ran`),
 * or that no step was.
 */
static void lose_and_tell(struct yard *yard, int n, bool ran)
{
    struct actor actor;
    struct coxi_crashed_head head = {.cause = SIGKILL};
    struct coxi_message message = {.kind = COXI_CRASHED};
    message.crashed.closures = &head;
    for (int i = 0; i < n; i++) {
        actor_enter(&actor, yard, (uint64_t)(1 + i));
        if (i > 0) {
            message.crashed.n_closures = ran;
            caller_send(actor.client, &message, NULL, 0);
        }
        const struct coxi_closure_head taken = actor_take(&actor);
        head.closure = taken.closure;
        head.attempt = taken.attempt;
        actor_leave(&actor);
        yard_wait_lost(yard, (uint64_t)(1 + i));
    }
}

static void assert_finishes(struct yard *yard, struct cox_future *future,
                            uint64_t incarnation, bool tells)
{
    struct actor actor;
    const struct coxi_message nothing_ran = {.kind = COXI_CRASHED};
    actor_enter(&actor, yard, incarnation);
    if (tells) {
        caller_send(actor.client, &nothing_ran, NULL, 0);
    }
    const struct coxi_closure_head head = actor_take(&actor);
    actor_finish(&actor, &head);
    assert_code(0, cox_future_wait(future, 8000));
    assert_int_equal(1, crew_read(&yard->crew, yard->counter));
    cox_future_free(future);
    actor_leave(&actor);
}

TEST(closure_whose_step_had_returned_outlives_any_number_of_workers)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct cox_future *future = schedule(&yard);
    lose_and_tell(&yard, 2 * ENOUGH, false);
    assert_finishes(&yard, future, 3 * ENOUGH, true);
    yard_close(&yard);
}

TEST(closure_whose_step_ran_in_every_lost_worker_fails)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct cox_future *future = schedule(&yard);
    lose_and_tell(&yard, ENOUGH, true);
    assert_code(COX_ELOST, cox_future_wait(future, 8000));
    cox_future_free(future);
    yard_close(&yard);
}

/* Only the worker's connection breaks, and the worker dials again. */
TEST(worker_whose_process_has_not_died_is_no_loss_to_a_closure)
{
    struct yard yard;
    struct actor actor;
    yard_open(&yard, NULL);
    struct cox_future *future = schedule(&yard);
    for (int i = 0; i < 2 * ENOUGH; i++) {
        actor_enter(&actor, &yard, 1);
        (void)actor_take(&actor);
        actor_leave(&actor);
        yard_wait_lost(&yard, (uint64_t)(1 + i));
    }
    assert_finishes(&yard, future, 1, false);
    yard_close(&yard);
}

/*
 * The i-th host takes the closure and is lost. Before that, the first host commits the
 * closure's last segment on the ps. The segment claims to have touched a second ps as
 * well, which does not exist, so the closure is never wholly applied.
 */
static void lose_host(struct yard *yard, int i)
{
    struct actor actor;
    actor_enter(&actor, yard, (uint64_t)(1 + i));
    struct coxi_closure_head head = actor_take(&actor);
    assert_int_equal(1 + i, head.attempt);
    if (i == 0) {
        actor_commit(&actor, &head, 2);
    }
    actor_leave(&actor);
    yard_wait_lost(yard, (uint64_t)(1 + i));
}

/* Whole hosts are lost, so nobody reports which steps ran; but a ps has the closure's
 * last segment. */
TEST(closure_that_a_ps_has_the_end_of_outlives_any_number_of_hosts)
{
    struct yard yard;
    yard_open(&yard, NULL);
    struct cox_future *future = schedule(&yard);
    for (int i = 0; i < 2 * ENOUGH; i++) {
        lose_host(&yard, i);
    }
    assert_code(COX_ETIMEDOUT, cox_future_wait(future, 0));
    assert_code(0, cox_future_cancel(future));
    assert_code(COX_EPARTIAL, cox_future_wait(future, 8000));
    cox_future_free(future);
    yard_close(&yard);
}

/* After the last loss that a closure may have, the client asks the ps what it has
 * applied of the closure; but the ps is stopped. */
TEST(closure_that_is_cancelled_while_the_ps_are_asked_about_it_does_not_run_again)
{
    struct yard yard;
    struct actor actor;
    yard_open(&yard, NULL);
    struct cox_future *future = schedule(&yard);
    for (int i = 0; i < ENOUGH - 1; i++) {
        lose_host(&yard, i);
    }
    actor_enter(&actor, &yard, ENOUGH);
    (void)actor_take(&actor);
    program_pause(&yard.ps);
    actor_leave(&actor);
    yard_wait_lost(&yard, ENOUGH);
    assert_code(0, cox_future_cancel(future));
    program_kill(&yard.ps, SIGCONT);
    assert_code(COX_EPARTIAL, cox_future_wait(future, 8000));
    cox_future_free(future);
    yard_close(&yard);
}

TEST(workers_have_as_long_as_a_ps_to_come_back_and_for_ever_if_told)
{
    struct cox_coordinator *c = calloc(1, sizeof(*c));
    struct coxi_closures *closures = calloc(1, sizeof(*closures));
    assert_non_null(c);
    assert_non_null(closures);
    c->closures = closures;
    c->options.ps_recovery_ms = 2000;
    c->options.worker_wait_ms = 1000;
    assert_int_equal(1000, coxi_losses_wait_ms(c));
    closures->ps_away = true;
    assert_int_equal(2000, coxi_losses_wait_ms(c));
    c->options.worker_wait_ms = 3000;
    assert_int_equal(3000, coxi_losses_wait_ms(c));
    c->options.worker_wait_ms = -1;
    assert_int_equal(-1, coxi_losses_wait_ms(c));
    free(closures);
    free(c);
}
