/* See discovery.h. */
#include "coordinator/discovery.h"

#include <stdio.h>

#include "cluster/ps_watch.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/call.h"
#include "coordinator/base/event.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/workers/door.h"
#include "coordinator/workers/workers.h"

enum { SLICE_MS = 100 };

static void on_moved(void *arg, uint32_t ps, const char *url)
{
    struct cox_coordinator *c = arg;
    char before[160];
    if (coxi_recovery_move(c, ps, url, before, sizeof(before)) == 0 &&
        before[0] != '\0') {
        coxi_event(c, COX_EVENT_PS_MOVED, COXI_OF(.ps = coxi_maybe_of(ps)),
                   "ps %u is at %.160s now, and was at %s", ps, url, before);
    }
}

static void on_news(void *arg, enum coxi_member_news news, const char *text)
{
    struct cox_coordinator *c = arg;
    if (news == COXI_ETCD_LOST) {
        coxi_event(c, COX_EVENT_ETCD_LOST, COXI_OF(.error = COX_EIO), "%.400s", text);
    } else if (news == COXI_ETCD_BACK) {
        coxi_event(c, COX_EVENT_ETCD_BACK, COXI_OF(.error = 0), "%.400s", text);
    }
}

/* Waits until every ps is known, and says which are missing if that takes long. */
static int wait_for_all(struct cox_coordinator *c, uint64_t end_ms)
{
    struct coxi_patience patience = {0};
    int r;
    while ((r = coxi_ps_watch_wait(c->site.ps_watch, coxi_left_ms(end_ms, SLICE_MS))) ==
           COX_ETIMEDOUT) {
        uint64_t now = coxi_now_ms();
        if (now >= end_ms) {
            break;
        }
        if (coxi_patience_ends(&patience, now)) {
            uint64_t seconds = coxi_patience_seconds(&patience, now);
            coxi_event(c, COX_EVENT_BLOCKED, COXI_OF(.seconds = seconds),
                       "cox_open waits for %llu s: %.400s", (unsigned long long)seconds,
                       coxi_error_text());
        }
    }
    return r;
}

int coxi_discovery_start(struct cox_coordinator *c, uint64_t end_ms)
{
    if (c->site.cluster->etcd == NULL) {
        return 0;
    }
    int r =
        coxi_ps_watch_start(&(struct coxi_ps_watch_options){.cluster = c->site.cluster,
                                                            .on_moved = on_moved,
                                                            .on_news = on_news,
                                                            .arg = c},
                            &c->site.ps_watch);
    return r == 0 ? wait_for_all(c, end_ms) : r;
}

/* Workers must not find a client that was replaced. */
static bool is_not_fenced(void *arg)
{
    struct cox_coordinator *c = arg;
    coxi_lock(&c->lock);
    bool is_not = c->life.fatal != COX_EFENCED;
    coxi_unlock(&c->lock);
    return is_not;
}

int coxi_discovery_register(struct cox_coordinator *c)
{
    return c->site.ps_watch == NULL
               ? 0
               : coxi_membership_register(
                     coxi_ps_watch_membership(c->site.ps_watch),
                     &(struct coxi_member){.key = "client",
                                           .url = coxi_door_url(c->workers->door),
                                           .run = c->session.run,
                                           .may = is_not_fenced,
                                           .arg = c});
}

void coxi_discovery_stop(struct cox_coordinator *c)
{
    coxi_ps_watch_stop(c->site.ps_watch);
    c->site.ps_watch = NULL;
}
