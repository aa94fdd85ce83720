/*
 * See round.h: the order of rounds. Which members may run, and which wait for earlier
 * rounds of their sequence.
 *
 * The members of a round run as soon as the end of the last round that they must see is
 * on its way to the ps. Their pulls name that end, and the ps answers when it has applied
 * it. So nobody waits for the answers to the end. They may even run before that, if the ps
 * will end the round soon (round_ahead.c).
 */
#include "common/sync.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/settle.h"

/* True if an earlier client has left rounds that are not over. */
static bool has_older(const struct cox_rounds *rounds)
{
    struct cox_coordinator *c = rounds->c;
    if (c->closures->rounds.n_inherited == 0) {
        return false;
    }
    coxi_lock(&c->lock);
    const struct cox_rounds *other = c->closures->rounds.sequences;
    coxi_unlock(&c->lock);
    while (other != NULL &&
           (other->first == NULL || other->id >> 32 >= rounds->id >> 32)) {
        other = other->next;
    }
    return other != NULL;
}

/* How many open rounds of its sequence its members must see. */
static uint64_t n_to_see(const struct coxi_round *round)
{
    const struct cox_rounds *rounds = round->rounds;
    uint64_t ahead = round->number - rounds->first->number;
    uint32_t staleness = rounds->spec.staleness;
    return staleness == COX_STALENESS_ANY || ahead <= staleness ? 0 : ahead - staleness;
}

bool coxi_round_must_see(const struct coxi_round *round)
{
    return n_to_see(round) > 0;
}

bool coxi_round_must_wait(const struct coxi_round *round)
{
    const struct cox_rounds *rounds = round->rounds;
    const struct coxi_round *first = rounds->first;
    uint64_t n = n_to_see(round);
    bool is_soon =
        n == 1 && !first->refused && (first->sent || coxi_round_is_nearly_over(first));
    return (n > 0 && !is_soon) ||
           (rounds->spec.staleness != COX_STALENESS_ANY && has_older(rounds));
}

struct coxi_round_head coxi_round_head(const struct coxi_closure *closure,
                                       uint32_t attempt)
{
    const struct coxi_round *round = closure->round;
    struct coxi_round_head head = {.round = coxi_round_of(closure).n};
    if (round == NULL || closure->rerun != NULL || round->over) {
        return head;
    }
    if (coxi_round_must_see(round)) {
        head.after = round->rounds->first->end->future.id.n;
    }
    if (round->rounds->spec.staleness == 0) {
        head.view = 1 + atomic_load(&closure->future.c->closures->view);
    }
    if (attempt == 1 && coxi_round_is_owned(round)) {
        head.n = round->n;
        head.mean = round->rounds->spec.reduce == COX_REDUCE_MEAN;
    }
    return head;
}

/* The loop learns of the round. */
static void list(struct coxi_round *round)
{
    struct cox_rounds *rounds = round->rounds;
    struct coxi_rounds_state *state = &rounds->c->closures->rounds;
    round->listed = true;
    if (rounds->spec.deterministic != 0 && !rounds->inherited) {
        state->listed_place = round->place + round->n + 1;
    }
    round->prev = rounds->last;
    if (rounds->last != NULL) {
        rounds->last->next = round;
    } else {
        rounds->first = round;
    }
    rounds->last = round;
    state->n_open++;
    state->n_inherited += rounds->inherited;
    round->waits = coxi_round_must_wait(round);
}

/* Takes a member out of the list of waiting closures, and lets it run. */
static void let_run(struct coxi_closure *closure)
{
    coxi_list_remove(&closure->future.c->closures->waiting, closure);
    if (closure->inputs != NULL && closure->attempts.last > 0) {
        coxi_inputs_go_again(closure);
    } else if (closure->inputs != NULL) {
        coxi_inputs_wait(closure);
    } else {
        coxi_closure_set(closure, COXI_QUEUED);
        coxi_closure_enqueue(closure, false);
    }
}

/* The members of the round wait no more. */
static void begin(struct coxi_round *round)
{
    round->waits = false;
    for (uint32_t i = 0; i < round->n; i++) {
        struct coxi_closure *closure = round->members[i].closure;
        if (closure != NULL && closure->held_by_round) {
            closure->held_by_round = false;
            let_run(closure);
        }
    }
}

void coxi_rounds_begin(struct cox_rounds *rounds)
{
    for (struct coxi_round *round = rounds->first; round != NULL; round = round->next) {
        if (round->waits && coxi_round_must_wait(round)) {
            return; /* so must all that follow */
        }
        if (round->waits) {
            begin(round);
        }
    }
}

void coxi_round_let_follow(struct coxi_round *round)
{
    coxi_rounds_begin(round->rounds);
}

/* Looks again at rounds that were not decided because they had to see others. */
static void look_at_complete(struct cox_rounds *rounds)
{
    for (struct coxi_round *round = rounds->first;
         round != NULL && !coxi_round_must_see(round); round = round->next) {
        if (!round->sent && round->n_staged >= round->needed) {
            coxi_round_be_due(round);
        }
    }
}

void coxi_round_unlist(struct coxi_round *round)
{
    struct cox_rounds *rounds = round->rounds;
    struct cox_coordinator *c = rounds->c;
    struct coxi_rounds_state *state = &c->closures->rounds;
    round->over = true;
    coxi_round_note_pace(round);
    if (round->sent) {
        atomic_fetch_sub(&state->n_sent, rounds->spec.deterministic);
    }
    *(round->prev != NULL ? &round->prev->next : &rounds->first) = round->next;
    *(round->next != NULL ? &round->next->prev : &rounds->last) = round->prev;
    state->n_open--;
    state->n_inherited -= rounds->inherited;
    atomic_fetch_add(&c->closures->view, 1);
    if (rounds->inherited && rounds->first == NULL) {
        coxi_lock(&c->lock);
        struct cox_rounds *first = state->sequences;
        coxi_unlock(&c->lock);
        for (; first != NULL; first = first->next) {
            coxi_rounds_begin(first);
        }
    } else {
        coxi_rounds_begin(rounds);
        look_at_complete(rounds);
    }
}

void coxi_round_take_in(struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    if (!round->listed) {
        list(round);
    }
    if (round->end != closure) {
        coxi_round_member(closure)->closure = closure;
    }
}

bool coxi_round_holds(struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    if (round->end != closure && !round->waits) {
        return false;
    }
    if (closure->state != COXI_WAITING) {
        coxi_closure_set(closure, COXI_WAITING);
    }
    closure->held_by_round = round->end != closure;
    coxi_list_append(&closure->future.c->closures->waiting, closure);
    return true;
}
