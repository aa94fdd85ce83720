/* A turn of the loop. */
#ifndef COXI_COORDINATOR_CLOSURES_DISPATCH_H
#define COXI_COORDINATOR_CLOSURES_DISPATCH_H

/* Runs when the loop is woken: takes in closures, cancels, sends, moves the watermark.
 * Loop. */
void coxi_dispatch(void *coordinator);

#endif
