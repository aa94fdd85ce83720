/*
 * What others see of the run while it goes on and afterwards:
 *
 *   monitor.c      the thread that samples
 *   writer.c       the thread that writes the history to disk
 *   sampler.c      records each second how the run, its ps and its workers do
 *   progress.c     how far the run is
 *   scalars.c      the program's scalars and configuration
 *   evaluations.c  records what evaluators have reported
 *   tensorboard.c  writes scalars for TensorBoard; event_file.c: in its format
 *   stats.c        counts what a run has done
 *   profile.c      tells where the time of steps goes, and what bounds the run
 *   tasks.c        tells which slot ran what, and when
 *   trace.c        gathers traces; trace_write.c: as viewers read them; trace_out.c: writes
 *                  the file; trace_asked.c: for somebody who asks over HTTP
 *   exposed.c      serves how the client is, and the live page, over HTTP;
 *                  exposed_metrics.c: its metrics
 *
 * Threads: two of its own. One sends each ps one message a second, and no worker any; on
 * the loop it takes a look at all workers, once a second. The other may wait for the disk,
 * and nobody waits for it but cox_close, for a few seconds.
 */
#ifndef COXI_COORDINATOR_MONITOR_MONITOR_H
#define COXI_COORDINATOR_MONITOR_MONITOR_H

#include <time.h>

struct cox_coordinator;

/* Makes the history if the options ask for one, before any event is told.
 * COX_EINVAL: an option is wrong; COX_ENOMEM. */
int coxi_monitor_new(struct cox_coordinator *c);

/* Reads the history of the run so far, once the run directory is ours. */
int coxi_monitor_load(struct cox_coordinator *c);

/* Starts the threads, once it is known whether the run goes on from a checkpoint.
 * COX_ENOMEM. */
int coxi_monitor_start(struct cox_coordinator *c);

/* Takes the last sample, and ends sampling: from now on nothing but the history is used. Comes
 * after all that it tells of, once life.closing is set, and before the ps are given up. Waits for
 * their last counts for a second at most, and no longer than `until`. */
void coxi_monitor_end_samples(struct cox_coordinator *c, const struct timespec *until);

/* Waits until what was recorded is written, for a few seconds at most, and no longer than
 * half a second after `until`. An event tells of a disk that does not answer, so this
 * comes before the end of events. */
void coxi_monitor_flush(struct cox_coordinator *c, const struct timespec *until);

/* Writes what is left, and ends the threads. */
void coxi_monitor_stop(struct cox_coordinator *c, const struct timespec *until);

/* After coxi_monitor_stop. */
void coxi_monitor_free(struct cox_coordinator *c);

#endif
