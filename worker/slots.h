/*
 * The slots of a worker: threads that run closures, in the order in which they came.
 */
#ifndef COXI_WORKER_SLOTS_H
#define COXI_WORKER_SLOTS_H

#include "worker/recorder.h"
#include "worker/run.h"

struct coxi_slots;

/* `n` of them, which note what they run in `recorder` (NULL: nowhere). COX_EINVAL,
 * COX_ENOMEM. */
int coxi_slots_new(uint32_t n, struct coxi_recorder *recorder, struct coxi_slots **ret);

/*
 * Puts the closures of a dispatch in line; heads and arguments are copied. COX_EPROTO:
 * they do not fit the payload, or are more than the line takes. Any thread.
 */
int coxi_slots_push(struct coxi_slots *slots, struct coxi_run *run,
                    const struct coxi_dispatch *dispatch, const void *payload,
                    size_t len);

/*
 * Takes out what has not started of `run`; `answer`: each is reported as cancelled,
 * otherwise they are dropped. Any thread.
 */
void coxi_slots_recall(struct coxi_slots *slots, struct coxi_run *run, bool answer);

/* Starts nothing more; true once no step runs. Any thread. */
bool coxi_slots_stop(struct coxi_slots *slots);

/* Waits for the steps that run. Takes NULL. */
void coxi_slots_free(struct coxi_slots *slots);

#endif
