/* The checksum, against zlib's. */
#include "common/crc.h"

#include <string.h>
#include <zlib.h>

#include "common/rand.h"
#include "tests/test.h"

enum { LONGEST = 4096 };

static void fill(uint8_t *data, size_t n)
{
    uint64_t rng = 1;
    for (size_t i = 0; i < n; i++) {
        data[i] = (uint8_t)coxi_rand(&rng);
    }
}

TEST(crc_of_every_length_at_every_place_is_that_of_zlib)
{
    uint8_t data[400];
    fill(data, sizeof(data));
    for (size_t at = 0; at < 64; at++) {
        for (size_t len = 0; at + len <= sizeof(data); len++) {
            assert_int_equal(crc32_z(0, data + at, len), coxi_crc32(0, data + at, len));
        }
    }
}

TEST(crc_goes_on_from_what_came_before)
{
    uint8_t data[LONGEST];
    fill(data, sizeof(data));
    uint32_t whole = (uint32_t)crc32_z(0, data, sizeof(data));
    for (size_t at = 0; at <= sizeof(data); at += 13) {
        uint32_t before = coxi_crc32(0, data, at);
        uint32_t behind = coxi_crc32(0, data + at, sizeof(data) - at);
        assert_int_equal(whole, coxi_crc32(before, data + at, sizeof(data) - at));
        assert_int_equal(whole, coxi_crc32_combine(before, behind, sizeof(data) - at));
    }
}

TEST(crc_of_equal_bytes_is_that_of_zlib)
{
    uint8_t data[LONGEST];
    for (int byte = 0; byte < 256; byte += 255) {
        memset(data, byte, sizeof(data));
        assert_int_equal(crc32_z(0, data, sizeof(data)),
                         coxi_crc32(0, data, sizeof(data)));
    }
}
