/*
 * See round.h: rounds that begin before the one before them is complete.
 *
 * If steps take microseconds, a round takes little longer than the messages between its
 * workers, the ps and the client. So the closures of the next round are given to the
 * workers as soon as the last one of this round was. Their pulls name this round's end,
 * and wait for it on the ps (round_order.c), which answers them when it has the end: at
 * once, if it ends the round itself (round_seal.c). The client's other messages are on
 * the way meanwhile.
 *
 * A step that waits keeps its slot from other closures, and its connection to the ps from
 * other slots. So this happens only
 *
 *   - if rounds follow one another quickly;
 *   - if all closures of the round count, and none has run twice;
 *   - if they were given to workers with one slot: its commits are on their way before
 *     the pull that waits for them.
 *
 * A pull does not wait for long. A closure that comes back from one waits here, until the
 * round before has ended, and so do the others of its round that no step runs yet. Then the
 * next rounds begin one after the other for a while: the longer, the more often that
 * happens. The closures are called back, too, if one of the round before has to run again,
 * because it may be in line behind them.
 *
 * Loop. Cost: O(1) for each closure and round; O(closures) for a round that is called back.
 */
#include "common/clock.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"

enum {
    QUICK_US = 2000, /* most from the end of a round to that of the next */
    REST_MIN = 16,   /* rounds that begin one after the other ... */
    REST_MAX = 4096, /* ... after closures came back */
    CALM = 8, /* so many times as many rounds without that, and they become fewer */
};

bool coxi_round_is_nearly_over(const struct coxi_round *round)
{
    const struct coxi_pace_of_rounds *pace = &round->rounds->pace;
    return pace->is_quick && pace->rest == 0 && round->n_given == round->n &&
           !round->disturbed && round->needed == round->n && round->n_out == 0 &&
           !round->rounds->inherited && !round->sealing && round->postponed == NULL &&
           !coxi_round_is_paused(round) && !coxi_ps_recovering(round->rounds->c);
}

void coxi_round_given(struct coxi_closure *closure, const struct coxi_seat *seat)
{
    struct coxi_round *round = closure->round;
    struct cox_rounds *rounds = round->rounds;
    struct coxi_rounds_state *state = &rounds->c->closures->rounds;
    round->n_given++;
    round->disturbed = round->disturbed || seat->worker->slots > 1;
    if (round->n_given == round->n && !rounds->is_given) {
        rounds->is_given = true;
        rounds->next_given = state->given;
        state->given = rounds;
    }
}

bool coxi_rounds_begin_ahead(struct cox_coordinator *c)
{
    struct coxi_rounds_state *state = &c->closures->rounds;
    size_t n_queued = c->closures->n_queued;
    while (state->given != NULL) {
        struct cox_rounds *rounds = state->given;
        state->given = rounds->next_given;
        rounds->is_given = false;
        coxi_rounds_begin(rounds);
    }
    return c->closures->n_queued > n_queued;
}

/* Closures of a round that had begun ahead came back. */
static void rest(struct coxi_pace_of_rounds *pace)
{
    if (pace->rest > 0) {
        return; /* others of the same round */
    }
    pace->next_rest = pace->next_rest == 0          ? REST_MIN
                      : pace->next_rest >= REST_MAX ? REST_MAX
                                                    : 2 * pace->next_rest;
    pace->rest = pace->next_rest;
    pace->calm = 0;
}

/* A member, in no list, waits here until its round begins. */
static void hold(struct coxi_closure *closure)
{
    coxi_closure_set(closure, COXI_WAITING);
    closure->held_by_round = true;
    coxi_list_append(&closure->future.c->closures->waiting, closure);
}

/* `seat` NULL: the closure has just come back. */
static bool is_ready(const struct coxi_seat *seat)
{
    return seat != NULL && seat->worker->state == COXI_WORKER_READY;
}

/* The members of the round wait again, except for those that a step runs. Those that are
 * queued and have inputs come back from their worker. */
static void call_back(struct coxi_round *round)
{
    round->waits = true;
    for (uint32_t i = 0; i < round->n; i++) {
        struct coxi_closure *closure = round->members[i].closure;
        if (closure == NULL) {
            continue;
        }
        if (closure->state == COXI_QUEUED && closure->inputs == NULL) {
            coxi_closure_dequeue(closure);
            hold(closure);
        } else if (closure->state == COXI_ASSIGNED && is_ready(closure->seat)) {
            coxi_send_recall(closure->seat, closure->future.id,
                             closure->attempts.current, false);
        }
    }
}

/* Calls the members of a round back that has begun ahead of the first one, and should not
 * have: each would keep its worker waiting, maybe from a closure of the first one. */
static void call_back_ahead(const struct cox_rounds *rounds)
{
    struct coxi_round *round = rounds->first;
    while (round != NULL && !round->waits && !coxi_round_must_wait(round)) {
        round = round->next;
    }
    if (round != NULL && !round->waits) {
        call_back(round);
    }
}

bool coxi_round_takes_back(struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    round->disturbed = true;
    if (round->over) {
        return false;
    }
    const struct coxi_round *first = round->rounds->first;
    if (!first->sent) {
        if (coxi_round_must_see(round) && !first->disturbed) {
            rest(&round->rounds->pace);
        }
        call_back_ahead(round->rounds);
    }
    if (!coxi_round_must_wait(round)) {
        return false;
    }
    round->waits = true;
    hold(closure);
    return true;
}

void coxi_round_note_pace(const struct coxi_round *round)
{
    struct coxi_pace_of_rounds *pace = &round->rounds->pace;
    uint64_t now = coxi_now_us();
    pace->is_quick = now - pace->over_us <= QUICK_US;
    pace->over_us = now;
    pace->rest -= pace->rest > 0;
    if (++pace->calm == (uint64_t)CALM * pace->next_rest) {
        pace->next_rest /= 2;
        pace->calm = 0;
    }
}
