/*
 * The scalars that a step has logged, packed: for each of them the value (8 bytes, as the
 * host has it), the length of its name (1 byte) and the name. They travel so from worker
 * to client. Any thread.
 */
#ifndef COXI_COMMON_SCALARS_H
#define COXI_COMMON_SCALARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

enum {
    COXI_SCALARS_MAX = 256,      /* of a step */
    COXI_SCALARS_NAME_MAX = 127, /* bytes of a name */
};

struct coxi_scalar {
    char name[COXI_SCALARS_NAME_MAX + 1];
    double value;
};

/* Packs one more; `name` has 1 to COXI_SCALARS_NAME_MAX bytes. COX_ENOMEM. */
int coxi_scalars_add(struct coxi_buffer *to, const char *name, double value);

/* Takes the next one out of *len bytes at *at. False: there is none, or the bytes are
 * malformed; then *len is not 0. */
bool coxi_scalars_next(const uint8_t **at, size_t *len, struct coxi_scalar *ret);

/* True if the bytes are scalars, at most COXI_SCALARS_MAX. */
bool coxi_scalars_check(const uint8_t *at, size_t len);

#endif
