/*
 * A storm of strangers: peers without the run's key, each at an address of the run. In
 * turn one of them connects and aborts at once, sends bytes that mean nothing, sends the
 * beginning of a greeting and aborts, or says nothing for seconds.
 */
#ifndef COXI_BENCH_STRANGERS_H
#define COXI_BENCH_STRANGERS_H

#include <stdint.h>

struct strangers;

enum { STRANGERS_PORTS_MAX = 16 };

/* Each of the ports of 127.0.0.1 gets `rate` connections a second, while the storm
 * blows. A thread of its own. */
struct strangers *strangers_new(const uint16_t *ports, int n_ports, int rate);
void strangers_blow(struct strangers *strangers);
void strangers_rest(struct strangers *strangers); /* and hangs up */
void strangers_free(struct strangers *strangers);

/* The connections that were made, and those that could not be, since the beginning. */
void strangers_counts(struct strangers *strangers, uint64_t *ret_made,
                      uint64_t *ret_failed);

#endif
