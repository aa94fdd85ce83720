/*
 * One connection that carries frames (link.h has the contract and the frame's layout).
 *
 * Does: cut the byte stream into frames and gather frames into writes.
 * Does not: connect, listen (link_connect.c), watch for silence (link_watch.c), know
 * what a frame means.
 *
 * A send is tried at once and cancelled if the kernel has no room for it; only then is
 * it left to nng's threads. So in most cases no thread is woken for it, as it would be
 * by the callback of an asynchronous send.
 *
 * Invariants
 *   - The receive buffer starts 64-aligned and frames are multiples of 8 long, so every
 *     frame in it is 8-aligned.
 *   - No length from the peer is used, for memory or otherwise, before it is checked.
 *   - One send is under way at a time (two would interleave after a partial write), and
 * a receive always is (without one, a close may go unnoticed).
 *   - The engine ends once receiving has ended and no send is under way; then on_close.
 *
 * Threads: the receiving side belongs to the receiving thread; the sending side is
 * under `lock`, from any thread and from the send callback on a thread of nng's. No
 * callback of the owner's runs under the lock.
 *
 * Cost: a frame received from the buffer costs no copy and no allocation; a small frame
 * sent costs one copy; one system call moves up to 64 KiB of frames each way.
 */
#include "common/link.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/link_internal.h"
#include "common/sync.h"

enum {
    MAGIC = 0x584f4331, /* "1COX" */
    IN_FIRST = 4 * 1024,
    IN_MAX = 64 * 1024, /* frames up to here are received in the buffer */
    CHUNK = 16 * 1024,
    CORK_FRAMES = 4, /* answers of a batch that leave before it is done, so that the
                        peer can start on them; then twice as many, and so on */
    IOVS = 8,        /* nng takes no more */
    ROUNDS_MAX = 8,  /* sends in a row by one thread, for itself and others */
};

static const size_t out_max = (size_t)1 << 30;

struct prefix {
    uint32_t magic;
    uint32_t meta_len;
    uint64_t payload_len;
};

static size_t head_len(const struct prefix *p)
{
    return coxi_align(sizeof(*p) + p->meta_len, p->payload_len > 0 ? 64 : 8);
}

int coxi_link_error(int nng_code)
{
    switch (nng_code) {
    case 0:
        return 0;
    case NNG_ENOMEM:
        return COX_ENOMEM;
    case NNG_ETIMEDOUT:
        return COX_ETIMEDOUT;
    case NNG_ECONNREFUSED:
    case NNG_EUNREACHABLE:
    case NNG_ENOENT:
        return COX_EREFUSED;
    case NNG_EADDRINUSE:
    case NNG_EADDRINVAL:
    case NNG_EPERM:
    case NNG_ENOTSUP:
        return COX_EADDRESS;
    default:
        return COX_ECLOSED;
    }
}

/* ---- lifetime */

static void later_sent(void *arg);

int coxi_link_new(nng_stream *stream, struct coxi_link **ret)
{
    struct coxi_link *link = calloc(1, sizeof(*link));
    if (link == NULL || nng_aio_alloc(&link->now_aio, NULL, NULL) != 0 ||
        nng_aio_alloc(&link->later_aio, later_sent, link) != 0) {
        if (link != NULL) {
            nng_aio_free(link->now_aio);
        }
        free(link);
        nng_stream_free(stream);
        return coxi_error_memory("a connection");
    }
    atomic_init(&link->refs, 1);
    atomic_init(&link->last_in_ms, coxi_now_ms());
    atomic_init(&link->last_out_ms, coxi_now_ms());
    link->stream = stream;
    atomic_init(&link->meta_max, COXI_LINK_META_FIRST);
    (void)pthread_mutex_init(&link->lock, NULL);
    coxi_cond_init(&link->room);
    *ret = link;
    return 0;
}

struct coxi_link *coxi_link_ref(struct coxi_link *link)
{
    atomic_fetch_add_explicit(&link->refs, 1, memory_order_relaxed);
    return link;
}

static void release_chunks(struct coxi_chunk *chunk)
{
    while (chunk != NULL) {
        struct coxi_chunk *next = chunk->next;
        if (chunk->release != NULL) {
            chunk->release(chunk->arg);
        }
        free(chunk);
        chunk = next;
    }
}

void coxi_link_unref(struct coxi_link *link)
{
    if (link == NULL ||
        atomic_fetch_sub_explicit(&link->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    /* This may be the end of one of its own callbacks: nng frees when that is over. */
    nng_stream_close(link->stream);
    nng_aio_reap(link->now_aio);
    nng_aio_reap(link->later_aio);
    if (link->recv_aio != NULL) {
        nng_aio_reap(link->recv_aio);
    }
    nng_stream_free(link->stream);
    release_chunks(link->head);
    free(link->spare);
    free(link->in);
    free(link->scratch);
    (void)pthread_cond_destroy(&link->room);
    (void)pthread_mutex_destroy(&link->lock);
    free(link);
}

void coxi_link_listen_to(struct coxi_link *link, const struct coxi_link_events *events,
                         void *arg)
{
    link->events = events;
    link->arg = arg;
}

void coxi_link_allow(struct coxi_link *link, size_t meta_max, size_t payload_max)
{
    atomic_store_explicit(&link->meta_max, meta_max, memory_order_relaxed);
    atomic_store_explicit(&link->payload_max, payload_max, memory_order_relaxed);
}

bool coxi_link_closed(struct coxi_link *link)
{
    return atomic_load_explicit(&link->closed, memory_order_acquire);
}

/* Marks the link closed; the stream is for the caller to close, unlocked. Locked. */
static bool mark_closed(struct coxi_link *link, int code, const char *text)
{
    if (coxi_link_closed(link)) {
        return false;
    }
    if (!link->finish) {
        link->close_code = code;
        strncpy(link->close_text, text, sizeof(link->close_text) - 1);
    }
    atomic_store_explicit(&link->closed, true, memory_order_release);
    (void)pthread_cond_broadcast(&link->room);
    return true;
}

void coxi_link_close(struct coxi_link *link, int code, const char *text)
{
    coxi_lock(&link->lock);
    bool first = mark_closed(link, code, text);
    coxi_unlock(&link->lock);
    if (first) {
        nng_stream_close(link->stream);
    }
}

void coxi_link_finish(struct coxi_link *link, int code, const char *text)
{
    coxi_lock(&link->lock);
    bool idle = link->head == NULL && !link->sending;
    if (!link->finish) {
        link->finish = true;
        link->close_code = code;
        strncpy(link->close_text, text, sizeof(link->close_text) - 1);
    }
    coxi_unlock(&link->lock);
    if (idle) {
        coxi_link_close(link, code, text);
    }
}

/* Receiving has ended and nothing is being sent: tell the owner, and let go. */
static void end_engine(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    struct coxi_chunk *left = link->head;
    link->head = link->tail = NULL;
    link->n_queued = 0;
    coxi_unlock(&link->lock);
    release_chunks(left);
    coxi_links_drop(link);
    link->events->on_close(link->arg, link, link->close_code, link->close_text);
    coxi_link_unref(link);
}

/* ---- sending */

static struct coxi_chunk *chunk_new(size_t capacity)
{
    struct coxi_chunk *chunk = malloc(sizeof(*chunk) + capacity);
    if (chunk != NULL) {
        *chunk = (struct coxi_chunk){.capacity = capacity};
        chunk->data = chunk->own;
    }
    return chunk;
}

static void append_chunk(struct coxi_link *link, struct coxi_chunk *chunk)
{
    if (link->tail != NULL) {
        link->tail->next = chunk;
    } else {
        link->head = chunk;
    }
    link->tail = chunk;
}

/* Room for n bytes in a chunk of ours at the tail, or NULL. Locked. */
static uint8_t *tail_room(struct coxi_link *link, size_t n)
{
    struct coxi_chunk *tail = link->tail;
    if (tail == NULL || tail->capacity - tail->end < n || tail->capacity == 0) {
        tail = link->spare;
        if (tail != NULL && tail->capacity >= n) {
            link->spare = NULL;
            *tail = (struct coxi_chunk){.capacity = tail->capacity, .data = tail->own};
        } else if ((tail = chunk_new(n > CHUNK ? n : CHUNK)) == NULL) {
            return NULL;
        }
        append_chunk(link, tail);
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
    while (link->head != NULL) {
        struct coxi_chunk *chunk = link->head;
        size_t part = chunk->end - chunk->begin;
        if (n < part) {
            chunk->begin += n;
            break;
        }
        n -= part;
        link->head = chunk->next;
        if (link->head == NULL) {
            link->tail = NULL;
        }
        if (chunk->capacity == CHUNK && link->spare == NULL) {
            link->spare = chunk;
        } else {
            chunk->next = *done;
            *done = chunk;
        }
    }
}

static unsigned fill_iov(const struct coxi_link *link, nng_iov iov[IOVS])
{
    unsigned n = 0;
    for (struct coxi_chunk *c = link->head; c != NULL && n < IOVS; c = c->next) {
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
    (void)nng_aio_set_iov(link->later_aio, fill_iov(link, iov), iov);
    nng_stream_send(link->stream, link->later_aio);
}

/* Offers the kernel what is in line: *ret_n bytes of it were taken. Unlocked, sending.
 */
static int send_now(struct coxi_link *link, unsigned n_iov, nng_iov *iov, size_t *ret_n)
{
    (void)nng_aio_set_iov(link->now_aio, n_iov, iov);
    nng_stream_send(link->stream, link->now_aio);
    nng_aio_cancel(link->now_aio); /* unless it is done already */
    nng_aio_wait(link->now_aio);
    *ret_n = nng_aio_count(link->now_aio);
    return nng_aio_result(link->now_aio);
}

/* A send has ended; chunks that are sent join *done. Locked. */
static void sent(struct coxi_link *link, int failed, size_t n, struct coxi_chunk **done)
{
    link->sending = false;
    atomic_store_explicit(&link->last_out_ms, coxi_now_ms(), memory_order_relaxed);
    if (failed != 0) {
        if (mark_closed(link, coxi_link_error(failed), nng_strerror(failed))) {
            nng_stream_close(link->stream);
        }
        return;
    }
    consume(link, n, done);
    if (link->finish && link->head == NULL && mark_closed(link, COX_ECLOSED, "")) {
        nng_stream_close(link->stream);
    }
    (void)pthread_cond_broadcast(&link->room);
}

/*
 * Sends what is in line, unless somebody is at it. Most of the time the kernel takes it
 * at once, and no other thread need be woken; others may put more in line meanwhile.
 * Locked; unlocks while it sends. Chunks that are sent join *done, for leave().
 */
static void flush(struct coxi_link *link, struct coxi_chunk **done)
{
    for (int round = 0; !link->sending && link->head != NULL && !coxi_link_closed(link);
         round++) {
        nng_iov iov[IOVS];
        unsigned n_iov = fill_iov(link, iov);
        size_t n = 0;
        link->sending = true;
        int failed = NNG_ECANCELED;
        if (round < ROUNDS_MAX) {
            coxi_unlock(&link->lock);
            failed = send_now(link, n_iov, iov, &n);
            coxi_lock(&link->lock);
        }
        if (failed == NNG_ECANCELED && !coxi_link_closed(link)) {
            send_later(link); /* closing comes after this, and ends it */
            return;
        }
        sent(link, failed, n, done);
    }
}

/* Unlocks, releases what is sent, and ends the engine if this was what it waited for.
 */
static void leave(struct coxi_link *link, struct coxi_chunk *done)
{
    bool end = link->recv_end && !link->sending && !link->threaded && !link->ended;
    link->ended = link->ended || end;
    coxi_unlock(&link->lock);
    release_chunks(done);
    if (end) {
        end_engine(link);
    }
}

static void later_sent(void *arg)
{
    struct coxi_link *link = arg;
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    sent(link, nng_aio_result(link->later_aio), nng_aio_count(link->later_aio), &done);
    flush(link, &done);
    leave(link, done);
}

/* Puts the frame in line; false: no memory, and the line may hold a part of it. Locked.
 */
static bool enqueue(struct coxi_link *link, const struct coxi_outgoing *frame,
                    size_t payload_len, bool *ret_lent)
{
    struct prefix prefix = {MAGIC, (uint32_t)frame->meta_len, payload_len};
    size_t head = head_len(&prefix);
    uint8_t *to = tail_room(link, head);
    if (to == NULL) {
        return false;
    }
    memcpy(to, &prefix, sizeof(prefix));
    memcpy(to + sizeof(prefix), frame->meta, frame->meta_len);
    memset(to + sizeof(prefix) + frame->meta_len, 0,
           head - sizeof(prefix) - frame->meta_len);
    struct coxi_chunk *last_lent = NULL;
    for (size_t i = 0; i < frame->n_payload; i++) {
        const struct iovec *segment = &frame->payload[i];
        if (segment->iov_len < COXI_LINK_COPY_MAX) {
            if ((to = tail_room(link, segment->iov_len)) == NULL) {
                return false;
            }
            memcpy(to, segment->iov_base, segment->iov_len);
            continue;
        }
        struct coxi_chunk *chunk = chunk_new(0);
        if (chunk == NULL) {
            return false;
        }
        chunk->data = segment->iov_base;
        chunk->end = segment->iov_len;
        append_chunk(link, chunk);
        link->n_queued += segment->iov_len;
        last_lent = chunk;
    }
    size_t pad = coxi_align(payload_len, 8) - payload_len;
    if (pad > 0) {
        if ((to = tail_room(link, pad)) == NULL) {
            return false;
        }
        memset(to, 0, pad);
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
    if (link->n_queued >= IN_MAX) {
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

int coxi_link_send(struct coxi_link *link, const struct coxi_outgoing *frame,
                   bool later)
{
    size_t payload_len = 0;
    for (size_t i = 0; i < frame->n_payload; i++) {
        payload_len += frame->payload[i].iov_len;
    }
    bool lent = false;
    int r = 0;
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (coxi_link_closed(link)) {
        r = COX_ECLOSED;
    } else if (frame->meta_len > UINT32_MAX ||
               frame->n_payload > COXI_LINK_SEGMENTS_MAX) {
        r = COX_ELIMIT;
    } else if (link->n_queued > out_max) {
        r = COX_EAGAIN;
    } else if (!enqueue(link, frame, payload_len, &lent)) {
        /* Half a frame may be in line: nothing of it must leave any more. */
        r = COX_ENOMEM;
        (void)mark_closed(link, r, "out of memory while sending");
    } else if (is_enough(link, later)) {
        flush(link, &done);
    }
    leave(link, done);
    if (!lent && frame->release != NULL) {
        frame->release(frame->arg);
    }
    if (r == COX_ENOMEM) {
        nng_stream_close(link->stream);
    }
    return r;
}

void coxi_link_beat(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (link->head == NULL && !link->sending && !coxi_link_closed(link)) {
        uint8_t *to = tail_room(link, sizeof(struct prefix));
        if (to != NULL) {
            memcpy(to, &(struct prefix){MAGIC, 0, 0}, sizeof(struct prefix));
            flush(link, &done);
        }
    }
    leave(link, done);
}

void coxi_link_flush(struct coxi_link *link)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    if (!link->corked) {
        flush(link, &done);
    }
    leave(link, done);
}

int coxi_link_wait_room(struct coxi_link *link, size_t bytes)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    while (link->n_queued > bytes && !coxi_link_closed(link)) {
        flush(link, &done);
        if (link->n_queued > bytes && !coxi_link_closed(link)) {
            (void)pthread_cond_wait(&link->room, &link->lock);
        }
    }
    leave(link, done);
    return coxi_link_closed(link) ? COX_ECLOSED : 0;
}

size_t coxi_link_queued(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    size_t n = link->n_queued;
    coxi_unlock(&link->lock);
    return n;
}

static void set_corked(struct coxi_link *link, bool corked)
{
    struct coxi_chunk *done = NULL;
    coxi_lock(&link->lock);
    link->corked = corked;
    link->n_corked = 0;
    link->cork_frames = CORK_FRAMES;
    if (!corked) {
        flush(link, &done);
    }
    leave(link, done);
}

/* ---- receiving */

/* A receive buffer of `capacity` with what is not handled yet at its start. */
static int resize_in(struct coxi_link *link, size_t capacity)
{
    uint8_t *in = aligned_alloc(64, coxi_align(capacity, 64));
    if (in == NULL) {
        return coxi_error_memory("receiving");
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

/* Makes the bytes not handled yet begin at the start, in a buffer of `need` at least.
 */
static int make_room(struct coxi_link *link, size_t need)
{
    if (need > link->in_capacity) {
        size_t capacity = link->in_capacity * 2;
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

/* The head of a long frame is here: find its payload a place, and move in what has
 * come. */
static int begin_payload(struct coxi_link *link, const struct prefix *p)
{
    size_t head = head_len(p);
    int r = make_room(link, head + IN_FIRST);
    if (r != 0) {
        return r;
    }
    link->frame = (struct coxi_frame){
        .meta = link->in + sizeof(*p),
        .meta_len = p->meta_len,
        .payload_len = p->payload_len,
    };
    void *to = NULL;
    if (link->events->on_payload != NULL) {
        to = link->events->on_payload(link->arg, link, &link->frame);
    }
    if (to == NULL && link->scratch_capacity < p->payload_len) {
        free(link->scratch);
        link->scratch_capacity = 0;
        link->scratch = aligned_alloc(64, coxi_align(p->payload_len, 64));
        if (link->scratch == NULL) {
            return coxi_error_memory("a payload");
        }
        link->scratch_capacity = coxi_align(p->payload_len, 64);
    }
    link->payload = to != NULL ? to : link->scratch;
    size_t have = link->in_end - head;
    have = have < p->payload_len ? have : p->payload_len;
    memcpy(link->payload, link->in + head, have);
    link->payload_have = have;
    size_t pad = link->in_end - head - have;
    link->pad_left = coxi_align(p->payload_len, 8) - p->payload_len - pad;
    link->in_end = head;
    return 0;
}

/* Handles the whole frames in the buffer. */
static int parse(struct coxi_link *link)
{
    while (link->payload == NULL && !coxi_link_closed(link)) {
        size_t have = link->in_end - link->in_begin;
        struct prefix p;
        if (have < sizeof(p)) {
            return make_room(link, sizeof(p));
        }
        memcpy(&p, link->in + link->in_begin, sizeof(p));
        if (p.magic != MAGIC) {
            return coxi_error(COX_EPROTO, "the peer does not speak this protocol");
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
        size_t head = head_len(&p);
        size_t total = head + coxi_align(p.payload_len, 8);
        if (have < head) {
            return make_room(link, head);
        }
        int r;
        if (have < total && total > IN_MAX) {
            r = begin_payload(link, &p);
        } else if (have < total) {
            return make_room(link, total);
        } else {
            uint8_t *start = link->in + link->in_begin;
            struct coxi_frame frame = {start + sizeof(p), p.meta_len, start + head,
                                       p.payload_len};
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
    link->in_begin =
        (size_t)((const uint8_t *)link->frame.meta - link->in) - sizeof(struct prefix);
    struct prefix p = {MAGIC, (uint32_t)link->frame.meta_len, link->frame.payload_len};
    link->in_begin += head_len(&p);
    return deliver(link, &link->frame);
}

static int received(struct coxi_link *link, size_t n)
{
    int r = 0;
    atomic_store_explicit(&link->handling, true, memory_order_relaxed);
    set_corked(link, true);
    bool full = n == link->in_capacity - link->in_end;
    if (link->payload != NULL) {
        full = false;
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
    if (r == 0) {
        r = parse(link);
    }
    if (link->events->on_batch != NULL) {
        link->events->on_batch(link->arg, link);
    }
    set_corked(link, false);
    atomic_store_explicit(&link->last_in_ms, coxi_now_ms(), memory_order_relaxed);
    atomic_store_explicit(&link->handling, false, memory_order_release);
    if (r == 0 && full && link->in_capacity < IN_MAX && link->payload == NULL) {
        r = resize_in(link, link->in_capacity * 2);
    }
    return r;
}

static void start_receive(struct coxi_link *link)
{
    nng_iov iov[3];
    unsigned n = 0;
    if (link->payload != NULL) {
        size_t left = link->frame.payload_len - link->payload_have;
        if (left > 0) {
            iov[n++] = (nng_iov){link->payload + link->payload_have, left};
        }
        if (link->pad_left > 0) {
            iov[n++] = (nng_iov){link->pad, link->pad_left};
        }
    }
    iov[n++] = (nng_iov){link->in + link->in_end, link->in_capacity - link->in_end};
    (void)nng_aio_set_iov(link->recv_aio, n, iov);
    nng_stream_recv(link->stream, link->recv_aio);
    if (coxi_link_closed(link)) {
        /* A stream that was closed just before would keep it for ever. */
        nng_aio_cancel(link->recv_aio);
    }
}

/* After a receive: 0 to go on, or receiving has ended. */
static int receive_done(struct coxi_link *link)
{
    int failed = nng_aio_result(link->recv_aio);
    if (failed != 0) {
        const char *text = failed == NNG_ECLOSED || failed == NNG_ECONNSHUT
                               ? "connection closed by the peer"
                               : nng_strerror(failed);
        coxi_link_close(link, coxi_link_error(failed), text);
        return COX_ECLOSED;
    }
    int r = received(link, nng_aio_count(link->recv_aio));
    if (r != 0) {
        coxi_link_close(link, r, coxi_error_text());
    }
    return coxi_link_closed(link) ? COX_ECLOSED : 0;
}

/* Receiving has ended: so does the engine, now or with the send that is under way. */
static void end_receiving(struct coxi_link *link)
{
    coxi_lock(&link->lock);
    link->recv_end = true;
    leave(link, NULL);
}

/* The next callback may come, and the link's end with it, before this returns. */
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
    coxi_unlock(&link->lock);
    int r = prepare(link, NULL);
    while (r == 0) {
        start_receive(link);
        nng_aio_wait(link->recv_aio);
        r = receive_done(link);
    }
    int code = link->close_code;
    coxi_lock(&link->lock);
    link->recv_end = true;
    while (link->sending) {
        (void)pthread_cond_wait(&link->room, &link->lock);
    }
    coxi_unlock(&link->lock);
    end_engine(link);
    return code;
}
