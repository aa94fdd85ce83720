/*
 * Waits for peers that read slowly, and sends frames whose payload is made while it is
 * being sent; most waits belong to such frames.
 *
 * Such a payload is sent in COXI_LINE_MADE_MAX chunks, which are filled again after
 * they were sent. On the local path it is made in the ring itself.
 *
 * Threads: any, under `lock`, which is released while a piece is made.
 */
#include <assert.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/link_internal.h"
#include "schema/check.h"

_Static_assert((int)COXI_LINK_MADE_ROOM + 2 * (int)COXI_LINK_META_FIRST <=
                   (int)COXI_RING_MIN,
               "a piece and what is before it fit an empty ring");

/* ---- waiting for room */

/* Waits until the peer or another sending thread makes progress. `heard` is the state
 * of the bell (listen_to_peer) before the caller looked for room. On the local path the
 * receiving thread also sends data that wait for room. */
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

/* The state of the bell now, for await_peer; 0 if the link is not local. */
static uint32_t listen_to_peer(struct coxi_link *link) COXI_REQUIRES(link->lock)
{
    return link->is_local ? coxi_rings_listen(atomic_load(&link->rings)) : 0;
}

void coxi_link_await_line(struct coxi_link *link, size_t bytes,
                          struct coxi_chunk **done)
{
    while (link->n_queued > bytes && coxi_link_is_read(link)) {
        uint32_t heard = listen_to_peer(link);
        coxi_link_send_line(link, done);
        if (link->n_queued > bytes && coxi_link_is_read(link)) {
            await_peer(link, heard);
        }
    }
}

/* ---- frames whose payload is made on the way: in chunks */

/* Waits for a free chunk for the next piece; NULL: closed, or no memory. */
static struct coxi_chunk *await_chunk(struct coxi_link *link, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock)
{
    while (coxi_link_is_read(link) && link->n_made == COXI_LINE_MADE_MAX &&
           link->spares[COXI_CHUNK_MADE].n == 0) {
        uint32_t heard = listen_to_peer(link);
        coxi_link_send_line(link, done);
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
    COXI_CHECK(r != 0 || (chunk->end > 0 && chunk->end <= *left));
    coxi_lock(&link->lock);
    if (r != 0) {
        chunk->next = *done;
        *done = chunk;
        return r;
    }
    coxi_line_append(&link->line, chunk);
    link->n_queued += chunk->end;
    *left -= chunk->end;
    coxi_link_send_line(link, done);
    return 0;
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

/* ---- in the ring */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Waits until the ring has room for a piece and `more` bytes. NULL: the connection is
 * closed. */
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

/*
 * Makes a frame in the ring itself, except the zeros at its end; its metadata has at
 * most COXI_LINK_META_FIRST bytes. Call it with `sending` set and nothing else in line.
 */
static int make_local(struct coxi_link *link, const struct coxi_made *frame)
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
            r = frame->make(frame->arg, to + head, least(room - head, COXI_RINGS_STEP),
                            &n);
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

/* Makes a frame directly in the ring that the peer reads. Unlocks meanwhile. */
static int make_there(struct coxi_link *link, const struct coxi_made *frame,
                      struct coxi_chunk **done) COXI_REQUIRES(link->lock)
{
    while ((link->line.head != NULL || link->sending) && coxi_link_is_read(link)) {
        uint32_t heard = listen_to_peer(link);
        coxi_link_send_line(link, done);
        if ((link->line.head != NULL || link->sending) && coxi_link_is_read(link)) {
            await_peer(link, heard);
        }
    }
    if (!coxi_link_is_read(link)) {
        return coxi_error(COX_ECLOSED, "the connection is closed");
    }
    link->sending = true;
    coxi_unlock(&link->lock);
    int r = make_local(link, frame);
    coxi_lock(&link->lock);
    link->sending = false;
    (void)pthread_cond_broadcast(&link->room);
    return r;
}

/* ---- either */

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
               (!link->sending && coxi_link_is_finished(link) &&
                coxi_link_mark_closed(link, COX_ECLOSED, ""));
    coxi_link_send_line(link, &done);
    coxi_link_leave(link, done);
    if (end) {
        coxi_link_shut(link);
    }
    return r;
}
