/*
 * One end of a connection over ipc, without a key: sends frames, right or wrong, and
 * reads frames. Everything is done on the caller's thread, so that the same input does
 * the same again. The other end is the code that is tried.
 */
#ifndef COXI_TESTS_FUZZ_PEER_H
#define COXI_TESTS_FUZZ_PEER_H

#include <stdbool.h>

#include "common/buffer.h"
#include "schema/wire.h"

/* If an answer takes longer than this, it is a finding. */
enum { PEER_WAIT_MS = 10000 };

struct peer {
    int fd;    /* -1: there is no connection */
    bool over; /* the other end has closed it */
    struct coxi_buffer in;
    size_t at; /* up to here `in` was read */
};

/* A frame, valid until the next call for the same peer. */
struct peer_frame {
    struct coxi_message message;
    const void *payload;
    size_t payload_len;
};

/* Connects to the socket `path`; fails if it cannot. */
void peer_dial(struct peer *peer, const char *path);

/* Takes over a connected socket. */
void peer_take(struct peer *peer, int fd);

/* Sends a message; what cannot be encoded is not sent. False: the other end has closed
 * the connection. */
bool peer_send(struct peer *peer, const struct coxi_message *message,
               const void *payload, size_t len);

/* Sends any bytes. */
bool peer_send_bytes(struct peer *peer, const void *bytes, size_t len);

/*
 * Waits for the next frame that is no heartbeat. False: the connection is over. If
 * nothing comes in PEER_WAIT_MS, or something that is no message, that is a finding.
 */
bool peer_next(struct peer *peer, struct peer_frame *ret);

/* Waits until something has come from any of the `n` peers, or one is over; at most this
 * long. False: nothing has come, or no peer is there. */
bool peer_wait(struct peer *const *peers, size_t n, int wait_ms);

/* The same; if nothing comes in PEER_WAIT_MS, that is a finding. */
void peer_await(struct peer *const *peers, size_t n);

/* Reads what has come, without waiting. True: a frame is there for peer_next. */
bool peer_has(struct peer *peer);

/* Closes the connection at once, whatever is under way. It may be zeroed, or closed. */
void peer_close(struct peer *peer);

#endif
