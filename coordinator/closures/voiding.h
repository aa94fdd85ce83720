/* Closing a closure on the ps before it ends: voiding.c has why and how. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_VOIDING_H
#define COXI_COORDINATOR_CLOSURES_VOIDING_H

#include "coordinator/closures/closure.h"

/* How a closure is to end, if nothing that the ps say stands against it. */
struct coxi_ending {
    enum coxi_closure_state state; /* COXI_DONE_OK, COXI_FAILED, COXI_CANCELLED */
    int code;
    const char *text;        /* copied; NULL: none */
    const uint32_t *touched; /* done: the ps that its last attempt says it touched */
    size_t n_touched;
};

/*
 * Asks every ps to refuse the attempts of the closure so far, and what it has applied; then calls
 * coxi_closure_settle with what that means. COX_ENOMEM: nothing has begun.
 */
int coxi_voiding_start(struct cox_coordinator *c, struct coxi_closure *closure,
                       const struct coxi_ending *ending);

/* Sends what the ps are to be asked. At the end of each turn of the loop. */
void coxi_voidings_flush(struct cox_coordinator *c);

#endif
