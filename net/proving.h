/*
 * Moves the bytes of a handshake (handshake.h) over a new stream, on nng's threads. A
 * peer that does not prove itself within COXI_PROVING_MS is given up. For link_connect.c
 * and link_listen.c.
 */
#ifndef COXI_NET_PROVING_H
#define COXI_NET_PROVING_H

#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>

#include "net/handshake.h"

enum { COXI_PROVING_MS = 2000 };

struct coxi_proving;

/* Called when the handshake is over. Code 0: the peer has proved itself; the callee
 * owns `stream`, and `agreed` is valid during the call. Otherwise `code` is the reason,
 * and the stream is freed. Runs on a thread of nng, and must not block. */
typedef void (*coxi_proved)(void *arg, int code, nng_stream *stream,
                            const struct coxi_agreed *agreed);

/*
 * Makes a handshake with the peer of `stream` in at most timeout_ms; `dialled`: our side
 * sends first. Otherwise the caller ends handshakes whose time has passed, with
 * coxi_proving_expire: nng looks at all its timeouts whenever one passes, so a timeout for
 * each of many strangers would cost more than their handshakes. Takes the stream. If this
 * function succeeds, `done` is called once. COX_ENOMEM: the stream is freed.
 */
int coxi_proving_new(nng_stream *stream, const struct coxi_guard *guard, bool dialled,
                     int timeout_ms, coxi_proved done, void *arg,
                     struct coxi_proving **ret);
void coxi_proving_start(struct coxi_proving *proving);

/* Ends the handshake if its time has passed. Threads as for coxi_proving_abort. */
void coxi_proving_expire(struct coxi_proving *proving);

/* Ends the handshake early: `done` is soon called with COX_EDENIED, also if the
 * handshake is only started then. If the handshake has succeeded already, `done` gets the
 * stream as it is. Any thread, but not after `done` has returned. */
void coxi_proving_abort(struct coxi_proving *proving);

#endif
