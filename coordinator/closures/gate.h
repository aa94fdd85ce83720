/*
 * The gate: what an older client has left (closures that run again, writes that it had begun) goes
 * on in its own order, and this program's closures, writes and reads keep to that order.
 *
 * There is one only while an older client's work is left: checkpoints/resume_order.c sets it, and
 * takes it away when that work is done. Without it each function here is one test.
 */
#ifndef COXI_COORDINATOR_CLOSURES_GATE_H
#define COXI_COORDINATOR_CLOSURES_GATE_H

#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"

struct coxi_gate {
    /* As the functions below of the same names. */
    const struct cox_function *(*go_on)(struct cox_coordinator *c);
    const struct cox_function *(*missing)(struct cox_coordinator *c);
    int (*check)(struct cox_coordinator *c);
    int (*check_resets)(const struct cox_coordinator *c,
                        const struct cox_function *missing);
    bool (*is_writing)(const struct cox_coordinator *c);
    int (*wait)(struct cox_coordinator *c);
    int (*reset)(struct cox_coordinator *c, const struct coxi_variable *metric);
    bool (*holds)(struct coxi_closure *closure);
    void (*turn)(struct cox_coordinator *c);
};

/*
 * The program schedules or waits: what is left to be run may run now, as far as its functions
 * are loaded. Returns a function that is not loaded (it has names, and lives until close), or
 * NULL. Any thread, with c->lock.
 */
static inline const struct cox_function *coxi_gate_go_on(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->go_on(c) : NULL;
}

/* The same for whoever tells what is waited for: NULL before the program schedules or waits. */
static inline const struct cox_function *coxi_gate_missing(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->missing(c) : NULL;
}

/* True while something is still to be written: by the client before; or, when the program has
 * scheduled or joined, a reset that comes behind that client's closures. Any thread, with
 * c->lock. */
static inline bool coxi_gate_is_writing(const struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL && gate->is_writing(c);
}

/* COX_ENOENT, naming the function to load: such a write, and all that has to wait for it, waits
 * for a closure whose function is not loaded. Any thread, with c->lock. */
static inline int coxi_gate_check(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->check(c) : 0;
}

/* COX_ENOENT, naming the function to load (`missing`, which coxi_gate_go_on has returned): such a
 * reset, and with it what the program schedules, waits for a closure of that function. Any
 * thread, with c->lock. */
static inline int coxi_gate_check_resets(const struct cox_coordinator *c,
                                         const struct cox_function *missing)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->check_resets(c, missing) : 0;
}

/*
 * Waits until all of that is written: what this program writes comes after it, and what it
 * reads has it. COX_ENOENT as above; what ended the coordinator. Any thread but the loop,
 * without c->lock.
 */
static inline int coxi_gate_wait(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->wait(c) : 0;
}

/*
 * The program has reset that metric. While closures of the client before are still to run again,
 * because the program has not scheduled or joined yet, it is reset once more behind them. Waits
 * for room. COX_ENOMEM; what ended the coordinator. Any thread but the loop, without c->lock.
 */
static inline int coxi_gate_reset(struct cox_coordinator *c,
                                  const struct coxi_variable *metric)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    return gate != NULL ? gate->reset(c, metric) : 0;
}

/* A closure of this program's, which has just come, has to wait for such a write: true, and
 * then it is WAITING. Loop. */
static inline bool coxi_gate_holds(struct coxi_closure *closure)
{
    const struct coxi_gate *gate = atomic_load(&closure->future.c->closures->gate);
    return gate != NULL && gate->holds(closure);
}

/* At the end of a turn: what is to be written next may have its turn now. Loop. */
static inline void coxi_gate_turn(struct cox_coordinator *c)
{
    const struct coxi_gate *gate = atomic_load(&c->closures->gate);
    if (gate != NULL) {
        gate->turn(c);
    }
}

#endif
