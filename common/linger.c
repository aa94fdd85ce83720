/* See linger.h. */
#include "common/linger.h"

#include <sched.h>
#include <stdatomic.h>

#include "common/clock.h"

enum { LOOKS = 16, TRY_AGAIN = 64 };

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

bool coxi_linger(struct coxi_linger *linger, const struct coxi_linger_limits *limits,
                 bool (*have)(void *arg), void *arg)
{
    if (linger->ns == 0) {
        linger->ns = linger->n++ % TRY_AGAIN == 0 ? limits->first_ns : 0;
        if (linger->ns == 0) {
            return false;
        }
    }
    uint64_t until_ns = coxi_now_ns() + linger->ns;
    bool found = have(arg);
    while (!found && coxi_now_ns() < until_ns) {
        for (int i = 0; i < LOOKS && !found; i++) {
            relax();
            found = have(arg);
        }
        if (!found && limits->yields) {
            (void)sched_yield();
        }
    }
    uint32_t longer = linger->ns * 2;
    linger->ns = !found                     ? linger->ns / 4
                 : longer < limits->most_ns ? longer
                                            : limits->most_ns;
    return found;
}
