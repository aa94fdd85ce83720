/* How many closures a worker has at hand, by how long they run and how far away it is. */
#ifndef COXI_COORDINATOR_CLOSURES_AHEAD_H
#define COXI_COORDINATOR_CLOSURES_AHEAD_H

#include "common/least.h"
#include "net/message.h"

/* How long a worker's ways are, there and back. */
struct coxi_ways {
    struct coxi_least client_us; /* from the client to it */
    double ps_us; /* from it to the ps: until commits are acknowledged; 0: not known */
};

/* The worker has sent `done`. */
void coxi_ways_note(struct coxi_ways *ways, const struct coxi_done *done);

/* Both of them; 0: not known. */
double coxi_ways_us(const struct coxi_ways *ways);

/*
 * How many closures of `average_us` (0: not known) a slot should have at hand besides the one
 * that it runs. A closure counts as the worker's from its dispatch until its commits are
 * acknowledged and the client knows; so what is on its ways comes on top of some work at
 * hand.
 */
size_t coxi_ahead(double average_us, double ways_us);

#endif
