/*
 * Watches links for life: sends heartbeats, notices silence. A set is a list under a
 * lock that comes before a link's own; closing never waits.
 *
 * Cost: a tick looks at each link once, however many need a heartbeat.
 */
#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/link_internal.h"

int coxi_links_new(int timeout_ms, struct coxi_links **ret)
{
    struct coxi_links *links = calloc(1, sizeof(*links));
    if (links == NULL) {
        return coxi_error_memory("a set of connections");
    }
    links->timeout_ms = (uint64_t)timeout_ms;
    coxi_mutex_init(&links->lock);
    *ret = links;
    return 0;
}

void coxi_links_free(struct coxi_links *links)
{
    if (links != NULL) {
        coxi_mutex_fini(&links->lock);
        free(links);
    }
}

void coxi_links_add(struct coxi_links *links, struct coxi_link *link)
{
    coxi_lock(&links->lock);
    link->links = links;
    link->watch_next = links->first;
    if (links->first != NULL) {
        links->first->watch_prev = link;
    }
    links->first = link;
    coxi_unlock(&links->lock);
}

void coxi_links_drop(struct coxi_link *link)
{
    struct coxi_links *links = link->links;
    if (links == NULL) {
        return;
    }
    coxi_lock(&links->lock);
    if (link->watch_prev != NULL) {
        link->watch_prev->watch_next = link->watch_next;
    } else {
        links->first = link->watch_next;
    }
    if (link->watch_next != NULL) {
        link->watch_next->watch_prev = link->watch_prev;
    }
    link->links = NULL;
    coxi_unlock(&links->lock);
}

uint64_t coxi_link_heard_ms(const struct coxi_link *link)
{
    return atomic_load_explicit(&link->last_in_ms, memory_order_relaxed);
}

/* True if the peer has written over the local path, and its bytes are unread because
 * the gatherer is busy with another of its links (gather.h). */
static bool has_unread(const struct coxi_link *link)
{
    const struct coxi_rings *rings = atomic_load(&link->rings);
    return rings != NULL && coxi_rings_unread(rings);
}

/* True if the peer writes counts that cannot be. Whoever reads or writes would notice,
 * but perhaps nobody does. */
static bool has_false_counts(const struct coxi_link *link)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    return rings != NULL && link->is_local && !coxi_rings_check(rings);
}

/* The reason to close the link at `now`, or NULL. */
static const char *verdict(const struct coxi_link *link, uint64_t now,
                           uint64_t timeout_ms)
{
    /* While the owner is busy with received data, nothing more is read. */
    bool handling = atomic_load_explicit(&link->handling, memory_order_acquire);
    uint64_t in = coxi_link_heard_ms(link);
    uint64_t stuck = atomic_load_explicit(&link->stuck_ms, memory_order_relaxed);
    if (!handling && now > in && now - in > timeout_ms && !has_unread(link)) {
        return "the peer has been silent for too long";
    }
    return stuck != 0 && now > stuck && now - stuck > timeout_ms
               ? "the peer has not read for too long"
               : NULL;
}

/* True if a heartbeat is due; it counts as sent. */
static bool take_beat(struct coxi_link *link, uint64_t now, uint64_t timeout_ms)
{
    uint64_t out = atomic_load_explicit(&link->last_out_ms, memory_order_relaxed);
    if (now <= out || now - out < timeout_ms / 4) {
        return false;
    }
    atomic_store_explicit(&link->last_out_ms, now, memory_order_relaxed);
    return true;
}

/*
 * Closes links whose peer is silent or does not read; returns those that need a
 * heartbeat, referenced and chained by beat_next. After a time without ticks (this
 * process was stopped, or its host slept) we cannot tell how long a peer was silent, so
 * the time of all peers begins again.
 */
static struct coxi_link *look(struct coxi_links *links) COXI_EXCLUDES(links->lock)
{
    uint64_t now = coxi_now_ms();
    struct coxi_link *beats = NULL;
    coxi_lock(&links->lock);
    bool slept =
        links->looked_ms != 0 && now - links->looked_ms > links->timeout_ms / 2;
    links->looked_ms = now;
    for (struct coxi_link *link = links->first; link != NULL; link = link->watch_next) {
        if (slept) {
            atomic_store_explicit(&link->last_in_ms, now, memory_order_relaxed);
            if (atomic_load_explicit(&link->stuck_ms, memory_order_relaxed) != 0) {
                atomic_store_explicit(&link->stuck_ms, now, memory_order_relaxed);
            }
        }
        const char *text = verdict(link, now, links->timeout_ms);
        if (has_false_counts(link)) {
            coxi_link_close(link, COX_EPROTO,
                            "the peer does not keep to the local path");
        } else if (text != NULL) {
            coxi_link_close(link, COX_ETIMEDOUT, text);
        } else if (take_beat(link, now, links->timeout_ms)) {
            link->beat_next = beats;
            beats = coxi_link_ref(link);
        }
    }
    coxi_unlock(&links->lock);
    return beats;
}

void coxi_links_tick(struct coxi_links *links) COXI_EXCLUDES(links->lock)
{
    /* Beat without holding the lock, because sending may end a link, which then takes
     * the lock to leave the list. */
    for (struct coxi_link *link = look(links); link != NULL;) {
        struct coxi_link *next = link->beat_next;
        coxi_link_beat(link);
        coxi_link_unref(link);
        link = next;
    }
}

void coxi_links_close_all(struct coxi_links *links, int code, const char *text)
{
    coxi_lock(&links->lock);
    for (struct coxi_link *link = links->first; link != NULL; link = link->watch_next) {
        coxi_link_close(link, code, text);
    }
    coxi_unlock(&links->lock);
}
