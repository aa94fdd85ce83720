#include "common/rand.h"

#include "tests/test.h"

/* From the authors' splitmix64.c, run elsewhere. */
TEST(the_sequence_is_that_of_splitmix64)
{
    static const uint64_t of_1234567[] = {6457827717110365317u, 3203168211198807973u,
                                          9817491932198370423u, 4593380528125082431u,
                                          16408922859458223821u};
    static const uint64_t of_0[] = {0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4,
                                    0x06c45d188009454f};
    uint64_t rng = 1234567;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(of_1234567[i], coxi_rand(&rng));
    }
    rng = 0;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(of_0[i], coxi_rand(&rng));
    }
}

TEST(unit_numbers_are_spread_over_0_to_below_1)
{
    enum { N = 100000, PARTS = 10 };
    int counts[PARTS] = {0};
    uint64_t rng = 5;
    for (int i = 0; i < N; i++) {
        double x = coxi_rand_unit(&rng);
        assert_true(x >= 0 && x < 1);
        counts[(int)(x * PARTS)]++;
    }
    for (int i = 0; i < PARTS; i++) {
        assert_in_range(counts[i], N / PARTS * 95 / 100, N / PARTS * 105 / 100);
    }
}

TEST(the_highest_unit_number_is_below_1)
{
    /* After this state comes a number of which all 64 bits are set. */
    uint64_t rng = 0x31628af67b2131ab;
    uint64_t same = rng;
    assert_int_equal(UINT64_MAX, coxi_rand(&same));
    assert_true(coxi_rand_unit(&rng) < 1);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

TEST(ids_are_not_zero_and_differ)
{
    enum { N = 10000 };
    static uint64_t ids[N];
    for (size_t i = 0; i < N; i++) {
        ids[i] = coxi_random_id();
        assert_int_not_equal(0, ids[i]);
    }
    qsort(ids, N, sizeof(*ids), by_number);
    for (size_t i = 1; i < N; i++) {
        assert_int_not_equal(ids[i - 1], ids[i]);
    }
}
