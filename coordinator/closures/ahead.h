/* How many closures a worker should have at hand, given how long they run and how far
 * away the worker is. */
#ifndef COXI_COORDINATOR_CLOSURES_AHEAD_H
#define COXI_COORDINATOR_CLOSURES_AHEAD_H

#include "common/least.h"
#include "net/message.h"

/* Round-trip times to and from a worker. */
struct coxi_ways {
    struct coxi_least client_us; /* from the client to the worker */
    /* from the worker to the ps, until commits are acknowledged; 0: not known */
    double ps_us;
};

/* Measures with `done`, which the worker has just sent. */
void coxi_ways_note(struct coxi_ways *ways, const struct coxi_done *done);

/* The sum of both; 0: not known. */
double coxi_ways_us(const struct coxi_ways *ways);

/*
 * How many closures of `average_us` (0: not known) a slot should have at hand besides
 * the one that it runs. A closure counts as the worker's from its dispatch until its
 * commits are acknowledged and the client knows of it; closures on the way therefore
 * come on top of some work at hand.
 */
size_t coxi_ahead(double average_us, double ways_us);

#endif
