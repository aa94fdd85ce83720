/* See hash.h. */
#include "common/hash.h"

#include <endian.h>
#include <openssl/sha.h>
#include <string.h>
#include <xxhash.h>

#include "common/rand.h"

uint64_t coxi_hash_seed(void)
{
    return coxi_random_id() | 1;
}

struct coxi_hash128 coxi_hash_bytes(const void *bytes, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len);
    return (struct coxi_hash128){hash.high64, hash.low64};
}

struct coxi_digest coxi_digest_of(const void *bytes, size_t len)
{
    struct coxi_digest digest;
    _Static_assert(sizeof(digest) == SHA256_DIGEST_LENGTH, "all of it");
    (void)SHA256(bytes, len, (unsigned char *)digest.words);
    for (size_t i = 0; i < sizeof(digest.words) / sizeof(*digest.words); i++) {
        digest.words[i] = be64toh(digest.words[i]);
    }
    return digest;
}
