/*
 * The line of a link: frames waiting to be sent, as pieces of memory one after the
 * other, and how much of them was sent. link_send.c sends them.
 *
 * Small frames are copied behind each other into chunks. Long segments are lent: each
 * has a chunk that only points to it, behind a short chunk for the head. A sent chunk
 * is kept for reuse; of each kind, as many are kept as a busy link has in line.
 *
 * Cost: one copy of small data; no allocation once a link has its chunks.
 */
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "net/link.h"
#include "net/link_internal.h"

enum { CHUNK = 16 * 1024, SMALL = 512 };

static const struct {
    size_t capacity;
    unsigned keep;
} kinds[] = {
    [COXI_CHUNK_OWN] = {CHUNK,
                        COXI_LINK_IN_MAX / CHUNK + 1}, /* enough for a whole write */
    [COXI_CHUNK_SMALL] = {SMALL, 64},
    [COXI_CHUNK_LENT] = {0, 64},
    [COXI_CHUNK_MADE] = {COXI_LINE_MADE, COXI_LINE_MADE_MAX},
};

/* An empty chunk; one without a kind if it is longer than the chunks that are kept.
 * NULL: no memory. */
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

/* Space for n bytes in our own chunk at the tail, in a new one of `kind` if necessary;
 * NULL: no memory. */
uint8_t *coxi_line_room(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        size_t n)
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

/* Takes n sent bytes off the line; completely sent chunks join *done. */
void coxi_line_consume(struct coxi_link *link, size_t n, struct coxi_chunk **done)
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

unsigned coxi_line_iov(const struct coxi_link *link, nng_iov iov[COXI_LINE_IOVS])
{
    unsigned n = 0;
    for (struct coxi_chunk *c = link->line.head; c != NULL && n < COXI_LINE_IOVS;
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

/* Adds the head of a frame: everything before the payload. */
bool coxi_line_add_head(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        const void *meta, size_t meta_len, size_t payload_len)
{
    struct coxi_prefix prefix = {COXI_LINK_MAGIC, (uint32_t)meta_len, payload_len};
    uint8_t *to = coxi_line_room(link, line, kind, coxi_head_len(&prefix));
    if (to != NULL) {
        coxi_line_write_head(to, &prefix, meta);
    }
    return to != NULL;
}

/* Adds the padding after the payload. */
bool coxi_line_add_pad(struct coxi_link *link, struct coxi_link_line *line,
                       size_t payload_len)
{
    size_t pad = coxi_align(payload_len, 8) - payload_len;
    uint8_t *to = pad > 0 ? coxi_line_room(link, line, COXI_CHUNK_SMALL, pad) : NULL;
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

/* Adds a frame to the line; false: no memory, and the line may contain a part of it. */
bool coxi_line_add(struct coxi_link *link, const struct coxi_outgoing *frame,
                   size_t payload_len, bool *ret_lent)
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
            uint8_t *to = coxi_line_room(link, line, COXI_CHUNK_OWN, segment->iov_len);
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
