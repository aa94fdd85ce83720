/*
 * See pool.h. A binary heap whose entries contain their loads, so that a comparison
 * touches one array; `places` says where a member is, so that it can be moved when its
 * load changes. Loads are compared exactly, as fractions.
 *
 * Invariant: places[m] is the place of m's entry in the heap, for each member m in it.
 */
#include "coordinator/closures/pool.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

int coxi_pool_reserve(struct coxi_pool *pool, uint32_t n_members)
{
    if (n_members <= pool->n_members) {
        return 0;
    }
    struct coxi_pool_entry *heap =
        realloc(pool->heap, n_members * sizeof(struct coxi_pool_entry));
    if (heap == NULL) {
        return coxi_error_memory("workers");
    }
    pool->heap = heap;
    struct coxi_pool_place *places = realloc(pool->places, n_members * sizeof(*places));
    if (places == NULL) {
        return coxi_error_memory("workers");
    }
    memset(places + pool->n_members, 0,
           (n_members - pool->n_members) * sizeof(*places));
    pool->places = places;
    pool->n_members = n_members;
    return 0;
}

void coxi_pool_fini(struct coxi_pool *pool)
{
    free(pool->heap);
    free(pool->places);
    *pool = (struct coxi_pool){0};
}

static bool is_before(const struct coxi_pool_entry *a, const struct coxi_pool_entry *b)
{
    uint64_t left = (uint64_t)a->held * b->capacity;
    uint64_t right = (uint64_t)b->held * a->capacity;
    return left != right ? left < right : a->member < b->member;
}

static void put(struct coxi_pool *pool, uint32_t at, struct coxi_pool_entry entry)
{
    pool->heap[at] = entry;
    pool->places[entry.member] = (struct coxi_pool_place){at, true};
}

/* Puts `entry` where it belongs, above or below `at`, whose entry is overwritten. */
static void settle(struct coxi_pool *pool, uint32_t at, struct coxi_pool_entry entry)
{
    while (at > 0 && is_before(&entry, &pool->heap[(at - 1) / 2])) {
        put(pool, at, pool->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (uint32_t child; (child = 2 * at + 1) < pool->n; at = child) {
        if (child + 1 < pool->n &&
            is_before(&pool->heap[child + 1], &pool->heap[child])) {
            child++;
        }
        if (!is_before(&pool->heap[child], &entry)) {
            break;
        }
        put(pool, at, pool->heap[child]);
    }
    put(pool, at, entry);
}

static void leave(struct coxi_pool *pool, uint32_t member)
{
    uint32_t at = pool->places[member].at;
    struct coxi_pool_entry last = pool->heap[--pool->n];
    pool->places[member].is_in = false;
    if (last.member != member) {
        settle(pool, at, last);
    }
}

void coxi_pool_set(struct coxi_pool *pool, uint32_t member, uint32_t held,
                   uint32_t capacity)
{
    struct coxi_pool_place place = pool->places[member];
    if (held < capacity) {
        struct coxi_pool_entry entry = {member, held, capacity};
        settle(pool, place.is_in ? place.at : pool->n++, entry);
    } else if (place.is_in) {
        leave(pool, member);
    }
}

bool coxi_pool_first(const struct coxi_pool *pool, uint32_t *ret_member,
                     uint32_t *ret_room)
{
    if (pool->n == 0) {
        return false;
    }
    *ret_member = pool->heap[0].member;
    *ret_room = pool->heap[0].capacity - pool->heap[0].held;
    return true;
}
