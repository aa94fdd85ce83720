/*
 * The tasks of a data set: which of them are to be given out, are under way, or are
 * over.
 *
 * A task of an epoch has a position: epoch * n + its number in the epoch's order. Tasks
 * are given out for the first time by rising position, so one number (`next`) tells
 * them apart from those that were never given out. Besides that there are only the
 * tasks under way and those that are to be given out again, each in a list by rising
 * position:
 *
 *   (never given out) -> under way -> over          done, failed or skipped
 *                        under way -> waiting       to be given out again
 *                        waiting   -> under way
 *
 * Memory: a hand-out for each task under way or waiting; nothing for any other.
 * Cost: all functions O(1), but a task that is put into a list far from its end takes a
 * step for each task behind it, and the functions for manifests take one for each task
 * that they look at.
 *
 * Threads: none of its own; the coordinator's data sets hold c->lock.
 */
#ifndef COXI_COORDINATOR_DATASETS_TASKS_H
#define COXI_COORDINATOR_DATASETS_TASKS_H

#include <stdbool.h>

#include "checkpoint/manifest_datasets.h"
#include "coordinator/closures/handout.h"

struct coxi_handouts {
    struct coxi_handout *first;
    struct coxi_handout *last;
    size_t n;
};

struct coxi_tasks {
    uint64_t n;   /* of an epoch */
    uint64_t end; /* position: of all epochs; UINT64_MAX: for ever */
    uint64_t next;
    struct coxi_handouts fresh;   /* under way, for the first time */
    struct coxi_handouts again;   /* under way, not for the first time */
    struct coxi_handouts waiting; /* to be given out again */
};

/* `epochs` COX_EPOCHS_FOREVER: for ever. COX_EINVAL: there would be more positions than
 * numbers for them. */
int coxi_tasks_init(struct coxi_tasks *tasks, uint64_t n, uint64_t epochs);

/* Frees the hand-outs that wait. Those under way belong to their closures. */
void coxi_tasks_fini(struct coxi_tasks *tasks);

/*
 * Takes a task below position `limit` that is to be given out; puts it under way. It is
 * `spare` (which is then taken), or one that has waited. NULL: there is none.
 */
struct coxi_handout *coxi_tasks_take(struct coxi_tasks *tasks, uint64_t limit,
                                     struct coxi_handout *spare);

/* The task that was taken last could not be given out. Returns a hand-out that the
 * caller must free; or NULL: the task waits. */
struct coxi_handout *coxi_tasks_untake(struct coxi_tasks *tasks,
                                       struct coxi_handout *handout);

/* A task under way is over; the hand-out is in no list any more. */
void coxi_tasks_over(struct coxi_tasks *tasks, struct coxi_handout *handout);

/* A task under way is to be given out again. Takes the hand-out. */
void coxi_tasks_return(struct coxi_tasks *tasks, struct coxi_handout *handout);

/* Puts a task under way that an older client has given out. */
void coxi_tasks_adopt(struct coxi_tasks *tasks, struct coxi_handout *handout);

/* The lowest position whose task is not over; all below are. */
uint64_t coxi_tasks_floor(const struct coxi_tasks *tasks);

/*
 * What a checkpoint has to know, if it covers the closures up to `covered`: the first
 * position that was never given out to one of these (*ret_next), and the tasks below
 * it that are to be given out again. COX_ENOMEM.
 */
int coxi_tasks_save(const struct coxi_tasks *tasks, uint64_t covered,
                    uint64_t *ret_next, struct coxi_manifest_ranges *ret);

/* Goes on from there; `tasks` is new. COX_EFORMAT, COX_ENOMEM. */
int coxi_tasks_load(struct coxi_tasks *tasks, uint64_t next,
                    const struct coxi_manifest_ranges *waiting);

#endif
