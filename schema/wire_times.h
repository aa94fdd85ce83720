/* Messages about the ends of closures, where the time of their steps went, and traces.
 * Include wire.h instead. */
#ifndef COXI_SCHEMA_WIRE_TIMES_H
#define COXI_SCHEMA_WIRE_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_done_head {
    uint64_t closure;
    uint32_t attempt;
    int32_t code;
    int32_t step_code;
    uint32_t touched_n;
    uint32_t result_len;
    uint32_t run_us;
};

/* StepTimes in wire.fbs. */
struct coxi_step_times {
    uint64_t begin_us;
    uint32_t slot;
    uint32_t idle_us;
    uint32_t data_us;
    uint32_t pull_us;
    uint32_t flush_us;
    uint32_t place_us;
    uint32_t commit_us;
    uint32_t n_pulls;
};

struct coxi_done {
    const struct coxi_done_head *closures;
    size_t n_closures;
    const uint32_t *kept;
    size_t n_kept; /* decoded: rising indices of closures */
    uint64_t echo_us;
    uint32_t held_us;
    uint32_t commit_us;
    const float *weights; /* of each closure; NULL: each counts 1 in its round */
    /* closures whose commits were answered with coxi_status.ended */
    const uint32_t *ended;
    size_t n_ended;                      /* decoded: rising indices of closures */
    const struct coxi_step_times *times; /* of each closure; NULL: not known */
    uint64_t sent_us;
    /* bytes that each closure has logged; NULL: none has any */
    const uint32_t *scalars;
};

struct coxi_trace_ask {
    bool goes_on;
};

/* TraceSpan, TraceThread, TraceTold in wire.fbs. */
struct coxi_trace_span {
    uint64_t begin_ns;
    uint64_t ns;
    uint64_t closure;
    uint64_t flow;
    uint64_t thread;
    uint32_t kind;
    uint32_t arg;
};

struct coxi_trace_thread {
    uint64_t id;
    char name[24]; /* without a NUL if it has 24 bytes */
};

struct coxi_trace_told {
    int32_t code;
    uint64_t now_us;
    uint64_t dropped;
    const struct coxi_trace_span *spans;
    size_t n_spans;
    const struct coxi_trace_thread *threads;
    size_t n_threads;
};

#endif
