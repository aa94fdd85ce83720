/* Sets every ps back to a checkpoint, in place, for a client that continues from it.
 * Thread: the one that calls cox_open. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/recovery/recovery_internal.h"

/* Lists the ps that are not restored from the checkpoint yet; returns how many. */
static size_t list_unfilled(struct coxi_recovery *rec, struct coxi_recovery_target *ret)
{
    struct cox_coordinator *c = rec->c;
    size_t n = 0;
    coxi_lock(&rec->set->lock);
    for (uint32_t p = 0; p < c->ps.n; p++) {
        if (rec->servers[p].filled != coxi_psc_incarnation(c->ps.clients[p])) {
            ret[n++] = (struct coxi_recovery_target){.ps = p, .psc = c->ps.clients[p]};
        }
    }
    coxi_unlock(&rec->set->lock);
    return n;
}

/* Restores the ps of `targets`. COX_EPSLOST: some were lost meanwhile; the others are
 * restored. */
static int fill_some(struct coxi_recovery *rec, struct coxi_recovery_target *targets,
                     size_t n)
{
    int r = coxi_recovery_fill(rec, targets, n);
    for (size_t i = 0; r == COX_EPSLOST && i < n; i++) {
        if (targets[i].code != 0 && targets[i].code != COX_EPSLOST) {
            r = coxi_error(targets[i].code, "ps %u could not be restored from %s",
                           targets[i].ps, rec->base.path);
        }
    }
    return r;
}

/*
 * Restores all ps. If a ps is lost meanwhile and comes back as another process,
 * recovery restores it. If it was only out of reach, it comes back with a part of the
 * checkpoint, and is restored again here.
 */
static int fill_all(struct coxi_recovery *rec, struct coxi_recovery_target *targets)
{
    struct cox_coordinator *c = rec->c;
    uint64_t end_ms = coxi_now_ms() + (uint64_t)c->options.ps_recovery_ms;
    size_t n;
    int r = 0;
    while (r == 0 && (n = list_unfilled(rec, targets)) > 0) {
        r = fill_some(rec, targets, n);
        if (r == COX_EPSLOST && coxi_now_ms() < end_ms) {
            r = coxi_ps_wait(c);
        }
    }
    return r;
}

static int restore_all(struct coxi_recovery *rec)
{
    struct coxi_recovery_target *targets = calloc(rec->c->ps.n, sizeof(*targets));
    if (targets == NULL) {
        return coxi_error_memory("restoring ps");
    }
    int r = fill_all(rec, targets);
    free(targets);
    return r;
}

/* Takes the checkpoint's path, shards and hold: recovery starts from them. */
static int take_base(struct coxi_recovery *rec, struct coxi_checkpoint *checkpoint)
{
    struct coxi_recovery_base base = {.path = strdup(checkpoint->path),
                                      .shards = checkpoint->manifest->shards,
                                      .hold = checkpoint->hold};
    if (base.path == NULL) {
        return coxi_error_memory("a checkpoint");
    }
    checkpoint->manifest->shards = NULL;
    checkpoint->hold = NULL;
    coxi_lock(&rec->set->lock);
    rec->base = base;
    coxi_unlock(&rec->set->lock);
    return 0;
}

int coxi_recovery_set_back(struct cox_coordinator *c,
                           struct coxi_checkpoint *checkpoint)
{
    struct coxi_recovery *rec = c->ps.recovery;
    int r = take_base(rec, checkpoint);
    return r == 0 ? restore_all(rec) : r;
}
