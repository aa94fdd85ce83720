/*
 * The ids of closures, and of operations of the client's own, which rise in the order in which
 * they come; places in that order; and steps, which learning rates follow.
 */
#ifndef COXI_COORDINATOR_BASE_IDS_H
#define COXI_COORDINATOR_BASE_IDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct coxi_ids {
    /* ---- guarded by c->lock */

    uint64_t next;
    /* The lowest that is not settled; the next one, where all are. */
    uint64_t first_unsettled;
    /* An older client's closures, which are not settled, run behind what the program writes and
     * makes now: it has not scheduled or joined yet. */
    bool before_unsettled;

    /* ---- changed with c->lock, read by any thread */

    /* The run's first closure, whichever client scheduled it; 0: there is none yet. Steps are
     * counted from it, so they are the same for every client and attempt (rule.h). */
    atomic_uint_least64_t first_closure;
    /* Its step: not 0 where a checkpoint has been loaded (load.c), from which on it counts as
     * the first. Up to that operation (`steps_loaded`) a step is the id less `steps_from`. */
    atomic_uint_least64_t steps_before;
    atomic_uint_least64_t steps_loaded;
    atomic_uint_least64_t steps_from;
};

/*
 * The place among the ids of what the program writes or makes now: the next id; but until a
 * program that goes on first schedules or joins, that of the first closure which the older client
 * has left, for those run behind it, though their ids are lower. With c->lock.
 */
static inline uint64_t coxi_ids_position(const struct coxi_ids *ids)
{
    return ids->before_unsettled ? ids->first_unsettled : ids->next;
}

/* What a closure's id is less, as its step. Closures that are sent together are all from before
 * or all from after a loading, because that is a barrier in a replay. Any thread. */
static inline uint64_t coxi_ids_first_step(const struct coxi_ids *ids, uint64_t closure)
{
    return closure < atomic_load(&ids->steps_loaded)
               ? atomic_load(&ids->steps_from)
               : atomic_load(&ids->first_closure) - atomic_load(&ids->steps_before);
}

#endif
