/*
 * A set of row numbers: a bit each, in memory that grows and never moves (ps/stretch.h).
 * 8 MiB hold those of 67 million rows. Any thread, but for init and fini.
 */
#ifndef COXI_PS_BITS_H
#define COXI_PS_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/stretch.h"

struct coxi_bits {
    struct coxi_stretch words;
};

void coxi_bits_init(struct coxi_bits *bits);
void coxi_bits_fini(struct coxi_bits *bits);

/* Puts a row in: 0, or 1 where it was there. COX_ENOMEM. */
int coxi_bits_put(struct coxi_bits *bits, uint32_t row);

/* Takes it out. */
void coxi_bits_drop(struct coxi_bits *bits, uint32_t row);

/* Puts in all that `other` has. COX_ENOMEM: some may be missing. While nobody changes it. */
int coxi_bits_merge(struct coxi_bits *bits, const struct coxi_bits *other);

/* How many there are. Cost: a look at all memory it has. */
uint64_t coxi_bits_count(const struct coxi_bits *bits);

/* True where the row is there. */
bool coxi_bits_has(const struct coxi_bits *bits, uint32_t row);

#endif
