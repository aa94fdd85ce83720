/* Ends of links for tests: received frames are recorded, and can be waited for with a
 * deadline. And plain sockets, for peers that break the protocol. */
#ifndef COXI_TESTS_COMMON_ENDS_H
#define COXI_TESTS_COMMON_ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/sync.h"
#include "net/link.h"

/* How an end receives: on a thread of the test, or on nng's. */
enum end_mode { END_RUN, END_START };

struct end_frame {
    uint8_t *meta;
    size_t meta_len;
    uint8_t *payload; /* a copy */
    size_t payload_len;
    const void *came_at; /* the address of the payload */
};

struct end {
    struct coxi_link *link; /* set by end_start */

    /* may be set before end_start */
    void *into; /* the answer of on_payload to a payload of into_len bytes */
    size_t into_len;
    int on_frame_returns;
    /* set by end_handle */
    void (*on_frame)(struct end *end, const struct coxi_frame *frame);
    void (*on_close)(struct end *end);
    void *arg;

    pthread_t thread;
    bool threaded;
    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed;
    struct end_frame *frames;
    size_t n_frames;
    size_t n_on_payload;
    size_t n_batches; /* batches with at least one frame */
    size_t batch_end; /* n_frames at the end of the last batch */
    int n_closed;
    int close_code;
    char close_text[256];
};

void end_init(struct end *end);

/* Takes `link` and receives. */
void end_start(struct end *end, struct coxi_link *link, enum end_mode mode);

/* Calls `handle`, with `arg` in end->arg, for frames that come from now on. */
void end_handle(struct end *end,
                void (*handle)(struct end *end, const struct coxi_frame *frame),
                void *arg);

/* Wait; fail after 8 s. Frames stay valid until end_fini. */
void end_wait_frames(struct end *end, size_t n);
void end_wait_closed(struct end *end, int code);

bool end_is_closed(struct end *end);

/* Closes, waits, and asserts that on_close was called once; frees the records. */
void end_fini(struct end *end);

/* Sends metadata and (len > 0) one payload segment. */
int end_send(struct end *end, const void *meta, size_t meta_len, const void *payload,
             size_t len);

/* A listener, and the links that it accepts, one after the other. */
struct door {
    struct coxi_listener *listener;
    char url[300];          /* the address to dial */
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    struct coxi_link *links[16];
    size_t n_accepted;
    size_t n_taken;
};

/* Listens over tcp or ipc; nothing is received from accepted links. */
void door_open(struct door *door, bool tcp);

/* Listens at `url`; peers must prove themselves if `guard` has a key. */
void door_open_guarded(struct door *door, const char *url,
                       const struct coxi_guard *guard);
struct coxi_link *door_wait(struct door *door);
void door_close(struct door *door);

/* Two ends of one link, both allowed 16 MiB of metadata and of payload. */
struct pair {
    struct door door;
    struct end near; /* the end that connected */
    struct end far;
};

void pair_open(struct pair *pair, bool tcp, enum end_mode mode);
void pair_close(struct pair *pair);

/* The same over tcp, sealed, with a new key after every third record. The near end is
 * worker 3 of run 1, the far end ps 9. */
void pair_open_sealed(struct pair *pair, enum coxi_seal seal, enum end_mode mode);

/* The same over shared memory; _gathered: `gather` receives for the near end. */
void pair_open_local(struct pair *pair);
void pair_open_gathered(struct pair *pair, struct coxi_gather *gather);

/* Runs `check` for tcp and ipc, sealed and not, in both modes; for shared memory; and for that with a
 * gatherer. */
void for_each_link(void (*check)(struct pair *pair));

/* ---- plain sockets; every call fails the test if it has not succeeded in 8 s */

int raw_connect(const char *url);
int raw_accept(int fd);
void raw_send(int fd, const void *bytes, size_t len);
void raw_read(int fd, void *bytes, size_t len);

/* Reads until the peer has closed; the number of bytes that came. */
size_t raw_wait_closed(int fd);

/* The start of a frame; `payload_len`: the payload that is announced. */
struct raw_prefix {
    uint32_t magic;
    uint32_t meta_len;
    uint64_t payload_len;
};

struct raw_prefix raw_prefix(uint32_t meta_len, uint64_t payload_len);

/* Sends a frame without a payload. */
void raw_send_frame(int fd, const void *meta, size_t len);

/* Reads a frame without a payload, skipping heartbeats; returns its metadata, for
 * free(). */
void *raw_read_frame(int fd, size_t *ret_len);

/* A link whose peer is a plain socket, which the test reads. */
struct half {
    struct door door;
    struct end end;
    int fd;
};

/* With the limits of a new link. */
void half_open(struct half *half, bool tcp, enum end_mode mode);
void half_close(struct half *half);

/* Runs `check` for tcp and ipc, in both modes. */
void for_each_half(void (*check)(struct half *half));

#endif
