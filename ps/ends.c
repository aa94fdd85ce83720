/* See ends.h. */
#include "ps/ends.h"

#include "common/clock.h"

void coxi_ends_init(struct coxi_ends *ends)
{
    coxi_mutex_init(&ends->lock);
    coxi_cond_init(&ends->changed);
}

void coxi_ends_fini(struct coxi_ends *ends)
{
    (void)pthread_cond_destroy(&ends->changed);
    coxi_mutex_fini(&ends->lock);
}

void coxi_ends_changed(struct coxi_ends *ends)
{
    coxi_lock(&ends->lock);
    atomic_fetch_add(&ends->n_changes, 1);
    if (ends->n_sleeping > 0) {
        (void)pthread_cond_broadcast(&ends->changed);
    }
    coxi_unlock(&ends->lock);
}

struct waiting {
    struct coxi_ends *ends;
    uint64_t n_changes; /* those that it knows */
};

static bool has_changed(void *arg)
{
    const struct waiting *waiting = arg;
    return atomic_load(&waiting->ends->n_changes) != waiting->n_changes;
}

/* False: nothing has changed in time. */
static bool await_change(struct waiting *waiting, const struct timespec *until)
{
    static _Thread_local struct coxi_linger linger;
    static const struct coxi_linger_limits limits = {20000, 50000, true};
    struct coxi_ends *ends = waiting->ends;
    /* Polls first: the last closure of a round often comes right after the others. */
    if (coxi_linger(&linger, &limits, has_changed, waiting)) {
        return true;
    }
    bool in_time = true;
    coxi_lock(&ends->lock);
    ends->n_sleeping++;
    while (in_time && !has_changed(waiting)) {
        in_time = coxi_wait_until(&ends->changed, &ends->lock, until);
    }
    ends->n_sleeping--;
    coxi_unlock(&ends->lock);
    return has_changed(waiting);
}

int coxi_ends_await(struct coxi_ends *ends, uint64_t n_changes, int timeout_ms,
                    int (*look)(void *arg), void *arg)
{
    const struct timespec until = coxi_deadline(timeout_ms);
    struct waiting waiting = {ends, n_changes};
    int r = 0;
    while (r == 0 && await_change(&waiting, &until)) {
        waiting.n_changes = atomic_load(&ends->n_changes);
        r = look(arg);
    }
    return r;
}
