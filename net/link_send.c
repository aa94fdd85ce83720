/*
 * The sending half of a link: gathers frames into writes.
 *
 * A send is tried at once, and cancelled if the kernel has no room for it; only then
 * does it become asynchronous. In most cases, therefore, no thread of nng is woken for
 * its callback.
 *
 * Invariant: one send is under way at a time (two would interleave after a partial
 * write); `sending` says so.
 *
 * A payload that is made on the way leaves in chunks, of which there are
 * COXI_LINE_MADE_MAX: a sent chunk is filled again. On the local path the payload is
 * made in the ring itself.
 *
 * Threads: any, under `lock`; an asynchronous send ends on one of nng's threads.
 *
 * Cost: no allocation once a link has its chunks (link_line.c). One system call sends
 * everything in line, up to COXI_LINE_IOVS pieces.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/link_internal.h"

enum {
    /* answers of a batch that leave before it is done, so that the peer can start on
     * them; then twice as many, and so on */
    CORK_FRAMES = 4,
    ROUNDS_MAX = 8, /* sends in a row by one thread, also of other threads' frames */
};

static const size_t out_max = (size_t)1 << 30;

/* Sends with a callback what the kernel does not take at once. Call it with `sending`
 * set. */
static void send_later(struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    nng_iov iov[COXI_LINE_IOVS];
    atomic_store_explicit(&link->stuck_ms, coxi_now_ms(), memory_order_relaxed);
    (void)nng_aio_set_iov(link->later_aio, coxi_line_iov(link, iov), iov);
    nng_stream_send(link->stream, link->later_aio);
}

/*
 * Leaves the rest of the line until the peer has made room. On the local path the
 * receiving thread watches for room, but only after `sending` has ended: true if there
 * is room by now. Call it with `sending` set.
 */
static bool wait_for_peer(struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    if (!link->is_local) {
        send_later(link); /* closing comes after this, and ends the send */
        return false;
    }
    struct coxi_rings *rings = atomic_load(&link->rings);
    link->sending = false;
    if (atomic_load(&link->stuck_ms) == 0) {
        atomic_store(&link->stuck_ms, coxi_now_ms());
    }
    (void)pthread_cond_broadcast(&link->room);
    return coxi_rings_ask_room(rings,
                               /* true also for broken rings, which the next send
                                * reports */
                               1);
}

/* Offers the line to the kernel; *ret_n: how many bytes it took. Call it with `sending`
 * set. */
static int send_now(struct coxi_link *link, unsigned n_iov, nng_iov *iov, size_t *ret_n)
    COXI_EXCLUDES(link->lock)
{
    (void)nng_aio_set_iov(link->now_aio, n_iov, iov);
    nng_stream_send(link->stream, link->now_aio);
    nng_aio_cancel(link->now_aio); /* no effect if it is done already */
    nng_aio_wait(link->now_aio);
    *ret_n = nng_aio_count(link->now_aio);
    return nng_aio_result(link->now_aio);
}

/* True if the link must close when everything is sent, and everything is. */
static bool is_finished(const struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    return link->finish && link->n_queued == 0 && !link->making;
}

/* A send has ended; sent chunks join *done. */
static void sent(struct coxi_link *link, int failed, size_t n, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    link->sending = false;
    atomic_store_explicit(&link->stuck_ms, 0, memory_order_relaxed);
    (void)pthread_cond_broadcast(&link->room);
    atomic_store_explicit(&link->last_out_ms, coxi_now_ms(), memory_order_relaxed);
    if (failed != 0) {
        if (coxi_link_mark_closed(link, coxi_link_error(failed),
                                  nng_strerror(failed))) {
            coxi_link_shut(link);
        }
        return;
    }
    coxi_line_consume(link, n, done);
    if (is_finished(link) && coxi_link_mark_closed(link, COX_ECLOSED, "")) {
        coxi_link_shut(link);
    }
}

/*
 * Sends what is in line, unless another thread is sending. Usually the kernel takes it
 * at once, and no other thread need be woken; other threads may add to the line
 * meanwhile. Unlocks while it sends. Sent chunks join *done, for coxi_link_leave().
 */
static void flush(struct coxi_link *link, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    for (int round = 0;
         !link->sending && link->line.head != NULL && !coxi_link_closed(link);
         round++) {
        nng_iov iov[COXI_LINE_IOVS];
        unsigned n_iov = coxi_line_iov(link, iov);
        size_t n = 0;
        link->sending = true;
        int failed = NNG_ECANCELED;
        if (round < ROUNDS_MAX || link->is_local) {
            bool is_local = link->is_local;
            coxi_unlock(&link->lock);
            failed = is_local ? coxi_link_send_local(link, n_iov, iov, &n)
                              : send_now(link, n_iov, iov, &n);
            coxi_lock(&link->lock);
        }
        if (failed == NNG_ECANCELED && !coxi_link_closed(link)) {
            if (wait_for_peer(link)) {
                continue;
            }
            return;
        }
        sent(link, failed, n, done);
    }
}

static bool has_lent(const struct coxi_chunk *chunk)
{
    while (chunk != NULL && chunk->release == NULL) {
        chunk = chunk->next;
    }
    return chunk != NULL;
}

/* Releases lent memory; its lenders are told before on_close. Unlocks meanwhile. */
static void release_lent(struct coxi_link *link, struct coxi_chunk *done)
    COXI_REQUIRES(link->lock)
{
    link->n_releasing++;
    coxi_unlock(&link->lock);
    coxi_chunks_release(done);
    coxi_lock(&link->lock);
    link->n_releasing--;
    (void)pthread_cond_broadcast(&link->room);
}

/* Unlocks, releases sent memory, and ends the engine if it waited for this. */
void coxi_link_leave(struct coxi_link *link, struct coxi_chunk *done)
{
    if (has_lent(done)) {
        release_lent(link, done);
        done = NULL;
    }
    bool end = link->recv_end && !coxi_link_is_sending(link) && !link->threaded &&
               !link->ended;
    link->ended = link->ended || end;
    coxi_unlock(&link->lock);
    coxi_chunks_release(done);
    if (end) {
        coxi_link_end(link);
    }
}

void coxi_link_sent_later(void *arg)
{
    struct coxi_link *link = arg;
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    sent(link, nng_aio_result(link->later_aio), nng_aio_count(link->later_aio), &done);
    flush(link, &done);
    coxi_link_leave(link, done);
}

/* True if a frame that was just put in line must leave now. */
static bool is_enough(struct coxi_link *link, bool later) COXI_REQUIRES(link->lock)
{
    if (link->n_queued >= COXI_LINK_IN_MAX) {
        return true; /* enough for a whole write */
    }
    if (later || !atomic_load(&link->corked)) {
        return !later;
    }
    unsigned batch = atomic_load(&link->batch);
    if (link->corked_batch != batch) {
        link->corked_batch = batch;
        link->n_corked = 0;
        link->cork_frames = CORK_FRAMES;
    }
    if (++link->n_corked < link->cork_frames) {
        return false;
    }
    link->n_corked = 0;
    link->cork_frames *= 2;
    return true;
}

/* Puts a frame in line; otherwise returns the error. */
static int put(struct coxi_link *link, const struct coxi_outgoing *frame,
               bool *ret_lent) COXI_REQUIRES(link->lock)
{
    size_t payload_len = 0;
    for (size_t i = 0; i < frame->n_payload; i++) {
        payload_len += frame->payload[i].iov_len;
    }
    if (coxi_link_closed(link)) {
        return coxi_error(COX_ECLOSED, "the connection is closed");
    }
    if (frame->meta_len > UINT32_MAX || frame->n_payload > COXI_LINK_SEGMENTS_MAX) {
        return coxi_error(COX_ELIMIT, "a frame of %zu bytes and %zu segments",
                          frame->meta_len, frame->n_payload);
    }
    if (link->n_queued > out_max) {
        return coxi_error(COX_EAGAIN, "%zu bytes wait for a peer that does not read",
                          link->n_queued);
    }
    if (!coxi_line_add(link, frame, payload_len, ret_lent)) {
        /* Half a frame may be in line: it must not leave any more. */
        (void)coxi_link_mark_closed(link, COX_ENOMEM, "out of memory while sending");
        return coxi_error_memory("sending");
    }
    return 0;
}

/* Call it after a frame was put in line, or was not (`r`): releases the payload unless
 * the link keeps it, and shuts the link if memory is lacking. */
static void was_put(struct coxi_link *link, const struct coxi_outgoing *frame, int r,
                    bool lent) COXI_EXCLUDES(link->lock)
{
    if (!lent && frame->release != NULL) {
        frame->release(frame->arg);
    }
    if (r == COX_ENOMEM) {
        coxi_link_shut(link);
    }
}

int coxi_link_put(struct coxi_link *link, const struct coxi_outgoing *frame, bool later,
                  bool *ret_due)
{
    bool lent = false;
    coxi_lock(&link->lock);
    int r = put(link, frame, &lent);
    *ret_due = r == 0 && is_enough(link, later);
    coxi_unlock(&link->lock);
    was_put(link, frame, r, lent);
    return r;
}

int coxi_link_send(struct coxi_link *link, const struct coxi_outgoing *frame,
                   bool later)
{
    struct coxi_chunk *done = NULL;
    bool lent = false;
    coxi_lock(&link->lock);
    int r = put(link, frame, &lent);
    if (r == 0 && is_enough(link, later)) {
        flush(link, &done);
    }
    coxi_link_leave(link, done);
    was_put(link, frame, r, lent);
    return r;
}

/* ---- waiting for room */

/*
 * Waits until the peer or another sending thread makes progress; `heard`: the state of
 * the bell before. On the local path the receiving thread also sends data that wait for
 * room.
 */
static void await_peer(struct coxi_link *link, uint32_t heard) COXI_REQUIRES(link->lock)
{
    if (link->is_local && !link->sending && link->threaded &&
        pthread_equal(link->receiver, pthread_self())) {
        coxi_unlock(&link->lock);
        coxi_rings_wait(atomic_load(&link->rings), heard);
        coxi_lock(&link->lock);
    } else {
        /* If the peer takes nothing for too long, link_watch.c closes the link. */
        coxi_wait_for_end(&link->room, &link->lock);
    }
}

/* The state of the bell to which await_peer compares. */
static uint32_t listen_to_peer(struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    return link->is_local ? coxi_rings_listen(atomic_load(&link->rings)) : 0;
}

/* ---- frames whose payload is made on the way */

/* Waits for a free chunk for the next piece; NULL: closed, or no memory. */
static struct coxi_chunk *await_chunk(struct coxi_link *link, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    while (coxi_link_is_read(link) && link->n_made == COXI_LINE_MADE_MAX &&
           link->spares[COXI_CHUNK_MADE].n == 0) {
        uint32_t heard = listen_to_peer(link);
        flush(link, done);
        if (coxi_link_is_read(link) && link->spares[COXI_CHUNK_MADE].n == 0) {
            await_peer(link, heard);
        }
    }
    if (!coxi_link_is_read(link)) {
        return NULL;
    }
    link->n_made += link->spares[COXI_CHUNK_MADE].n == 0;
    return coxi_line_chunk(link, COXI_CHUNK_MADE, COXI_LINE_MADE);
}

/* Makes the next piece and puts it in line, and reduces *left. Unlocks meanwhile. */
static int make_piece(struct coxi_link *link, const struct coxi_made *frame,
                      size_t *left, struct coxi_chunk **done) COXI_REQUIRES(link->lock)
{
    struct coxi_chunk *chunk = await_chunk(link, done);
    if (chunk == NULL) {
        return coxi_link_is_read(link)
                   ? coxi_error_memory("sending")
                   : coxi_error(COX_ECLOSED, "the connection is closed");
    }
    coxi_unlock(&link->lock);
    int r = frame->make(frame->arg, chunk->own, COXI_LINE_MADE, &chunk->end);
    assert(r != 0 || (chunk->end > 0 && chunk->end <= *left));
    coxi_lock(&link->lock);
    if (r != 0) {
        chunk->next = *done;
        *done = chunk;
        return r;
    }
    coxi_line_append(&link->line, chunk);
    link->n_queued += chunk->end;
    *left -= chunk->end;
    flush(link, done);
    return 0;
}

/* Waits until at most `bytes` are in line, not counting frames that are held behind a
 * frame that is being made. */
static void await_line(struct coxi_link *link, size_t bytes, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    while (link->n_queued > bytes && coxi_link_is_read(link)) {
        uint32_t heard = listen_to_peer(link);
        flush(link, done);
        if (link->n_queued > bytes && coxi_link_is_read(link)) {
            await_peer(link, heard);
        }
    }
}

/* Makes a frame directly in the ring that the peer reads. Unlocks meanwhile. */
static int make_there(struct coxi_link *link, const struct coxi_made *frame,
                      struct coxi_chunk **done) COXI_REQUIRES(link->lock)
{
    while ((link->line.head != NULL || link->sending) && coxi_link_is_read(link)) {
        uint32_t heard = listen_to_peer(link);
        flush(link, done);
        if ((link->line.head != NULL || link->sending) && coxi_link_is_read(link)) {
            await_peer(link, heard);
        }
    }
    if (!coxi_link_is_read(link)) {
        return coxi_error(COX_ECLOSED, "the connection is closed");
    }
    link->sending = true;
    coxi_unlock(&link->lock);
    int r = coxi_link_make_local(link, frame);
    coxi_lock(&link->lock);
    link->sending = false;
    (void)pthread_cond_broadcast(&link->room);
    return r;
}

/* Makes a frame in chunks. Unlocks meanwhile. */
static int make_here(struct coxi_link *link, const struct coxi_made *frame,
                     struct coxi_chunk **done) COXI_REQUIRES(link->lock)
{
    size_t left = frame->payload_len;
    int r = coxi_line_add_head(link, &link->line, COXI_CHUNK_SMALL, frame->meta,
                               frame->meta_len, left)
                ? 0
                : coxi_error_memory("sending");
    while (r == 0 && left > 0) {
        r = make_piece(link, frame, &left, done);
    }
    return r;
}

int coxi_link_send_made(struct coxi_link *link, const struct coxi_made *frame)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    assert(!link->making);
    link->making = true;
    bool there = link->is_local && frame->meta_len <= COXI_LINK_META_FIRST;
    int r = coxi_link_closed(link) ? coxi_error(COX_ECLOSED, "the connection is closed")
            : there                ? make_there(link, frame, &done)
                                   : make_here(link, frame, &done);
    if (r == 0 && !coxi_line_add_pad(link, &link->line, frame->payload_len)) {
        r = coxi_error_memory("sending");
    }
    link->making = false;
    if (link->behind.head != NULL) {
        coxi_line_append(&link->line, link->behind.head);
        link->line.tail = link->behind.tail;
        link->behind = (struct coxi_link_line){NULL, NULL};
    }
    bool end = (r != 0 && coxi_link_mark_closed(link, r, coxi_error_text())) ||
               (!link->sending && is_finished(link) &&
                coxi_link_mark_closed(link, COX_ECLOSED, ""));
    flush(link, &done);
    coxi_link_leave(link, done);
    if (end) {
        coxi_link_shut(link);
    }
    return r;
}

void coxi_link_beat(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (!link->sending && !link->making && !coxi_link_closed(link)) {
        uint8_t *to = link->line.head == NULL
                          ? coxi_line_room(link, &link->line, COXI_CHUNK_SMALL,
                                           sizeof(struct coxi_prefix))
                          : NULL;
        if (to != NULL) {
            memcpy(to, &(struct coxi_prefix){COXI_LINK_MAGIC, 0, 0},
                   sizeof(struct coxi_prefix));
        }
        flush(link, &done); /* frames that were held back are a sign of life, too */
    }
    coxi_link_leave(link, done);
}

static void flush_line(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    flush(link, &done);
    coxi_link_leave(link, done);
}

void coxi_link_flush(struct coxi_link *link)
{
    size_t n = atomic_load(&link->n_queued);
    if (n > 0 && (n >= COXI_LINK_IN_MAX || !atomic_load(&link->corked))) {
        flush_line(link);
    }
}

int coxi_link_wait_room(struct coxi_link *link, size_t bytes)
{
    if (atomic_load(&link->n_queued) <= bytes && !coxi_link_closed(link)) {
        return 0;
    }
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    await_line(link, bytes, &done);
    bool has_room = link->n_queued <= bytes && !coxi_link_closed(link);
    coxi_link_leave(link, done);
    return has_room ? 0 : COX_ECLOSED;
}

size_t coxi_link_queued(struct coxi_link *link)
{
    return atomic_load(&link->n_queued);
}

void coxi_link_cork(struct coxi_link *link)
{
    atomic_fetch_add(&link->batch, 1);
    atomic_store(&link->corked, true);
}

void coxi_link_uncork(struct coxi_link *link)
{
    atomic_store(&link->corked, false);
    if (atomic_load(&link->n_queued) > 0) {
        flush_line(link);
    }
}
