/* What link.c and the files named link_... share. Not for others. */
#ifndef COXI_NET_LINK_INTERNAL_H
#define COXI_NET_LINK_INTERNAL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/rings.h"

enum {
    COXI_LINK_MAGIC = 0x584f4331, /* "1COX" */
    COXI_LINK_IN_MAX = 64 * 1024, /* frames up to here are received in the buffer */
};

/* Kinds of chunks that are kept when they have been sent. */
enum {
    COXI_CHUNK_OWN,
    COXI_CHUNK_SMALL, /* what is before and behind what is lent */
    COXI_CHUNK_LENT,
    COXI_CHUNK_MADE,
    COXI_CHUNKS
};

/* What every frame begins with. */
struct coxi_prefix {
    uint32_t magic;
    uint32_t meta_len;
    uint64_t payload_len;
};

/* Bytes before the payload. */
static inline size_t coxi_head_len(const struct coxi_prefix *p)
{
    return coxi_align(sizeof(*p) + p->meta_len, p->payload_len > 0 ? 64 : 8);
}

/* A piece of what is in line: small frames together in memory of ours, memory lent, or
 * a part of a payload that is being made. */
struct coxi_chunk {
    struct coxi_chunk *next;
    const uint8_t *data; /* own, or lent until released */
    size_t begin;        /* sent up to here */
    size_t end;
    size_t capacity; /* 0: lent */
    int kind;        /* as which it is kept; COXI_CHUNKS: not */
    void (*release)(void *arg);
    void *arg;
    uint8_t own[];
};

/* Pieces, one after the other. */
struct coxi_link_line {
    struct coxi_chunk *head;
    struct coxi_chunk *tail;
};

/* Pieces of one capacity that have been sent, kept for the next ones. */
struct coxi_spares {
    struct coxi_chunk *first;
    unsigned n;
};

/* Links that are watched together (link_watch.c). */
struct coxi_links {
    uint64_t timeout_ms;
    struct coxi_mutex lock; /* before a link's lock */
    struct coxi_link *first COXI_GUARDED_BY(lock);
    uint64_t looked_ms COXI_GUARDED_BY(lock); /* when the links were looked at last */
};

struct coxi_link {
    atomic_int refs; /* the owner, the engine while it receives, senders */
    nng_stream *stream;
    const struct coxi_link_events *events;
    void *arg;
    struct coxi_links *links;
    struct coxi_link *watch_next COXI_GUARDED_BY_OF(struct coxi_links, lock);
    struct coxi_link *watch_prev COXI_GUARDED_BY_OF(struct coxi_links, lock);
    struct coxi_link *beat_next; /* the ticking thread's */

    atomic_size_t meta_max;
    atomic_size_t payload_max;
    atomic_bool closed;
    /*
     * How many bytes are in line, and whether frames are held back until the end of the
     * receive batch that is being handled. Written under the lock and by the receiving
     * thread; read without it: whoever puts a frame in line counts its bytes and then
     * looks at `corked`, the receiving thread ends `corked` and then looks at the
     * bytes, so one of the two sends the frame.
     */
    atomic_size_t n_queued;
    atomic_bool corked;
    atomic_bool is_local;
    /* the owner is busy with what came: not reading is no silence */
    atomic_bool handling;
    atomic_uint_least64_t last_in_ms;
    atomic_uint_least64_t last_out_ms;
    atomic_uint_least64_t
        stuck_ms; /* the kernel takes nothing since then; 0: it does */

    /* The local path: the rings once there are some, and whether the stream has
     * ended. */
    struct coxi_rings *_Atomic rings;
    struct coxi_gather *gather; /* that receives then, or NULL */
    atomic_bool gone;
    nng_aio *watch_aio;
    uint8_t watched[64]; /* what comes over the stream meanwhile */

    atomic_uint batch; /* how many receive batches there were */

    /* Receiving thread only. */
    nng_aio *recv_aio;
    uint8_t *in;
    size_t in_capacity;
    size_t in_begin;
    size_t in_end;
    uint8_t *payload; /* a long payload that is being received, or NULL */
    size_t payload_have;
    size_t pad_left;
    uint8_t pad[8];          /* where the zeros behind a payload go */
    struct coxi_frame frame; /* that it belongs to */
    uint8_t *scratch;        /* for payloads that nobody gave a place */
    size_t scratch_capacity;

    struct coxi_mutex lock; /* leaf */
    pthread_cond_t room;    /* n_queued has gone down, or sending has ended */
    nng_aio *now_aio;       /* what the kernel takes at once */
    nng_aio *later_aio;     /* the rest: its callback goes on */
    struct coxi_link_line line COXI_GUARDED_BY(lock);
    /* frames that came while the payload of one is made */
    struct coxi_link_line behind COXI_GUARDED_BY(lock);
    struct coxi_spares spares[COXI_CHUNKS] COXI_GUARDED_BY(lock); /* by kind of chunk */
    unsigned n_made COXI_GUARDED_BY(lock); /* chunks of the kind MADE that there are */
    bool making COXI_GUARDED_BY(lock);
    pthread_t receiver COXI_GUARDED_BY(lock); /* if `threaded` */
    bool sending COXI_GUARDED_BY(lock);
    /* threads that release what has been sent */
    unsigned n_releasing COXI_GUARDED_BY(lock);
    /* Frames put in line in the receive batch with this number, of cork_frames. */
    unsigned n_corked COXI_GUARDED_BY(lock);
    unsigned cork_frames COXI_GUARDED_BY(lock);
    unsigned corked_batch COXI_GUARDED_BY(lock);
    bool recv_end COXI_GUARDED_BY(lock); /* nothing more will be received */
    bool ended COXI_GUARDED_BY(lock); /* on_close has been called, or is about to be */
    bool threaded COXI_GUARDED_BY(lock); /* coxi_link_run, not coxi_link_start */
    bool finish COXI_GUARDED_BY(lock);   /* close when nothing is in line */
    int close_code COXI_GUARDED_BY(lock);
    char close_text[256] COXI_GUARDED_BY(lock);
};

/* Wraps a connected stream; takes it also on failure. */
int coxi_link_new(nng_stream *stream, struct coxi_link **ret);

/* An nng error as one of ours. */
int coxi_link_error(int nng_code);

/* Marks the link closed; true: it was not, and the caller closes the stream. */
bool coxi_link_mark_closed(struct coxi_link *link, int code, const char *text)
    COXI_REQUIRES(link->lock);

/* The engine's end: what is in line is released, the owner told, the reference gone. */
void coxi_link_end(struct coxi_link *link);

void coxi_chunks_release(struct coxi_chunk *chunk);

/* True while some thread sends, or releases what it has sent. */
static inline bool coxi_link_is_sending(const struct coxi_link *link)
    COXI_REQUIRES(link->lock)
{
    return link->sending || link->n_releasing > 0;
}

/* ---- link_line.c */

enum {
    COXI_LINE_IOVS = 8, /* nng takes no more */
    COXI_LINE_MADE =
        256 * 1024,         /* bytes: with what it is made of it fits a core's cache */
    COXI_LINE_MADE_MAX = 2, /* one is made while the other is sent */
};

/* An empty chunk for `capacity` bytes; of no kind where it is longer than those that
 * are kept. NULL: no memory. */
struct coxi_chunk *coxi_line_chunk(struct coxi_link *link, int kind, size_t capacity)
    COXI_REQUIRES(link->lock);
void coxi_line_append(struct coxi_link_line *line, struct coxi_chunk *chunk);

/* Room for n bytes in a chunk of ours at the tail, one of `kind` if it is a new one, or
 * NULL. */
uint8_t *coxi_line_room(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        size_t n) COXI_REQUIRES(link->lock);

/* A frame; what comes before its payload; what comes after it. False: no memory, and
 * the line may hold a part. *ret_lent: its `release` will be called. */
bool coxi_line_add(struct coxi_link *link, const struct coxi_outgoing *frame,
                   size_t payload_len, bool *ret_lent) COXI_REQUIRES(link->lock);
bool coxi_line_add_head(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        const void *meta, size_t meta_len, size_t payload_len)
    COXI_REQUIRES(link->lock);
bool coxi_line_add_pad(struct coxi_link *link, struct coxi_link_line *line,
                       size_t payload_len) COXI_REQUIRES(link->lock);

/* What is to be sent next. */
unsigned coxi_line_iov(const struct coxi_link *link, nng_iov iov[COXI_LINE_IOVS])
    COXI_REQUIRES(link->lock);

/* n bytes of it have been: whole chunks leave the line, those that are not kept join
 * *done. */
void coxi_line_consume(struct coxi_link *link, size_t n, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock);

/* Writes what comes before a frame's payload: coxi_head_len(prefix) bytes. */
void coxi_line_write_head(uint8_t *to, const struct coxi_prefix *prefix,
                          const void *meta);

/* ---- link_send.c */

/*
 * Unlocks, releases the chunks that have been sent, and ends the engine if this was
 * what it waited for.
 */
void coxi_link_leave(struct coxi_link *link, struct coxi_chunk *done)
    COXI_RELEASES(link->lock);

/* Holds frames back until the end of a receive batch, and lets them go. Receiving
 * thread. */
void coxi_link_cork(struct coxi_link *link);
void coxi_link_uncork(struct coxi_link *link);

/* Closes the stream, and wakes who waits on the local path. Marked closed. */
void coxi_link_shut(struct coxi_link *link);

/* ---- link_receive.c */

enum { COXI_RECEIVE_IOVS = 3 };

/* Where what comes next is to go; how many pieces. */
unsigned coxi_link_receive_iov(struct coxi_link *link, nng_iov iov[COXI_RECEIVE_IOVS]);

/* ---- link_local.c */

/* Offers the ring what is in line, as link_send.c's send_now does the kernel;
 * NNG_ECANCELED: there is no room, and the peer is to tell when there is. Sending. */
int coxi_link_send_local(struct coxi_link *link, unsigned n_iov, const nng_iov *iov,
                         size_t *ret_n);

/* Makes a frame in the ring itself, but for the zeros at its end; its metadata has
 * COXI_LINK_META_FIRST bytes at most. Sending, and nothing else is in line. */
int coxi_link_make_local(struct coxi_link *link, const struct coxi_made *frame);

/* Puts bytes that have come where they belong, *ret_n of them: at least one, for which
 * it waits; or what there is. COX_ECLOSED, COX_EPROTO. */
int coxi_link_receive_local(struct coxi_link *link, size_t *ret_n);
int coxi_link_take_local(struct coxi_link *link, size_t *ret_n);

/* False once nobody will read what is sent any more: it is closed, or on the local path
 * the peer is gone. */
bool coxi_link_is_read(const struct coxi_link *link);

/* Looks for the end of the stream. COX_ENOMEM. */
int coxi_link_watch_stream(struct coxi_link *link);

/* ---- link_send.c: later_aio's callback. */
void coxi_link_sent_later(void *link);

/* ---- link_watch.c, and what it needs of link_send.c */

/* Sends a heartbeat, or what is in line. Never blocks. */
void coxi_link_beat(struct coxi_link *link);

#endif
