/*
 * The gate: the work that an older client has left (closures that run again, writes
 * that it had begun) is done in its own order, and this program's closures, writes and
 * reads keep to that order.
 *
 * A gate exists only while an older client's work is left: checkpoints/resume_order.c
 * sets it, and removes it when the work is done. Without a gate each function here
 * costs one test. Scheduling and the loop test c->closures->gate themselves.
 */
#ifndef COXI_COORDINATOR_CLOSURES_GATE_H
#define COXI_COORDINATOR_CLOSURES_GATE_H

#include "common/sync.h"
#include "coordinator/closures/closure.h"

struct coxi_gate {
    /* See the functions below with the same names. */
    const struct cox_function *(*go_on)(struct cox_coordinator *c);
    const struct cox_function *(*missing)(struct cox_coordinator *c);
    int (*check)(struct cox_coordinator *c);
    int (*check_resets)(const struct cox_coordinator *c,
                        const struct cox_function *missing);
    bool (*is_writing)(const struct cox_coordinator *c);
    int (*wait)(struct cox_coordinator *c);
    int (*reset)(struct cox_coordinator *c, const struct coxi_variable *metric);
    /* True if a closure of this program, which was just taken in, must wait for a write
     * of the older client or for a reset: then it is WAITING. Loop. */
    bool (*holds)(struct coxi_closure *closure);
    /* At the end of a turn: lets the next write begin if its turn has come. Loop. */
    void (*turn)(struct cox_coordinator *c);
};

/*
 * The program schedules or waits: closures that are left may run now, as far as their
 * functions are loaded. Returns a function that is not loaded (it has names, and lives
 * until close), or NULL. Any thread, with c->lock.
 */
static inline const struct cox_function *coxi_gate_go_on(struct cox_coordinator *c)
    COXI_REQUIRES(c->lock)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->go_on(c) : NULL;
}

/* Like coxi_gate_go_on, for a report of what the program waits for: it does not count
 * as scheduling or waiting. Before the program has done either, it returns NULL and
 * lets no closure run. With c->lock. */
static inline const struct cox_function *coxi_gate_missing(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->missing(c) : NULL;
}

/*
 * True while a write is left: one of the older client; or, once the program has
 * scheduled or joined, a reset that follows the older client's closures. Any thread,
 * with c->lock.
 */
static inline bool coxi_gate_is_writing(const struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL && gate->is_writing(c);
}

/*
 * COX_ENOENT if a write that is left (coxi_gate_is_writing), and with it everything
 * that must wait for that write, waits for a closure whose function is not loaded. The
 * text names the function to load. Any thread, with c->lock.
 */
static inline int coxi_gate_check(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->check(c) : 0;
}

/*
 * COX_ENOENT if a reset that is left, and with it the closures that the program
 * schedules, waits for a closure of function `missing`, which coxi_gate_go_on has
 * returned. The text names that function. Any thread, with c->lock.
 */
static inline int coxi_gate_check_resets(const struct cox_coordinator *c,
                                         const struct cox_function *missing)
    COXI_REQUIRES(c->lock)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->check_resets(c, missing) : 0;
}

/*
 * Waits until no write is left (coxi_gate_is_writing): this program's writes come after
 * the older client's, and its reads see these. COX_ENOENT as in coxi_gate_check;
 * otherwise the code that ended the coordinator. Any thread but the loop, without
 * c->lock.
 */
static inline int coxi_gate_wait(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->wait(c) : 0;
}

/*
 * The program has reset the metric. If closures of the older client are still to run
 * again, because the program has not scheduled or joined yet, the metric is reset once
 * more after them. Waits for room. COX_ENOMEM; otherwise the code that ended the
 * coordinator. Any thread but the loop, without c->lock.
 */
static inline int coxi_gate_reset(struct cox_coordinator *c,
                                  const struct coxi_variable *metric)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->reset(c, metric) : 0;
}

#endif
