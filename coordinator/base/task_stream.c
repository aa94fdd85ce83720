/* See task_stream.h. */
#include "coordinator/base/task_stream.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"

void coxi_task_stream_init(struct coxi_task_stream *stream)
{
    coxi_mutex_init(&stream->lock);
}

void coxi_task_stream_fini(struct coxi_task_stream *stream)
{
    coxi_unshared(&stream->lock);
    free(stream->spans);
    stream->spans = NULL;
    coxi_mutex_fini(&stream->lock);
}

void coxi_task_stream_look(struct coxi_task_stream *stream)
{
    uint64_t until_ms = atomic_load_explicit(&stream->until_ms, memory_order_relaxed);
    uint64_t now_ms = until_ms != 0 ? coxi_now_ms() : 0;
    stream->is_watched = now_ms < until_ms;
    if (stream->is_watched && now_ms / 1000 != stream->second) {
        stream->second = now_ms / 1000;
        stream->room = COXI_TASK_STREAM_SECOND;
    }
}

void coxi_task_stream_add(struct coxi_task_stream *stream,
                          const struct coxi_task_stream_span *span)
{
    stream->room--;
    coxi_lock(&stream->lock);
    stream->spans[++stream->last % COXI_TASK_STREAM_MAX] = *span;
    coxi_unlock(&stream->lock);
}

int coxi_task_stream_watch(struct coxi_task_stream *stream)
{
    coxi_lock(&stream->lock);
    if (stream->spans == NULL) {
        stream->spans = calloc(COXI_TASK_STREAM_MAX, sizeof(*stream->spans));
    }
    int r = stream->spans == NULL ? coxi_error_memory("the task stream") : 0;
    coxi_unlock(&stream->lock);
    if (r == 0) {
        atomic_store(&stream->until_ms, coxi_now_ms() + COXI_TASK_STREAM_WATCH_MS);
    }
    return r;
}
