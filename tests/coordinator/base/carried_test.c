/* Pieces of a file that come in any order (coordinator/base/carried.h). */
#include "coordinator/base/carried.h"

#include <string.h>

#include "common/crc.h"
#include "common/error.h"
#include "common/rand.h"
#include "tests/test.h"

enum { BYTES = 100000, PIECES = 1000 };

static uint8_t file[BYTES];

static void fill(void)
{
    uint64_t random = 5;
    for (size_t i = 0; i < BYTES; i++) {
        file[i] = (uint8_t)coxi_rand(&random);
    }
}

static int add(struct coxi_carried *carried, uint64_t at, size_t len)
{
    return coxi_carried_add(carried, at, file + at % BYTES, len);
}

static void assert_whole(const struct coxi_carried *carried, uint64_t bytes)
{
    uint64_t n;
    uint32_t crc;
    assert_code(0, coxi_carried_sum(carried, &n, &crc));
    assert_int_equal(bytes, n);
    assert_int_equal(coxi_crc32(0, file, bytes), crc);
}

static void assert_gaps(const struct coxi_carried *carried)
{
    uint64_t n = 7;
    uint32_t crc = 8;
    assert_code(COX_EPROTO, coxi_carried_sum(carried, &n, &crc));
    assert_int_equal(7, n);
    assert_int_equal(8, crc);
}

TEST(pieces_in_any_order_have_the_checksum_of_the_file)
{
    size_t ends[PIECES];
    size_t order[PIECES];
    uint64_t random = 3;
    struct coxi_carried carried = {0};
    fill();
    assert_whole(&carried, 0);
    for (size_t i = 0; i < PIECES; i++) { /* pieces of 50 to 149 bytes */
        size_t end = (i + 1) * (BYTES / PIECES);
        ends[i] = i + 1 < PIECES ? end - 50 + coxi_rand(&random) % 50 : BYTES;
        order[i] = i;
    }
    for (size_t i = PIECES - 1; i > 0; i--) {
        size_t j = coxi_rand(&random) % (i + 1);
        size_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
    for (size_t i = 0; i < PIECES; i++) {
        size_t at = order[i] > 0 ? ends[order[i] - 1] : 0;
        assert_code(0, add(&carried, at, ends[order[i]] - at));
        if (i + 1 < PIECES) {
            assert_gaps(&carried);
        }
    }
    assert_whole(&carried, BYTES);
    assert_int_equal(1, carried.n);
    coxi_carried_fini(&carried);
}

TEST(a_byte_that_comes_twice_is_refused)
{
    struct coxi_carried carried = {0};
    fill();
    assert_code(0, add(&carried, 10, 10));
    assert_code(0, add(&carried, 30, 10));
    assert_code(COX_EPROTO, add(&carried, 10, 10));
    assert_code(COX_EPROTO, add(&carried, 0, 11));
    assert_code(COX_EPROTO, add(&carried, 19, 1));
    assert_code(COX_EPROTO, add(&carried, 20, 11));
    assert_code(COX_EPROTO, add(&carried, 12, 2));
    assert_code(0, add(&carried, 20, 10));
    assert_code(0, add(&carried, 20, 0));
    assert_gaps(&carried);
    assert_code(0, add(&carried, 0, 10));
    assert_whole(&carried, 40);
    coxi_carried_fini(&carried);
}

TEST(pieces_that_no_file_has_are_refused)
{
    struct coxi_carried carried = {0};
    fill();
    assert_code(COX_EPROTO, add(&carried, UINT64_MAX, 1));
    assert_code(COX_EPROTO, add(&carried, INT64_MAX, 1));
    int r = 0;
    for (uint64_t i = 0; r == 0 && i < 1000000; i++) {
        r = coxi_carried_add(&carried, 2 * i, file, 1);
    }
    assert_code(COX_EPROTO, r);
    coxi_carried_fini(&carried);
}
