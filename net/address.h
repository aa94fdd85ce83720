/*
 * An address that may change while other threads read it. Old texts stay readable until
 * coxi_address_fini, so use it for addresses that change rarely.
 */
#ifndef COXI_NET_ADDRESS_H
#define COXI_NET_ADDRESS_H

#include <stdatomic.h>

struct coxi_address_text;

/* Zeroed: there is no text yet. */
struct coxi_address {
    _Atomic(struct coxi_address_text *) last;
};

/* Sets the address to a copy of `text`, unless it has this text already. One thread at
 * a time. COX_ENOMEM. */
int coxi_address_set(struct coxi_address *address, const char *text);

/* The current text, which lives until coxi_address_fini. Call it only after the first
 * coxi_address_set. Any thread. */
const char *coxi_address_get(const struct coxi_address *address);

void coxi_address_fini(struct coxi_address *address);

#endif
