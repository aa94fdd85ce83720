/* CRC-32C, with and without the processor's instructions. */
#include "common/crc32c.h"

#include "common/rand.h"
#include "tests/test.h"

/* As the definition says, bit by bit. */
static uint32_t by_bits(uint32_t crc, const uint8_t *data, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < len; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

/* RFC 3720, B.4. */
TEST(crc32c_of_the_published_samples)
{
    uint8_t data[32] = {0};
    assert_int_equal(0xe3069283, coxi_crc32c(0, "123456789", 9));
    assert_int_equal(0xe3069283, coxi_crc32c_by_table(0, "123456789", 9));
    assert_int_equal(0x8a9136aa, coxi_crc32c(0, data, sizeof(data)));
    memset(data, 0xff, sizeof(data));
    assert_int_equal(0x62a8ab43, coxi_crc32c(0, data, sizeof(data)));
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)i;
    }
    assert_int_equal(0x46dd794e, coxi_crc32c(0, data, sizeof(data)));
    assert_int_equal(0, coxi_crc32c(0, data, 0));
}

TEST(crc32c_of_every_length_at_every_place)
{
    uint8_t data[800];
    uint64_t seed = 3;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)coxi_rand(&seed);
    }
    for (size_t at = 0; at < 16; at++) {
        for (size_t len = 0; at + len <= sizeof(data); len++) {
            uint32_t expected = by_bits(0, data + at, len);
            assert_int_equal(expected, coxi_crc32c(0, data + at, len));
            assert_int_equal(expected, coxi_crc32c_by_table(0, data + at, len));
        }
    }
}

TEST(crc32c_goes_on_from_what_came_before)
{
    uint8_t data[1000];
    uint64_t seed = 5;
    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)coxi_rand(&seed);
    }
    uint32_t whole = by_bits(0, data, sizeof(data));
    for (size_t at = 0; at <= sizeof(data); at++) {
        uint32_t before = coxi_crc32c(0, data, at);
        assert_int_equal(whole, coxi_crc32c(before, data + at, sizeof(data) - at));
        before = coxi_crc32c_by_table(0, data, at);
        assert_int_equal(whole,
                         coxi_crc32c_by_table(before, data + at, sizeof(data) - at));
    }
}
