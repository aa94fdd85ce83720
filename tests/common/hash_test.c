#include "common/hash.h"

#include "common/rand.h"
#include "tests/test.h"

/* MurmurHash3's 64-bit finalizer, run elsewhere. */
TEST(keys_hash_to_known_values)
{
    static const uint64_t known[][2] = {
        {0, 0},
        {1, 0xb456bcfc34c2cb2c},
        {2, 0x3abf2a20650683e7},
        {42, 0x810879608e4259cc},
        {0x0123456789abcdef, 0x87cbfbfe89022cea},
        {UINT64_MAX, 0x64b5720b4b825f21},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        assert_int_equal(known[i][1], coxi_hash_key(known[i][0]));
    }
}

TEST(hashing_a_key_can_be_undone)
{
    uint64_t rng = 3;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t key = coxi_rand(&rng);
        assert_int_equal(key, coxi_test_unhash(coxi_hash_key(key)));
        assert_int_equal(i, coxi_test_unhash(coxi_hash_key(i)));
    }
}

/* Keys such as real programs use: consecutive ones, or ones that differ by a large
 * power of two. */
TEST(keys_spread_over_all_buckets)
{
    enum { EACH = 200 };
    static const unsigned shifts[] = {0, 8, 32, 44};
    for (size_t s = 0; s < sizeof(shifts) / sizeof(*shifts); s++) {
        int counts[COXI_BUCKETS] = {0};
        for (uint64_t i = 0; i < (uint64_t)EACH * COXI_BUCKETS; i++) {
            uint32_t bucket = coxi_hash_bucket(coxi_hash_key(i << shifts[s]));
            assert_true(bucket < COXI_BUCKETS);
            counts[bucket]++;
        }
        for (size_t b = 0; b < COXI_BUCKETS; b++) {
            assert_in_range(counts[b], EACH / 2, EACH * 2);
        }
    }
}

TEST(the_bucket_is_in_the_top_bits)
{
    assert_int_equal(0, coxi_hash_bucket(UINT64_MAX >> COXI_BUCKET_BITS));
    assert_int_equal(1, coxi_hash_bucket((uint64_t)1 << (64 - COXI_BUCKET_BITS)));
    assert_int_equal(COXI_BUCKETS - 1, coxi_hash_bucket(UINT64_MAX));
}

/* XXH3's 128 bits with seed 0, from xxHash's own tests. */
TEST(bytes_hash_to_known_values)
{
    struct coxi_hash128 hash = coxi_hash_bytes("", 0);
    assert_int_equal(0x99aa06d3014798d8, hash.high);
    assert_int_equal(0x6001c324468d497f, hash.low);
    hash = coxi_hash_bytes("abc", 3);
    assert_int_equal(0x06b05ab6733a6185, hash.high);
    assert_int_equal(0x78af5f94892f3950, hash.low);
}

TEST(every_byte_counts_in_the_hash_of_bytes)
{
    uint8_t bytes[1000] = {0};
    struct coxi_hash128 plain = coxi_hash_bytes(bytes, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = 1;
        struct coxi_hash128 other = coxi_hash_bytes(bytes, sizeof(bytes));
        assert_int_not_equal(plain.high, other.high);
        assert_int_not_equal(plain.low, other.low);
        bytes[i] = 0;
        other = coxi_hash_bytes(bytes, i);
        assert_int_not_equal(plain.low, other.low);
    }
}

/* From FIPS 180-2. */
TEST(digest_of_bytes_is_their_sha_256)
{
    static const struct coxi_digest empty = {{0xe3b0c44298fc1c14, 0x9afbf4c8996fb924,
                                              0x27ae41e4649b934c, 0xa495991b7852b855}};
    static const struct coxi_digest abc = {{0xba7816bf8f01cfea, 0x414140de5dae2223,
                                            0xb00361a396177a9c, 0xb410ff61f20015ad}};
    struct coxi_digest found = coxi_digest_of("", 0);
    assert_true(coxi_digest_equal(&empty, &found));
    found = coxi_digest_of("abc", 3);
    assert_true(coxi_digest_equal(&abc, &found));
    assert_false(coxi_digest_equal(&abc, &empty));
}
