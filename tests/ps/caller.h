/* The other end of a link for tests: sends what it is told, right or wrong, and keeps
 * what comes until it is asked for. */
#ifndef COXI_TESTS_PS_CALLER_H
#define COXI_TESTS_PS_CALLER_H

#include "net/message.h"

struct caller;

/* Connects to `url`, and greets unless `hello` is NULL. */
struct caller *caller_open(const char *url, const struct coxi_hello *hello);

/* Connects and greets, and asserts that the greeting is answered. */
struct caller *caller_join(const char *url, const struct coxi_hello *hello);

void caller_send(struct caller *caller, const struct coxi_message *message,
                 const void *payload, size_t len);

/* Any bytes as a frame's metadata. */
void caller_send_bytes(struct caller *caller, const void *bytes, size_t len);

/*
 * The next message that comes, valid until the next call; its payload. Fails when there
 * is none in 8 s, or of another kind.
 */
const struct coxi_message *caller_expect(struct caller *caller,
                                         enum coxi_message_kind kind);
const struct coxi_message *caller_next(struct caller *caller); /* of any kind */
const void *caller_payload(const struct caller *caller, size_t *ret_len);

/* Messages that have come and were not asked for yet. */
size_t caller_waiting(struct caller *caller);

/* The next thing that comes is the end of the connection. */
void caller_expect_end(struct caller *caller);

/* Asserts that the next message refuses us with `code`, and that the end follows. */
void caller_expect_refusal(struct caller *caller, int code, const char *part);

void caller_close(struct caller *caller); /* takes NULL */

#endif
