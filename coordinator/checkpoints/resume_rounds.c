/*
 * See resume_internal.h: rounds that an older client has left. Their closures run again
 * like all others of the backlog, and are staged. If the older client had decided the
 * round, some ps may have it already, so its decision holds. A closure of the round that
 * is not in the backlog was over: it failed, or the ps that it touched have the round.
 *
 * Runs on the loop, while the client opens.
 */
#include <string.h>

#include "common/error.h"
#include "coordinator/checkpoints/resume_internal.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/round.h"

/* Member i of the round, as the older client has left it. */
static void take_part(struct coxi_round *round, uint32_t i,
                      const struct coxi_backlog_part *part)
{
    struct cox_coordinator *c = round->rounds->c;
    struct coxi_member *member = &round->members[i];
    struct coxi_closure *closure =
        coxi_closures_get(c, coxi_closure_id(round->first + i));
    if (closure != NULL) {
        coxi_round_join(round, closure);
        member->closure = closure;
    }
    if (round->decided && part->counts != 0) {
        round->parts[i] = (struct coxi_round_part){COXI_ATTEMPT_LATEST, part->factor};
        if (closure == NULL) {
            member->state = COXI_MEMBER_STAGED;
            round->n_staged++;
        }
    } else if (closure == NULL) {
        member->state = COXI_MEMBER_OUT;
        round->n_out++;
    }
}

static void take_parts(struct coxi_round *round, const uint8_t *parts)
{
    for (uint32_t i = 0; i < round->n; i++) {
        struct coxi_backlog_part part;
        memcpy(&part, parts + i * sizeof(part), sizeof(part));
        take_part(round, i, &part);
    }
}

int coxi_resume_join_past(struct coxi_closure *closure, uint64_t distance)
{
    struct cox_coordinator *c = closure->future.c;
    struct cox_rounds *rounds = NULL;
    struct coxi_round *round = NULL;
    if (distance == 0) {
        return 0;
    }
    /* No sequence has the id 0, because generations begin at 1. */
    int r = coxi_rounds_inherit(c, 0, &(struct cox_rounds_spec){.size = 0}, &rounds);
    r = r == 0 ? coxi_round_new(rounds, (uint32_t)distance, 1, &round) : r;
    if (r != 0) {
        return r;
    }
    round->first = closure->future.id.n;
    round->end->future.id = coxi_closure_id(closure->future.id.n + distance);
    round->end->state = COXI_DONE_OK;
    round->over = true;
    coxi_round_join(round, closure);
    coxi_future_unref(&round->end->future);
    return 0;
}

int coxi_resume_hold_round(struct coxi_resumed *resumed, size_t i)
{
    struct cox_coordinator *c = resumed->c;
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    const struct coxi_backlog_head *head = &backlog->heads[i];
    const uint8_t *args = backlog->args + head->args_at;
    struct coxi_backlog_round what;
    struct cox_rounds *rounds = NULL;
    struct coxi_round *round = NULL;
    memcpy(&what, args, sizeof(what));
    const struct cox_rounds_spec spec = {
        .staleness = (uint32_t)what.staleness,
        .reduce = (uint32_t)what.reduce,
        .deterministic = (what.flags & COXI_BACKLOG_DETERMINISTIC) != 0};
    int r = coxi_rounds_inherit(c, what.sequence, &spec, &rounds);
    if (r == 0 && rounds->last != NULL && what.number <= rounds->last->number) {
        r = coxi_error(COX_EFORMAT,
                       "the rounds of the checkpoint's backlog do not rise");
    }
    r = r == 0 ? coxi_round_new(rounds, (uint32_t)what.n, (uint32_t)what.needed, &round)
               : r;
    if (r != 0) {
        return r;
    }
    struct coxi_closure *end = round->end;
    round->number = what.number;
    round->first = what.first;
    round->decided = (what.flags & COXI_BACKLOG_DECIDED) != 0;
    end->future.id = coxi_closure_id(head->closure);
    end->older.inherited = true;
    r = coxi_window_put(&c->closures->unsettled, head->closure, end);
    if (r != 0) {
        coxi_future_unref(&end->future);
        return r;
    }
    take_parts(round, args + sizeof(what));
    coxi_round_take_in(end);
    (void)coxi_round_holds(end);
    coxi_round_be_due(round);
    return 0;
}
