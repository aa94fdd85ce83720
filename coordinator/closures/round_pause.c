/*
 * See round.h: checkpoints between deterministic rounds. The ps cut their shards at
 * different moments. If the end of a round came between two of these, a later replay
 * would compute the gradients of that round from values of which some have it already.
 * So a checkpoint waits for the ends that are on their way, and others wait for the
 * checkpoint's shards. Steps go on meanwhile: their commits wait on the ps, and no shard
 * has them.
 */
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/call.h"
#include "coordinator/closures/round.h"

enum { SLICE_MS = 50 }; /* length of one wait; then it checks whether the run goes on */

static int set_paused(struct cox_coordinator *c, void *arg)
{
    const bool *paused = arg;
    c->closures->rounds.is_paused = *paused;
    return 0;
}

/* The loop broadcasts life.room when a round has ended. */
static int await_ends(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = coxi_check_alive_locked(c);
    while (r == 0 && atomic_load(&c->closures->rounds.n_sent) > 0) {
        struct timespec until = coxi_deadline(SLICE_MS);
        (void)coxi_wait_until(&c->life.room, &c->lock, &until);
        r = coxi_check_alive_locked(c);
    }
    coxi_unlock(&c->lock);
    return r;
}

int coxi_rounds_pause(struct cox_coordinator *c)
{
    bool paused = true;
    if (!atomic_load(&c->ps.sets_all_back)) {
        return 0;
    }
    coxi_call_why(c, "it waits for the end of a round");
    int r = coxi_call_on_loop(c, set_paused, &paused);
    r = r == 0 ? await_ends(c) : r;
    coxi_call_why(c, "%s", "");
    return r;
}

void coxi_rounds_go_on(struct cox_coordinator *c)
{
    bool paused = false;
    if (atomic_load(&c->ps.sets_all_back)) {
        /* the loop looks again at the rounds that wait, in the same turn */
        (void)coxi_call_on_loop(c, set_paused, &paused);
    }
}

bool coxi_round_is_paused(const struct coxi_round *round)
{
    return round->rounds->c->closures->rounds.is_paused &&
           round->rounds->spec.deterministic != 0;
}
