/*
 * The distinct ones of many keys: each has an index, in the order in which they first
 * came. An open-addressing table of 4 bytes an entry, at most half full. Keys are looked
 * up in groups, so that the cache misses of a large table overlap.
 *
 * The memory is the caller's. Not thread-safe. Cost: a few nanoseconds a key.
 */
#ifndef COXI_COMMON_DISTINCT_H
#define COXI_COMMON_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/maybe.h"

struct coxi_distinct {
    uint64_t *keys;           /* the distinct keys */
    struct coxi_maybe *slots; /* all none at first */
    size_t n_slots;           /* coxi_distinct_slots of the most keys that may come */
    uint64_t seed;            /* of the places in `slots`: coxi_hash_seed */
    size_t n;                 /* distinct keys so far; at most UINT32_MAX */
};

/* How many slots n keys need: a power of two. */
size_t coxi_distinct_slots(size_t n);

/* Sets ret[i] to the index of keys[i], for n keys; those that are new join. `keys` and
 * `slots` of *distinct have room for all n. */
void coxi_distinct_add(struct coxi_distinct *distinct, const uint64_t *keys, size_t n,
                       uint32_t *ret);

/* Like coxi_distinct_add, but no key joins: returns the position of the first of the n
 * that is not there, or n. */
size_t coxi_distinct_find(const struct coxi_distinct *distinct, const uint64_t *keys,
                          size_t n, uint32_t *ret);

/* Enters all keys again into `slots`, which are other ones now, all none. A key that is
 * there twice is found at its last place. */
void coxi_distinct_enter(struct coxi_distinct *distinct);

#endif
