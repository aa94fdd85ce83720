/* What slots.c (the line, the slots), slots_recall.c (takes closures out of the line)
 * and watch.c (the watch over the slots) share. */
#ifndef COXI_WORKER_SLOTS_INTERNAL_H
#define COXI_WORKER_SLOTS_INTERNAL_H

#include <pthread.h>

#include "common/loop.h"
#include "common/sync.h"
#include "worker/attempt.h"
#include "worker/slots.h"

/*
 * A batch: the queued closures of one dispatch, in one block of memory with their
 * heads, arguments and inputs. It is freed when the last closure has run or was handed
 * back. Every holder of closures gives them back by coxi_batch_done.
 */
struct coxi_batch {
    struct coxi_batch *next;
    struct coxi_run *run;
    uint64_t layouts; /* layouts that the run had received when the batch came */
    uint32_t grace_ms;
    size_t n;
    size_t n_taken;
    atomic_size_t n_left;    /* closures neither run nor handed back */
    struct coxi_call *calls; /* one for each head */
    struct coxi_closure_head heads[];
};

struct coxi_slot {
    struct coxi_slots *slots;
    struct coxi_running running;
    pthread_t thread;
};

/* The watch: a one-shot timer on the loop. */
struct coxi_watch {
    uv_timer_t timer;       /* used on the loop only, from the first mail on */
    struct coxi_mail start; /* starts the timer for within_ms */
    struct coxi_mail close; /* closes the timer and frees the slots */
    bool posted;            /* `start` is in the loop's mailbox */
    bool used;              /* `start` was posted at least once */
    /* the timer fires within this time; COXI_WATCH_NEVER: it is not set */
    uint32_t within_ms;
};

struct coxi_slots {
    struct coxi_slots_options options; /* fixed */
    uint32_t n_threads;                /* fixed once the slots are made */
    int statm;                         /* /proc/self/statm, or -1; fixed */

    struct coxi_mutex lock; /* comes before a run's locks */
    pthread_cond_t work;
    struct coxi_batch *first COXI_GUARDED_BY(lock);
    struct coxi_batch *last COXI_GUARDED_BY(lock);
    /* runs whose resources a slot must tend; the list holds a reference to each */
    struct coxi_run *tended COXI_GUARDED_BY(lock);
    size_t n_waiting COXI_GUARDED_BY(lock);
    uint32_t n_running COXI_GUARDED_BY(lock);
    bool alone COXI_GUARDED_BY(lock); /* the closure that runs must run alone */
    bool stop COXI_GUARDED_BY(lock);
    struct coxi_watch watch COXI_GUARDED_BY(lock);
    struct coxi_slot threads[];
};

enum {
    COXI_WATCH_NEVER = INT32_MAX,
    COXI_WATCH_MEMORY_MS =
        20, /* time between two checks of the memory, while a step runs */
};

/* Gives back n closures of a batch; the last one frees it. Any thread. */
void coxi_batch_done(struct coxi_batch *batch, size_t n);

/* ---- slots_recall.c */

/* Takes the batches of `run` (NULL: of all) out of the line. */
struct coxi_batch *coxi_slots_unlink(struct coxi_slots *slots,
                                     const struct coxi_run *run)
    COXI_REQUIRES(slots->lock);

/* Frees batches that are out of the line; `answer`: reports their closures as
 * cancelled. */
void coxi_slots_hand_back(struct coxi_batch *batch, bool answer);

/* ---- watch.c */

/* COX_EIO: the process cannot be watched. */
int coxi_watch_init(struct coxi_slots *slots);

/* Frees the slots, none of which runs any more; on the loop if the timer was made. */
void coxi_watch_close(struct coxi_slots *slots);

/* Makes the loop look at the slots within `within_ms` milliseconds. Does nothing if the
 * timer was set for that time or less: it fires soon enough. */
void coxi_watch_set(struct coxi_slots *slots, uint32_t within_ms)
    COXI_REQUIRES(slots->lock);

/* A slot is about to run what its `running` says. Cost: nothing, except once in
 * the shortest timeout. */
static inline void coxi_watch_begin(struct coxi_slots *slots,
                                    const struct coxi_running *running)
    COXI_REQUIRES(slots->lock)
{
    uint32_t within_ms =
        running->head.timeout_ms > 0 ? running->head.timeout_ms : COXI_WATCH_NEVER;
    if (slots->options.memory_max > 0 && within_ms > COXI_WATCH_MEMORY_MS) {
        within_ms = COXI_WATCH_MEMORY_MS;
    }
    if (within_ms < slots->watch.within_ms) {
        coxi_watch_set(slots, within_ms);
    }
}

/* Cancels what the slot runs, unless it has ended; the process ends grace_ms from now
 * if it still runs then. */
void coxi_watch_cancel(struct coxi_slots *slots, struct coxi_running *running,
                       enum coxi_running_state why, uint32_t grace_ms)
    COXI_REQUIRES(slots->lock);

#endif
