/*
 * See tasks.h. The spans are copied under the stream's lock, a piece at a time, so that
 * the loop never waits for long.
 */
#include "coordinator/monitor/tasks.h"

#include <stdlib.h>
#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/json_text.h"
#include "common/sync.h"
#include "coordinator/workers/module.h"

enum { PIECE = 256, TOLD_MAX = 20000, FUNCTIONS_MAX = 64 };

struct telling {
    struct coxi_buffer *out;
    uint64_t oldest_us; /* by the monotonic clock: what began before is not told */
    uint64_t next;
    const struct cox_function *functions[FUNCTIONS_MAX];
    size_t n_functions;
    bool any;
};

/* Copies the next spans; returns how many. */
static size_t take_piece(struct coxi_task_stream *stream, struct telling *t,
                         struct coxi_task_stream_span piece[PIECE])
{
    size_t n = 0;
    coxi_lock(&stream->lock);
    uint64_t oldest =
        stream->last > COXI_TASK_STREAM_MAX ? stream->last - COXI_TASK_STREAM_MAX : 0;
    uint64_t after = t->next > stream->last || t->next < oldest ? oldest : t->next;
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

static int tell_task(struct telling *t, const struct coxi_task_stream_span *span)
{
    enum { FIELDS = 5 };
    size_t function = index_of(t, span->function);
    if (span->begin_us < t->oldest_us || function == FUNCTIONS_MAX) {
        return 0;
    }
    const uint64_t fields[FIELDS] = {span->worker, span->slot, function,
                                     span->begin_us - t->oldest_us, span->run_us};
    char text[(FIELDS + 1) * (1 + COXI_JSON_COUNT_MAX) + 3];
    size_t len = 0;
    if (t->any) {
        text[len++] = ',';
    }
    for (size_t i = 0; i < FIELDS; i++) {
        text[len++] = i == 0 ? '[' : ',';
        len += coxi_json_digits(fields[i], text + len);
    }
    text[len++] = ',';
    if (span->code < 0) {
        text[len++] = '-';
    }
    len += coxi_json_digits((uint64_t)llabs(span->code), text + len);
    text[len++] = ']';
    t->any = true;
    return coxi_buffer_append_raw(t->out, text, len);
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
    const uint64_t kept_us = (uint64_t)COXI_TASK_STREAM_KEPT_MS * 1000;
    uint64_t now_us = coxi_now_us();
    struct telling t = {.out = out,
                        .oldest_us = now_us > kept_us ? now_us - kept_us : 0,
                        .next = since};
    uint64_t at_us = real_us() - (now_us - t.oldest_us);
    int r = coxi_task_stream_watch(&c->task_stream);
    r = r == 0 ? coxi_buffer_printf(out, "{\"at\":%llu,\"tasks\":[",
                                    (unsigned long long)at_us)
               : r;
    size_t n = PIECE;
    for (size_t told = 0; r == 0 && n == PIECE && told < TOLD_MAX; told += n) {
        n = take_piece(&c->task_stream, &t, piece);
        for (size_t i = 0; r == 0 && i < n; i++) {
            r = tell_task(&t, &piece[i]);
        }
    }
    uint64_t skipped = atomic_load(&c->task_stream.skipped);
    r = r == 0 ? tell_functions(&t) : r;
    return r == 0 ? coxi_buffer_printf(out, "],\"skipped\":%llu,\"next\":%llu}",
                                       (unsigned long long)skipped,
                                       (unsigned long long)t.next)
                  : r;
}
