/*
 * Traces: what the threads of this process do, as spans of time, for a client that asks
 * for them. Each thread writes to a ring of its own, without a lock; a thread that drains
 * the rings loses spans only where a ring is full: so a thread that does more than 4096
 * things between two drains tells 4096 in a row of each COXI_TRACE_REST_MS.
 *
 * While nobody asks, a span costs one branch that is predicted. A trace ends by itself
 * some seconds after the last call of coxi_trace_drain, because its client may be gone.
 *
 * Threads: any. Memory: 192 KiB for each thread that does something while there is a
 * trace, of at most COXI_TRACE_RINGS threads; used again by later threads.
 */
#ifndef COXI_COMMON_TRACE_H
#define COXI_COMMON_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "schema/wire_times.h"

enum {
    COXI_TRACE_RINGS = 128,
    COXI_TRACE_RING_SPANS = 4096,
    COXI_TRACE_REST_MS = 780, /* after it had room until a full ring has room again */
    COXI_TRACE_PATIENCE_MS = 5000, /* a trace ends so long after it was last drained */
};

/* What a span is; `arg` of struct coxi_trace_span says more. */
enum coxi_trace_kind {
    COXI_TRACE_TURN = 1,   /* a turn of a loop */
    COXI_TRACE_DISPATCH,   /* the client sends closures; arg: how many */
    COXI_TRACE_REPORTS,    /* the client takes the ends of closures; arg: how many */
    COXI_TRACE_STEP,       /* arg: module << 16 | function */
    COXI_TRACE_DATA,       /* a step reads records */
    COXI_TRACE_PULL_ASK,   /* a step asks a ps; arg: the ps */
    COXI_TRACE_PULL_WAIT,  /* a step waits for values */
    COXI_TRACE_COMMIT_ASK, /* a slot sends a commit; arg: the ps */
    COXI_TRACE_FLUSH,      /* a step waits for a flush */
    COXI_TRACE_PLACE,      /* a slot waits for a place in the commit window */
    COXI_TRACE_PULL,       /* a ps answers a pull */
    COXI_TRACE_COMMIT,     /* a ps applies a commit */
    COXI_TRACE_REQUEST, /* a ps answers something else; arg: enum coxi_message_kind */
    COXI_TRACE_LONG, /* a thread of a ps does a request that takes long; arg: likewise */
    COXI_TRACE_ROUND,      /* a ps applies a round; arg: its closures */
    COXI_TRACE_ROUND_WAIT, /* a pull waits for the end of a round */
    COXI_TRACE_EVICT,      /* a ps looks for rows to evict; arg: those it has dropped */
    COXI_TRACE_LOADER,     /* a thread of a ps loads rows of a table */
    COXI_TRACE_KINDS,
};

/* What a span belongs to; 0: to none, or not known. Spans of a run are for its client
 * alone, those without one for every client. */
struct coxi_trace_of {
    enum coxi_trace_kind kind;
    uint32_t arg;
    uint64_t run;
    uint64_t closure;
    uint64_t flow; /* links the span that asks to the span that answers */
};

extern atomic_bool coxi_trace_flag;

static inline bool coxi_trace_is_on(void)
{
    return __builtin_expect(
        (long)atomic_load_explicit(&coxi_trace_flag, memory_order_relaxed), 0L);
}

/* coxi_trace_begin while there is a trace. */
uint64_t coxi_trace_begin_on(void);

/* When a span begins; 0: there is no trace, or no room for the span, which counts as lost. */
static inline uint64_t coxi_trace_begin(void)
{
    return coxi_trace_is_on() ? coxi_trace_begin_on() : 0;
}

/* Notes a span of the calling thread. */
void coxi_trace_note(uint64_t begin_ns, uint64_t end_ns,
                     const struct coxi_trace_of *of);

/* Ends a span that coxi_trace_begin began. */
static inline void coxi_trace_end(uint64_t begin_ns, const struct coxi_trace_of *of)
{
    if (__builtin_expect(begin_ns != 0, 0)) {
        coxi_trace_note(begin_ns, coxi_now_ns(), of);
    }
}

/* What the calling thread does from now on, it does for `run`; 0: for none. */
void coxi_trace_work_for(uint64_t run);

/* For which run that is. */
uint64_t coxi_trace_works_for(void);

/* Ends a span of what the thread does for a run. If that is none, nothing is noted. */
void coxi_trace_end_part(uint64_t begin_ns, enum coxi_trace_kind kind, uint64_t arg);

/* A number that no other span in any process has, for one that began at `begin_ns`; or 0 if
 * that is 0. */
uint64_t coxi_trace_flow(uint64_t begin_ns);

/* The calling thread is number `n` of its kind. */
void coxi_trace_number_thread(uint32_t n);

/*
 * Begins a trace for `run`, or goes on with it, and moves spans to `ret`. Returns how many,
 * at most `max`; *ret_dropped: how many were lost. If *ret_more, there are more.
 * COX_EBUSY: another run traces this process; COX_ENOMEM.
 */
int coxi_trace_drain(uint64_t run, struct coxi_trace_span *ret, size_t max,
                     size_t *ret_n, uint64_t *ret_dropped, bool *ret_more);

/* Ends the trace of `run`, if there is one. */
void coxi_trace_stop(uint64_t run);

/* The threads that have a ring; returns how many, at most COXI_TRACE_RINGS. */
size_t coxi_trace_threads(struct coxi_trace_thread ret[COXI_TRACE_RINGS]);

#endif
