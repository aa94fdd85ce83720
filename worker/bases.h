/*
 * The values that a step has pulled last from variables whose gradients are compensated
 * for delays (coxswain/variable.h, delay_compensation). They travel with the gradients.
 *
 * Threads: a slot. Memory: a copy of what a step pulls from such variables, and of the
 * lists of its rows; kept for the next step. Cost: a copy for each pull; for pushes of
 * listed rows that were not listed in the same order, a hash for each row.
 */
#ifndef COXI_WORKER_BASES_H
#define COXI_WORKER_BASES_H

#include "common/buffer.h"
#include "coxswain/step.h"
#include "schema/wire.h"

/* Pulls that are under way together, whose values will be kept. Zeroed is valid and
 * empty. */
struct coxi_base_pulls {
    struct coxi_buffer pulls;
    struct coxi_buffer keys;
};

/* Another pull begins; its list may change before it ends. COX_ENOMEM. */
int coxi_base_pulls_add(struct coxi_base_pulls *pulls, const struct cox_pull *pull,
                        const struct coxi_variable *variable);
void coxi_base_pulls_reset(struct coxi_base_pulls *pulls);
void coxi_base_pulls_fini(struct coxi_base_pulls *pulls);

struct coxi_base;

/* Zeroed is valid and empty. */
struct coxi_bases {
    struct coxi_base *first;
    uint64_t step; /* the number of steps begun */
};

/* Another step begins: nothing is pulled. */
void coxi_bases_begin(struct coxi_bases *bases);
void coxi_bases_fini(struct coxi_bases *bases);

/* The pulls have ended: keeps their values, which are in place. COX_ENOMEM. */
int coxi_bases_take(struct coxi_bases *bases, const struct coxi_base_pulls *pulls);

/* Copies the values of `count` rows (the listed ones; listed NULL: those from `begin`
 * on) to `to`. *ret_known false: the step has not pulled all of them. COX_ENOMEM. */
int coxi_bases_get(struct coxi_bases *bases, const struct coxi_variable *variable,
                   const uint64_t *listed, uint64_t begin, size_t count, uint8_t *to,
                   bool *ret_known);

#endif
