/* Cancels a closure for its user: the loop does it. Any thread. */
#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/closures/attempts.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/futures.h"

struct cancellation {
    struct coxi_mail mail; /* must be the first member */
    struct cox_future *future;
};

static void run_cancellation(struct coxi_mail *mail)
{
    struct cancellation *cancellation = (struct cancellation *)mail;
    struct cox_future *future = cancellation->future;
    struct cox_coordinator *c = future->c;
    if (!atomic_load(&future->settled)) {
        if (coxi_closures_get(c, future->id) == NULL) {
            coxi_dispatch(c); /* takes it in */
        }
        coxi_attempts_cancel(coxi_closure_of(future));
    }
    coxi_future_unref(future);
    free(cancellation);
    coxi_loop_wake_after_mail(c->loop);
}

int cox_future_cancel(struct cox_future *future)
{
    if (future == NULL) {
        return coxi_error(COX_EINVAL, "cox_future_cancel needs a future");
    }
    struct cox_coordinator *c = future->c;
    struct cancellation *cancellation = malloc(sizeof(*cancellation));
    if (cancellation == NULL) {
        return coxi_error_memory("a cancellation");
    }
    *cancellation = (struct cancellation){{NULL, run_cancellation}, future};
    coxi_lock(&c->lock);
    /* Posts nothing at close: everything is cancelled then, and the loop may be
     * gone. */
    bool post = !future->settled && !c->life.closing;
    if (post) {
        coxi_future_ref(future);
        coxi_loop_post(c->loop, &cancellation->mail);
    }
    coxi_unlock(&c->lock);
    if (!post) {
        free(cancellation);
    }
    return 0;
}
