/* What workers are told of the ps and the variables there are. On the loop. */
#ifndef COXI_COORDINATOR_WORKERS_LAYOUT_H
#define COXI_COORDINATOR_WORKERS_LAYOUT_H

struct cox_coordinator;
struct coxi_worker;

/* Sends a worker where the ps are, and the variables that it has not been told of. */
void coxi_layout_send(struct coxi_worker *worker);

/* The same to every worker that is there. */
void coxi_layout_send_all(struct cox_coordinator *c);

/* The same to workers that have not been told of all variables: before closures leave that
 * were scheduled after those were created, and every COXI_TICK_MS. */
void coxi_layout_update(struct cox_coordinator *c);

#endif
