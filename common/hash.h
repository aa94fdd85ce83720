/* Hashing: of table keys (placement), of names, and of modules. */
#ifndef COXI_COMMON_HASH_H
#define COXI_COMMON_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "schema/wire.h"

/*
 * Hash of a table key: the 64-bit finalizer of MurmurHash3, a bijection. The top
 * COXI_BUCKET_BITS bits choose the virtual bucket, the lower ones the place inside.
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

/* 128-bit hash (XXH3) of bytes that nobody chooses to deceive. */
struct coxi_hash128 {
    uint64_t high;
    uint64_t low;
};

struct coxi_hash128 coxi_hash_bytes(const void *bytes, size_t len);

/* SHA-256 of bytes, which stands for them wherever somebody else may choose them. */
struct coxi_digest coxi_digest_of(const void *bytes, size_t len);

static inline bool coxi_digest_equal(const struct coxi_digest *a,
                                     const struct coxi_digest *b)
{
    return memcmp(a->words, b->words, sizeof(a->words)) == 0;
}

#endif
