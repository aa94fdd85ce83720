/* See spin.h. This is the slow path, for threads that find the lock held. */
#include "ps/spin.h"

#include <sched.h>

enum { SPINS = 200 };

/* Tells the core that this loop waits. */
static void pause_core(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void coxi_spin_wait(struct coxi_spin *spin)
{
    for (int i = 0; atomic_load_explicit(&spin->held, memory_order_relaxed); i++) {
        if (i < SPINS) {
            pause_core();
        } else {
            (void)sched_yield();
        }
    }
}
