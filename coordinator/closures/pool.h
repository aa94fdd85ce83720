/*
 * Who of many has the most room for what it can take: of those that hold less than their
 * capacity the one with the least load, held / capacity (equal loads: the lower number).
 * Members are numbered from 0. Zeroed it is valid and empty. Not thread-safe.
 */
#ifndef COXI_COORDINATOR_CLOSURES_POOL_H
#define COXI_COORDINATOR_CLOSURES_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "schema/maybe.h"

struct coxi_pool_entry {
    uint32_t member;
    uint32_t held;
    uint32_t capacity; /* more than held */
};

struct coxi_pool {
    struct coxi_pool_entry *heap; /* who has room, the least loaded first */
    struct coxi_maybe *places;    /* by member: where it is in the heap */
    uint32_t n;                   /* in the heap */
    uint32_t n_members;
};

/* Room for members 0..n_members - 1, the new ones with none. COX_ENOMEM. */
int coxi_pool_reserve(struct coxi_pool *pool, uint32_t n_members);
void coxi_pool_fini(struct coxi_pool *pool);

/* From now on the member holds `held` of `capacity` (0: it takes nothing). O(log n). */
void coxi_pool_set(struct coxi_pool *pool, uint32_t member, uint32_t held,
                   uint32_t capacity);

/* Whose load is the least, and how much more it takes; false: nobody has room. O(1). */
bool coxi_pool_first(const struct coxi_pool *pool, uint32_t *ret_member,
                     uint32_t *ret_room);

#endif
