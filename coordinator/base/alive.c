/* See alive.h. */
#include "coordinator/base/alive.h"

#include <stdio.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"

void coxi_note_error(struct cox_coordinator *c, int code, const char *text)
{
    if (c->life.error == 0) {
        c->life.error = code;
        c->life.failed = true;
        (void)snprintf(c->life.error_text, sizeof(c->life.error_text), "%s", text);
        (void)pthread_cond_broadcast(&c->life.idle);
        (void)pthread_cond_broadcast(&c->life.room);
    }
}

void coxi_fatal(struct cox_coordinator *c, int code, const char *text)
{
    coxi_lock(&c->lock);
    if (c->life.fatal == 0) {
        c->life.fatal = code;
        bool hint = code == COX_EPSLOST && c->saving.dir == NULL;
        (void)snprintf(c->life.fatal_text, sizeof(c->life.fatal_text), "%.*s%s",
                       hint ? COXI_TEXT_MAX - 100 : COXI_TEXT_MAX - 1, text,
                       hint ? "; with a checkpoint_dir the run could go on from its "
                              "newest checkpoint"
                            : "");
        coxi_note_error(c, code, c->life.fatal_text);
        coxi_event(c, code == COX_EFENCED ? COX_EVENT_FENCED : COX_EVENT_RUN_OVER,
                   COXI_OF(.error = code), "%s", c->life.fatal_text);
    }
    coxi_unlock(&c->lock);
    coxi_loop_wake(c->loop);
}

int coxi_check_alive_locked(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    if (c->life.closing) {
        return coxi_error(COX_ECLOSED, "the coordinator is being closed");
    }
    return c->life.fatal != 0 ? coxi_error(c->life.fatal, "%s", c->life.fatal_text) : 0;
}

int coxi_check_alive(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = coxi_check_alive_locked(c);
    coxi_unlock(&c->lock);
    return r;
}
