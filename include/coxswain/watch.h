/*
 * What a program lets others see of training: numbers by step, how it was configured, and
 * how much there is to do.
 * They are written to the run's history (metrics.jsonl in checkpoint_dir, or without one
 * in log_dir), and for TensorBoard (cox_options.tensorboard_dir). Without any of these,
 * the functions check their arguments and do nothing. docs/watching.md shows what comes of
 * it. Include <coxswain/coxswain.h> instead of this file.
 *
 * The calls wait neither for a disk nor for a peer. What was logged is handed to the
 * operating system within a quarter of a second, so a client that is killed loses at most
 * that. If it is started again and goes on from a checkpoint, everything that was logged
 * after the checkpoint is void, because the program logs it again; readers leave it out.
 * If the client was killed while it wrote the checkpoint, a scalar of the program may be
 * there twice for the same name and step: then the newest counts.
 */
#ifndef COXSWAIN_WATCH_H
#define COXSWAIN_WATCH_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cox_coordinator;

/*
 * Logs a number under a name, at a step that the program counts, for instance examples
 * or epochs. Log rising steps under a name: curves connect points in the order in which
 * they were logged. For a number of each step on the workers, and for exactly one point
 * of each, there is cox_step_log_scalar (step.h).
 *
 * Any thread, also callbacks and on_event. COX_EINVAL: the name is empty or longer than
 * 127 bytes, or the step is larger than 2^63 - 1. COX_ELIMIT: there are 1024 names
 * already. Any number can be logged; in metrics.jsonl those that JSON has not are the
 * strings "NaN", "Infinity" and "-Infinity". TensorBoard has it as a float.
 */
COX_API int cox_log_scalar(struct cox_coordinator *c, const char *name, uint64_t step,
                           double value);

/*
 * Logs how the program is configured: an object of JSON, for instance its
 * hyper-parameters. The newest one counts. COX_EINVAL: it is no object. COX_ELIMIT: more
 * than 64 KiB.
 */
COX_API int cox_log_config(struct cox_coordinator *c, const char *json);

/*
 * Says how many calls the program will have scheduled since cox_open when it is done, of
 * all functions and data sets together. So those who watch it see how far it is and when
 * it will be done: how many of `closures` are done; for the time left, those that have failed
 * count, too. Calls that were too late for their round do not count, as the program may
 * schedule them again. A program
 * that goes on from a checkpoint says how many calls are left. The newest number counts;
 * 0: it is not known any more. Without it, progress is what data sets know of their tasks
 * (cox_dataset_progress).
 *
 * Any thread, also callbacks and on_event. COX_EINVAL: it is larger than 2^63 - 1.
 */
COX_API int cox_log_total(struct cox_coordinator *c, uint64_t closures);

#ifdef __cplusplus
}
#endif
#endif
