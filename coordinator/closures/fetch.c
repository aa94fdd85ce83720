/* Fetches results that are kept on a worker. A closure without a step does this: it is
 * done when the results have come to the client. Any thread. */
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/call.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/schedule.h"

/* Begins a closure that is done when the values that `source` keeps have come to the
 * client, and fails if they cannot come. */
static int begin(struct cox_future *source, struct cox_future **ret_fetch)
{
    struct cox_coordinator *c = source->c;
    COXI_CALL_AS(c, "cox_future_fetch");
    struct cox_input input = {NULL, source, NULL};
    struct coxi_closure_spec spec = {.function = coxi_closure_of(source)->function};
    struct coxi_closure *fetch = NULL;
    int r = coxi_inputs_new(c, &input, 1, &spec.inputs);
    if (r == 0) {
        r = coxi_closure_new(c, &spec, &fetch);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(spec.inputs));
        return r;
    }
    fetch->fetches = true;
    coxi_lock(&c->lock);
    r = coxi_check_alive_locked(c);
    if (r == 0) {
        atomic_store_explicit(&fetch->future.refs, 2, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
        coxi_intake_put(c, fetch);
        c->life.n_waiting++;
        c->life.n_unsettled++;
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        coxi_futures_free(fetch);
        return r;
    }
    coxi_loop_wake(c->loop);
    *ret_fetch = &fetch->future;
    return 0;
}

int cox_future_fetch(struct cox_future *future, int timeout_ms)
{
    uint64_t start = coxi_now_ms();
    struct cox_future *fetch = NULL;
    int r = cox_future_wait(future, timeout_ms);
    if (r != 0) {
        return r;
    }
    coxi_lock(&future->c->lock);
    bool away = coxi_future_is_away(future);
    coxi_unlock(&future->c->lock);
    if (!away) {
        return 0;
    }
    r = begin(future, &fetch);
    if (r != 0) {
        return r;
    }
    uint64_t passed = coxi_now_ms() - start;
    int left_ms = timeout_ms < 0                  ? -1
                  : passed < (uint64_t)timeout_ms ? timeout_ms - (int)passed
                                                  : 0;
    r = cox_future_wait(fetch, left_ms);
    if (r == COX_ETIMEDOUT) {
        (void)cox_future_cancel(fetch);
        (void)coxi_error(r, "the results of closure %llu have not come in %d ms",
                         (unsigned long long)future->id.n, timeout_ms);
    } else if (r != 0) {
        (void)coxi_error(r, "%s", coxi_future_text(fetch));
    }
    cox_future_free(fetch);
    return r;
}
