/*
 * The versions (ps/staleness.h) of the values that a step has pulled last. Each variable
 * that takes gradients has a place for each of its shards or, if it is a table, for each
 * ps (worker/variables.h).
 *
 * Threads: a slot. Memory: 24 bytes for each place up to the highest one used.
 */
#ifndef COXI_WORKER_VERSIONS_H
#define COXI_WORKER_VERSIONS_H

#include "common/buffer.h"
#include "common/layout.h"

/* Zeroed is valid and empty. */
struct coxi_versions {
    struct coxi_buffer places;
    uint64_t step; /* the number of steps begun */
};

/* Another step begins: nothing is pulled. */
void coxi_versions_begin(struct coxi_versions *versions);
void coxi_versions_fini(struct coxi_versions *versions);

/* How many places a variable has; 0: it takes no gradients. */
size_t coxi_versions_places(const struct coxi_variable *variable, uint32_t n_ps);

/* Makes room for a place, before _note. COX_ENOMEM. */
int coxi_versions_reserve(struct coxi_versions *versions, size_t place);
void coxi_versions_note(struct coxi_versions *versions, size_t place, uint64_t version);

/* The version that was noted last; 0: the step has pulled no values there. */
uint64_t coxi_versions_get(const struct coxi_versions *versions, size_t place);

/* For gradients of several batches: the version of the values that the first of them may
 * have used, that is the one that was noted last before _renew, or first after it. */
void coxi_versions_renew(struct coxi_versions *versions, size_t place);
uint64_t coxi_versions_oldest(const struct coxi_versions *versions, size_t place);

#endif
