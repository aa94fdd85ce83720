/* Closes a closure on the ps before it ends: voiding.c says why and how. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_VOIDING_H
#define COXI_COORDINATOR_CLOSURES_VOIDING_H

#include "coordinator/closures/closure.h"

/* How a closure ends, unless the answers of the ps change that. */
struct coxi_ending {
    enum coxi_closure_state state; /* COXI_DONE_OK, COXI_FAILED, COXI_CANCELLED */
    int code;
    const char *text;        /* copied; NULL: none */
    const uint32_t *touched; /* done: the ps that its last attempt says it touched */
    size_t n_touched;
};

/* Asks every ps what it has applied of the closure, and to refuse its attempts so far;
 * then calls coxi_closure_settle with the result. COX_ENOMEM: nothing has begun. */
int coxi_voiding_start(struct cox_coordinator *c, struct coxi_closure *closure,
                       const struct coxi_ending *ending);

/* Sends the questions to the ps. At the end of each turn of the loop. */
void coxi_voidings_flush(struct cox_coordinator *c);

#endif
