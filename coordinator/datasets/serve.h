/*
 * Gives workers bytes of the files of data sets whose source is the client. A worker
 * names data set, task and file; it gets nothing but that task's file.
 *
 * A thread of its own reads and sends, so the loop never waits for a disk. Memory: at
 * most SERVED_MAX requests that wait, a block that is read, and for each worker what it
 * has asked for and not received yet, at most SENT_MAX bytes.
 */
#ifndef COXI_COORDINATOR_DATASETS_SERVE_H
#define COXI_COORDINATOR_DATASETS_SERVE_H

#include "coordinator/coordinator.h"

struct coxi_file_read;
struct coxi_worker;

/* COX_ENOMEM. Free does nothing if new has failed, and ends the thread; call it before
 * the data sets are freed. */
int coxi_served_new(struct cox_coordinator *c);
void coxi_served_free(struct cox_coordinator *c);

/* A worker wants bytes: has them sent, or answers why not. Loop. */
void coxi_served_want(struct coxi_worker *worker, uint64_t request,
                      const struct coxi_file_read *wanted);

#endif
