/*
 * The sending half of a link: gathers frames into writes.
 *
 * A send is tried at once and cancelled if the kernel has no room for it; only then is
 * it left to nng's threads. So in most cases no thread is woken for it, as it would be
 * by the callback of an asynchronous send.
 *
 * Invariant: one send is under way at a time (two would interleave after a partial
 * write); `sending` says so.
 *
 * Threads: any, under `lock`; the end of an asynchronous send on a thread of nng's.
 *
 * A payload that is made leaves in chunks of which there are MADE_MAX: what has been sent
 * is made in again.
 *
 * Cost: no allocation once a link has its chunks; one copy of a small frame; long segments
 * are lent. One system call moves all
 * that is in line, up to IOVS pieces.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/link.h"
#include "common/link_internal.h"
#include "common/sync.h"

enum {
    CHUNK = 16 * 1024,
    SMALL = 512,
    MADE = 256 * 1024, /* what is made fits a core's cache beside what it is made of */
    MADE_MAX = 2,      /* one is made while the other is sent */
    CORK_FRAMES = 4,   /* answers of a batch that leave before it is done, so that the
                        peer can start on them; then twice as many, and so on */
    IOVS = 8,          /* nng takes no more */
    ROUNDS_MAX = 8,    /* sends in a row by one thread, for itself and others */
};

static const size_t out_max = (size_t)1 << 30;

static const struct {
    size_t capacity;
    unsigned keep;
} kinds[] = {
    [COXI_CHUNK_OWN] = {CHUNK,
                        COXI_LINK_IN_MAX / CHUNK + 1}, /* a whole write's worth */
    [COXI_CHUNK_SMALL] = {SMALL, 64},
    [COXI_CHUNK_LENT] = {0, 64},
    [COXI_CHUNK_MADE] = {MADE, MADE_MAX},
};

/* An empty chunk; of no kind where it is longer than those that are kept. NULL: no memory.
 * Locked. */
static struct coxi_chunk *take_chunk(struct coxi_link *link, int kind, size_t capacity)
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

/* Keeps a chunk that has been sent for another time, or has it join *done. What was lent
 * is told about there. Locked. */
static void put_chunk(struct coxi_link *link, struct coxi_chunk *chunk,
                      struct coxi_chunk **done)
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

static void append_chunk(struct coxi_link_line *line, struct coxi_chunk *chunk)
{
    if (line->tail != NULL) {
        line->tail->next = chunk;
    } else {
        line->head = chunk;
    }
    line->tail = chunk;
}

/* Room for n bytes in a chunk of ours at the tail, one of `kind` if it is a new one, or NULL.
 * Locked. */
static uint8_t *tail_room(struct coxi_link *link, struct coxi_link_line *line, int kind,
                          size_t n)
{
    struct coxi_chunk *tail = line->tail;
    if (tail == NULL || tail->kind == COXI_CHUNK_MADE || tail->capacity == 0 ||
        tail->capacity - tail->end < n) {
        tail = take_chunk(link, kind, n);
        if (tail == NULL) {
            return NULL;
        }
        append_chunk(line, tail);
    }
    uint8_t *room = tail->own + tail->end;
    tail->end += n;
    link->n_queued += n;
    return room;
}

/* Whole chunks that are sent leave the line and join *done. Locked. */
static void consume(struct coxi_link *link, size_t n, struct coxi_chunk **done)
{
    link->n_queued -= n;
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

static unsigned fill_iov(const struct coxi_link *link, nng_iov iov[IOVS])
{
    unsigned n = 0;
    for (struct coxi_chunk *c = link->line.head; c != NULL && n < IOVS; c = c->next) {
        iov[n].iov_buf = (void *)(uintptr_t)(c->data + c->begin);
        iov[n].iov_len = c->end - c->begin;
        n++;
    }
    return n;
}

/* Sends with a callback: for what the kernel does not take at once. Locked, sending. */
static void send_later(struct coxi_link *link)
{
    nng_iov iov[IOVS];
    atomic_store_explicit(&link->stuck_ms, coxi_now_ms(), memory_order_relaxed);
    (void)nng_aio_set_iov(link->later_aio, fill_iov(link, iov), iov);
    nng_stream_send(link->stream, link->later_aio);
}

/* What is in line goes on when the peer has made room. Locked, sending. */
static void wait_for_peer(struct coxi_link *link)
{
    if (!link->is_local) {
        send_later(link); /* closing comes after this, and ends it */
        return;
    }
    link->sending = false;
    if (atomic_load_explicit(&link->stuck_ms, memory_order_relaxed) == 0) {
        atomic_store_explicit(&link->stuck_ms, coxi_now_ms(), memory_order_relaxed);
    }
    (void)pthread_cond_broadcast(&link->room);
}

/* Offers the kernel what is in line: *ret_n bytes of it were taken. Unlocked,
 * sending. */
static int send_now(struct coxi_link *link, unsigned n_iov, nng_iov *iov, size_t *ret_n)
{
    (void)nng_aio_set_iov(link->now_aio, n_iov, iov);
    nng_stream_send(link->stream, link->now_aio);
    nng_aio_cancel(link->now_aio); /* unless it is done already */
    nng_aio_wait(link->now_aio);
    *ret_n = nng_aio_count(link->now_aio);
    return nng_aio_result(link->now_aio);
}

/* True where the link is to close once all is sent, which it is. Locked. */
static bool is_finished(const struct coxi_link *link)
{
    return link->finish && link->n_queued == 0 && !link->making;
}

/* A send has ended; chunks that are sent join *done. Locked. */
static void sent(struct coxi_link *link, int failed, size_t n, struct coxi_chunk **done)
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
    consume(link, n, done);
    if (is_finished(link) && coxi_link_mark_closed(link, COX_ECLOSED, "")) {
        coxi_link_shut(link);
    }
}

/*
 * Sends what is in line, unless somebody is at it. Most of the time the kernel takes it
 * at once, and no other thread need be woken; others may put more in line meanwhile.
 * Locked; unlocks while it sends. Chunks that are sent join *done, for
 * coxi_link_leave().
 */
static void flush(struct coxi_link *link, struct coxi_chunk **done)
{
    for (int round = 0;
         !link->sending && link->line.head != NULL && !coxi_link_closed(link);
         round++) {
        nng_iov iov[IOVS];
        unsigned n_iov = fill_iov(link, iov);
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
            wait_for_peer(link);
            return;
        }
        sent(link, failed, n, done);
    }
}

/* Unlocks, releases what is sent, and ends the engine if this was what it waited
 * for. */
void coxi_link_leave(struct coxi_link *link, struct coxi_chunk *done)
{
    bool end = link->recv_end && !link->sending && !link->threaded && !link->ended;
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

void coxi_link_write_head(uint8_t *to, const struct coxi_prefix *prefix,
                          const void *meta)
{
    size_t used = sizeof(*prefix) + prefix->meta_len;
    memcpy(to, prefix, sizeof(*prefix));
    memcpy(to + sizeof(*prefix), meta, prefix->meta_len);
    memset(to + used, 0, coxi_head_len(prefix) - used);
}

/* What comes before the payload. Locked. */
static bool enqueue_head(struct coxi_link *link, struct coxi_link_line *line, int kind,
                         const void *meta, size_t meta_len, size_t payload_len)
{
    struct coxi_prefix prefix = {COXI_LINK_MAGIC, (uint32_t)meta_len, payload_len};
    uint8_t *to = tail_room(link, line, kind, coxi_head_len(&prefix));
    if (to != NULL) {
        coxi_link_write_head(to, &prefix, meta);
    }
    return to != NULL;
}

/* And what comes after it. Locked. */
static bool enqueue_pad(struct coxi_link *link, struct coxi_link_line *line,
                        size_t payload_len)
{
    size_t pad = coxi_align(payload_len, 8) - payload_len;
    uint8_t *to = pad > 0 ? tail_room(link, line, COXI_CHUNK_SMALL, pad) : NULL;
    if (to != NULL) {
        memset(to, 0, pad);
    }
    return pad == 0 || to != NULL;
}

/* True where the first that there is of a payload is lent. */
static bool is_lent(const struct coxi_outgoing *frame)
{
    size_t first = 0;
    while (first < frame->n_payload && frame->payload[first].iov_len == 0) {
        first++;
    }
    return first < frame->n_payload &&
           frame->payload[first].iov_len >= COXI_LINK_COPY_MAX;
}

/* Puts the frame in line; false: no memory, and the line may hold a part of it.
 * Locked. */
static bool enqueue(struct coxi_link *link, const struct coxi_outgoing *frame,
                    size_t payload_len, bool *ret_lent)
{
    struct coxi_link_line *line = link->making ? &link->behind : &link->line;
    int kind = is_lent(frame) ? COXI_CHUNK_SMALL : COXI_CHUNK_OWN;
    if (!enqueue_head(link, line, kind, frame->meta, frame->meta_len, payload_len)) {
        return false;
    }
    struct coxi_chunk *last_lent = NULL;
    for (size_t i = 0; i < frame->n_payload; i++) {
        const struct iovec *segment = &frame->payload[i];
        if (segment->iov_len == 0) {
            continue;
        }
        if (segment->iov_len < COXI_LINK_COPY_MAX) {
            uint8_t *to = tail_room(link, line, COXI_CHUNK_OWN, segment->iov_len);
            if (to == NULL) {
                return false;
            }
            memcpy(to, segment->iov_base, segment->iov_len);
            continue;
        }
        struct coxi_chunk *chunk = take_chunk(link, COXI_CHUNK_LENT, 0);
        if (chunk == NULL) {
            return false;
        }
        chunk->data = segment->iov_base;
        chunk->end = segment->iov_len;
        append_chunk(line, chunk);
        link->n_queued += segment->iov_len;
        last_lent = chunk;
    }
    if (!enqueue_pad(link, line, payload_len)) {
        return false;
    }
    if (last_lent != NULL) {
        last_lent->release = frame->release;
        last_lent->arg = frame->arg;
        *ret_lent = true;
    }
    return true;
}

/* True where a frame that was just put in line is to leave now. Locked. */
static bool is_enough(struct coxi_link *link, bool later)
{
    if (link->n_queued >= COXI_LINK_IN_MAX) {
        return true; /* a whole write's worth */
    }
    if (later || !link->corked) {
        return !later;
    }
    if (++link->n_corked < link->cork_frames) {
        return false;
    }
    link->n_corked = 0;
    link->cork_frames *= 2;
    return true;
}

/* Puts a frame in line, or says why not. Locked. */
static int put(struct coxi_link *link, const struct coxi_outgoing *frame,
               size_t payload_len, bool *ret_lent)
{
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
    if (!enqueue(link, frame, payload_len, ret_lent)) {
        /* Half a frame may be in line: nothing of it must leave any more. */
        (void)coxi_link_mark_closed(link, COX_ENOMEM, "out of memory while sending");
        return coxi_error_memory("sending");
    }
    return 0;
}

int coxi_link_put(struct coxi_link *link, const struct coxi_outgoing *frame, bool later,
                  bool *ret_due)
{
    size_t payload_len = 0;
    for (size_t i = 0; i < frame->n_payload; i++) {
        payload_len += frame->payload[i].iov_len;
    }
    bool lent = false;
    coxi_lock(&link->lock);
    int r = put(link, frame, payload_len, &lent);
    bool due = r == 0 && is_enough(link, later);
    coxi_unlock(&link->lock);
    if (!lent && frame->release != NULL) {
        frame->release(frame->arg);
    }
    if (r == COX_ENOMEM) {
        coxi_link_shut(link);
    }
    *ret_due = due;
    return r;
}

int coxi_link_send(struct coxi_link *link, const struct coxi_outgoing *frame,
                   bool later)
{
    bool due;
    int r = coxi_link_put(link, frame, later, &due);
    if (due) {
        struct coxi_chunk *done = NULL;
        coxi_lock(&link->lock);
        flush(link, &done);
        coxi_link_leave(link, done);
    }
    return r;
}

/* ---- frames whose payload is made */

/* A chunk to make the next piece in, once one is free; NULL: closed, or no memory. Locked;
 * may wait. */
static struct coxi_chunk *await_chunk(struct coxi_link *link, struct coxi_chunk **done)
{
    while (!coxi_link_closed(link) && link->n_made == MADE_MAX &&
           link->spares[COXI_CHUNK_MADE].n == 0) {
        flush(link, done);
        if (!coxi_link_closed(link) && link->spares[COXI_CHUNK_MADE].n == 0) {
            (void)pthread_cond_wait(&link->room, &link->lock);
        }
    }
    if (coxi_link_closed(link)) {
        return NULL;
    }
    link->n_made += link->spares[COXI_CHUNK_MADE].n == 0;
    return take_chunk(link, COXI_CHUNK_MADE, MADE);
}

/* Makes the next piece and puts it in line: *left goes down. Locked; unlocks meanwhile. */
static int make_piece(struct coxi_link *link, const struct coxi_made *frame,
                      size_t *left, struct coxi_chunk **done)
{
    struct coxi_chunk *chunk = await_chunk(link, done);
    if (chunk == NULL) {
        return coxi_link_closed(link)
                   ? coxi_error(COX_ECLOSED, "the connection is closed")
                   : coxi_error_memory("sending");
    }
    coxi_unlock(&link->lock);
    int r = frame->make(frame->arg, chunk->own, MADE, &chunk->end);
    assert(r != 0 || (chunk->end > 0 && chunk->end <= *left));
    coxi_lock(&link->lock);
    if (r != 0) {
        chunk->next = *done;
        *done = chunk;
        return r;
    }
    append_chunk(&link->line, chunk);
    link->n_queued += chunk->end;
    *left -= chunk->end;
    flush(link, done);
    return 0;
}

/* Waits for what the peer, or another thread that sends, is to do; `heard`: since when. On
 * the local path the receiving thread goes on with what waits for room. Locked. */
static void await_peer(struct coxi_link *link, uint32_t heard)
{
    if (link->is_local && !link->sending && link->threaded &&
        pthread_equal(link->receiver, pthread_self())) {
        coxi_unlock(&link->lock);
        coxi_rings_wait(atomic_load(&link->rings), heard);
        coxi_lock(&link->lock);
    } else {
        (void)pthread_cond_wait(&link->room, &link->lock);
    }
}

/* What await_peer is to hear of from now on. Locked. */
static uint32_t listen_to_peer(struct coxi_link *link)
{
    return link->is_local ? coxi_rings_listen(atomic_load(&link->rings)) : 0;
}

/* Waits until no more than `bytes` are in line, but for what is held behind a frame that is
 * being made. Locked. */
static void await_line(struct coxi_link *link, size_t bytes, struct coxi_chunk **done)
{
    while (link->n_queued > bytes && coxi_link_is_read(link)) {
        uint32_t heard = listen_to_peer(link);
        flush(link, done);
        if (link->n_queued > bytes && coxi_link_is_read(link)) {
            await_peer(link, heard);
        }
    }
}

/* Makes a frame where the peer reads it. Locked; unlocks meanwhile. */
static int make_there(struct coxi_link *link, const struct coxi_made *frame,
                      struct coxi_chunk **done)
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

/* Makes a frame in chunks. Locked; unlocks meanwhile. */
static int make_here(struct coxi_link *link, const struct coxi_made *frame,
                     struct coxi_chunk **done)
{
    size_t left = frame->payload_len;
    int r = enqueue_head(link, &link->line, COXI_CHUNK_SMALL, frame->meta,
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
    if (r == 0 && !enqueue_pad(link, &link->line, frame->payload_len)) {
        r = coxi_error_memory("sending");
    }
    link->making = false;
    if (link->behind.head != NULL) {
        append_chunk(&link->line, link->behind.head);
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
                          ? tail_room(link, &link->line, COXI_CHUNK_SMALL,
                                      sizeof(struct coxi_prefix))
                          : NULL;
        if (to != NULL) {
            memcpy(to, &(struct coxi_prefix){COXI_LINK_MAGIC, 0, 0},
                   sizeof(struct coxi_prefix));
        }
        flush(link, &done); /* what is held back is a sign of life, too */
    }
    coxi_link_leave(link, done);
}

void coxi_link_flush(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (!link->corked || link->n_queued >= COXI_LINK_IN_MAX) {
        flush(link, &done);
    }
    coxi_link_leave(link, done);
}

int coxi_link_wait_room(struct coxi_link *link, size_t bytes)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    await_line(link, bytes, &done);
    bool has_room = link->n_queued <= bytes && !coxi_link_closed(link);
    coxi_link_leave(link, done);
    return has_room ? 0 : COX_ECLOSED;
}

size_t coxi_link_queued(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    size_t n = link->n_queued;
    coxi_unlock(&link->lock);
    return n;
}

void coxi_link_cork(struct coxi_link *link, bool corked)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    link->corked = corked;
    link->n_corked = 0;
    link->cork_frames = CORK_FRAMES;
    if (!corked) {
        flush(link, &done);
    }
    coxi_link_leave(link, done);
}
