/* What link.c, link_connect.c and link_watch.c share. Not for others. */
#ifndef COXI_COMMON_LINK_INTERNAL_H
#define COXI_COMMON_LINK_INTERNAL_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>

#include "common/error.h"
#include "common/link.h"

/* A piece of what is in line: small frames together in memory of ours, or memory lent.
 */
struct coxi_chunk {
    struct coxi_chunk *next;
    const uint8_t *data; /* own, or lent until released */
    size_t begin;        /* sent up to here */
    size_t end;
    size_t capacity; /* 0: lent */
    void (*release)(void *arg);
    void *arg;
    uint8_t own[];
};

struct coxi_link {
    atomic_int refs; /* the owner, the engine while it receives, senders */
    nng_stream *stream;
    const struct coxi_link_events *events;
    void *arg;
    struct coxi_links *links;
    struct coxi_link *watch_next; /* guarded by links->lock, as the next one */
    struct coxi_link *watch_prev;

    atomic_size_t meta_max;
    atomic_size_t payload_max;
    atomic_bool closed;
    atomic_bool
        handling; /* the owner is busy with what came: not reading is no silence */
    atomic_uint_least64_t last_in_ms;
    atomic_uint_least64_t last_out_ms;

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

    pthread_mutex_t lock; /* guards all below; leaf */
    pthread_cond_t room;  /* n_queued has gone down, or sending has ended */
    nng_aio *now_aio;     /* what the kernel takes at once */
    nng_aio *later_aio;   /* the rest: its callback goes on */
    struct coxi_chunk *head;
    struct coxi_chunk *tail;
    struct coxi_chunk *spare;
    size_t n_queued;
    bool sending;
    unsigned n_corked; /* frames put in line since then, of cork_frames */
    unsigned cork_frames;
    bool corked;   /* a receive batch is being handled: flush at its end */
    bool recv_end; /* nothing more will be received */
    bool ended;    /* on_close has been called, or is about to be */
    bool threaded; /* coxi_link_run, not coxi_link_start */
    bool finish;   /* close when nothing is in line */
    int close_code;
    char close_text[256];
};

/* Wraps a connected stream; takes it also on failure. */
int coxi_link_new(nng_stream *stream, struct coxi_link **ret);

/* An nng error as one of ours. */
int coxi_link_error(int nng_code);

/* Sends a heartbeat, unless something is being sent anyway. Never blocks. */
void coxi_link_beat(struct coxi_link *link);

#endif
