/* The connections of a worker: who dials, what comes over them, their end. Loop. */
#ifndef COXI_COORDINATOR_WORKERS_CONTACT_H
#define COXI_COORDINATOR_WORKERS_CONTACT_H

#include "coordinator/workers/worker.h"

/* Dials one that the cluster lists, and is away. */
void coxi_worker_dial(struct coxi_worker *worker);

/*
 * One that dials us has come, with `conn` as control connection. If it is there already,
 * that connection is dead, and it is lost first.
 */
void coxi_worker_join(struct coxi_worker *worker, struct coxi_conn *conn,
                      const struct coxi_hello *hello);

/* Closes the connection of one that leaves, once it has nothing any more. */
void coxi_worker_let_leave(struct coxi_worker *worker);

/* Has the data connection opened, unless it is there; then sends what is `wanted`. */
void coxi_worker_open_data(struct coxi_worker *worker);

/* True where the process `incarnation` of a worker that dials us was asked for it. */
bool coxi_worker_wants_data(const struct coxi_worker *worker, uint64_t incarnation);

/* It has come. */
void coxi_worker_join_data(struct coxi_worker *worker, struct coxi_conn *conn);

#endif
