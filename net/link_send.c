/*
 * The sending half of a link: gathers frames into writes.
 *
 * The line holds the frames that wait to be sent, as a list of pieces of memory, and
 * how much of them was sent. Small frames are copied into chunks, one after the other.
 * Long segments are lent: each has a chunk that only points to it, after a short chunk
 * for the head. A sent chunk is kept for reuse; each kind has enough spares for a busy
 * link.
 *
 * A send is first tried without waiting, and cancelled if the kernel has no room. Only
 * then is it repeated asynchronously. So in most cases no thread of nng is woken for a
 * callback.
 *
 * Invariant: one send is under way at a time (two would interleave after a partial
 * write); `sending` says so.
 *
 * Threads: any, under `lock`; an asynchronous send ends on one of nng's threads.
 *
 * On a sealed stream records of the line are sent in its place (link_sealed.c).
 *
 * Cost: one copy of small data; no allocation once a link has its chunks. One system
 * call sends everything in line, up to LINE_IOVS pieces.
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
    LINE_IOVS = 8, /* the most that nng takes */
    CHUNK = 16 * 1024,
    SMALL = 512,
    /* The first answers of a batch leave early, after this many frames, so that the
     * peer can start on them; the next group is twice as large, and so on. */
    CORK_FRAMES = 4,
    ROUNDS_MAX = 8, /* sends in a row by one thread, also of other threads' frames */
};

static const size_t out_max = (size_t)1 << 30;

/* ---- the line */

static const struct {
    size_t capacity;
    unsigned keep;
} kinds[] = {
    /* enough for a whole write */
    [COXI_CHUNK_OWN] = {CHUNK, COXI_LINK_IN_MAX / CHUNK + 1},
    [COXI_CHUNK_SMALL] = {SMALL, 64},
    [COXI_CHUNK_LENT] = {0, 64},
    [COXI_CHUNK_MADE] = {COXI_LINE_MADE, COXI_LINE_MADE_MAX},
};

struct coxi_chunk *coxi_line_chunk(struct coxi_link *link, int kind, size_t capacity)
{
    if (capacity > kinds[kind].capacity) {
        kind = COXI_CHUNKS;
    } else {
        capacity = kinds[kind].capacity;
    }
    struct coxi_chunk *chunk = NULL;
    if (kind < COXI_CHUNKS && link->spares[kind].first != NULL) {
        chunk = link->spares[kind].first;
        link->spares[kind].first = chunk->next;
        link->spares[kind].n--;
    } else {
        chunk = malloc(sizeof(*chunk) + capacity);
    }
    if (chunk != NULL) {
        *chunk = (struct coxi_chunk){.capacity = capacity, .kind = kind};
        chunk->data = chunk->own;
    }
    return chunk;
}

/* Keeps a sent chunk for reuse, or adds it to *done, whose chunks release lent
 * memory. */
static void put_chunk(struct coxi_link *link, struct coxi_chunk *chunk,
                      struct coxi_chunk **done) COXI_REQUIRES(link->lock)
{
    int kind = chunk->kind;
    if (kind < COXI_CHUNKS && chunk->release == NULL &&
        link->spares[kind].n < kinds[kind].keep) {
        chunk->next = link->spares[kind].first;
        link->spares[kind].first = chunk;
        link->spares[kind].n++;
    } else {
        chunk->next = *done;
        *done = chunk;
    }
}

void coxi_line_append(struct coxi_link_line *line, struct coxi_chunk *chunk)
{
    if (line->tail != NULL) {
        line->tail->next = chunk;
    } else {
        line->head = chunk;
    }
    line->tail = chunk;
}

/* Returns space for n bytes in the chunk at the line's tail, or in a new chunk of
 * `kind` if the tail has no room; NULL: no memory. */
static uint8_t *line_room(struct coxi_link *link, struct coxi_link_line *line, int kind,
                          size_t n) COXI_REQUIRES(link->lock)
{
    struct coxi_chunk *tail = line->tail;
    if (tail == NULL || tail->kind == COXI_CHUNK_MADE || tail->capacity == 0 ||
        tail->capacity - tail->end < n) {
        tail = coxi_line_chunk(link, kind, n);
        if (tail == NULL) {
            return NULL;
        }
        coxi_line_append(line, tail);
    }
    uint8_t *room = tail->own + tail->end;
    tail->end += n;
    link->n_queued += n;
    return room;
}

/* Takes n sent bytes off the line; completely sent chunks are kept, or join *done. */
static void consume(struct coxi_link *link, size_t n, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    link->n_queued -= n;
    if (link->n_queued <= COXI_LINK_OWN_FREE) {
        (void)coxi_link_tell_memory(link, &link->line_told, 0);
    }
    while (link->line.head != NULL) {
        struct coxi_chunk *chunk = link->line.head;
        size_t part = chunk->end - chunk->begin;
        if (n < part) {
            chunk->begin += n;
            break;
        }
        n -= part;
        link->line.head = chunk->next;
        if (link->line.head == NULL) {
            link->line.tail = NULL;
        }
        put_chunk(link, chunk, done);
    }
}

/* The pieces to send next; returns how many. */
static unsigned line_iov(const struct coxi_link *link, nng_iov iov[LINE_IOVS])
    COXI_REQUIRES(link->lock)
{
    unsigned n = 0;
    for (struct coxi_chunk *c = link->line.head; c != NULL && n < LINE_IOVS;
         c = c->next) {
        iov[n].iov_buf = (void *)(uintptr_t)(c->data + c->begin);
        iov[n].iov_len = c->end - c->begin;
        n++;
    }
    return n;
}

void coxi_line_write_head(uint8_t *to, const struct coxi_prefix *prefix,
                          const void *meta)
{
    size_t used = sizeof(*prefix) + prefix->meta_len;
    memcpy(to, prefix, sizeof(*prefix));
    memcpy(to + sizeof(*prefix), meta, prefix->meta_len);
    memset(to + used, 0, coxi_head_len(prefix) - used);
}

bool coxi_line_add_head(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        const void *meta, size_t meta_len, size_t payload_len)
{
    struct coxi_prefix prefix = {COXI_LINK_MAGIC, (uint32_t)meta_len, payload_len};
    uint8_t *to = line_room(link, line, kind, coxi_head_len(&prefix));
    if (to != NULL) {
        coxi_line_write_head(to, &prefix, meta);
    }
    return to != NULL;
}

bool coxi_line_add_pad(struct coxi_link *link, struct coxi_link_line *line,
                       size_t payload_len)
{
    size_t pad = coxi_align(payload_len, 8) - payload_len;
    uint8_t *to = pad > 0 ? line_room(link, line, COXI_CHUNK_SMALL, pad) : NULL;
    if (to != NULL) {
        memset(to, 0, pad);
    }
    return pad == 0 || to != NULL;
}

/* True if the first non-empty segment of the payload is lent. */
static bool is_lent(const struct coxi_outgoing *frame)
{
    size_t first = 0;
    while (first < frame->n_payload && frame->payload[first].iov_len == 0) {
        first++;
    }
    return first < frame->n_payload &&
           frame->payload[first].iov_len >= COXI_LINK_COPY_MAX;
}

/* Adds a frame to the line; false: no memory, and the line may contain a part of it.
 * *ret_lent: its `release` will be called. */
static bool add_frame(struct coxi_link *link, const struct coxi_outgoing *frame,
                      size_t payload_len, bool *ret_lent) COXI_REQUIRES(link->lock)
{
    struct coxi_link_line *line = link->making ? &link->behind : &link->line;
    int kind = is_lent(frame) ? COXI_CHUNK_SMALL : COXI_CHUNK_OWN;
    if (!coxi_line_add_head(link, line, kind, frame->meta, frame->meta_len,
                            payload_len)) {
        return false;
    }
    struct coxi_chunk *last_lent = NULL;
    for (size_t i = 0; i < frame->n_payload; i++) {
        const struct iovec *segment = &frame->payload[i];
        if (segment->iov_len == 0) {
            continue;
        }
        if (segment->iov_len < COXI_LINK_COPY_MAX) {
            uint8_t *to = line_room(link, line, COXI_CHUNK_OWN, segment->iov_len);
            if (to == NULL) {
                return false;
            }
            memcpy(to, segment->iov_base, segment->iov_len);
            continue;
        }
        struct coxi_chunk *chunk = coxi_line_chunk(link, COXI_CHUNK_LENT, 0);
        if (chunk == NULL) {
            return false;
        }
        chunk->data = segment->iov_base;
        chunk->end = segment->iov_len;
        coxi_line_append(line, chunk);
        link->n_queued += segment->iov_len;
        last_lent = chunk;
    }
    if (!coxi_line_add_pad(link, line, payload_len)) {
        return false;
    }
    if (last_lent != NULL) {
        last_lent->release = frame->release;
        last_lent->arg = frame->arg;
        *ret_lent = true;
    }
    return true;
}

/* ---- sending it */

/* Sends the line asynchronously, because the kernel did not take it at once. Call it
 * with `sending` set. */
static void send_later(struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    nng_iov iov[LINE_IOVS];
    unsigned n_iov = 1;
    atomic_store_explicit(&link->stuck_ms, coxi_now_ms(), memory_order_relaxed);
    if (link->sealed != NULL) {
        iov[0] = coxi_sealed_unsent(link->sealed);
    } else {
        n_iov = line_iov(link, iov);
    }
    (void)nng_aio_set_iov(link->later_aio, n_iov, iov);
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
        send_later(link); /* closing the link ends this send */
        return false;
    }
    struct coxi_rings *rings = atomic_load(&link->rings);
    link->sending = false;
    if (atomic_load(&link->stuck_ms) == 0) {
        atomic_store(&link->stuck_ms, coxi_now_ms());
    }
    (void)pthread_cond_broadcast(&link->room);
    /* It is true also for broken rings: then the next send reports the error. */
    return coxi_rings_ask_room(rings, 1);
}

/* Offers the line, or records of it, to the kernel; *ret_n: how many bytes it took.
 * Without `now` the kernel is not asked. Call it with `sending` set. */
static int send_now(struct coxi_link *link, bool now, unsigned n_iov, nng_iov *iov,
                    size_t *ret_n) COXI_EXCLUDES(link->lock)
{
    if (link->sealed != NULL) {
        if (coxi_sealed_put(link->sealed, iov, n_iov) != 0) {
            return NNG_ECRYPTO;
        }
        iov[0] = coxi_sealed_unsent(link->sealed);
        n_iov = 1;
    }
    if (!now) {
        return NNG_ECANCELED;
    }
    (void)nng_aio_set_iov(link->now_aio, n_iov, iov);
    nng_stream_send(link->stream, link->now_aio);
    nng_aio_cancel(link->now_aio); /* no effect if it is done already */
    nng_aio_wait(link->now_aio);
    *ret_n = nng_aio_count(link->now_aio);
    return nng_aio_result(link->now_aio);
}

/* Copies the line into the ring, as send_now offers it to the kernel. NNG_ECANCELED:
 * the ring is full, and the peer will ring when it has made room. Call it with
 * `sending` set. */
static int send_local(struct coxi_link *link, unsigned n_iov, const nng_iov *iov,
                      size_t *ret_n)
{
    struct coxi_rings *rings = atomic_load(&link->rings);
    size_t n = 0;
    do {
        for (unsigned i = 0; i < n_iov; i++) {
            size_t part = coxi_rings_write(rings, iov[i].iov_buf, iov[i].iov_len);
            n += part;
            if (part < iov[i].iov_len) {
                break;
            }
        }
    } while (n == 0 && coxi_rings_ask_room(rings, 1) && !coxi_rings_broken(rings));
    *ret_n = n;
    return coxi_rings_broken(rings) ? NNG_EPROTO : n > 0 ? 0 : NNG_ECANCELED;
}

bool coxi_link_is_finished(const struct coxi_link *link)
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
                                  coxi_link_reason(failed))) {
            coxi_link_shut(link);
        }
        return;
    }
    if (link->sealed != NULL && !link->is_local) {
        n = coxi_sealed_sent(link->sealed, n);
    }
    consume(link, n, done);
    if (coxi_link_is_finished(link) && coxi_link_mark_closed(link, COX_ECLOSED, "")) {
        coxi_link_shut(link);
    }
}

void coxi_link_send_line(struct coxi_link *link, struct coxi_chunk **done)
{
    for (int round = 0;
         !link->sending && link->line.head != NULL && !coxi_link_closed(link);
         round++) {
        nng_iov iov[LINE_IOVS];
        unsigned n_iov = line_iov(link, iov);
        size_t n = 0;
        bool is_local = link->is_local;
        link->sending = true;
        coxi_unlock(&link->lock);
        int failed = is_local ? send_local(link, n_iov, iov, &n)
                              : send_now(link, round < ROUNDS_MAX, n_iov, iov, &n);
        coxi_lock(&link->lock);
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
    coxi_link_send_line(link, &done);
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

/* Puts a frame in line. COX_ECLOSED, COX_ELIMIT, COX_EAGAIN, COX_ENOMEM. */
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
    int r = coxi_link_tell_memory(link, &link->line_told,
                                  link->n_queued + frame->meta_len + payload_len);
    if (r != 0) {
        (void)coxi_link_mark_closed(link, r, coxi_error_text());
        return r;
    }
    if (!add_frame(link, frame, payload_len, ret_lent)) {
        /* A part of the frame may be in line, and must not be sent. */
        (void)coxi_link_mark_closed(link, COX_ENOMEM, "out of memory while sending");
        return coxi_error_memory("sending");
    }
    return 0;
}

/* Call this after put, with its result `r`: releases the payload unless the link keeps
 * it (`lent`), and shuts the link if memory was lacking. */
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
        coxi_link_send_line(link, &done);
    }
    coxi_link_leave(link, done);
    was_put(link, frame, r, lent);
    return r;
}

void coxi_link_beat(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (!link->sending && !link->making && !coxi_link_closed(link)) {
        uint8_t *to = link->line.head == NULL
                          ? line_room(link, &link->line, COXI_CHUNK_SMALL,
                                      sizeof(struct coxi_prefix))
                          : NULL;
        if (to != NULL) {
            memcpy(to, &(struct coxi_prefix){COXI_LINK_MAGIC, 0, 0},
                   sizeof(struct coxi_prefix));
        }
        /* Frames that were held back serve as a heartbeat, too. */
        coxi_link_send_line(link, &done);
    }
    coxi_link_leave(link, done);
}

static void flush_line(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    coxi_link_send_line(link, &done);
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
    coxi_link_await_line(link, bytes, &done);
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
