/* Messages on links, and the greeting with which every connection begins. */
#ifndef COXI_NET_MESSAGE_H
#define COXI_NET_MESSAGE_H

#include "net/link.h"
#include "schema/wire.h"

/* The longest payload that a peer may send with a message, once it has greeted: 16
 * GiB. */
#define COXI_PAYLOAD_MAX ((size_t)1 << 34)

/* The most segments of a closure, and so of its commits to one ps: each flush ends a
 * segment. */
enum { COXI_SEGMENTS_MAX = 1024 };

/* The payload that follows a message: segments, sent one after the other. */
struct coxi_payload {
    const struct iovec *segments;
    size_t n_segments;
    void (*release)(void *arg); /* as in struct coxi_outgoing */
    void *arg;
};

/*
 * Encodes and sends `message`, followed by `payload` (NULL: none). `later` and errors
 * as in coxi_link_send; COX_ELIMIT: the message cannot be encoded. If a message cannot
 * be sent, the link is closed, because later messages would build on a missing one, and
 * a peer that waits for it would wait for ever. So most callers may ignore the returned
 * code. If an answer may be too large, check it first (coxi_message_fits): otherwise
 * the link is closed, and the peer asks again on the next link.
 */
int coxi_message_send(struct coxi_link *link, const struct coxi_message *message,
                      const struct coxi_payload *payload, bool later);

/* The same with a payload that is made while it is being sent. Errors of
 * coxi_link_send_made, and COX_ELIMIT. */
int coxi_message_send_made(
    struct coxi_link *link, const struct coxi_message *message, size_t payload_len,
    int (*make)(void *arg, void *to, size_t room, size_t *ret_len), void *arg);

/* Decodes a frame's metadata, or COX_EPROTO. */
int coxi_message_read(const struct coxi_frame *frame, struct coxi_message *ret);

/* The guard of connections on which we greet with `hello`; `key` NULL: none. */
struct coxi_guard coxi_hello_guard(const struct coxi_key *key,
                                   const struct coxi_hello *hello);

/* Sends our greeting, which is the first message of each side. */
int coxi_hello_send(struct coxi_link *link, const struct coxi_hello *hello);

/* Reads the peer's greeting from its first frame. COX_EVERSION (the peer is told, too),
 * COX_EPROTO, COX_EDENIED (its greeting does not match what it has proved), or the code
 * and text with which the peer has refused us. */
int coxi_hello_read(struct coxi_link *link, const struct coxi_frame *frame,
                    struct coxi_hello *ret);

/* For the side that made an offer with its greeting (link.h), once it has read the
 * peer's greeting: goes on over the local path if the peer has taken the offer, and
 * withdraws it otherwise. Receiving thread; blocks as coxi_link_go_local does. */
void coxi_hello_change_over(struct coxi_link *link, const struct coxi_hello *hello);

/* COX_EINVAL unless `name` may be the name of a worker that dials: 1 to 127 visible
 * ASCII characters, no quote, no backslash. */
int coxi_hello_name_check(const char *name);

/* Refuses the peer: sends the reason, then closes the link. Returns `code`. */
int coxi_refuse(struct coxi_link *link, int code, const char *text);

static inline bool coxi_session_equal(const struct coxi_session *a,
                                      const struct coxi_session *b)
{
    return a->run == b->run && a->generation == b->generation && a->token == b->token;
}

#endif
