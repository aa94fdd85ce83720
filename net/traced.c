/* See traced.h. What does not fit into an answer stays for the next one. */
#include "net/traced.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/trace.h"

enum { SPANS_MAX = 16384 }; /* in an answer */

int coxi_traced_answer(struct coxi_link *link, const struct coxi_message *ask,
                       uint64_t run)
{
    struct coxi_message answer = {.request = ask->request, .kind = COXI_TRACE_TOLD};
    struct coxi_trace_told *told = &answer.trace_told;
    struct coxi_trace_thread threads[COXI_TRACE_RINGS];
    struct coxi_trace_span *spans = malloc(SPANS_MAX * sizeof(*spans));
    bool more;
    if (spans == NULL) {
        return coxi_error_memory("a trace");
    }
    told->code =
        coxi_trace_drain(run, spans, SPANS_MAX, &told->n_spans, &told->dropped, &more);
    if (told->code == 0) {
        told->spans = spans;
        told->threads = threads;
        told->n_threads = coxi_trace_threads(threads);
    }
    if (told->code == 0 && !ask->trace_ask.goes_on) {
        coxi_trace_stop(run);
    }
    told->now_us = coxi_now_us();
    int r = coxi_message_send(link, &answer, NULL, false);
    free(spans);
    return r;
}
