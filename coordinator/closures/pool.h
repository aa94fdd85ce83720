/*
 * Finds the member with the most room: among the members that hold less than their
 * capacity, the one with the least load, held / capacity (equal loads: the lower
 * number). Members are numbered from 0. A zeroed pool is valid and empty. Not
 * thread-safe.
 */
#ifndef COXI_COORDINATOR_CLOSURES_POOL_H
#define COXI_COORDINATOR_CLOSURES_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_pool_entry {
    uint32_t member;
    uint32_t held;
    uint32_t capacity; /* more than held */
};

/* Where a member is in the heap; it is there while it has room. */
struct coxi_pool_place {
    uint32_t at;
    bool is_in;
};

struct coxi_pool {
    struct coxi_pool_entry *heap;   /* members that have room, the least loaded first */
    struct coxi_pool_place *places; /* by member */
    uint32_t n;                     /* in the heap */
    uint32_t n_members;
};

/* Makes space for members 0..n_members - 1; new ones have no room. COX_ENOMEM. */
int coxi_pool_reserve(struct coxi_pool *pool, uint32_t n_members);
void coxi_pool_fini(struct coxi_pool *pool);

/* From now on the member holds `held` of `capacity` (0: it takes nothing). O(log n). */
void coxi_pool_set(struct coxi_pool *pool, uint32_t member, uint32_t held,
                   uint32_t capacity);

/* The member with the least load, and how much more it takes; false: none has room.
 * O(1). */
bool coxi_pool_first(const struct coxi_pool *pool, uint32_t *ret_member,
                     uint32_t *ret_room);

#endif
