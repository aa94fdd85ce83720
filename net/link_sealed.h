/*
 * The sealed side of a link's stream: keeps bytes on their way between frames and the
 * stream, and makes and opens records (seal.h) of them. For link_send.c and
 * link_receive.c.
 *
 * Sending: the bytes that are next in line are copied into records, which are sent; more
 * are sealed once the stream has taken all of them. So the line stays as it is until
 * then, and memory that was lent to it is only read.
 * Receiving: bytes come into memory of the link's own, and whole records are opened into
 * the places where the link wants their bodies.
 *
 * Threads: the sending functions on the thread that has set the link's `sending`, the
 * receiving ones on the receiving thread.
 */
#ifndef COXI_NET_LINK_SEALED_H
#define COXI_NET_LINK_SEALED_H

#include <nng/nng.h>

#include "net/seal.h"

struct coxi_sealed;

/* Sets *ret to NULL if `agreed` has no seal. COX_ENOMEM. */
int coxi_sealed_new(const struct coxi_agreed *agreed, struct coxi_sealed **ret);
void coxi_sealed_free(struct coxi_sealed *sealed); /* takes NULL */

/* ---- sending */

/* Unless records are still unsent, seals the first bytes of the pieces. COX_ENOMEM,
 * COX_ELIMIT. */
int coxi_sealed_put(struct coxi_sealed *sealed, const nng_iov *pieces, unsigned n);

/* The bytes to send next. */
nng_iov coxi_sealed_unsent(const struct coxi_sealed *sealed);

/* Takes away n bytes that were sent. Returns how many bytes of the line were sent with
 * them: none until all records are. */
size_t coxi_sealed_sent(struct coxi_sealed *sealed, size_t n);

/* ---- receiving */

/* Where to receive the next bytes. */
nng_iov coxi_sealed_room(const struct coxi_sealed *sealed);

/* n bytes were received there. */
void coxi_sealed_came(struct coxi_sealed *sealed, size_t n);

/* Finds the next record that has come as a whole; *ret_len: the length of its body, 0:
 * there is none. COX_EDENIED. */
int coxi_sealed_next(struct coxi_sealed *sealed, size_t *ret_len);

/* Opens that record; errors and `pieces` as in coxi_sealer_open. */
int coxi_sealed_open(struct coxi_sealed *sealed, const nng_iov *pieces, unsigned n);

/* Makes room for the rest of a record whose beginning has come. COX_ENOMEM. */
int coxi_sealed_make_room(struct coxi_sealed *sealed);

#endif
