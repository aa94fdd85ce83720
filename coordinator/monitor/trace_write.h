/* Writes spans as Chrome's trace events, an array of JSON objects. One thread at a time. */
#ifndef COXI_COORDINATOR_MONITOR_TRACE_WRITE_H
#define COXI_COORDINATOR_MONITOR_TRACE_WRITE_H

#include "common/buffer.h"
#include "common/trace.h"
#include "coordinator/coordinator.h"

/* Where spans come from: the numbers that viewers show and sort processes by. */
enum {
    COXI_TRACE_CLIENT = 1,
    COXI_TRACE_PS = 1000,      /* and its index */
    COXI_TRACE_WORKER = 100000 /* and its index */
};

struct coxi_trace_writer {
    struct cox_coordinator *c; /* names the functions of steps */
    struct coxi_buffer out;    /* text that the caller takes */
    uint64_t base_ns;          /* times count from here */
    uint64_t n_entries;
    struct coxi_buffer named; /* struct named: processes and threads that have names */
};

/* Gives a process its name, once: `role` and, unless it is the client, the index. */
int coxi_trace_write_process(struct coxi_trace_writer *writer, uint32_t process);

/* Gives a thread of a process its name, once. COX_ENOMEM. */
int coxi_trace_write_thread(struct coxi_trace_writer *writer, uint32_t process,
                            const struct coxi_trace_thread *thread);

/* Writes a span, of which ahead_us is the clock's lead on ours, and the beginning or the
 * end of its arrow. COX_ENOMEM. */
int coxi_trace_write_span(struct coxi_trace_writer *writer, uint32_t process,
                          int64_t ahead_us, const struct coxi_trace_span *span);

/* The last entry, and the end of the array. */
int coxi_trace_write_end(struct coxi_trace_writer *writer, uint64_t dropped);

void coxi_trace_writer_fini(struct coxi_trace_writer *writer);

#endif
