/*
 * Changes a link over to the local path: frames go through rings that it shares with a
 * peer on the same host (rings.h); link_send.c and link_receive.c copy them. The stream
 * stays open: its end shows that the peer is gone.
 *
 * States: STREAM -> (offered, or accepted) rings exist -> (both greetings have left)
 * LOCAL. Each side changes over after its own greeting, when nothing is in line. From
 * then on only heartbeats come over the stream, and are ignored.
 *
 * Data for which the ring has no room stay in line. The peer is asked to ring when it
 * has made room; this wakes the receiving thread, which sends them.
 *
 * Threads: the receiving thread; the stream's end is noticed on one of nng's.
 */
#include "common/error.h"
#include "common/sync.h"
#include "net/gather.h"
#include "net/link.h"
#include "net/link_internal.h"

/* ---- changing over */

int coxi_link_offer(struct coxi_link *link, struct coxi_gather *gather,
                    size_t ring_bytes, const char **ret_name)
{
    struct coxi_rings *rings;
    struct coxi_bell *bell = gather != NULL ? coxi_gather_bell(gather) : NULL;
    int r = coxi_rings_new(ring_bytes, bell, &rings);
    if (r == 0) {
        link->gather = gather;
        atomic_store(&link->rings, rings);
        *ret_name = coxi_rings_name(rings);
    }
    return r;
}

void coxi_link_withdraw(struct coxi_link *link)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    if (rings != NULL) {
        coxi_rings_hide(rings);
    }
}

int coxi_link_accept(struct coxi_link *link, const char *name)
{
    struct coxi_rings *rings;
    int r = atomic_load(&link->rings) == NULL
                ? coxi_rings_open(name, &rings)
                : coxi_error(COX_EADDRESS, "there is a local path already");
    if (r == 0) {
        atomic_store(&link->rings, rings);
    }
    return r;
}

void coxi_link_go_local(struct coxi_link *link)
{
    bool is_over = false;
    coxi_link_withdraw(link);
    while (!is_over) {
        /* A heartbeat may come in between. */
        bool closed = coxi_link_wait_room(link, 0) != 0;
        coxi_lock(&link->lock);
        is_over = closed || (link->n_queued == 0 && !link->sending);
        link->is_local = link->is_local || is_over;
        coxi_unlock(&link->lock);
    }
    link->in_begin = link->in_end = 0;
}

/* ---- the stream, meanwhile */

static void watch_callback(void *arg)
{
    struct coxi_link *link = arg;
    nng_iov iov = {link->watched, sizeof(link->watched)};
    if (nng_aio_result(link->watch_aio) == 0 && !coxi_link_closed(link)) {
        (void)nng_aio_set_iov(link->watch_aio, 1, &iov);
        nng_stream_recv(link->stream, link->watch_aio);
        return;
    }
    /* Do not close yet, because data that the peer wrote before it ended must still be
     * read. */
    atomic_store_explicit(&link->gone, true, memory_order_release);
    coxi_rings_wake(atomic_load(&link->rings));
}

int coxi_link_watch_stream(struct coxi_link *link)
{
    nng_iov iov = {link->watched, sizeof(link->watched)};
    if (nng_aio_alloc(&link->watch_aio, watch_callback, link) != 0) {
        return coxi_error_memory("a connection");
    }
    (void)nng_aio_set_iov(link->watch_aio, 1, &iov);
    nng_stream_recv(link->stream, link->watch_aio);
    if (coxi_link_closed(link)) {
        /* If the stream was closed just before the receive, the aio would never end by
         * itself. */
        nng_aio_cancel(link->watch_aio);
    }
    return 0;
}

bool coxi_link_is_read(const struct coxi_link *link)
{
    return !atomic_load_explicit(&link->closed, memory_order_acquire) &&
           !atomic_load_explicit(&link->gone, memory_order_acquire);
}
