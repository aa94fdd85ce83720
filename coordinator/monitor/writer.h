/*
 * Writes the history to disk, on a thread of its own: metrics.jsonl and the files for
 * TensorBoard. The thread also takes over what evaluators report, because that is read from
 * the disk.
 *
 * Nobody waits for the disk but this thread. cox_close waits for it for a few seconds. If the
 * disk does not answer in that time, the thread is left behind with everything that it
 * uses, and writes nothing more.
 */
#ifndef COXI_COORDINATOR_MONITOR_WRITER_H
#define COXI_COORDINATOR_MONITOR_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "checkpoint/records.h"
#include "schema/wire.h"

struct cox_coordinator;
struct coxi_evaluations;
struct coxi_writer;

/* How long flush and stop wait for the disk at most, in ms, which tests shorten. */
extern atomic_uint coxi_writer_close_ms;

/* All is copied, but `records` and `evaluations`. */
struct coxi_writer_options {
    struct coxi_records *records;
    struct coxi_evaluations *evaluations; /* taken, also on failure */
    const char *dir;         /* of metrics.jsonl; NULL: it is not written */
    const char *checkpoints; /* NULL: there is no checkpoint directory */
    const char *board;       /* for TensorBoard; NULL: nothing is written */
    const struct coxi_session *session;
    const struct coxi_repeated *repeated; /* NULL: the run goes on from no checkpoint */
};

/* COX_ENOMEM. */
int coxi_writer_start(struct cox_coordinator *c,
                      const struct coxi_writer_options *options,
                      struct coxi_writer **ret);

/* When the thread began what it does now (coxi_now_ms); 0: it does nothing. */
uint64_t coxi_writer_busy_since(struct coxi_writer *writer);

/* Waits until what was recorded before is written, or cannot be. False: the disk has not
 * answered until `until`, or half a second if that is later. */
bool coxi_writer_flush(struct coxi_writer *writer, const struct timespec *until);

/* Writes what is left and ends the thread. If it does not end (waits as coxi_writer_flush;
 * `until` NULL: not at all), leaves it behind. The coordinator is not used after this. */
void coxi_writer_stop(struct coxi_writer *writer, const struct timespec *until);

/* After coxi_writer_stop: frees the writer and its records, at once, or when the
 * thread that was left behind has ended. */
void coxi_writer_free(struct coxi_writer *writer);

#endif
