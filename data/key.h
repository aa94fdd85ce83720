/*
 * Keys of texts: XXH3_64bits_withSeed of the bytes, the seed being the field's number
 * (0 if there is but one), modulo `buckets` unless that is 0. They are in checkpoints, so
 * they never change; docs/data.md tells users.
 *
 * Cost: 2 ns for up to 16 bytes, and a division. Any thread.
 */
#ifndef COXI_DATA_KEY_H
#define COXI_DATA_KEY_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t coxi_key_of(const void *text, size_t len, uint32_t field,
                                   uint64_t buckets)
{
    uint64_t hash = XXH3_64bits_withSeed(text, len, field);
    return buckets > 0 ? hash % buckets : hash;
}

#endif
