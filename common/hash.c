/* See hash.h. */
#include "common/hash.h"

#include <xxhash.h>

struct coxi_hash128 coxi_hash_bytes(const void *bytes, size_t len)
{
    XXH128_hash_t hash = XXH3_128bits(bytes, len);
    return (struct coxi_hash128){hash.high64, hash.low64};
}
