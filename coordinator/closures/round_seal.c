/*
 * See round.h: rounds that a ps ends itself (ps/rounds.h). The ps needs no message of the
 * client for that: the answer to the last commit says that the round has ended, and so
 * the client learns it with that closure's report.
 *
 * If the report is lost, the client does not know whether the round has ended. So before
 * it decides the round with a later attempt of a closure, or lets a closure of it fail,
 * or cancels it, it seals the round: it voids the end (docs/exactly-once.md, rules 8 and
 * 36). Either the ps says that it has the end; then the round counts as it is, and a
 * closure whose results are lost runs again for them. Or no ps will end the round any
 * more, and the client goes on as it wanted to.
 *
 * Meanwhile closures of the round do not end: they are VOIDING, and their endings are
 * kept.
 *
 * Loop.
 */
#include <stdlib.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/settle.h"

bool coxi_round_must_be_sealed(const struct coxi_round *round)
{
    if (!coxi_round_is_owned(round) || round->ended) {
        return false;
    }
    bool repeated = round->postponed != NULL;
    for (uint32_t i = 0; i < round->n; i++) {
        repeated = repeated || round->members[i].attempt > 1;
    }
    return repeated;
}

/* ---- endings that wait */

/* The end waits again. */
static void wait_again(struct coxi_closure *end)
{
    struct coxi_closures *closures = end->future.c->closures;
    closures->n_voiding -= end->state == COXI_VOIDING;
    coxi_closure_set(end, COXI_WAITING);
    coxi_list_append(&closures->waiting, end);
}

/* The round is applied: a closure of it does not end as it would have. */
static void be_applied(struct coxi_closure *closure, bool was_staged)
{
    struct cox_coordinator *c = closure->future.c;
    if (closure->round->end == closure) {
        wait_again(closure);
    } else if (was_staged) {
        c->closures->n_voiding -= closure->state == COXI_VOIDING;
        coxi_closure_set(closure, COXI_STAGED);
    } else {
        coxi_closure_run_for_results(closure);
    }
}

/* Ends the closures whose endings waited; if the round is applied, they go on. */
static void end_postponed(struct coxi_round *round)
{
    while (round->postponed != NULL) {
        struct coxi_postponed *postponed = round->postponed;
        round->postponed = postponed->next;
        if (round->ended) {
            be_applied(postponed->closure, postponed->was_staged);
        } else {
            coxi_closure_settle(postponed->closure, &postponed->ending);
        }
        free(postponed);
    }
}

/* ---- sealing */

/* True if somebody has cancelled the end meanwhile. */
static bool is_end_postponed(const struct coxi_round *round)
{
    const struct coxi_postponed *postponed = round->postponed;
    while (postponed != NULL && postponed->closure != round->end) {
        postponed = postponed->next;
    }
    return postponed != NULL;
}

/* The end waits again, unless somebody has cancelled it; the round is due. */
static void sealing_ended(struct coxi_closure *end)
{
    struct coxi_round *round = end->round;
    bool cancelled = end->attempts.cancelled;
    round->sealing = false;
    end->attempts.cancelled = false;
    if (!is_end_postponed(round)) {
        wait_again(end);
        if (cancelled) {
            coxi_list_remove(&end->future.c->closures->waiting, end);
            coxi_closure_cancel(end, "cancelled");
        }
    }
    coxi_round_be_due(round);
}

/* A ps has ended the round, or none will any more. */
static void be_sealed(struct coxi_closure *end, bool applied)
{
    struct coxi_round *round = end->round;
    round->sealed = !applied;
    round->ended = applied;
    end->effect.applied = applied;
    end->attempts.cancelled = end->attempts.cancelled && !applied; /* it is too late */
    sealing_ended(end);
    end_postponed(round);
}

/* The ps have answered. */
static void told(struct coxi_closure *end, enum coxi_void_outcome outcome)
{
    if (outcome == COXI_VOID_UNKNOWN) {
        sealing_ended(end); /* asks again, when all ps are up */
    } else {
        be_sealed(end, outcome == COXI_VOID_APPLIED);
    }
}

void coxi_round_seal(struct coxi_round *round)
{
    struct coxi_closure *end = round->end;
    struct cox_coordinator *c = end->future.c;
    if (end->state == COXI_WAITING) {
        coxi_list_remove(&c->closures->waiting, end);
        coxi_round_be_voiding(end);
    }
    end->attempts.last = 1; /* what a ps ends is the first attempt */
    round->sealing = true;
    if (coxi_voiding_start(c, end, &(struct coxi_ending){.state = COXI_CANCELLED},
                           told) != 0) {
        coxi_fatal(c, COX_ENOMEM, coxi_error_text());
        sealing_ended(end);
    }
}

void coxi_round_go_on(struct coxi_round *round)
{
    round->sealed = round->sealed || !round->ended;
    end_postponed(round);
}
