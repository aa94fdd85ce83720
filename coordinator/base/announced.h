/*
 * The variables that can be used, in the order in which workers are told of them. Code
 * that creates variables writes the list; code that tells workers (workers/layout.h)
 * reads it. Guarded by c->lock.
 */
#ifndef COXI_COORDINATOR_BASE_ANNOUNCED_H
#define COXI_COORDINATOR_BASE_ANNOUNCED_H

#include <stdint.h>

struct coxi_variable;

struct coxi_announced {
    const struct coxi_variable **variables;
    uint32_t n; /* only rises */
    uint32_t capacity;
};

/* Makes room for `n` variables in all. COX_ENOMEM. */
int coxi_announced_reserve(struct coxi_announced *announced, uint32_t n);

/* Adds a variable, for which there is room, and which lives until
 * coxi_announced_fini. */
void coxi_announced_add(struct coxi_announced *announced,
                        const struct coxi_variable *variable);

void coxi_announced_fini(struct coxi_announced *announced);

#endif
