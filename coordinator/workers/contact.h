/* The connections of a worker: dialling, received messages, their end. Loop. */
#ifndef COXI_COORDINATOR_WORKERS_CONTACT_H
#define COXI_COORDINATOR_WORKERS_CONTACT_H

#include "coordinator/workers/worker.h"

/* Dials a worker that the cluster lists and that is away. */
void coxi_worker_dial(struct coxi_worker *worker);

/* A worker has dialled us; `conn` is its control connection. If the worker is still
 * there, its old connection is dead, and it is lost first. */
void coxi_worker_join(struct coxi_worker *worker, struct coxi_conn *conn,
                      const struct coxi_hello *hello);

/* Closes the connection of a leaving worker once all its closures are answered. */
void coxi_worker_let_leave(struct coxi_worker *worker);

/* Opens the data connection, unless it is open; then sends the modules that are
 * `wanted`. */
void coxi_worker_open_data(struct coxi_worker *worker);

/* True if process `incarnation` of a worker that dials us was asked to open a data
 * connection. */
bool coxi_worker_wants_data(const struct coxi_worker *worker, uint64_t incarnation);

/* The data connection has come. */
void coxi_worker_join_data(struct coxi_worker *worker, struct coxi_conn *conn);

#endif
