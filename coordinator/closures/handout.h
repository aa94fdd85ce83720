/* A task of a data set that is given out to a closure, and the events of such closures
 * (coordinator/datasets/tasks.h). */
#ifndef COXI_COORDINATOR_CLOSURES_HANDOUT_H
#define COXI_COORDINATOR_CLOSURES_HANDOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cox_dataset;
struct coxi_closure;
struct coxi_file_read;
struct coxi_worker;

/* Guarded by c->lock while its task is under way or waits. Once its closure is done it
 * belongs to the closure, and does not change. */
struct coxi_handout {
    struct cox_dataset *dataset;
    struct coxi_closure *closure; /* NULL: not scheduled yet */
    /* given out for the first time: its neighbours in a list; otherwise its subtrees
     * (coordinator/datasets/positions.h) */
    struct coxi_handout *next;
    struct coxi_handout *prev;
    uint64_t position;
    union {
        struct {
            uint64_t due_ms;      /* not given out again before */
            uint64_t earliest_ms; /* the least due_ms of its subtrees and its own */
        } waiting;
        struct {
            uint64_t bytes;   /* of its file */
            uint64_t records; /* told by the last attempt that was done; loop */
        };
    };
    uint32_t run_us;      /* the same */
    uint32_t bad_records; /* the same; UINT32_MAX: or more */
    uint32_t failures;    /* of earlier closures with this task */
    /* how often a closure with this task could not run, or its commit had no room */
    uint8_t mishaps;
    uint8_t n_late; /* how often its closure came too late for its round */
    bool late;      /* it waits because its closure did */
    bool again;     /* it is not given out for the first time */
    bool waits;     /* otherwise it is under way */
};

/* Set once, before the loop runs. Loop. */
struct coxi_handout_events {
    /* An attempt of a closure with a task is done: it took run_us, and returned the
     * packed values `result`. It may happen again before the closure is settled. */
    void (*answered)(struct coxi_closure *closure, uint32_t run_us,
                     const uint8_t *result, size_t len);
    /* A closure with a task is settled. Takes closure->task, unless it is done. */
    void (*settled)(struct coxi_closure *closure);
    /* A worker wants bytes of a file of a data set; the answer repeats `request`. */
    void (*wanted)(struct coxi_worker *worker, uint64_t request,
                   const struct coxi_file_read *wanted);
};

#endif
