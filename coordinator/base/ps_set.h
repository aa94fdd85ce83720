/*
 * The ps of the cluster: which are up, and which are lost.
 *
 *   UP -> LOST        its connection has ended for good, or it was started again
 *   LOST -> OWED      it is back, claimed, and restored; workers are told
 *   OWED -> UP        everything that it lacked since its checkpoint was done again
 *
 * recovery/ changes the states; all others read them here. If ps do not come back
 * (because the client has no checkpoint directory), all of them are UP until the first
 * loss ends the run.
 */
#ifndef COXI_COORDINATOR_BASE_PS_SET_H
#define COXI_COORDINATOR_BASE_PS_SET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/sync.h"

struct cox_coordinator;
struct coxi_psc;
struct coxi_recovery;

struct coxi_ps_state {
    bool lost;
    bool owed;
    /* while `owed`: the highest watermark that the ps may be told */
    uint64_t watermark;
    uint64_t epoch; /* loop: the set's epoch when this ps last came back */
};

struct coxi_ps_set {
    /* Clients of the ps, by index. Recovery replaces the client of a ps that comes
     * back; the old one lives until close, too. */
    _Atomic(struct coxi_psc *) *clients;
    uint32_t n;
    atomic_bool ready; /* all are claimed: workers may come */
    /* Handles the loss of a ps (open.c). Any thread. */
    void (*on_lost)(void *coordinator, struct coxi_psc *psc, const char *text);
    /* Brings lost ps back; set while the loop runs. NULL: a lost ps stays lost. */
    _Atomic(struct coxi_recovery *) recovery;

    atomic_bool recovers;  /* a lost ps may come back */
    atomic_bool under_way; /* some ps is not UP; written with `lock` */
    atomic_bool any_lost;  /* some ps is LOST; written with `lock` */
    /* What is done again after a loss must be as it was the first time. So the others
     * are set back with a ps that is lost: there are deterministic rounds. */
    atomic_bool sets_all_back;

    /* guards the fields below; comes after c->lock and before the replay log's lock */
    struct coxi_mutex lock;
    pthread_cond_t changed;
    struct coxi_ps_state *states;
    uint64_t n_losses;
    bool stop; /* no ps is brought back any more */

    /* ---- the loop's own */
    bool over;      /* the recovery has ended: no ps will come back */
    uint64_t epoch; /* how often a ps has come back */
    /* Replays may be dispatched: no ps has come back since the batch began. */
    bool batch_open;
    uint64_t reached; /* everything with a lower id was done again */
};

/* _init makes an empty set; _reserve makes room for `n` ps. `set->n` counts the ps that
 * were opened. */
void coxi_ps_set_init(struct coxi_ps_set *set);
int coxi_ps_set_reserve(struct coxi_ps_set *set, uint32_t n);
void coxi_ps_set_fini(struct coxi_ps_set *set);

/* True if a ps is lost or, if `owed` is true, still lacks something since its restore.
 * With set->lock. */
bool coxi_ps_any_lost(const struct cox_coordinator *c, bool owed);

/* ---- any thread */

/* True if a lost ps may come back: then COX_EPSLOST, for a closure or a request, means
 * "try again". */
bool coxi_ps_may_return(const struct cox_coordinator *c);

/* True if some ps is not UP: then only the current batch of the replay may be
 * dispatched. */
bool coxi_ps_recovering(const struct cox_coordinator *c);

/* How often ps were lost. Values that were read while this changed may come from a ps
 * that is only partly restored. */
uint64_t coxi_ps_losses(struct cox_coordinator *c);

/* Calls `run` if coxi_ps_losses() is still `n_losses`; no ps can be declared lost while
 * it runs. Otherwise returns false. */
bool coxi_ps_unless_lost(struct cox_coordinator *c, uint64_t n_losses,
                         void (*run)(void *arg), void *arg);

/* The highest id that may be told ps `ps` as its watermark, if the others get
 * `watermark`. */
uint64_t coxi_ps_watermark(struct cox_coordinator *c, uint32_t ps, uint64_t watermark);

/* Copies the current incarnations of the n_ps ps. */
void coxi_ps_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* ---- any thread except the loop's, because these wait */

/* Waits until every ps is UP. If the coordinator ends first, returns the error that
 * ended it. */
int coxi_ps_wait(struct cox_coordinator *c);

/*
 * Copies the incarnations of the ps at a moment when all were UP, for writes of the
 * client itself: a ps that comes back later refuses such a write until it has been
 * given everything before it. Waits for that moment as coxi_ps_wait does.
 */
int coxi_ps_moment(struct cox_coordinator *c, uint64_t *ret_incarnations);

/*
 * Call with the result `*code` of a request that the client itself sent to the ps. If a
 * ps was lost meanwhile, waits until it is back and returns true: send the request
 * again. If the run ends instead, sets `*code` to the error that ended it, with its
 * error text.
 */
bool coxi_ps_again(struct cox_coordinator *c, int *code);

/* ---- for the loop */

/* True if every ps is back, and a batch of the replay may be dispatched. */
bool coxi_ps_replaying(const struct cox_coordinator *c);

/* Everything that the client did before it gave out this id was done again; UINT64_MAX:
 * no recovery is under way. */
uint64_t coxi_ps_reached(const struct cox_coordinator *c);

/* True if one of the `touched` ps has come back since `epoch`: then its earlier answers
 * do not count. If the set's epoch is still `epoch`, none has. */
bool coxi_ps_is_stale(const struct cox_coordinator *c, uint64_t epoch,
                      const uint32_t *touched, size_t n_touched);

#endif
