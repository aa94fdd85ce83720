/*
 * See frames.h. The walk reads through the parser's stream; looking for boundaries reads
 * the source beside it, because it goes back and forth.
 *
 * Cost: a task reads the frame behind its end once more, and so does the next task. The
 * checksums of places that only look like frames are bounded by CHECKED_MAX.
 */
#include "data/frames.h"

#include <inttypes.h>

#include "common/error.h"

/* So many bytes may be checked in vain: a hostile file cannot hold a worker up. */
#define CHECKED_MAX ((uint64_t)2 << 30)
#define NOWHERE     UINT64_MAX

enum { HEAD_MAX = 64, TAIL_MAX = 16 };

/* ---- looking for frames */

/* A frame's length, with head and tail; 0: the file cannot have such a frame there. */
static uint64_t frame_bytes(const struct coxi_frames *frames, const uint8_t *head,
                            uint64_t left)
{
    const struct coxi_frame_kind *kind = frames->kind;
    uint64_t len;
    if (left < kind->head + kind->tail || !kind->payload(head, &len)) {
        return 0;
    }
    return len <= left - kind->head - kind->tail ? kind->head + len + kind->tail : 0;
}

static int read_at(const struct coxi_frames *frames, uint64_t at, uint8_t *to,
                   size_t len)
{
    const struct coxi_source *source = frames->parser->stream->source;
    size_t got = 0;
    int r = coxi_source_read(source, at, to, len, &got);
    return r != 0 || got == len
               ? r
               : coxi_error(COX_EIO, "cannot read %s: it became shorter", source->name);
}

/* The checksum of `len` bytes at `at`. */
static int sum_at(struct coxi_frames *frames, uint64_t at, uint64_t len, uint32_t *ret)
{
    struct coxi_stream *stream = frames->parser->stream;
    struct coxi_block *block = coxi_block_new(stream->pool, COXI_PIECE_BYTES);
    uint32_t sum = 0;
    int r = block == NULL ? coxi_error_memory(stream->source->name) : 0;
    frames->checked += len;
    if (r == 0 && frames->checked > CHECKED_MAX) {
        r = coxi_error(COX_EFORMAT,
                       "%s:%" PRIu64 ": too many places that look like a %s",
                       stream->source->name, at, frames->kind->name);
    }
    for (uint64_t done = 0, n; r == 0 && done < len; done += n) {
        n = len - done < COXI_PIECE_BYTES ? len - done : COXI_PIECE_BYTES;
        r = coxi_stream_cancelled(stream);
        r = r == 0 ? read_at(frames, at + done, block->data, n) : r;
        sum = r == 0 ? frames->kind->sum(sum, block->data, n) : sum;
    }
    coxi_block_unref(stream->pool, block);
    *ret = sum;
    return r;
}

/* *ret: the length of the frame at `at`, 0 if there is none whose checksum holds. */
static int frame_at(struct coxi_frames *frames, uint64_t at, uint64_t *ret)
{
    const struct coxi_frame_kind *kind = frames->kind;
    uint8_t ends[HEAD_MAX + TAIL_MAX];
    uint32_t sum = 0;
    uint64_t left = frames->parser->stream->bytes - at;
    *ret = 0;
    if (left < kind->head + kind->tail) {
        return 0;
    }
    int r = read_at(frames, at, ends, kind->head);
    uint64_t bytes = r == 0 ? frame_bytes(frames, ends, left) : 0;
    if (bytes == 0) {
        return r;
    }
    uint64_t len = bytes - kind->head - kind->tail;
    r = sum_at(frames, at + kind->head, len, &sum);
    r = r == 0 ? read_at(frames, at + bytes - kind->tail, ends + kind->head, kind->tail)
               : r;
    if (r == 0 && kind->expected(ends, ends + kind->head) == sum) {
        *ret = bytes;
    }
    return r;
}

/* The first frame in `n` bytes from offset `from` on, which begins before `limit`;
 * NOWHERE: there is none. */
static int find_in(struct coxi_frames *frames, const uint8_t *bytes, size_t n,
                   uint64_t from, uint64_t limit, uint64_t *ret)
{
    const uint8_t *at = bytes;
    int r = 0;
    *ret = NOWHERE;
    while (r == 0 &&
           (at = frames->kind->candidate(at, n - (size_t)(at - bytes))) != NULL) {
        uint64_t place = from + (uint64_t)(at - bytes);
        uint64_t len = 0;
        if (place >= limit) {
            break;
        }
        r = frame_at(frames, place, &len);
        if (r == 0 && len > 0) {
            *ret = place;
            break;
        }
        at++;
    }
    return r;
}

/* The first frame that begins in [from, limit); NOWHERE: there is none. */
static int find(struct coxi_frames *frames, uint64_t from, uint64_t limit,
                uint64_t *ret)
{
    struct coxi_stream *stream = frames->parser->stream;
    size_t head = frames->kind->head;
    struct coxi_block *block = coxi_block_new(stream->pool, COXI_PIECE_BYTES);
    int r = block == NULL ? coxi_error_memory(stream->source->name) : 0;
    *ret = NOWHERE;
    while (r == 0 && *ret == NOWHERE && from < limit) {
        uint64_t want = limit - from < COXI_PIECE_BYTES - head ? limit - from + head - 1
                                                               : COXI_PIECE_BYTES;
        size_t got = 0;
        r = coxi_stream_cancelled(stream);
        r = r == 0 ? coxi_source_read(stream->source, from, block->data, want, &got)
                   : r;
        if (r != 0 || got < head) {
            break;
        }
        r = find_in(frames, block->data, got, from, limit, ret);
        from += got - head + 1;
    }
    coxi_block_unref(stream->pool, block);
    return r;
}

/* ---- the index */

/* *ret: the length that the head at `at` tells; 0: it is not plausible. */
static int plausible_at(const struct coxi_frames *frames, uint64_t at, uint64_t *ret)
{
    uint8_t head[HEAD_MAX];
    uint64_t bytes = frames->parser->stream->bytes;
    *ret = 0;
    if (at >= bytes || bytes - at < frames->kind->head) {
        return 0;
    }
    int r = read_at(frames, at, head, frames->kind->head);
    *ret = r == 0 ? frame_bytes(frames, head, bytes - at) : 0;
    return r;
}

/* The file's index, if it has one; looks for it once. */
static int index_of(struct coxi_frames *frames, struct coxi_file_index **ret)
{
    int r = 0;
    if (!frames->looked) {
        r = coxi_file_index_open(frames->parser->stream->source, &frames->index, NULL);
        frames->looked = r == 0;
    }
    *ret = frames->index;
    return r;
}

void coxi_frames_fini(struct coxi_frames *frames)
{
    coxi_file_index_close(frames->index);
    frames->index = NULL;
}

/* Goes from boundary to boundary. *at: the next one; a head that is not plausible, or
 * leads past an entry, is damaged, so the next one is the entry. */
static int step(const struct coxi_frames *frames, const struct coxi_file_index *index,
                uint64_t *at)
{
    uint64_t entry;
    uint64_t next;
    uint64_t bytes = 0;
    int r = coxi_file_index_find(index, *at, &entry, &next);
    r = r == 0 ? plausible_at(frames, *at, &bytes) : r;
    if (r == 0) {
        *at = bytes > 0 && bytes <= next - *at ? *at + bytes : next;
    }
    return r;
}

/* The first boundary in [from, limit), by the index; if `whole`, the first one with a
 * frame whose checksum holds. NOWHERE: there is none. */
static int walk(struct coxi_frames *frames, const struct coxi_file_index *index,
                uint64_t from, uint64_t limit, bool whole, uint64_t *ret)
{
    uint64_t at;
    uint64_t next;
    uint64_t bytes = frames->parser->stream->bytes;
    uint64_t most = limit < bytes ? limit : bytes;
    int r = coxi_file_index_find(index, from, &at, &next);
    *ret = NOWHERE;
    while (r == 0 && at < most) {
        uint64_t len = 1;
        if (at >= from && whole) {
            r = frame_at(frames, at, &len);
        }
        if (r == 0 && at >= from && len > 0) {
            *ret = at;
            break;
        }
        r = r == 0 ? coxi_stream_cancelled(frames->parser->stream) : r;
        r = r == 0 ? step(frames, index, &at) : r;
    }
    return r;
}

/* The first whole frame at or behind the task's end is at `place` (NOWHERE: there is
 * none). An index that leads the next task elsewhere is not of these frames. */
static int check_index(struct coxi_frames *frames, const struct coxi_file_index *index,
                       uint64_t place)
{
    const struct coxi_parser *parser = frames->parser;
    uint64_t found;
    int r = walk(frames, index, parser->end, UINT64_MAX, true, &found);
    return r != 0 || found == place
               ? r
               : coxi_error(COX_EFORMAT,
                            "%s:%" PRIu64
                            ": the index beside the file does not lead to the next %s "
                            "from here; make it again (coxswain data index)",
                            parser->stream->source->name, parser->end,
                            frames->kind->name);
}

/* Where the task begins, by the index; NOWHERE: it has no frame. */
static int sync_by_index(struct coxi_frames *frames,
                         const struct coxi_file_index *index, uint64_t *ret)
{
    const struct coxi_parser *parser = frames->parser;
    uint64_t place;
    int r = walk(frames, index, parser->begin, UINT64_MAX, true, &place);
    if (r == 0 && place >= parser->end) {
        r = check_index(frames, index, place);
        place = NOWHERE;
    }
    *ret = place;
    return r;
}

int coxi_frames_sync(struct coxi_frames *frames)
{
    struct coxi_parser *parser = frames->parser;
    struct coxi_file_index *index;
    uint64_t place;
    int r = index_of(frames, &index);
    if (r == 0) {
        r = index != NULL ? sync_by_index(frames, index, &place)
                          : find(frames, parser->begin, parser->end, &place);
    }
    if (r == 0 && place != NOWHERE) {
        coxi_stream_seek(parser->stream, place);
        return 0;
    }
    frames->ended = true;
    return r != 0 ? r : COX_EEOF;
}

/* ---- damage */

/* Why there is no frame, or none that is whole. */
struct damage {
    int code; /* 0: there is one */
    const char *reason;
    uint64_t bytes; /* of the frame, if its head is plausible; otherwise 0 */
};

/* Frames that begin in [from, limit) are within the frame before them. */
static int refuse_nested(struct coxi_frames *frames, uint64_t from, uint64_t limit)
{
    uint64_t place;
    int r = find(frames, from, limit, &place);
    if (r == 0 && place != NOWHERE) {
        r = coxi_error(COX_EFORMAT,
                       "%s:%" PRIu64
                       ": a record contains a %s, so that the file cannot "
                       "be cut there; make an index of it (coxswain data index)",
                       frames->parser->stream->source->name, place, frames->kind->name);
    }
    return r;
}

static int pass_to(struct coxi_frames *frames, uint64_t next)
{
    frames->ended = next == NOWHERE;
    if (!frames->ended) {
        coxi_stream_seek(frames->parser->stream, next);
    }
    return 0;
}

/* Moves behind the damaged frame at the stream's place: by its length if a frame follows
 * there, otherwise to the next frame of the task. */
static int pass_damage(struct coxi_frames *frames, const struct damage *damage)
{
    struct coxi_parser *parser = frames->parser;
    struct coxi_stream *stream = parser->stream;
    uint64_t at = stream->offset;
    uint64_t next = at + damage->bytes;
    uint64_t following = 0;
    struct coxi_file_index *index;
    int r = index_of(frames, &index);
    if (r == 0 && index != NULL) {
        r = walk(frames, index, at + 1, UINT64_MAX, false, &next);
        return r == 0 ? pass_to(frames, next) : r;
    }
    r = r == 0 && damage->bytes > 0 ? plausible_at(frames, next, &following) : r;
    if (r == 0 && damage->bytes > 0 && (following > 0 || next == stream->bytes)) {
        r = refuse_nested(frames, at + 1, next);
    } else if (r == 0) {
        r = find(frames, at + 1, parser->end, &next);
    }
    return r == 0 ? pass_to(frames, next) : r;
}

/* A bad record at the stream's place. 0: the walk goes on. */
static int note_damage(struct coxi_frames *frames, const struct damage *damage)
{
    struct coxi_parser *parser = frames->parser;
    struct coxi_stream *stream = parser->stream;
    uint64_t at = stream->offset;
    int r = coxi_bad_record(parser->bad, damage->code, at, "%s", damage->reason);
    if (r != 0 || stream->inflater == NULL) {
        return r != 0 ? r : pass_damage(frames, damage);
    }
    /* Inside a compressed file there is no way back, so no search. */
    return coxi_error(damage->code,
                      "%s:%" PRIu64 ": %s; in a compressed file there is "
                      "no going on behind it",
                      stream->source->name, at, damage->reason);
}

/* ---- the walk */

/* Reads a payload to the stream's place and sums it up while it is in the cache. */
static int read_payload(struct coxi_frames *frames, size_t head, uint64_t bytes,
                        uint32_t *sum, struct damage *damage)
{
    struct coxi_stream *stream = frames->parser->stream;
    uint64_t end = bytes - frames->kind->tail;
    int r = stream->inflater == NULL ? coxi_stream_reserve(stream, bytes) : 0;
    for (uint64_t done = head, n; r == 0 && done < end; done += n) {
        n = end - done < COXI_PIECE_BYTES ? end - done : COXI_PIECE_BYTES;
        r = coxi_stream_need(stream, done + n);
        if (r == 0 && (size_t)(stream->end - stream->at) < done + n) {
            *damage = (struct damage){COX_EFORMAT, "the file ends within it", 0};
            break;
        }
        *sum = r == 0 ? frames->kind->sum(*sum, stream->at + done, n) : *sum;
    }
    return r == 0 && damage->code == 0 ? coxi_stream_need(stream, bytes) : r;
}

/* Looks at the head at the stream's place. *ret: the frame's length. */
static int look_at_head(const struct coxi_frames *frames, uint64_t *ret,
                        struct damage *damage)
{
    const struct coxi_frame_kind *kind = frames->kind;
    struct coxi_stream *stream = frames->parser->stream;
    uint64_t len;
    int r = coxi_stream_need(stream, kind->head);
    if (r != 0) {
        return r;
    }
    uint64_t left = stream->bytes - stream->offset; /* of a plain file */
    if ((size_t)(stream->end - stream->at) < kind->head) {
        *damage = (struct damage){COX_EFORMAT, "the file ends within a header", 0};
    } else if (!kind->payload(stream->at, &len)) {
        *damage = (struct damage){COX_EFORMAT, "no header is here", 0};
    } else if (left < kind->head + kind->tail || len > left - kind->head - kind->tail) {
        *damage =
            (struct damage){COX_EFORMAT, "the length reaches past the file's end", 0};
    } else if (len > COXI_RECORD_MAX - kind->head - kind->tail) {
        *damage = (struct damage){COX_ELIMIT, "longer than 256 MiB",
                                  kind->head + len + kind->tail};
    } else {
        *ret = kind->head + len + kind->tail;
    }
    return 0;
}

/* Takes the frame at the stream's place, or says why there is none. */
static int take(struct coxi_frames *frames, struct coxi_frame *ret,
                struct damage *damage)
{
    const struct coxi_frame_kind *kind = frames->kind;
    struct coxi_stream *stream = frames->parser->stream;
    uint32_t sum = 0;
    uint64_t bytes = 0;
    *damage = (struct damage){0};
    int r = look_at_head(frames, &bytes, damage);
    if (r == 0 && damage->code == 0) {
        r = read_payload(frames, kind->head, bytes, &sum, damage);
    }
    if (r != 0 || damage->code != 0) {
        return r;
    }
    if ((size_t)(stream->end - stream->at) < bytes) {
        *damage = (struct damage){COX_EFORMAT, "the file ends within it", 0};
        return 0;
    }
    if (kind->expected(stream->at, stream->at + bytes - kind->tail) != sum) {
        *damage = (struct damage){COX_ECHECKSUM, "its checksum differs", bytes};
        return 0;
    }
    *ret = (struct coxi_frame){stream->offset, stream->at, stream->at + kind->head,
                               bytes - kind->head - kind->tail, stream->block};
    coxi_stream_skip(stream, bytes);
    return 0;
}

/* Behind the task's end: notes the damaged frame at the stream's place, and goes on to the
 * next one. *ret: the frame there is whole, or there is none. */
static int pass_behind(struct coxi_frames *frames, bool *ret)
{
    struct coxi_parser *parser = frames->parser;
    uint64_t at = parser->stream->offset;
    struct damage damage = {0};
    uint64_t len = 1;
    int r = at < parser->stream->bytes ? frame_at(frames, at, &len) : 0;
    *ret = r == 0 && len > 0;
    if (r != 0 || *ret) {
        return r;
    }
    r = coxi_bad_record(parser->bad, COX_EFORMAT, at,
                        "no %s is here whose checksum holds", frames->kind->name);
    r = r == 0 ? plausible_at(frames, at, &damage.bytes) : r;
    return r == 0 ? pass_damage(frames, &damage) : r;
}

/* The walk has reached or passed the task's end: compares it with what the next task
 * finds from there, which is the first frame that is whole. */
static int verify_end(struct coxi_frames *frames)
{
    struct coxi_parser *parser = frames->parser;
    struct coxi_file_index *index;
    bool met = false;
    int r = index_of(frames, &index);
    if (r == 0 && index == NULL) {
        r = refuse_nested(frames, parser->end, parser->stream->offset);
    }
    while (r == 0 && !met && !frames->ended) {
        r = coxi_stream_cancelled(parser->stream);
        r = r == 0 ? pass_behind(frames, &met) : r;
    }
    if (r == 0 && index != NULL) {
        uint64_t at = parser->stream->offset;
        bool is_last = frames->ended || at >= parser->stream->bytes;
        r = check_index(frames, index, is_last ? NOWHERE : at);
    }
    frames->ended = true;
    return r != 0 ? r : COX_EEOF;
}

int coxi_frames_next(struct coxi_frames *frames, struct coxi_frame *ret)
{
    struct coxi_stream *stream = frames->parser->stream;
    int r = 0;
    while (r == 0 && !frames->ended) {
        struct damage damage;
        if (stream->offset >= frames->parser->end) {
            return verify_end(frames);
        }
        r = coxi_stream_need(stream, 1);
        if (r == 0 && stream->at == stream->end) {
            frames->ended = true;
            break;
        }
        r = r == 0 ? take(frames, ret, &damage) : r;
        if (r == 0 && damage.code == 0) {
            frames->parser->frame = ret->offset;
        }
        if (r != 0 || damage.code == 0) {
            return r;
        }
        r = note_damage(frames, &damage);
    }
    return r != 0 ? r : COX_EEOF;
}
