/* See round.h: what the rest of this room needs of rounds. Knows no other file of it. */
#include "coordinator/closures/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/base/alive.h"
#include "coordinator/workers/module.h"

/* ---- life */

void coxi_round_join(struct coxi_round *round, struct coxi_closure *closure)
{
    coxi_future_ref(&round->end->future);
    closure->round = round;
}

struct coxi_closure *coxi_round_leave(struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    if (round->end != closure) {
        return coxi_future_release(&round->end->future) ? round->end : NULL;
    }
    free(round->parts);
    free(round->touched);
    free(round->n_waiting);
    free(round);
    return NULL;
}

void coxi_rounds_free_all(struct coxi_rounds_state *state)
{
    while (state->sequences != NULL) {
        struct cox_rounds *rounds = state->sequences;
        state->sequences = rounds->next;
        free(rounds);
    }
}

/* ---- news */

/* It need not wait for ps any more. */
static void unblock(struct coxi_rounds_state *state, struct coxi_round *round)
{
    struct coxi_round **link = &state->blocked;
    while (*link != round) {
        link = &(*link)->next_due;
    }
    *link = round->next_due;
    round->is_blocked = false;
}

void coxi_round_be_due(struct coxi_round *round)
{
    struct coxi_rounds_state *state = &round->end->future.c->closures->rounds;
    if (round->is_blocked) {
        unblock(state, round);
    }
    if (!round->is_due) {
        round->is_due = true;
        round->next_due = state->due;
        state->due = round;
    }
}

/* The first failure of a member explains that of its round. */
static void note_failure(struct coxi_round *round, const struct coxi_closure *closure)
{
    char text[COXI_TEXT_MAX];
    const char *why = closure->future.text;
    if (round->end->future.text != NULL) {
        return;
    }
    why = why != NULL ? why : coxi_strerror(closure->future.code);
    (void)snprintf(text, sizeof(text), "closure %llu (%s) of the round: %.380s",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   why);
    round->end->future.text = strdup(text);
    round->end->future.code = closure->future.code;
}

void coxi_round_settled(struct coxi_closure *closure)
{
    struct coxi_round *round = closure->round;
    if (closure == round->end) {
        coxi_round_be_due(round);
        return;
    }
    struct coxi_member *member = coxi_round_member(closure);
    member->closure = NULL;
    if (closure->state == COXI_DONE_OK || member->state == COXI_MEMBER_OUT) {
        return;
    }
    round->n_staged -= member->state == COXI_MEMBER_STAGED;
    round->n_out++;
    member->state = COXI_MEMBER_OUT;
    note_failure(round, closure);
    coxi_round_be_due(round);
}

/* ---- endings that wait until it is known whether a ps has ended the round */

/* Checkpoints lie between deterministic rounds (round_pause.c): if there is one ps, it need
 * not be told not to end one meanwhile, because it has the round as a whole or not. */
static bool is_cut_whole(const struct cox_rounds *rounds)
{
    return rounds->spec.deterministic == 0 || rounds->c->ps.n == 1;
}

bool coxi_round_is_owned(const struct coxi_round *round)
{
    const struct cox_rounds *rounds = round->rounds;
    return round->needed == round->n && is_cut_whole(rounds) && !rounds->inherited &&
           !round->sealed && !round->sent && !round->over;
}

void coxi_round_be_voiding(struct coxi_closure *closure)
{
    coxi_closure_set(closure, COXI_VOIDING);
    closure->seat = NULL;
    closure->future.c->closures->n_voiding++;
}

/* True if the results of the closure, whose round is applied, cannot be had. */
static bool is_hopeless(const struct coxi_closure *closure)
{
    bool is_member = closure->round->end != closure && closure->state != COXI_STAGED;
    return is_member && (closure->effect.applied || closure->future.c->phase.closing);
}

/* The round is applied, and a closure of it cannot give its results. It cannot be
 * replayed either. */
static void be_broken(struct coxi_closure *closure, const struct coxi_ending *ending)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "round %llu is applied, but closure %llu (%s) of it could not run "
                   "again for its results: %.300s",
                   (unsigned long long)closure->round->end->future.id.n,
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   ending->text != NULL ? ending->text : "");
    coxi_fatal(closure->future.c, COX_EREPLAY, text);
}

static int postpone(struct coxi_closure *closure, const struct coxi_ending *ending)
{
    struct coxi_round *round = closure->round;
    struct coxi_postponed *postponed = calloc(1, sizeof(*postponed));
    if (postponed == NULL) {
        return coxi_error_memory("the end of a closure");
    }
    *postponed = (struct coxi_postponed){.next = round->postponed,
                                         .closure = closure,
                                         .ending = *ending,
                                         .was_staged = closure->state == COXI_STAGED};
    postponed->ending.touched = NULL;
    postponed->ending.n_touched = 0;
    if (ending->text != NULL) {
        (void)snprintf(postponed->text, sizeof(postponed->text), "%s", ending->text);
        postponed->ending.text = postponed->text;
    }
    round->postponed = postponed;
    coxi_round_be_voiding(closure);
    return 0;
}

bool coxi_round_postpones(struct coxi_closure *closure,
                          const struct coxi_ending *ending)
{
    struct coxi_round *round = closure->round;
    const struct cox_coordinator *c = closure->future.c;
    if (round == NULL || closure->rerun != NULL || !coxi_round_is_owned(round) ||
        round->n_given < round->n || c->phase.fatal_handled || c->phase.shutting_down) {
        return false;
    }
    if (round->ended && is_hopeless(closure)) {
        be_broken(closure, ending);
        return false;
    }
    if (postpone(closure, ending) != 0) {
        coxi_fatal(closure->future.c, COX_ENOMEM, coxi_error_text());
        return false;
    }
    coxi_round_be_due(round);
    return true;
}
