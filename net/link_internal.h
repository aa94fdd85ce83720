/* Shared by link.c and the files link_*.c; not for others. */
#ifndef COXI_NET_LINK_INTERNAL_H
#define COXI_NET_LINK_INTERNAL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/link_sealed.h"
#include "net/rings.h"

enum {
    COXI_LINK_MAGIC = 0x584f4331, /* "1COX" */
    COXI_LINK_IN_MAX = 64 * 1024, /* frames up to here are received in the buffer */
};

/* Kinds of chunks. Sent chunks are kept for reuse, by kind. */
enum {
    COXI_CHUNK_OWN,
    COXI_CHUNK_SMALL, /* for the bytes before and after a lent segment */
    COXI_CHUNK_LENT,
    COXI_CHUNK_MADE,
    COXI_CHUNKS
};

/* The beginning of every frame. */
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

/* A piece of a line: small frames in memory of our own, memory lent by a caller, or a
 * part of a payload that is made while it is sent. */
struct coxi_chunk {
    struct coxi_chunk *next;
    const uint8_t *data; /* our own, or lent until released */
    size_t begin;        /* sent up to here */
    size_t end;
    size_t capacity; /* 0: lent */
    /* decides where it is kept after it was sent; COXI_CHUNKS: it is freed */
    int kind;
    void (*release)(void *arg);
    void *arg;
    uint8_t own[];
};

/* Chunks, one after the other. */
struct coxi_link_line {
    struct coxi_chunk *head;
    struct coxi_chunk *tail;
};

/* Sent chunks of one capacity, kept for reuse. */
struct coxi_spares {
    struct coxi_chunk *first;
    unsigned n;
};

/* Links that are watched together (link_watch.c). */
struct coxi_links {
    uint64_t timeout_ms;
    struct coxi_mutex lock; /* comes before a link's lock */
    struct coxi_link *first COXI_GUARDED_BY(lock);
    uint64_t looked_ms COXI_GUARDED_BY(lock); /* when the links were looked at last */
};

struct coxi_link {
    atomic_int refs; /* the owner, the engine while it receives, senders */
    nng_stream *stream;
    struct coxi_sealed *sealed; /* NULL: the stream carries frames as they are */
    bool is_proven;
    /* the identity that the peer has proved, if is_proven */
    struct coxi_party proven;
    const struct coxi_link_events *events;
    void *arg;
    struct coxi_links *links;
    struct coxi_link *watch_next COXI_GUARDED_BY_OF(struct coxi_links, lock);
    struct coxi_link *watch_prev COXI_GUARDED_BY_OF(struct coxi_links, lock);
    struct coxi_link *beat_next; /* used by the thread that ticks */

    atomic_size_t meta_max;
    atomic_size_t payload_max;
    atomic_bool closed;
    /*
     * How many bytes are in line, and whether frames are held back until the end of the
     * current receive batch. Written under the lock and by the receiving thread; read
     * without it. A thread that puts a frame in line counts its bytes and then reads
     * `corked`; the receiving thread clears `corked` and then reads the count. So one
     * of the two sends the frame.
     */
    atomic_size_t n_queued;
    atomic_bool corked;
    atomic_bool is_local;
    /* the owner is busy with received data: silence does not count meanwhile */
    atomic_bool handling;
    atomic_uint_least64_t last_in_ms;
    atomic_uint_least64_t last_out_ms;
    /* since when the kernel accepts no bytes; 0: it accepts them */
    atomic_uint_least64_t stuck_ms;

    /* The local path: its rings, or NULL before it exists; and whether the stream has
     * ended. */
    struct coxi_rings *_Atomic rings;
    struct coxi_gather *gather; /* receives for the local path, or NULL */
    atomic_bool gone;
    nng_aio *watch_aio;
    /* on the local path: receives the heartbeats that still come over the stream; they
     * are ignored */
    uint8_t watched[64];

    atomic_uint batch; /* the number of receive batches so far */

    /* Receiving thread only. */
    nng_aio *recv_aio;
    uint8_t *in;
    size_t in_capacity;
    size_t in_begin;
    size_t in_end;
    uint8_t *payload; /* a long payload that is being received, or NULL */
    size_t payload_have;
    size_t pad_left;
    uint8_t pad[8];          /* room for the zeros after a payload */
    struct coxi_frame frame; /* the frame of `payload` */
    uint8_t *scratch;        /* receives payloads for which the owner gave no memory */
    size_t scratch_capacity;
    size_t in_told; /* how much of `in` the owner was told of (on_memory) */

    struct coxi_mutex lock; /* leaf */
    pthread_cond_t room;    /* n_queued has gone down, or sending has ended */
    nng_aio *now_aio;       /* sends that the kernel takes at once */
    nng_aio *later_aio;     /* other sends, which end with a callback */
    struct coxi_link_line line COXI_GUARDED_BY(lock);
    /* frames that are put in line while a payload is being made */
    struct coxi_link_line behind COXI_GUARDED_BY(lock);
    struct coxi_spares spares[COXI_CHUNKS] COXI_GUARDED_BY(lock); /* by kind of chunk */
    unsigned n_made COXI_GUARDED_BY(lock);  /* chunks of kind MADE that exist */
    size_t line_told COXI_GUARDED_BY(lock); /* as in_told, of the frames in line */
    bool making COXI_GUARDED_BY(lock);
    pthread_t receiver COXI_GUARDED_BY(lock); /* if `threaded` */
    bool sending COXI_GUARDED_BY(lock);
    /* threads that release sent memory */
    unsigned n_releasing COXI_GUARDED_BY(lock);
    /* In receive batch `corked_batch`: frames put in line since the last send, and how
     * many cause the next send. */
    unsigned n_corked COXI_GUARDED_BY(lock);
    unsigned cork_frames COXI_GUARDED_BY(lock);
    unsigned corked_batch COXI_GUARDED_BY(lock);
    bool recv_end COXI_GUARDED_BY(lock); /* nothing more will be received */
    bool ended COXI_GUARDED_BY(lock);    /* on_close was called, or is about to be */
    bool threaded COXI_GUARDED_BY(lock); /* coxi_link_run, not coxi_link_start */
    bool finish COXI_GUARDED_BY(lock);   /* close when nothing is in line */
    int close_code COXI_GUARDED_BY(lock);
    char close_text[256] COXI_GUARDED_BY(lock);
};

/* The seal of connections at `url` if `seal` is asked for on tcp: only processes of this
 * user reach those of ipc. */
static inline enum coxi_seal coxi_seal_at(const char *url, enum coxi_seal seal)
{
    return strncmp(url, "ipc:", 4) == 0 ? COXI_SEAL_NONE : seal;
}

/* Wraps a connected stream; takes the stream also on failure. */
int coxi_link_new(nng_stream *stream, const struct coxi_agreed *agreed,
                  struct coxi_link **ret);

/* Call it before nng is used. */
void coxi_use_nng(void);

/* Converts nng's error code into ours. */
int coxi_link_error(int nng_code);

/* Says in plain words why nng has ended a connection, or made none. */
const char *coxi_link_reason(int nng_code);

/* Marks the link closed; true: it was not, and the caller closes the stream. */
bool coxi_link_mark_closed(struct coxi_link *link, int code, const char *text)
    COXI_REQUIRES(link->lock);

/* Ends the engine: releases the line, tells the owner, drops the reference. */
void coxi_link_end(struct coxi_link *link);

void coxi_chunks_release(struct coxi_chunk *chunk);

/* True while a thread sends, or releases sent memory. */
static inline bool coxi_link_is_sending(const struct coxi_link *link)
    COXI_REQUIRES(link->lock)
{
    return link->sending || link->n_releasing > 0;
}

/* ---- link_send.c */

enum {
    /* bytes: such a chunk and the memory that it is made from fit a core's cache */
    COXI_LINE_MADE = 256 * 1024,
    COXI_LINE_MADE_MAX = 2, /* one is filled while the other is sent */
};

/* Returns an empty chunk for `capacity` bytes. If chunks of this kind are smaller, the
 * chunk gets no kind, and is freed after it was sent. NULL: no memory. */
struct coxi_chunk *coxi_line_chunk(struct coxi_link *link, int kind, size_t capacity)
    COXI_REQUIRES(link->lock);
void coxi_line_append(struct coxi_link_line *line, struct coxi_chunk *chunk);

/* Add the part of a frame before its payload, and the padding after it. False: no
 * memory. */
bool coxi_line_add_head(struct coxi_link *link, struct coxi_link_line *line, int kind,
                        const void *meta, size_t meta_len, size_t payload_len)
    COXI_REQUIRES(link->lock);
bool coxi_line_add_pad(struct coxi_link *link, struct coxi_link_line *line,
                       size_t payload_len) COXI_REQUIRES(link->lock);

/* Writes the part of a frame before its payload: coxi_head_len(prefix) bytes. */
void coxi_line_write_head(uint8_t *to, const struct coxi_prefix *prefix,
                          const void *meta);

/* Sends the frames in line, unless another thread is sending. Usually the kernel takes
 * them at once, and no other thread need be woken; other threads may add to the line
 * meanwhile. Unlocks while it sends. Sent chunks join *done, for coxi_link_leave(). */
void coxi_link_send_line(struct coxi_link *link, struct coxi_chunk **done)
    COXI_REQUIRES(link->lock);

/* True if coxi_link_finish was called and everything in line is sent. */
bool coxi_link_is_finished(const struct coxi_link *link) COXI_REQUIRES(link->lock);

/* Unlocks, releases sent chunks, and ends the engine if it waited for this. */
void coxi_link_leave(struct coxi_link *link, struct coxi_chunk *done)
    COXI_RELEASES(link->lock);

/* Holds frames back until the end of a receive batch, and sends them then. Receiving
 * thread. */
void coxi_link_cork(struct coxi_link *link);
void coxi_link_uncork(struct coxi_link *link);

/* Closes the stream, and wakes threads that wait on the local path. The link must be
 * marked closed. */
void coxi_link_shut(struct coxi_link *link);

/* Tells the owner that `bytes` are needed now where it was told of *told. COX_ENOMEM. */
int coxi_link_tell_memory(struct coxi_link *link, size_t *told, size_t bytes);

/* ---- link_made.c */

/* Waits until at most `bytes` are in line, not counting frames that wait for a frame
 * that is being made. Unlocks meanwhile. */
void coxi_link_await_line(struct coxi_link *link, size_t bytes,
                          struct coxi_chunk **done) COXI_REQUIRES(link->lock);

/* ---- link_local.c */

/* False if nobody will read the data that we send: the link is closed, or on the local
 * path the peer is gone. */
bool coxi_link_is_read(const struct coxi_link *link);

/* Begins to watch for the end of the stream. COX_ENOMEM. */
int coxi_link_watch_stream(struct coxi_link *link);

/* ---- link_send.c: later_aio's callback. */
void coxi_link_sent_later(void *link);

/* ---- link_watch.c, and its function in link_send.c */

/* Sends a heartbeat, or the frames in line. Never blocks. */
void coxi_link_beat(struct coxi_link *link);

#endif
