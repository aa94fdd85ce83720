/* A peer for tests: sends any messages, right or wrong, and keeps received messages
 * until it is asked for them. What workers tell of their memory is left out. */
#ifndef COXI_TESTS_PS_CALLER_H
#define COXI_TESTS_PS_CALLER_H

#include "net/message.h"

struct caller;

/* Connects to `url`, with the key that COX_KEY_FILE names (if any), and greets unless
 * `hello` is NULL. */
struct caller *caller_open(const char *url, const struct coxi_hello *hello);

/* Like caller_open, but proves first what `guard` (net/link.h) says. */
struct caller *caller_open_as(const char *url, const struct coxi_guard *guard,
                              const struct coxi_hello *hello);

/* Connects and greets; asserts that the greeting is answered. */
struct caller *caller_join(const char *url, const struct coxi_hello *hello);

void caller_send(struct caller *caller, const struct coxi_message *message,
                 const void *payload, size_t len);

/* Sends any bytes as a frame's metadata. */
void caller_send_bytes(struct caller *caller, const void *bytes, size_t len);

/* Waits for the next message, as caller_next does. False: the connection has ended. */
bool caller_hears(struct caller *caller);

/* The next message, valid until the next call, and its payload. Fails if there is none
 * in 8 s, or if it is of another kind. */
const struct coxi_message *caller_expect(struct caller *caller,
                                         enum coxi_message_kind kind);
const struct coxi_message *caller_next(struct caller *caller); /* of any kind */
const void *caller_payload(const struct caller *caller, size_t *ret_len);

/* The next message of this kind, as caller_expect; others that came before it stay. For
 * answers that different threads of the peer send, in either order. */
const struct coxi_message *caller_pick(struct caller *caller,
                                       enum coxi_message_kind kind);

/* The number of messages that were received and not yet asked for. */
size_t caller_waiting(struct caller *caller);

/* Asserts that the connection ends before another message comes. */
void caller_expect_end(struct caller *caller);

/* Asserts that the next message is a refusal with `code`, and that the connection ends
 * then. */
void caller_expect_refusal(struct caller *caller, int code, const char *part);

void caller_close(struct caller *caller); /* takes NULL */

#endif
