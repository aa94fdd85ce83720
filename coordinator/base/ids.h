/* The ids of closures and of the client's own operations, given out in rising order;
 * positions in that order; and the steps by which learning rates change. */
#ifndef COXI_COORDINATOR_BASE_IDS_H
#define COXI_COORDINATOR_BASE_IDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The id of a closure, or of an operation of the client's own; n 0: none. It is a type,
 * because an attempt, a row and a variable's id are numbers, too. Positions, watermarks
 * and windows count with the number; messages and files contain it.
 */
struct coxi_closure_id {
    uint64_t n;
};

static inline struct coxi_closure_id coxi_closure_id(uint64_t n)
{
    return (struct coxi_closure_id){n};
}

struct coxi_ids {
    /* ---- guarded by c->lock */

    uint64_t next;
    /* the lowest id that is not settled; `next` if all are */
    uint64_t first_unsettled;
    /*
     * An older client has left closures that are not settled. They run after all that
     * the program writes and creates now, because it has not scheduled or joined yet.
     */
    bool before_unsettled;

    /* ---- changed with c->lock, read by any thread */

    /*
     * The run's first closure, which an older client may have scheduled; 0: none yet.
     * Steps are counted from it, so they are the same for every client and attempt
     * (rule.h).
     */
    atomic_uint_least64_t first_closure;
    /*
     * The step of first_closure; not 0 if a checkpoint was loaded (load.c), because
     * then the first closure after the loading counts as the first. `steps_loaded` is
     * the id of the operation that loaded the checkpoint; for ids below it, a step is
     * the id minus `steps_from`.
     */
    atomic_uint_least64_t steps_before;
    atomic_uint_least64_t steps_loaded;
    atomic_uint_least64_t steps_from;
};

/*
 * The position, among the ids of closures, of a write or resource that the program
 * makes now. Usually it is the next id. But while a program that continues a run has
 * not scheduled or joined yet, it is the id of the first closure that the older client
 * has left: that closure and later ones have lower ids, but run after the write. With
 * c->lock.
 */
static inline uint64_t coxi_ids_position(const struct coxi_ids *ids)
{
    return ids->before_unsettled ? ids->first_unsettled : ids->next;
}

#endif
