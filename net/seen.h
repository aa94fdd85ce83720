/*
 * The first messages of handshakes that an acceptor has seen, so that one that somebody
 * has recorded, and sends again, costs no X25519. Each is known by its tag, which only a
 * holder of the key can make, and which is never the same twice.
 *
 * At least the last COXI_SEEN_MIN messages are remembered, and at most twice as many, in
 * 256 KiB. Any thread. Cost: a look at a few cells, under a lock.
 */
#ifndef COXI_NET_SEEN_H
#define COXI_NET_SEEN_H

#include <stdbool.h>
#include <stdint.h>

enum { COXI_SEEN_MIN = 8192 };

struct coxi_seen;

int coxi_seen_new(struct coxi_seen **ret);   /* COX_ENOMEM */
void coxi_seen_free(struct coxi_seen *seen); /* takes NULL */

/* Remembers a tag by its first eight bytes. True: it was remembered already. */
bool coxi_seen_before(struct coxi_seen *seen, const uint8_t tag[8]);

#endif
