/*
 * Gives workers bytes of the files of data sets whose source is the client. A worker
 * names data set, task and file; it gets nothing but that task's file.
 *
 * A thread of its own reads and sends, so the loop never waits for a disk. It serves the
 * workers in turn. Memory: for each worker at most WAITING_MAX requests that wait, and
 * WORKER_BYTES that it has not received yet; for all workers ALL_WORKERS_BYTES, but at
 * least one request of each. A worker that does not read waits alone.
 */
#ifndef COXI_COORDINATOR_DATASETS_SERVE_H
#define COXI_COORDINATOR_DATASETS_SERVE_H

#include "coordinator/coordinator.h"

struct coxi_file_read;
struct coxi_worker;

/* COX_ENOMEM. Free does nothing if new has failed. It ends the thread, in bounded time:
 * one that waits for a dead disk goes on alone, and frees what it uses at its end. */
int coxi_served_new(struct cox_coordinator *c);
void coxi_served_free(struct cox_coordinator *c);

/* A worker wants bytes: has them sent, or answers why not. Loop. */
void coxi_served_want(struct coxi_worker *worker, uint64_t request,
                      const struct coxi_file_read *wanted);

#endif
