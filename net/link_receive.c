/*
 * The receiving half of a link: cuts the byte stream into frames.
 *
 * Invariants
 *   - The receive buffer starts 64-aligned and frames are multiples of 8 long, so every
 *     frame in it is 8-aligned.
 *   - No length from the peer is used, for memory or otherwise, before it is checked.
 *   - On a sealed stream no byte is parsed before its record has been authenticated.
 *   - A receive is always under way, except while the data of the last one are handled.
 *     Without a receive, a close might go unnoticed.
 *
 * Threads: the receiving thread, which is the owner's (coxi_link_run) or nng's.
 *
 * Cost: a frame in the buffer costs no copy and no allocation; one system call brings
 * up to 64 KiB of frames, or the bytes of a long payload straight to their place. On
 * the local path one copy, and system calls only if the other side sleeps. On a sealed
 * stream one copy, which also decrypts.
 */
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/gather.h"
#include "net/handshake.h"
#include "net/link.h"
#include "net/link_internal.h"

enum {
    IN_FIRST = 4 * 1024,
    RECEIVE_IOVS = 3,
    DROP_BYTES = 64 * 1024, /* of a dropped payload at a time */
};

/* Makes a receive buffer of `capacity`, with the unhandled bytes at its start. */
static int resize_in(struct coxi_link *link, size_t capacity)
{
    int r = coxi_link_tell_memory(link, &link->in_told, capacity);
    uint8_t *in = r == 0 ? coxi_aligned_new(capacity) : NULL;
    if (in == NULL) {
        return r != 0 ? r : coxi_error_memory("receiving");
    }
    size_t left = link->in_end - link->in_begin;
    if (left > 0) {
        memcpy(in, link->in + link->in_begin, left);
    }
    free(link->in);
    link->in = in;
    link->in_capacity = coxi_align(capacity, 64);
    link->in_begin = 0;
    link->in_end = left;
    return 0;
}

/* Moves the unhandled bytes to the start, in a buffer of at least `need` bytes. */
static int make_room(struct coxi_link *link, size_t need)
{
    if (need > link->in_capacity) {
        size_t capacity = link->in_capacity * 2;
        if (need > COXI_LINK_IN_MAX) {
            capacity = coxi_align(need, COXI_LINK_IN_MAX);
        }
        return resize_in(link, need > capacity ? need : capacity);
    }
    if (link->in_begin > 0) {
        memmove(link->in, link->in + link->in_begin, link->in_end - link->in_begin);
        link->in_end -= link->in_begin;
        link->in_begin = 0;
    }
    return 0;
}

static int deliver(struct coxi_link *link, const struct coxi_frame *frame)
{
    return link->events->on_frame(link->arg, link, frame);
}

/* Makes `scratch`, the link's own memory for payloads, at least `bytes` long. */
static int reserve_scratch(struct coxi_link *link, size_t bytes)
{
    if (link->scratch_capacity >= bytes) {
        return 0;
    }
    free(link->scratch);
    link->scratch_capacity = 0;
    link->scratch = coxi_aligned_new(bytes);
    if (link->scratch == NULL) {
        return coxi_error_memory("a payload");
    }
    link->scratch_capacity = coxi_align(bytes, 64);
    return 0;
}

/* Finds the place for the payload of link->frame. */
static int place_payload(struct coxi_link *link)
{
    struct coxi_frame *frame = &link->frame;
    const struct coxi_link_events *events = link->events;
    frame->dropped = events->takes != NULL && !events->takes(link->arg, link, frame);
    void *to = NULL;
    if (!frame->dropped && events->on_payload != NULL) {
        to = events->on_payload(link->arg, link, frame);
    }
    size_t bytes = frame->dropped ? DROP_BYTES : frame->payload_len;
    int r = to == NULL ? reserve_scratch(link, bytes) : 0;
    if (r == 0) {
        link->payload = to != NULL ? to : link->scratch;
    }
    return r;
}

/* The head of a long frame is complete: finds a place for its payload, and moves the
 * bytes there that have come. */
static int begin_payload(struct coxi_link *link, const struct coxi_prefix *p)
{
    size_t head = coxi_head_len(p);
    /* A whole record must find room, whatever it holds. */
    int r =
        make_room(link, head + (link->sealed != NULL ? COXI_SEAL_BODY_MAX : IN_FIRST));
    if (r != 0) {
        return r;
    }
    link->frame = (struct coxi_frame){
        .meta = link->in + sizeof(*p),
        .meta_len = p->meta_len,
        .payload_len = p->payload_len,
    };
    r = place_payload(link);
    if (r != 0) {
        return r;
    }
    size_t have = link->in_end - head;
    have = have < p->payload_len ? have : p->payload_len;
    if (!link->frame.dropped) {
        memcpy(link->payload, link->in + head, have);
    }
    link->payload_have = have;
    size_t pad = link->in_end - head - have;
    link->pad_left = coxi_align(p->payload_len, 8) - p->payload_len - pad;
    link->in_end = head;
    return 0;
}

/* Handles the complete frames in the buffer. */
static int parse(struct coxi_link *link)
{
    while (link->payload == NULL && !coxi_link_closed(link)) {
        size_t have = link->in_end - link->in_begin;
        struct coxi_prefix p;
        if (have < sizeof(p)) {
            return make_room(link, sizeof(p));
        }
        memcpy(&p, link->in + link->in_begin, sizeof(p));
        if (p.magic != COXI_LINK_MAGIC) {
            return coxi_error(COX_EPROTO, "%s",
                              coxi_handshake_begins(p.magic)
                                  ? "the peer has a key, and we have none"
                                  : "the peer does not speak this protocol");
        }
        if (p.meta_len == 0 && p.payload_len > 0) {
            return coxi_error(COX_EPROTO, "frame with a payload and no metadata");
        }
        size_t meta_max = atomic_load_explicit(&link->meta_max, memory_order_relaxed);
        size_t payload_max =
            atomic_load_explicit(&link->payload_max, memory_order_relaxed);
        if (p.meta_len > meta_max || p.payload_len > payload_max) {
            return coxi_error(
                COX_EPROTO, "frame of %u + %llu bytes where %zu + %zu are allowed",
                p.meta_len, (unsigned long long)p.payload_len, meta_max, payload_max);
        }
        size_t head = coxi_head_len(&p);
        size_t total = head + coxi_align(p.payload_len, 8);
        if (have < head) {
            return make_room(link, head);
        }
        int r;
        if (have < total && total > COXI_LINK_IN_MAX) {
            r = begin_payload(link, &p);
        } else if (have < total) {
            return make_room(link, total);
        } else {
            uint8_t *start = link->in + link->in_begin;
            struct coxi_frame frame = {start + sizeof(p), p.meta_len, start + head,
                                       p.payload_len, false};
            link->in_begin += total;
            r = p.meta_len > 0 ? deliver(link, &frame) : 0;
        }
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

/* The payload that was being received is complete. */
static int end_payload(struct coxi_link *link)
{
    link->frame.payload = link->payload;
    link->payload = NULL;
    link->in_begin = (size_t)((const uint8_t *)link->frame.meta - link->in) -
                     sizeof(struct coxi_prefix);
    struct coxi_prefix p = {COXI_LINK_MAGIC, (uint32_t)link->frame.meta_len,
                            link->frame.payload_len};
    link->in_begin += coxi_head_len(&p);
    if (link->frame.dropped) {
        link->frame.payload = NULL;
        link->frame.payload_len = 0;
    }
    return deliver(link, &link->frame);
}

/* Handles n bytes that were received in the places of receive_iov. */
static int take(struct coxi_link *link, size_t n)
{
    int r = 0;
    if (link->payload != NULL) {
        size_t left = link->frame.payload_len - link->payload_have;
        size_t part = n < left ? n : left;
        link->payload_have += part;
        n -= part;
        part = n < link->pad_left ? n : link->pad_left;
        link->pad_left -= part;
        n -= part;
        link->in_end += n;
        if (link->payload_have == link->frame.payload_len && link->pad_left == 0) {
            r = end_payload(link);
        }
    } else {
        link->in_end += n;
    }
    return r == 0 ? parse(link) : r;
}

static void begin_batch(struct coxi_link *link)
{
    atomic_store_explicit(&link->handling, true, memory_order_relaxed);
    coxi_link_cork(link);
}

static void end_batch(struct coxi_link *link)
{
    if (link->events->on_batch != NULL) {
        link->events->on_batch(link->arg, link);
    }
    coxi_link_uncork(link);
    atomic_store_explicit(&link->last_in_ms, coxi_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&link->handling, false, memory_order_release);
}

static int received(struct coxi_link *link, size_t n)
{
    bool full = link->payload == NULL && n == link->in_capacity - link->in_end;
    begin_batch(link);
    int r = take(link, n);
    end_batch(link);
    /* A longer buffer saves system calls. The local path makes none, so there the
     * buffer stays short, and more of a long payload goes straight to its place. */
    if (r == 0 && full && !link->is_local && link->in_capacity < COXI_LINK_IN_MAX &&
        link->payload == NULL) {
        r = resize_in(link, link->in_capacity * 2);
    }
    return r;
}

/* Lists the places to receive the next bytes in; returns the number of pieces. */
static unsigned receive_iov(struct coxi_link *link, nng_iov iov[RECEIVE_IOVS])
{
    unsigned n = 0;
    if (link->payload != NULL) {
        size_t left = link->frame.payload_len - link->payload_have;
        if (link->frame.dropped && left > DROP_BYTES) {
            iov[n++] = (nng_iov){link->payload, DROP_BYTES};
            return n;
        }
        if (left > 0) {
            size_t at = link->frame.dropped ? 0 : link->payload_have;
            iov[n++] = (nng_iov){link->payload + at, left};
        }
        if (link->pad_left > 0) {
            iov[n++] = (nng_iov){link->pad, link->pad_left};
        }
    }
    iov[n++] = (nng_iov){link->in + link->in_end, link->in_capacity - link->in_end};
    return n;
}

/* ---- sealed streams */

/* Opens the next record, whose body has `len` bytes, and handles them. */
static int take_record(struct coxi_link *link, size_t len)
{
    nng_iov iov[RECEIVE_IOVS];
    int r = 0;
    if (link->payload == NULL && link->in_capacity - link->in_end < len) {
        r = make_room(link, link->in_end - link->in_begin + len);
    }
    r = r == 0 ? coxi_sealed_open(link->sealed, iov, receive_iov(link, iov)) : r;
    return r == 0 ? take(link, len) : r;
}

/* Handles the records that have come as a whole. */
static int received_sealed(struct coxi_link *link, size_t n)
{
    size_t len = 0;
    coxi_sealed_came(link->sealed, n);
    begin_batch(link);
    int r = coxi_sealed_next(link->sealed, &len);
    while (r == 0 && len > 0 && !coxi_link_closed(link) && !link->is_local) {
        r = take_record(link, len);
        r = r == 0 ? coxi_sealed_next(link->sealed, &len) : r;
    }
    end_batch(link);
    return r == 0 ? coxi_sealed_make_room(link->sealed) : r;
}

/* ---- over the stream */

static void start_receive(struct coxi_link *link)
{
    nng_iov iov[RECEIVE_IOVS];
    unsigned n = 1;
    if (link->sealed != NULL) {
        iov[0] = coxi_sealed_room(link->sealed);
    } else {
        n = receive_iov(link, iov);
    }
    (void)nng_aio_set_iov(link->recv_aio, n, iov);
    nng_stream_recv(link->stream, link->recv_aio);
    if (coxi_link_closed(link)) {
        /* If the stream was closed just before the receive, the aio would never end by
         * itself. */
        nng_aio_cancel(link->recv_aio);
    }
}

/* Handles n bytes that have come. Other than 0: receiving has ended. */
static int handle(struct coxi_link *link, size_t n)
{
    int r = link->sealed != NULL && !link->is_local ? received_sealed(link, n)
                                                    : received(link, n);
    if (r != 0) {
        coxi_link_close(link, r, coxi_error_text());
    }
    return coxi_link_closed(link) ? COX_ECLOSED : 0;
}

/* The text that says why the stream has ended. A peer that has a key sends nothing to
 * us if we have none. */
static const char *end_text(struct coxi_link *link, int nng_code)
{
    bool greeted = atomic_load_explicit(&link->meta_max, memory_order_relaxed) !=
                   COXI_LINK_META_FIRST;
    if (coxi_link_error(nng_code) == COX_ECLOSED && !greeted && !link->is_proven) {
        return "connection closed by the peer before it said anything: it has a key, "
               "and we have none; or it has just ended";
    }
    return coxi_link_reason(nng_code);
}

/* Called after a receive. Other than 0: receiving has ended. */
static int receive_done(struct coxi_link *link)
{
    int failed = nng_aio_result(link->recv_aio);
    if (failed != 0) {
        coxi_link_close(link, coxi_link_error(failed), end_text(link, failed));
        return COX_ECLOSED;
    }
    return handle(link, nng_aio_count(link->recv_aio));
}

/* ---- over the local path */

/* Copies data that have come to the places where the link wants them. */
static size_t read_some(struct coxi_link *link, struct coxi_rings *rings)
{
    nng_iov iov[RECEIVE_IOVS];
    unsigned n_iov = receive_iov(link, iov);
    size_t n = 0;
    for (unsigned i = 0; i < n_iov; i++) {
        size_t part = coxi_rings_read(rings, iov[i].iov_buf, iov[i].iov_len);
        n += part;
        if (part < iov[i].iov_len) {
            break;
        }
    }
    return n;
}

/* Copies bytes that have come over the local path to their places; *ret_n: how many.
 * COX_ECLOSED, COX_EPROTO. */
static int take_local(struct coxi_link *link, size_t *ret_n)
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

/* Like take_local, but waits for at least one byte. */
static int receive_local(struct coxi_link *link, size_t *ret_n)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    for (;;) {
        uint32_t heard = coxi_rings_listen(rings);
        int r = take_local(link, ret_n);
        if (r != 0 || *ret_n > 0) {
            return r;
        }
        coxi_link_flush(link); /* there may be room again */
        if (!coxi_rings_linger_for_data(rings) && !coxi_rings_ask_data(rings)) {
            coxi_rings_wait(rings, heard);
        }
    }
}

/* Handles data that have come over the local path, without waiting; *ret_any: there
 * were some. Other than 0: the link is closed. On the gatherer's thread. */
static int receive_ready(void *arg, bool *ret_any)
{
    struct coxi_link *link = arg;
    size_t n = 0;
    int r = take_local(link, &n);
    if (r != 0) {
        coxi_link_close(link, r, coxi_error_text());
        return r;
    }
    if (n > 0) {
        *ret_any = true;
        return handle(link, n);
    }
    if (atomic_load(&link->stuck_ms) != 0) {
        coxi_link_flush(link); /* there may be room again */
    }
    return 0;
}

/* From now on `receiver` is the thread that receives. */
static void set_receiver(struct coxi_link *link, pthread_t receiver)
{
    coxi_lock(&link->lock);
    link->receiver = receiver;
    coxi_unlock(&link->lock);
}

static void receive_gathered(struct coxi_link *link)
{
    const struct coxi_gathered from = {atomic_load(&link->rings), receive_ready, link};
    set_receiver(link, coxi_gather_thread(link->gather));
    coxi_gather_receive(link->gather, &from);
    set_receiver(link, pthread_self());
}

/* Receives over the local path until the link is closed. */
static void receive_locally(struct coxi_link *link)
{
    int r = coxi_link_watch_stream(link);
    if (r == 0 && link->gather != NULL) {
        receive_gathered(link);
        return;
    }
    while (r == 0) {
        size_t n;
        r = receive_local(link, &n);
        r = r == 0 ? handle(link, n) : r;
    }
    coxi_link_close(link, r, coxi_error_text());
}

/* Receiving has ended: ends the engine, now or together with the send under way. */
static void end_receiving(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    link->recv_end = true;
    coxi_link_leave(link, NULL);
}

/* Holds a reference, because the next callback, and the end of the link, may come
 * before start_receive returns. */
static void receive_async(struct coxi_link *link)
{
    (void)coxi_link_ref(link);
    start_receive(link);
    coxi_link_unref(link);
}

static void receive_callback(void *arg)
{
    struct coxi_link *link = arg;
    if (receive_done(link) == 0) {
        receive_async(link);
    } else {
        end_receiving(link);
    }
}

static int prepare(struct coxi_link *link, void (*callback)(void *))
{
    (void)coxi_link_ref(link);
    if (resize_in(link, IN_FIRST) != 0 ||
        nng_aio_alloc(&link->recv_aio, callback, link) != 0) {
        coxi_link_close(link, COX_ENOMEM, "out of memory for receiving");
        return COX_ENOMEM;
    }
    return 0;
}

void coxi_link_start(struct coxi_link *link)
{
    if (prepare(link, receive_callback) == 0) {
        receive_async(link);
    } else {
        end_receiving(link);
    }
}

int coxi_link_run(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    link->threaded = true;
    link->receiver = pthread_self();
    coxi_unlock(&link->lock);
    int r = prepare(link, NULL);
    while (r == 0 && !coxi_link_is_local(link)) {
        start_receive(link);
        nng_aio_wait(link->recv_aio);
        r = receive_done(link);
    }
    if (r == 0) {
        receive_locally(link);
    }
    if (link->watch_aio != NULL) {
        nng_aio_stop(link->watch_aio);
    }
    coxi_lock(&link->lock);
    int code = link->close_code;
    link->recv_end = true;
    /* The stream is closed, which ends a send. */
    while (coxi_link_is_sending(link)) {
        coxi_wait_for_end(&link->room, &link->lock);
    }
    coxi_unlock(&link->lock);
    coxi_link_end(link);
    return code;
}
