/*
 * The local path of a link: frames go through rings that it shares with a peer on the
 * same host (rings.h). The stream stays open: its end shows that the peer is gone, for
 * whatever reason.
 *
 * States: STREAM -> (offered, or accepted) rings exist -> (both greetings have left)
 * LOCAL. Each side changes over after its own greeting, when nothing is in line. From
 * then on only heartbeats come over the stream, and are ignored.
 *
 * Data for which the ring has no room stay in line. The peer is asked to ring when it
 * has made room; this wakes the receiving thread, which sends them.
 *
 * Threads: the receiving thread, and the thread that has set `sending`.
 *
 * Cost: one copy on each side; system calls only if the other side sleeps.
 */
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/gather.h"
#include "net/link.h"
#include "net/link_internal.h"

/* Bytes copied before the other side is told of them, so that both sides copy at the
 * same time. */
enum { STEP = 128 * 1024 };
_Static_assert((int)COXI_LINK_MADE_ROOM + 2 * (int)COXI_LINK_META_FIRST <=
                   (int)COXI_RING_MIN,
               "a piece and what is before it fit an empty ring");

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

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
    /* Data that the peer has written before must still be read. */
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
        /* A stream that was closed just before would keep the aio for ever. */
        nng_aio_cancel(link->watch_aio);
    }
    return 0;
}

bool coxi_link_is_read(const struct coxi_link *link)
{
    return !atomic_load_explicit(&link->closed, memory_order_acquire) &&
           !atomic_load_explicit(&link->gone, memory_order_acquire);
}

/* ---- sending */

/* Copies as much of a piece as there is room for. */
static size_t write_piece(struct coxi_rings *rings, const nng_iov *piece)
{
    const uint8_t *from = piece->iov_buf;
    size_t n = 0;
    size_t room = 1;
    while (n < piece->iov_len && room > 0) {
        void *to = coxi_rings_room(rings, &room);
        size_t part = least(least(room, piece->iov_len - n), STEP);
        memcpy(to, from + n, part);
        n += part;
        if (part > 0) {
            coxi_rings_wrote(rings, part);
        }
    }
    return n;
}

int coxi_link_send_local(struct coxi_link *link, unsigned n_iov, const nng_iov *iov,
                         size_t *ret_n)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    size_t n = 0;
    do {
        for (unsigned i = 0; i < n_iov; i++) {
            size_t part = write_piece(rings, &iov[i]);
            n += part;
            if (part < iov[i].iov_len) {
                break;
            }
        }
    } while (n == 0 && coxi_rings_ask_room(rings, 1) && !coxi_rings_broken(rings));
    *ret_n = n;
    return coxi_rings_broken(rings) ? NNG_EPROTO : n > 0 ? 0 : NNG_ECANCELED;
}

/* Waits for room for a piece and `more` bytes; NULL: there will be none. */
static uint8_t *await_room(struct coxi_link *link, struct coxi_rings *rings,
                           size_t more, size_t *ret_room)
{
    size_t need = COXI_LINK_MADE_ROOM + more;
    for (;;) {
        uint32_t heard = coxi_rings_listen(rings);
        uint8_t *to = coxi_rings_room(rings, ret_room);
        if (!coxi_link_is_read(link) || coxi_rings_broken(rings)) {
            return NULL;
        }
        if (*ret_room >= need) {
            return to;
        }
        if (!coxi_rings_linger_for_room(rings, need) &&
            !coxi_rings_ask_room(rings, need)) {
            atomic_store_explicit(&link->stuck_ms, coxi_now_ms(), memory_order_relaxed);
            coxi_rings_wait(rings, heard);
            atomic_store_explicit(&link->stuck_ms, 0, memory_order_relaxed);
        }
    }
}

int coxi_link_make_local(struct coxi_link *link, const struct coxi_made *frame)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    struct coxi_prefix prefix = {COXI_LINK_MAGIC, (uint32_t)frame->meta_len,
                                 frame->payload_len};
    size_t head = coxi_head_len(&prefix);
    size_t left = frame->payload_len;
    int r = 0;
    do {
        size_t room;
        size_t n = 0;
        uint8_t *to = await_room(link, rings, head, &room);
        if (to == NULL) {
            return coxi_error(COX_ECLOSED, "the connection is closed");
        }
        if (head > 0) {
            coxi_line_write_head(to, &prefix, frame->meta);
        }
        if (left > 0) {
            r = frame->make(frame->arg, to + head, least(room - head, STEP), &n);
        }
        if (r == 0) {
            coxi_rings_wrote(rings, head + n);
            atomic_store_explicit(&link->last_out_ms, coxi_now_ms(),
                                  memory_order_relaxed);
            left -= n;
            head = 0;
        }
    } while (r == 0 && left > 0);
    return r;
}

/* ---- receiving */

static size_t read_piece(struct coxi_rings *rings, const nng_iov *piece)
{
    uint8_t *to = piece->iov_buf;
    size_t n = 0;
    size_t len = 1;
    while (n < piece->iov_len && len > 0) {
        const void *from = coxi_rings_data(rings, &len);
        size_t part = least(least(len, piece->iov_len - n), STEP);
        memcpy(to + n, from, part);
        n += part;
        if (part > 0) {
            coxi_rings_took(rings, part);
        }
    }
    return n;
}

/* Copies data that have come to the places where the link wants them. */
static size_t read_some(struct coxi_link *link, struct coxi_rings *rings)
{
    nng_iov iov[COXI_RECEIVE_IOVS];
    unsigned n_iov = coxi_link_receive_iov(link, iov);
    size_t n = 0;
    for (unsigned i = 0; i < n_iov; i++) {
        size_t part = read_piece(rings, &iov[i]);
        n += part;
        if (part < iov[i].iov_len) {
            break;
        }
    }
    return n;
}

int coxi_link_take_local(struct coxi_link *link, size_t *ret_n)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    bool gone = atomic_load_explicit(&link->gone, memory_order_acquire);
    if (coxi_link_closed(link)) {
        return COX_ECLOSED;
    }
    *ret_n = coxi_rings_have_data(rings) ? read_some(link, rings) : 0;
    if (coxi_rings_broken(rings)) {
        return coxi_error(COX_EPROTO, "the peer does not keep to the local path");
    }
    return *ret_n == 0 && gone
               ? coxi_error(COX_ECLOSED, "connection closed by the peer")
               : 0;
}

int coxi_link_receive_local(struct coxi_link *link, size_t *ret_n)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    for (;;) {
        uint32_t heard = coxi_rings_listen(rings);
        int r = coxi_link_take_local(link, ret_n);
        if (r != 0 || *ret_n > 0) {
            return r;
        }
        coxi_link_flush(link); /* there may be room again */
        if (!coxi_rings_linger_for_data(rings) && !coxi_rings_ask_data(rings)) {
            coxi_rings_wait(rings, heard);
        }
    }
}
