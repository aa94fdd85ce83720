/* See request_times.h. */
#include "ps/request_times.h"

#include <stdbool.h>

void coxi_request_took(struct coxi_request_times *times, unsigned n, uint64_t begun_ns,
                       uint64_t ended_ns)
{
    uint64_t since_ns =
        begun_ns - atomic_load_explicit(&times->begun_ns, memory_order_relaxed);
    bool fast = since_ns / n < COXI_REQUESTS_FAST_NS;
    coxi_latency_add_many(&times->took, (ended_ns - begun_ns) / 1000, n);
    atomic_store_explicit(&times->begun_ns, begun_ns, memory_order_relaxed);
    atomic_store_explicit(&times->every, fast ? COXI_REQUESTS_TIMED : 1,
                          memory_order_relaxed);
}
