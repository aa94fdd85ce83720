/* Messages on links, and the greeting that every connection begins with. */
#ifndef COXI_NET_MESSAGE_H
#define COXI_NET_MESSAGE_H

#include "net/link.h"
#include "schema/wire.h"

/* What a greeted peer may send at most behind a message: 16 GiB. */
#define COXI_PAYLOAD_MAX ((size_t)1 << 34)

/* Commits of one closure to one ps, one after the other: each flush begins another. */
enum { COXI_SEGMENTS_MAX = 1024 };

/* What may follow a message: segments sent one after the other. */
struct coxi_payload {
    const struct iovec *segments;
    size_t n_segments;
    void (*release)(void *arg); /* as in struct coxi_outgoing */
    void *arg;
};

/*
 * Encodes and sends `message`, with `payload` (NULL: none) after it. `later` and errors
 * as coxi_link_send; COX_ELIMIT: the message cannot be encoded. A message that cannot be sent,
 * for whatever reason, closes the link: the messages after it would build on one that is
 * missing, and a peer that waits for it would wait for ever. So most callers need not look at
 * what this returns. An answer that may be too large is checked before (coxi_message_fits),
 * for it would be asked for again on the next link.
 */
int coxi_message_send(struct coxi_link *link, const struct coxi_message *message,
                      const struct coxi_payload *payload, bool later);

/* The same with a payload that is made while it leaves: see coxi_link_send_made, whose
 * errors these are, and COX_ELIMIT. */
int coxi_message_send_made(
    struct coxi_link *link, const struct coxi_message *message, size_t payload_len,
    int (*make)(void *arg, void *to, size_t room, size_t *ret_len), void *arg);

/* Decodes a frame's metadata, or COX_EPROTO. */
int coxi_message_read(const struct coxi_frame *frame, struct coxi_message *ret);

/* Says who we are: the first thing that each side sends. */
int coxi_hello_send(struct coxi_link *link, const struct coxi_hello *hello);

/*
 * Reads the peer's first frame. COX_EVERSION (the peer is told, too), COX_EPROTO, or
 * the code with which it refused us; the text says what the peer said.
 */
int coxi_hello_read(struct coxi_link *link, const struct coxi_frame *frame,
                    struct coxi_hello *ret);

/* COX_EINVAL unless it can be the name of a worker that dials: 1 to 127 visible ASCII
 * characters, no quote, no backslash. */
int coxi_hello_name_check(const char *name);

/* Tells the peer why not, and closes when that has left. Returns `code`. */
int coxi_refuse(struct coxi_link *link, int code, const char *text);

static inline bool coxi_session_equal(const struct coxi_session *a,
                                      const struct coxi_session *b)
{
    return a->run == b->run && a->generation == b->generation && a->token == b->token;
}

#endif
