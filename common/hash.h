/* Hashes of table keys (for the choice of the ps, and for places in memory), of names,
 * and of modules. */
#ifndef COXI_COMMON_HASH_H
#define COXI_COMMON_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/wire.h"

/*
 * Hash of a table key: the 64-bit finalizer of MurmurHash3, a bijection. The top
 * COXI_BUCKET_BITS bits choose the virtual bucket, on every ps and in every process.
 */
static inline uint64_t coxi_hash_key(uint64_t key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdu;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53u;
    key ^= key >> 33;
    return key;
}

enum { COXI_BUCKET_BITS = 10, COXI_BUCKETS = 1 << COXI_BUCKET_BITS };

static inline uint32_t coxi_hash_bucket(uint64_t hash)
{
    return (uint32_t)(hash >> (64 - COXI_BUCKET_BITS));
}

/*
 * The place of a hash in a table of this process: its lower bits. Everybody can compute
 * coxi_hash_key, and so choose keys whose hashes agree in most bits. Multiplied by an
 * odd seed that they do not know, the hashes of two keys of a bucket agree in k of
 * these bits with a probability of about 2^-k (multiply-shift: Dietzfelbinger et al.,
 * J. Algorithms 25, 1997). Only the upper bits of the product are that random, so its
 * bytes are swapped.
 */
static inline uint32_t coxi_hash_place(uint64_t hash, uint64_t seed)
{
    return (uint32_t)__builtin_bswap64(hash * seed);
}

/* A secret odd seed, from the kernel. Any thread. */
uint64_t coxi_hash_seed(void);

/* A 128-bit hash (XXH3), for bytes that no attacker chooses. */
struct coxi_hash128 {
    uint64_t high;
    uint64_t low;
};

struct coxi_hash128 coxi_hash_bytes(const void *bytes, size_t len);

/* The SHA-256 of bytes. It identifies them even if an attacker may choose them. */
struct coxi_digest coxi_digest_of(const void *bytes, size_t len);

static inline bool coxi_digest_equal(const struct coxi_digest *a,
                                     const struct coxi_digest *b)
{
    return memcmp(a->words, b->words, sizeof(a->words)) == 0;
}

#endif
