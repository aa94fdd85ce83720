/*
 * A lock of one byte, for state that is held for less than a microsecond. If it is
 * free, it costs one exchange and one store. A thread that finds it held spins for a
 * little and then yields, because on a busy machine the holder may have been preempted.
 *
 * Not fair, not recursive. A zeroed lock is free.
 */
#ifndef COXI_PS_SPIN_H
#define COXI_PS_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "common/guarded.h"

struct COXI_LOCK_TYPE coxi_spin {
    atomic_bool held;
};

/* Returns when the lock looks free: try again then. */
void coxi_spin_wait(struct coxi_spin *spin);

static inline void coxi_spin_lock(struct coxi_spin *spin)
    COXI_ACQUIRES(*spin) COXI_UNCHECKED
{
    while (atomic_exchange_explicit(&spin->held, true, memory_order_acquire)) {
        coxi_spin_wait(spin);
    }
}

static inline void coxi_spin_unlock(struct coxi_spin *spin)
    COXI_RELEASES(*spin) COXI_UNCHECKED
{
    atomic_store_explicit(&spin->held, false, memory_order_release);
}

/* Tells the compiler that no other thread can use the object that this lock guards, so
 * it need not be locked. Costs nothing. */
static inline void coxi_spin_unshared(const struct coxi_spin *spin) COXI_ASSERTS(spin)
{
    (void)spin;
}

#endif
