/*
 * The task stream: which slot of which worker ran which closure when, of the last 30 s, as
 * workers have reported it. Recorded only while somebody reads it.
 *
 * Threads: the loop writes, any thread reads, under the stream's own lock. Cost: while
 * nobody reads, one load a report; memory of 3 MB from the first reader on.
 */
#ifndef COXI_COORDINATOR_BASE_TASK_STREAM_H
#define COXI_COORDINATOR_BASE_TASK_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/sync.h"

enum {
    COXI_TASK_STREAM_MAX = 60000,      /* the most spans kept, ... */
    COXI_TASK_STREAM_SECOND = 2000,    /* ... and taken in one second */
    COXI_TASK_STREAM_KEPT_MS = 30000,  /* for how long */
    COXI_TASK_STREAM_WATCH_MS = 10000, /* it is recorded for so long after a reader */
};

struct cox_function;

struct coxi_task_stream_span {
    const struct cox_function *function;
    uint64_t begin_us; /* by this process's monotonic clock */
    uint32_t run_us;
    uint32_t worker;
    uint32_t slot;
    int32_t code; /* 0: done */
};

struct coxi_task_stream {
    atomic_uint_least64_t until_ms; /* recorded until then */
    struct coxi_mutex lock;         /* leaf */
    /* a ring: span number i, from 1 on, is at i % COXI_TASK_STREAM_MAX; NULL: nobody has read
     * yet */
    struct coxi_task_stream_span *spans COXI_GUARDED_BY(lock);
    uint64_t last COXI_GUARDED_BY(lock);    /* number of the newest span */
    uint64_t skipped COXI_GUARDED_BY(lock); /* spans beyond the most of a second */
    uint64_t second COXI_GUARDED_BY(lock);  /* the second now, and its spans */
    uint32_t n_second COXI_GUARDED_BY(lock);
};

void coxi_task_stream_init(struct coxi_task_stream *stream);
void coxi_task_stream_fini(struct coxi_task_stream *stream);

static inline bool coxi_task_stream_is_watched(const struct coxi_task_stream *stream)
{
    uint64_t until = atomic_load_explicit(&stream->until_ms, memory_order_relaxed);
    return until != 0 && coxi_now_ms() < until;
}

/* Adds a span of a watched stream. Loop. */
void coxi_task_stream_add(struct coxi_task_stream *stream,
                          const struct coxi_task_stream_span *span);

/* Somebody reads: records from now on. COX_ENOMEM. Any thread. */
int coxi_task_stream_watch(struct coxi_task_stream *stream);

#endif
