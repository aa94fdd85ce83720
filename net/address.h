/*
 * Where something is that may move, for threads that read it while another changes it: what it
 * was before stays readable until all is freed. So it is for what moves now and then.
 */
#ifndef COXI_NET_ADDRESS_H
#define COXI_NET_ADDRESS_H

#include <stdatomic.h>

struct coxi_address_text;

/* A zeroed one has no text yet. */
struct coxi_address {
    _Atomic(struct coxi_address_text *) last;
};

/* Sets it to a copy; the same text again: nothing. One thread at a time. COX_ENOMEM. */
int coxi_address_set(struct coxi_address *address, const char *text);

/* As it is now; lives until coxi_address_fini. It has been set. Any thread. */
const char *coxi_address_get(const struct coxi_address *address);

void coxi_address_fini(struct coxi_address *address);

#endif
