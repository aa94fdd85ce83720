/*
 * Moves the bytes of a handshake (handshake.h) over a new stream, on nng's threads. An
 * end that does not prove itself within COXI_PROVING_MS is given up. For
 * link_connect.c and link_listen.c.
 */
#ifndef COXI_NET_PROVING_H
#define COXI_NET_PROVING_H

#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>

#include "net/handshake.h"

enum { COXI_PROVING_MS = 2000 };

struct coxi_proving;

/*
 * It is over: the peer has proved itself, and `stream` and `agreed` are the callee's
 * for the call; or `code` says why not, and the stream is freed. On a thread of nng; it
 * must not block.
 */
typedef void (*coxi_proved)(void *arg, int code, nng_stream *stream,
                            const struct coxi_agreed *agreed);

/*
 * Proves us to the peer of `stream`, and the peer to us; `dialled`: we begin. Takes the
 * stream; `done` is called once, unless this fails. COX_ENOMEM: the stream is freed.
 */
int coxi_proving_new(nng_stream *stream, const struct coxi_guard *guard, bool dialled,
                     coxi_proved done, void *arg, struct coxi_proving **ret);
void coxi_proving_start(struct coxi_proving *proving);

/* Ends it early: `done` is called with COX_EDENIED soon. Any thread, but not once `done`
 * has begun to use the stream. */
void coxi_proving_abort(struct coxi_proving *proving);

#endif
