/* See round.h: which members are staged; deciding, and failing. */
#include "coordinator/closures/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/stragglers.h"
#include "coordinator/workers/module.h"

/* The ps that member i has touched: a bit for each. */
static uint64_t *touched_by(const struct coxi_round *round, uint32_t i)
{
    return round->touched + (size_t)i * round->n_words;
}

/* ---- the members */

void coxi_round_stage(struct coxi_closure *closure, const struct coxi_staged *staged)
{
    struct coxi_round *round = closure->round;
    struct coxi_member *member = coxi_round_member(closure);
    uint64_t *words = touched_by(round, (uint32_t)(member - round->members));
    coxi_closure_set(closure, COXI_STAGED);
    closure->seat = NULL;
    member->state = COXI_MEMBER_STAGED;
    member->attempt = staged->attempt;
    member->weight = staged->weight;
    memset(words, 0, round->n_words * sizeof(*words));
    for (size_t i = 0; i < staged->n_touched; i++) {
        if (staged->touched[i] < round->rounds->c->ps.n) {
            words[staged->touched[i] / 64] |= UINT64_C(1) << (staged->touched[i] % 64);
        }
    }
    round->n_staged++;
    if (staged->ended && coxi_round_is_owned(round)) {
        round->ended = true;
        round->end->effect.applied = true;
    }
    coxi_round_be_due(round);
}

/* True if a ps that the member has touched has come back without its commits. */
static bool is_lost(const struct coxi_round *round, uint32_t i)
{
    const struct coxi_ps_set *ps = &round->rounds->c->ps;
    uint64_t epoch = round->members[i].closure->attempts.epoch;
    const uint64_t *words = touched_by(round, i);
    for (uint32_t p = 0; p < ps->n; p++) {
        if ((words[p / 64] >> (p % 64) & 1) != 0 && ps->states[p].epoch > epoch) {
            return true;
        }
    }
    return false;
}

/* Whether a ps has ended the round is unknown again. */
static void forget_ended(struct coxi_round *round)
{
    round->ended = round->end->effect.applied = false;
    for (uint32_t i = 0; i < round->n; i++) {
        if (round->members[i].closure != NULL) {
            round->members[i].closure->effect.applied = false;
        }
    }
}

/* Runs staged members again whose commits a ps has lost. The end of a round that is on
 * its way is done again by recovery, with the members that count. If a ps has ended it
 * itself, that ps may be the lost one. A member whose ending waits (VOIDING) ends, or the
 * restored ps has the round. */
static void stage_again(struct coxi_round *round)
{
    if (!round->sent && round->ended) {
        forget_ended(round);
    }
    for (uint32_t i = 0; !round->sent && i < round->n; i++) {
        struct coxi_member *member = &round->members[i];
        if (member->state == COXI_MEMBER_STAGED && member->closure != NULL &&
            member->closure->state == COXI_STAGED && is_lost(round, i)) {
            member->state = COXI_MEMBER_OPEN;
            round->n_staged--;
            coxi_closure_stage_again(member->closure);
        }
    }
}

/* Ends a member that is not settled, wherever it is. If a worker runs it, that goes on,
 * and the result is ignored. */
static void drop(struct coxi_round *round, uint32_t i, const struct coxi_ending *ending)
{
    struct coxi_closure *closure = round->members[i].closure;
    struct cox_coordinator *c = round->rounds->c;
    if (closure == NULL) {
        return;
    }
    round->n_staged -= round->members[i].state == COXI_MEMBER_STAGED;
    round->n_out++;
    round->members[i].state = COXI_MEMBER_OUT;
    if (closure->state == COXI_WAITING) {
        coxi_list_remove(&c->closures->waiting, closure);
    } else if (closure->state == COXI_QUEUED) {
        coxi_closure_dequeue(closure);
    } else if (closure->state == COXI_ASSIGNED) {
        coxi_straggler_drop(closure);
        coxi_send_recall(closure->seat, closure->future.id, closure->attempts.current,
                         false);
        coxi_seat_leave(closure->seat, closure);
    }
    coxi_closure_settle(closure, ending);
}

static void end_with(struct coxi_round *round, enum coxi_closure_state state, int code,
                     const char *text)
{
    struct coxi_closure *end = round->end;
    if (end->state == COXI_WAITING) {
        coxi_list_remove(&end->future.c->closures->waiting, end);
    }
    coxi_closure_settle(end, &(struct coxi_ending){state, code, text, NULL, 0});
}

/* The round is not applied, and never will be. Its members that are not settled are
 * cancelled; if the round was complete, or the run is over, they fail. */
static void fail(struct coxi_round *round, int code, const char *why)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "its round has ended: %.400s", why);
    bool fails = round->sent || code == COX_EPSLOST || code == COX_EFENCED;
    const struct coxi_ending ending = {fails ? COXI_FAILED : COXI_CANCELLED,
                                       fails ? code : COX_ECANCELLED, text, NULL, 0};
    for (uint32_t i = 0; i < round->n; i++) {
        drop(round, i, &ending);
    }
    if (!coxi_closure_is_over(round->end)) {
        (void)snprintf(text, sizeof(text), "%.400s", why);
        end_with(round, code == COX_ECANCELLED ? COXI_CANCELLED : COXI_FAILED, code,
                 text);
    }
    coxi_round_unlist(round);
}

/* ---- deciding */

/* Settles the members without which the round is complete. */
static void drop_late(struct coxi_round *round)
{
    static const struct coxi_ending cancelled = {COXI_CANCELLED, COX_ECANCELLED,
                                                 "cancelled", NULL, 0};
    for (uint32_t i = 0; i < round->n; i++) {
        const struct coxi_closure *closure = round->members[i].closure;
        if (round->parts[i].attempt != 0 || closure == NULL) {
            continue;
        }
        if (closure->attempts.cancelled) {
            drop(round, i, &cancelled);
        } else {
            drop(round, i,
                 &(struct coxi_ending){COXI_CANCELLED, COX_ELATE,
                                       "its round was complete without it", NULL, 0});
        }
    }
}

static double sum_of_weights(const struct coxi_round *round)
{
    double sum = 0;
    for (uint32_t i = 0; i < round->n; i++) {
        sum += round->members[i].state == COXI_MEMBER_STAGED ? round->members[i].weight
                                                             : 0;
    }
    return sum;
}

/* From now on it is settled which members count, and by which factor. */
static void decide(struct coxi_round *round)
{
    bool is_mean = round->rounds->spec.reduce == COX_REDUCE_MEAN;
    double sum = is_mean ? sum_of_weights(round) : 1;
    round->decided = true;
    for (uint32_t i = 0; i < round->n; i++) {
        const struct coxi_member *member = &round->members[i];
        if (member->state == COXI_MEMBER_STAGED) {
            round->parts[i] = (struct coxi_round_part){
                member->attempt, coxi_round_factor(member->weight, sum)};
        }
    }
}

/* True if the members that count are staged. */
static bool is_staged(const struct coxi_round *round)
{
    for (uint32_t i = 0; i < round->n; i++) {
        if (round->parts[i].attempt != 0 &&
            round->members[i].state != COXI_MEMBER_STAGED) {
            return false;
        }
    }
    return true;
}

/* Lists the ps that member i has touched; returns how many. */
static size_t list_touched(const struct coxi_round *round, uint32_t i, uint32_t *ret)
{
    size_t n = 0;
    const uint64_t *words = touched_by(round, i);
    for (uint32_t w = 0; w < round->n_words; w++) {
        for (uint64_t left = words[w]; left != 0; left &= left - 1) {
            ret[n++] = w * 64 + (uint32_t)__builtin_ctzll(left);
        }
    }
    return n;
}

/* Logs a member, or the end. An older client's members that were settled are NULL. */
static int log_one(const struct coxi_round *round, struct coxi_closure *closure,
                   const uint32_t *touched, size_t n)
{
    struct cox_coordinator *c = round->rounds->c;
    return c->replay_log != NULL && closure != NULL
               ? coxi_closure_log(c->replay_log, closure, touched, n)
               : 0;
}

/* Logs the members that count, and counts them for each ps that they have touched.
 * `touched`: room for all ps. */
static int log_members(struct coxi_round *round, uint32_t *touched)
{
    int r = 0;
    for (uint32_t i = 0; i < round->n; i++) {
        if (round->parts[i].attempt == 0) {
            continue;
        }
        size_t n = list_touched(round, i, touched);
        for (size_t k = 0; k < n; k++) {
            round->n_waiting[touched[k]]++;
        }
        r = r == 0 ? log_one(round, round->members[i].closure, touched, n) : r;
    }
    return r;
}

/*
 * Logs the end, and the members that count: a ps that is lost from now on gets them
 * again. The end goes to every ps, because pulls of other rounds' members may wait for
 * it there.
 */
static int log_all(struct coxi_round *round)
{
    uint32_t n_ps = round->rounds->c->ps.n;
    uint32_t *touched = calloc(n_ps, sizeof(*touched));
    if (touched == NULL) {
        return coxi_error_memory("the end of a round");
    }
    for (uint32_t p = 0; p < n_ps; p++) {
        touched[p] = p;
    }
    for (uint32_t i = 0; i < round->n; i++) {
        bool counts = round->parts[i].attempt != 0;
        if (counts && round->members[i].closure != NULL) {
            round->parts[i].attempt = round->members[i].attempt;
        }
    }
    int r = log_one(round, round->end, touched, n_ps);
    r = r == 0 ? log_members(round, touched) : r;
    free(touched);
    return r;
}

/* A ps has ended the round, so it needs no end. All closures have touched that ps only,
 * or an attempt that has run again was another one than what counts. */
static void note_ended(struct coxi_round *round)
{
    const uint64_t *words = touched_by(round, 0);
    uint32_t n_ps = 0;
    bool alike = true;
    for (uint32_t w = 0; w < round->n_words; w++) {
        round->acked[w] |= words[w];
        n_ps += (uint32_t)__builtin_popcountll(words[w]);
    }
    for (uint32_t i = 1; i < round->n; i++) {
        alike = alike && memcmp(words, touched_by(round, i),
                                round->n_words * sizeof(*words)) == 0;
    }
    if (n_ps != 1 || !alike) {
        coxi_fatal(round->rounds->c, COX_EDIVERGED,
                   "a closure of a round that is applied has run again, and touched "
                   "another ps; start again from a checkpoint");
    }
}

/* Sends the end for the first time. */
static void send_first(struct coxi_round *round)
{
    struct coxi_closure *end = round->end;
    struct cox_coordinator *c = end->future.c;
    coxi_list_remove(&c->closures->waiting, end);
    coxi_closure_set(end, COXI_VOIDING);
    c->closures->n_voiding++;
    if (round->ended) {
        note_ended(round);
    }
    round->sent = true;
    atomic_fetch_add(&c->closures->rounds.n_sent, round->rounds->spec.deterministic);
    int r = log_all(round);
    if (r != 0) {
        coxi_fatal(c, r, coxi_error_text());
    }
    coxi_round_let_follow(round);
}

/* All ps have the end. */
static void be_done(struct coxi_round *round)
{
    struct cox_coordinator *c = round->rounds->c;
    coxi_replay_log_set(c->replay_log, round->end->future.id, COXI_REPLAY_DONE);
    for (uint32_t i = 0; i < round->n; i++) {
        if (round->members[i].closure != NULL) {
            coxi_closure_settle(round->members[i].closure,
                                &(struct coxi_ending){.state = COXI_DONE_OK});
        }
    }
    end_with(round, COXI_DONE_OK, 0, NULL);
    coxi_round_unlist(round);
}

/* A member that counts has failed after the round was decided by an older client: some
 * ps may have the round, and others cannot get it any more. */
static void be_broken(struct coxi_round *round)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "the client before this one had completed a round, which cannot be "
                   "done again: %.380s",
                   coxi_future_text(&round->end->future));
    coxi_fatal(round->rounds->c, COX_EREPLAY, text);
    fail(round, COX_EREPLAY, text);
}

/* True if a member that counts does not any more. */
static bool lacks_one(const struct coxi_round *round)
{
    for (uint32_t i = 0; i < round->n; i++) {
        if (round->parts[i].attempt != 0 &&
            round->members[i].state == COXI_MEMBER_OUT) {
            return true;
        }
    }
    return false;
}

/* True if no ps will get anything from this client any more, or none will come back. */
static bool is_run_over(const struct cox_coordinator *c)
{
    return c->phase.fatal_handled || c->phase.shutting_down || c->ps.over;
}

/* The end is on its way, or was; no request is under way. */
static bool look_at_sent(struct coxi_round *round)
{
    struct cox_coordinator *c = round->rounds->c;
    const struct cox_future *end = &round->end->future;
    if (coxi_round_is_acked(round)) {
        be_done(round);
    } else if (round->refused) {
        coxi_replay_log_retract(c->replay_log, end->id);
        fail(round, end->code, coxi_future_text(end));
    } else if (is_run_over(c)) {
        int r = coxi_check_alive(c); /* why the run has ended before all ps had it */
        fail(round, r, coxi_error_text());
    } else if (coxi_ps_recovering(c)) {
        return false;
    } else if (coxi_round_send(round) != 0) {
        coxi_fatal(c, COX_ENOMEM, coxi_error_text());
        return false; /* looks again when the loop knows that the run is over */
    }
    return true;
}

/* Decides, if enough members are staged, and sends the end. */
static bool look_at_members(struct coxi_round *round)
{
    if (coxi_ps_recovering(round->rounds->c) || coxi_round_is_paused(round)) {
        return false;
    }
    if (!round->decided) {
        decide(round);
    }
    drop_late(round); /* an older client may have left some of them */
    if (is_staged(round)) {
        send_first(round);
        return look_at_sent(round);
    }
    return true;
}

static bool seal(struct coxi_round *round)
{
    if (coxi_ps_recovering(round->rounds->c)) {
        return false;
    }
    coxi_round_seal(round);
    return true;
}

/* Does what can be done for the round now; false: it must be looked at again when all
 * ps are up, and rounds are not paused. */
static bool look(struct coxi_round *round)
{
    const struct coxi_closure *end = round->end;
    if (coxi_round_is_sending(round) || round->sealing) {
        return true; /* the answers make the round due */
    }
    if (round->postponed != NULL && (round->ended || is_run_over(round->rounds->c))) {
        coxi_round_go_on(round);
    }
    if (round->postponed != NULL) {
        return seal(round);
    }
    bool has_too_few = !round->decided && round->n - round->n_out < round->needed;
    if (coxi_closure_is_over(end) || has_too_few) {
        fail(round, end->future.code, coxi_future_text(&end->future));
    } else if (round->sent) {
        return look_at_sent(round);
    } else if (round->decided && lacks_one(round)) {
        be_broken(round);
    } else if (round->decided ||
               (round->n_staged >= round->needed && !coxi_round_must_see(round))) {
        return coxi_round_must_be_sealed(round) ? seal(round) : look_at_members(round);
    }
    return true;
}

/* Some ps has come back. */
static void look_for_lost(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    struct cox_rounds *rounds = c->closures->rounds.sequences;
    coxi_unlock(&c->lock);
    c->closures->rounds.epoch = c->ps.epoch;
    for (; rounds != NULL; rounds = rounds->next) {
        for (struct coxi_round *round = rounds->first; round != NULL;
             round = round->next) {
            stage_again(round);
        }
    }
}

static void look_at_due(struct coxi_rounds_state *state)
{
    while (state->due != NULL) {
        struct coxi_round *round = state->due;
        state->due = round->next_due;
        bool blocked = !round->over && !look(round);
        round->is_due = false;
        if (blocked) {
            round->is_blocked = true;
            round->next_due = state->blocked;
            state->blocked = round;
        }
    }
}

void coxi_rounds_turn(struct cox_coordinator *c)
{
    struct coxi_rounds_state *state = &c->closures->rounds;
    if (state->epoch != c->ps.epoch) {
        look_for_lost(c);
    }
    look_at_due(state);
    if (state->blocked != NULL && (is_run_over(c) || !coxi_ps_recovering(c))) {
        while (state->blocked != NULL) {
            coxi_round_be_due(state->blocked);
        }
        look_at_due(state);
    }
}
