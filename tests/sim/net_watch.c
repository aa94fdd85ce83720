/* Closes links whose peers are silent: replaces net/link_watch.c in the simulated
 * network. */
#include <stdlib.h>

#include "common/error.h"
#include "net/link.h"
#include "tests/sim/net_internal.h"
#include "tests/sim/sched.h"

struct coxi_links {
    uint64_t timeout_ms;
    struct coxi_link *first;
};

int coxi_links_new(int timeout_ms, struct coxi_links **ret)
{
    *ret = calloc(1, sizeof(**ret));
    (*ret)->timeout_ms = (uint64_t)timeout_ms;
    return 0;
}

void coxi_links_free(struct coxi_links *links)
{
    free(links);
}

void coxi_links_add(struct coxi_links *links, struct coxi_link *link)
{
    link->links = links;
    link->watch_next = links->first;
    links->first = link;
}

void coxi_links_drop(struct coxi_link *link)
{
    if (link->links == NULL) {
        return;
    }
    struct coxi_link **at = &link->links->first;
    while (*at != link) {
        at = &(*at)->watch_next;
    }
    *at = link->watch_next;
    link->links = NULL;
}

/* True if nothing comes from the other side, not even heartbeats. */
static bool is_silent(const struct coxi_link *link)
{
    return sim_net_parted_until(link) > sim_now() || link->peer->proc->paused;
}

uint64_t coxi_link_heard_ms(const struct coxi_link *link)
{
    return is_silent(link) ? link->heard_ms : sim_now() / SIM_MS;
}

void coxi_links_tick(struct coxi_links *links)
{
    uint64_t now_ms = sim_now() / SIM_MS;
    for (struct coxi_link *link = links->first; link != NULL; link = link->watch_next) {
        if (!is_silent(link)) {
            link->heard_ms = now_ms;
        } else if (now_ms - link->heard_ms > links->timeout_ms) {
            coxi_link_close(link, COX_ETIMEDOUT,
                            "the peer has been silent for too long");
        }
    }
}

void coxi_links_close_all(struct coxi_links *links, int code, const char *text)
{
    for (struct coxi_link *link = links->first; link != NULL; link = link->watch_next) {
        coxi_link_close(link, code, text);
    }
}
