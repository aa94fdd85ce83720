/*
 * See tasks.h. The spans are copied under the stream's lock, a piece at a time, so that
 * the loop never waits for long.
 */
#include "coordinator/monitor/tasks.h"

#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/sync.h"
#include "coordinator/workers/module.h"

enum { PIECE = 256, TOLD_MAX = 20000, FUNCTIONS_MAX = 64 };

struct telling {
    struct coxi_buffer *out;
    uint64_t unix_us; /* Unix time when the monotonic clock was 0 */
    uint64_t oldest_us;
    uint64_t next;
    const struct cox_function *functions[FUNCTIONS_MAX];
    size_t n_functions;
    bool any;
};

/* Copies the next spans; returns how many, and the number of the first. */
static size_t take_piece(struct coxi_task_stream *stream, struct telling *t,
                         struct coxi_task_stream_span piece[PIECE], uint64_t *ret_first)
{
    size_t n = 0;
    coxi_lock(&stream->lock);
    uint64_t oldest =
        stream->last > COXI_TASK_STREAM_MAX ? stream->last - COXI_TASK_STREAM_MAX : 0;
    uint64_t after = t->next > stream->last || t->next < oldest ? oldest : t->next;
    *ret_first = after + 1;
    for (; n < PIECE && after + n < stream->last; n++) {
        piece[n] = stream->spans[(after + 1 + n) % COXI_TASK_STREAM_MAX];
    }
    t->next = after + n;
    coxi_unlock(&stream->lock);
    return n;
}

/* The function's index in the list; FUNCTIONS_MAX: there is no room. */
static size_t index_of(struct telling *t, const struct cox_function *function)
{
    size_t i = 0;
    while (i < t->n_functions && t->functions[i] != function) {
        i++;
    }
    if (i == t->n_functions && i < FUNCTIONS_MAX) {
        t->functions[t->n_functions++] = function;
    }
    return i;
}

static int tell_task(struct telling *t, uint64_t number,
                     const struct coxi_task_stream_span *span)
{
    size_t function = index_of(t, span->function);
    if (span->begin_us < t->oldest_us || function == FUNCTIONS_MAX) {
        return 0;
    }
    uint64_t begin = t->unix_us + span->begin_us;
    uint64_t end = begin + span->run_us;
    int r = coxi_buffer_printf(
        t->out, "%s[%llu,%u,%u,%zu,%llu.%06llu,%llu.%06llu,%d]", t->any ? "," : "",
        (unsigned long long)number, span->worker, span->slot, function,
        (unsigned long long)(begin / 1000000), (unsigned long long)(begin % 1000000),
        (unsigned long long)(end / 1000000), (unsigned long long)(end % 1000000),
        span->code);
    t->any = true;
    return r;
}

static int tell_functions(const struct telling *t)
{
    int r = coxi_buffer_printf(t->out, "],\"functions\":[");
    for (size_t i = 0; r == 0 && i < t->n_functions; i++) {
        r = i > 0 ? coxi_buffer_append_raw(t->out, ",", 1) : 0;
        r = r == 0 ? coxi_json_text(t->out, t->functions[i]->name) : r;
    }
    return r;
}

static uint64_t real_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

int coxi_trace_tasks_json(struct cox_coordinator *c, uint64_t since,
                          struct coxi_buffer *out)
{
    struct coxi_task_stream_span piece[PIECE];
    uint64_t now_us = coxi_now_us();
    struct telling t = {.out = out, .unix_us = real_us() - now_us, .next = since};
    const uint64_t kept_us = (uint64_t)COXI_TASK_STREAM_KEPT_MS * 1000;
    t.oldest_us = now_us > kept_us ? now_us - kept_us : 0;
    int r = coxi_task_stream_watch(&c->task_stream);
    r = r == 0 ? coxi_buffer_printf(out, "{\"tasks\":[") : r;
    size_t n = PIECE;
    for (size_t told = 0; r == 0 && n == PIECE && told < TOLD_MAX; told += n) {
        uint64_t first;
        n = take_piece(&c->task_stream, &t, piece, &first);
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = tell_task(&t, first + i, &piece[i]);
        }
    }
    uint64_t skipped = atomic_load(&c->task_stream.skipped);
    r = r == 0 ? tell_functions(&t) : r;
    return r == 0 ? coxi_buffer_printf(out, "],\"skipped\":%llu,\"next\":%llu}",
                                       (unsigned long long)skipped,
                                       (unsigned long long)t.next)
                  : r;
}
