/* See alive.h. */
#include "coordinator/base/alive.h"

#include <stdio.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"

void coxi_note_error(struct cox_coordinator *c, int code, const char *text)
{
    if (c->error == 0) {
        c->error = code;
        c->failed = true;
        (void)snprintf(c->error_text, sizeof(c->error_text), "%s", text);
        (void)pthread_cond_broadcast(&c->idle);
        (void)pthread_cond_broadcast(&c->room);
    }
}

void coxi_fatal(struct cox_coordinator *c, int code, const char *text)
{
    coxi_lock(&c->lock);
    if (c->fatal == 0) {
        c->fatal = code;
        bool hint = code == COX_EPSLOST && c->checkpoint_dir == NULL;
        (void)snprintf(c->fatal_text, sizeof(c->fatal_text), "%.400s%s", text,
                       hint ? "; with a checkpoint_dir the run could go on from its "
                              "newest checkpoint"
                            : "");
        coxi_note_error(c, code, c->fatal_text);
        coxi_event(c, code == COX_EFENCED ? COX_EVENT_FENCED : COX_EVENT_RUN_OVER,
                   COXI_OF(.error = code), "%s", c->fatal_text);
    }
    coxi_unlock(&c->lock);
    coxi_loop_wake(c->loop);
}

int coxi_check_alive_locked(const struct cox_coordinator *c)
{
    if (c->closing) {
        return coxi_error(COX_ECLOSED, "the coordinator is being closed");
    }
    return c->fatal != 0 ? coxi_error(c->fatal, "%s", c->fatal_text) : 0;
}

int coxi_check_alive(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = coxi_check_alive_locked(c);
    coxi_unlock(&c->lock);
    return r;
}
