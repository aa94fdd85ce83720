/*
 * The slots of a worker: threads that run closures in the order in which they came.
 * worker/watch.c watches them for steps that are cancelled, run too long or take too
 * much memory.
 */
#ifndef COXI_WORKER_SLOTS_H
#define COXI_WORKER_SLOTS_H

#include "worker/recorder.h"
#include "worker/run.h"

struct coxi_slots;

struct coxi_slots_options {
    uint32_t n;
    struct coxi_recorder *recorder; /* where slots note what they run; NULL: nowhere */
    struct coxi_loop *loop;         /* watches what runs */
    uint64_t memory_max; /* bytes of this process while a step runs; 0: no limit */
};

/* COX_EINVAL, COX_ENOMEM. */
int coxi_slots_new(const struct coxi_slots_options *options, struct coxi_slots **ret);

/*
 * Queues the closures of a dispatch; copies heads and arguments. If the slots are
 * closed or stopped, hands the closures back at once. COX_EPROTO: they do not fit the
 * payload, or are more than the line takes. Any thread.
 */
int coxi_slots_push(struct coxi_slots *slots, struct coxi_run *run,
                    const struct coxi_dispatch *dispatch, const void *payload,
                    size_t len);

/* If coxi_resources_wait says so, a slot will tend the run's resources before it takes
 * another closure. Any thread. */
void coxi_slots_tend(struct coxi_slots *slots, struct coxi_run *run);

/*
 * The client of `run` recalls attempts (see Recall in wire.fbs). Reports those that
 * have not started as cancelled, cancels those that run if the recall says so, and
 * ignores those that are not here. Any thread. COX_ENOMEM.
 */
int coxi_slots_recall(struct coxi_slots *slots, struct coxi_run *run,
                      const struct coxi_recall *recall);

/* Drops a resource that the client has released, or hides it from later closures; a slot
 * that makes it is recalled. The code of coxi_slots_recall. */
int coxi_slots_drop_resource(struct coxi_slots *slots, struct coxi_run *run,
                             const struct coxi_resource *dropped);

/* The client of `run`, which is closed, is gone: drops closures that have not started,
 * cancels what runs, and lets a slot release the run's resources. Any thread. */
void coxi_slots_drop(struct coxi_slots *slots, struct coxi_run *run);

/* Tells the client of `run` how much memory this process has, if that has changed; reads
 * /proc once a second at most. Loop. */
void coxi_slots_tell_memory(const struct coxi_slots *slots, struct coxi_run *run);

/* Starts nothing more: hands back at once what comes from now on. What is in line stays
 * there until coxi_slots_stop. Any thread. */
void coxi_slots_close(struct coxi_slots *slots);

/* Starts nothing more, hands back what has not started, and cancels the making of
 * resources; true once no step runs. Any thread. */
bool coxi_slots_stop(struct coxi_slots *slots);

/* Waits for the steps that run. The loop frees the memory, at the latest when it ends.
 * Takes NULL. */
void coxi_slots_free(struct coxi_slots *slots);

#endif
