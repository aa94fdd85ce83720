/* See round.h: what the rest of this room needs of rounds. Knows no other file of it. */
#include "coordinator/closures/round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
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

bool coxi_rounds_are_due(const struct cox_coordinator *c)
{
    return c->closures->rounds.due != NULL;
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
