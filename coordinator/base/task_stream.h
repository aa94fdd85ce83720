/*
 * The task stream: which slot of which worker ran which closure when, of the last 30 s, as
 * workers have reported it. Recorded only while somebody reads it.
 *
 * Threads: the loop writes, any thread reads, under the stream's own lock. Cost: while
 * nobody reads, one load a message of reports; otherwise a look at the clock for each
 * message, and the lock for each span that is kept; memory of 3 MB from the first reader on.
 */
#ifndef COXI_COORDINATOR_BASE_TASK_STREAM_H
#define COXI_COORDINATOR_BASE_TASK_STREAM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/durations.h"
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
    atomic_uint_least64_t skipped;  /* spans beyond the most of a second (loop) */

    /* ---- the loop's, as of coxi_task_stream_look */
    bool is_watched;
    uint64_t second; /* this one, and how many spans it may still have */
    uint32_t room;

    struct coxi_mutex lock; /* leaf */
    /* a ring: span number i, from 1 on, is at i % COXI_TASK_STREAM_MAX; NULL: nobody has read
     * yet */
    struct coxi_task_stream_span *spans COXI_GUARDED_BY(lock);
    uint64_t last COXI_GUARDED_BY(lock); /* number of the newest span */
};

void coxi_task_stream_init(struct coxi_task_stream *stream);
void coxi_task_stream_fini(struct coxi_task_stream *stream);

/* Reports have come: looks at the time, which is theirs. Loop. */
void coxi_task_stream_look(struct coxi_task_stream *stream);

/* True if a span should be added; counts it if only its second is full. Loop. */
static inline bool coxi_task_stream_takes(struct coxi_task_stream *stream)
{
    if (stream->is_watched && stream->room == 0) {
        coxi_count_more(&stream->skipped, 1);
    }
    return stream->is_watched && stream->room > 0;
}

/* Adds a span that the stream takes. Loop. */
void coxi_task_stream_add(struct coxi_task_stream *stream,
                          const struct coxi_task_stream_span *span);

/* Somebody reads: records from now on. COX_ENOMEM. Any thread. */
int coxi_task_stream_watch(struct coxi_task_stream *stream);

#endif
