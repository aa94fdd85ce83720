/* A set of row numbers: a bit each, in memory that grows and never moves
 * (ps/stretch.h). 8 MiB hold 67 million rows. Any thread, except init and fini. */
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

/* Adds a row. Returns 0; 1 if the set had it already; or COX_ENOMEM. */
int coxi_bits_put(struct coxi_bits *bits, uint32_t row);

/* Removes a row. */
void coxi_bits_drop(struct coxi_bits *bits, uint32_t row);

/* Adds all rows of `other`, which nobody may change meanwhile. COX_ENOMEM: some may be
 * missing. */
int coxi_bits_merge(struct coxi_bits *bits, const struct coxi_bits *other);

/* The number of rows in the set. Cost: a look at all its memory. */
uint64_t coxi_bits_count(const struct coxi_bits *bits);

/* True if the row is in the set. */
bool coxi_bits_has(const struct coxi_bits *bits, uint32_t row);

#endif
