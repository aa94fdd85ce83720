/* Closes a closure on the ps before it ends: voiding.c says why and how. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_VOIDING_H
#define COXI_COORDINATOR_CLOSURES_VOIDING_H

#include "coordinator/closures/closure.h"

/* Whether some ps has something of a closure. */
enum coxi_void_outcome {
    COXI_VOID_NOTHING, /* nor will any, from the attempts so far */
    COXI_VOID_APPLIED,
    COXI_VOID_UNKNOWN, /* a ps was lost meanwhile, and may come back */
};

/*
 * Asks every ps what it has applied of the closure, and to refuse its attempts so far;
 * then calls coxi_closure_settle with the result, or `told`, if it is not NULL.
 * COX_ENOMEM: nothing has begun.
 */
int coxi_voiding_start(struct cox_coordinator *c, struct coxi_closure *closure,
                       const struct coxi_ending *ending,
                       void (*told)(struct coxi_closure *closure,
                                    enum coxi_void_outcome outcome));

/* Sends the questions to the ps. At the end of each turn of the loop. */
void coxi_voidings_flush(struct cox_coordinator *c);

#endif
