/* Tells workers of the ps and the variables. Loop. */
#ifndef COXI_COORDINATOR_WORKERS_LAYOUT_H
#define COXI_COORDINATOR_WORKERS_LAYOUT_H

struct cox_coordinator;
struct coxi_worker;

/* Sends a worker the ps, and the variables that it was not told of. */
void coxi_layout_send(struct coxi_worker *worker);

/* The same to every connected worker. */
void coxi_layout_send_all(struct cox_coordinator *c);

/*
 * The same to workers that were not told of all variables. Called before closures are
 * sent that were scheduled after these variables were created, and every COXI_TICK_MS.
 */
void coxi_layout_update(struct cox_coordinator *c);

#endif
