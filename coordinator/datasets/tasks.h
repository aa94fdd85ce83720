/*
 * The tasks of a data set: which of them are to be given out, are under way, or are
 * over.
 *
 * A task of an epoch has a position: epoch * n + its number in the epoch's order. Tasks
 * are given out for the first time by rising position, so one number (`next`) tells
 * them apart from those that were never given out. Besides that there are only the
 * tasks under way and those that wait:
 *
 *   (never given out) -> under way -> over          done, failed or skipped
 *                        under way -> waiting       to be given out again when it is due
 *                        waiting   -> under way
 *
 * Memory: a hand-out for each task under way or waiting, of which there are at most
 * COXI_AHEAD_MAX; nothing for any other. When there are as many, only tasks that wait
 * are given out.
 * Cost: O(1) for a task that is given out once; O(log n) for one that is given out
 * again; _may_come looks at those that have no closure yet, and the functions for
 * manifests look at each task under way or waiting.
 *
 * Threads: none of its own; the coordinator's data sets hold c->lock.
 */
#ifndef COXI_COORDINATOR_DATASETS_TASKS_H
#define COXI_COORDINATOR_DATASETS_TASKS_H

#include <stdbool.h>

#include "checkpoint/manifest_datasets.h"
#include "coordinator/closures/handout.h"
#include "coordinator/datasets/positions.h"

struct coxi_handouts {
    struct coxi_handout *first;
    struct coxi_handout *last;
    size_t n;
};

struct coxi_tasks {
    uint64_t n;   /* of an epoch */
    uint64_t end; /* position: of all epochs; UINT64_MAX: for ever */
    uint64_t next;
    struct coxi_handouts fresh;  /* under way, for the first time; by rising position */
    struct coxi_positions again; /* under way, not for the first time */
    struct coxi_positions waiting; /* to be given out again */
};

/* `epochs` COX_EPOCHS_FOREVER: for ever. COX_EINVAL: there would be more positions than
 * numbers for them. */
int coxi_tasks_init(struct coxi_tasks *tasks, uint64_t n, uint64_t epochs);

/* Frees the hand-outs that wait. None may be under way. */
void coxi_tasks_fini(struct coxi_tasks *tasks);

/*
 * Takes a task below position `limit` that is to be given out; puts it under way. It is
 * one that has waited and is due at `now_ms`, or `spare` (which is then taken), or else
 * one that came late and is not due yet. NULL: there is none.
 */
struct coxi_handout *coxi_tasks_take(struct coxi_tasks *tasks, uint64_t limit,
                                     uint64_t now_ms, struct coxi_handout *spare);

/* The task that was taken last could not be given out. Returns a hand-out that the
 * caller must free; or NULL: the task waits. */
struct coxi_handout *coxi_tasks_untake(struct coxi_tasks *tasks,
                                       struct coxi_handout *handout);

/* A task under way is over; the hand-out is in no list any more. */
void coxi_tasks_over(struct coxi_tasks *tasks, struct coxi_handout *handout);

/* A task under way is to be given out again, from `due_ms` on (0: at once). Takes the
 * hand-out. */
void coxi_tasks_return(struct coxi_tasks *tasks, struct coxi_handout *handout,
                       uint64_t due_ms);

/* Puts a task under way that an older client has given out. */
void coxi_tasks_adopt(struct coxi_tasks *tasks, struct coxi_handout *handout);

/* True if the task waits, or is under way, but not for the first time. */
bool coxi_tasks_has_again(const struct coxi_tasks *tasks, uint64_t position);

/* True if a task below position `limit` may be given out now or later, besides those that
 * were taken and have no closure yet. */
bool coxi_tasks_may_come(const struct coxi_tasks *tasks, uint64_t limit);

/* How many are under way. */
size_t coxi_tasks_under_way(const struct coxi_tasks *tasks);

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
