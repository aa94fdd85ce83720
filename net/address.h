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

/* Sets it to a copy of the text, unless it has the same text. One thread at a time.
 * COX_ENOMEM. */
int coxi_address_set(struct coxi_address *address, const char *text);

/* The current text; lives until coxi_address_fini. Only after the first set. Any
 * thread. */
const char *coxi_address_get(const struct coxi_address *address);

void coxi_address_fini(struct coxi_address *address);

#endif
