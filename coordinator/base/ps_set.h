/*
 * The ps of the cluster: which are up, which are lost.
 *
 *   UP -> LOST        its connection is gone for good, or it has been started again
 *   LOST -> OWED      it is there again, restored, and ours; workers are told
 *   OWED -> UP        everything that it missed has been done again
 *
 * recovery/ changes the states; everybody else asks here. Where ps do not come back (the client
 * has no checkpoint directory) all of them are UP until the first loss ends the run.
 */
#ifndef COXI_COORDINATOR_BASE_PS_SET_H
#define COXI_COORDINATOR_BASE_PS_SET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cox_coordinator;
struct coxi_psc;
struct coxi_recovery;

struct coxi_ps_state {
    bool lost;
    bool owed;
    uint64_t watermark; /* the highest that it may be told while it is owed something */
    uint64_t epoch;     /* the loop's: the set's when it came back the last time */
};

struct coxi_ps_set {
    /* Clients of the ps, by index. Recovery exchanges them; all live until close. */
    _Atomic(struct coxi_psc *) *clients;
    uint32_t n;
    atomic_bool ready; /* all are claimed: workers may come */
    /* What the loss of a ps means (open.c). Any thread. */
    void (*on_lost)(void *coordinator, struct coxi_psc *psc, const char *text);
    /* Brings them back; set while the loop runs. NULL: a ps that is lost is lost. */
    _Atomic(struct coxi_recovery *) recovery;

    atomic_bool recovers;  /* a ps that is lost may come back */
    atomic_bool under_way; /* some ps is not UP; written with `lock` */
    atomic_bool any_lost;  /* some ps is LOST; written with `lock` */

    /* Guards what follows. Comes after c->lock and before the replay log's. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct coxi_ps_state *states;
    uint64_t n_losses;
    bool stop; /* no ps is brought back any more */

    /* ---- the loop's own */
    uint64_t epoch; /* how often a ps has come back */
    /* What is replayed may be dispatched: no ps has come back since the batch was begun. */
    bool batch_open;
    uint64_t reached; /* what the client did before this id has been done again */
};

/* A set without ps, and room for `n` of them: `set->n` counts those that have been opened. */
void coxi_ps_set_init(struct coxi_ps_set *set);
int coxi_ps_set_reserve(struct coxi_ps_set *set, uint32_t n);
void coxi_ps_set_fini(struct coxi_ps_set *set);

/* True where a ps is lost, or (`owed`) has not been given all of its own yet. With set->lock. */
bool coxi_ps_any_lost(const struct cox_coordinator *c, bool owed);

/* ---- any thread */

/* A ps that is lost may come back: COX_EPSLOST, of a closure or a request, means "try again". */
bool coxi_ps_may_return(const struct cox_coordinator *c);

/* Some ps is not UP: nothing but the current batch of the replay may be dispatched. */
bool coxi_ps_recovering(const struct cox_coordinator *c);

/* How often a ps has been lost. What was read while this changed may come from a ps that is only
 * partly restored. */
uint64_t coxi_ps_losses(struct cox_coordinator *c);

/* Calls `run` while no ps is declared lost. False, and `run` was not called: one has been
 * lost since there were `n_losses`. */
bool coxi_ps_unless_lost(struct cox_coordinator *c, uint64_t n_losses,
                         void (*run)(void *arg), void *arg);

/* The highest id that may be told ps `ps` as its watermark, given that of the others. */
uint64_t coxi_ps_watermark(struct cox_coordinator *c, uint32_t ps, uint64_t watermark);

/* Writes the incarnations of the ps as of now (n_ps of them). */
void coxi_ps_incarnations(struct cox_coordinator *c, uint64_t *ret);

/* ---- any thread but the loop: these wait */

/* Waits until every ps is UP. Returns what ended the coordinator, if that comes first. */
int coxi_ps_wait(struct cox_coordinator *c);

/*
 * Writes the incarnations of the ps at a moment when all were UP, for what the client itself
 * writes: a ps that comes back later refuses it until it has been given what came before.
 * Waits for that moment as coxi_ps_wait does.
 */
int coxi_ps_moment(struct cox_coordinator *c, uint64_t *ret_incarnations);

/* True where `*code`, of something that the client itself has asked of the ps, means that one
 * was lost in the middle and has come back: ask once more, then. Waits for it. If the run ends
 * instead, `*code` is what has ended it, with its error text. */
bool coxi_ps_again(struct cox_coordinator *c, int *code);

/* ---- the loop's */

/* Every ps is there again, and a batch of the replay may be dispatched. */
bool coxi_ps_replaying(const struct cox_coordinator *c);

/* All that the client did before it gave out this id has been done again; UINT64_MAX where
 * no recovery is under way. */
uint64_t coxi_ps_reached(const struct cox_coordinator *c);

/* How often a ps has come back. */
uint64_t coxi_ps_epoch(const struct cox_coordinator *c);

/* True where one of those ps has come back since `epoch`: what it said before counts for
 * nothing. */
bool coxi_ps_is_stale(const struct cox_coordinator *c, uint64_t epoch,
                      const uint32_t *touched, size_t n_touched);

#endif
