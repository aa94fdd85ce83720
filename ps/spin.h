/*
 * A lock of one byte for what is held for less than a microsecond: free, it costs one
 * exchange and one store. Who meets another spins for a little and then lets others
 * run, for on a busy machine the holder may have been put off its core.
 *
 * Not fair, not recursive. A zeroed one is free.
 */
#ifndef COXI_PS_SPIN_H
#define COXI_PS_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

struct coxi_spin {
    atomic_bool held;
};

/* Returns when the lock looks free: try again then. */
void coxi_spin_wait(struct coxi_spin *spin);

static inline void coxi_spin_lock(struct coxi_spin *spin)
{
    while (atomic_exchange_explicit(&spin->held, true, memory_order_acquire)) {
        coxi_spin_wait(spin);
    }
}

static inline void coxi_spin_unlock(struct coxi_spin *spin)
{
    atomic_store_explicit(&spin->held, false, memory_order_release);
}

#endif
