#include "common/initializer.h"

#include <math.h>
#include <string.h>

#include "common/error.h"
#include "tests/test.h"

enum { DIM = 16 };

static struct coxi_initializer of(uint32_t kind, float a, float b, uint64_t seed)
{
    return (struct coxi_initializer){.kind = kind, .a = a, .b = b, .seed = seed};
}

TEST(a_row_depends_on_seed_and_key_alone)
{
    static const uint32_t kinds[] = {COXI_INIT_UNIFORM, COXI_INIT_NORMAL,
                                     COXI_INIT_TRUNCATED_NORMAL};
    for (size_t i = 0; i < 3; i++) {
        struct coxi_initializer in = of(kinds[i], 0, 1, 11);
        struct coxi_initializer other_seed = of(kinds[i], 0, 1, 12);
        float row[DIM];
        float same[DIM];
        float other[DIM];
        coxi_initializer_row(&in, 77, row, DIM);
        coxi_initializer_row(&in, 78, other, DIM);
        coxi_initializer_row(&in, 77, same, DIM);
        assert_memory_equal(row, same, sizeof(row));
        for (int k = 0; k < DIM; k++) {
            assert_true(row[k] != other[k]);
        }
        coxi_initializer_row(&other_seed, 77, other, DIM);
        for (int k = 0; k < DIM; k++) {
            assert_true(row[k] != other[k]);
            assert_true(k == 0 || row[k] != row[k - 1]);
        }
    }
}

TEST(a_column_does_not_depend_on_how_many_there_are)
{
    static const uint32_t kinds[] = {COXI_INIT_UNIFORM, COXI_INIT_NORMAL,
                                     COXI_INIT_CONSTANT, COXI_INIT_ZEROS,
                                     COXI_INIT_TRUNCATED_NORMAL};
    for (size_t i = 0; i < 5; i++) {
        struct coxi_initializer in = of(kinds[i], 0, 1, 5);
        float all[DIM];
        coxi_initializer_row(&in, 3, all, DIM);
        for (size_t n = 0; n < DIM; n++) {
            float some[DIM + 1] = {0};
            some[n] = 4711;
            coxi_initializer_row(&in, 3, some, n);
            assert_memory_equal(all, some, n * sizeof(float));
            assert_true(some[n] == 4711);
        }
    }
}

/* The same parameters, which checkpoints have, must give the same values for ever. */
TEST(known_rows_stay_as_they_are)
{
    struct coxi_initializer in = of(COXI_INIT_UNIFORM, 0, 1, 1234567);
    float row[2];
    coxi_initializer_row(&in, 0, row, 2);
    /* Key 0 hashes to 0: the first numbers of splitmix64 of the seed. */
    assert_true(fabsf(row[0] - 0.35008016F) < 1e-6F);
    assert_true(fabsf(row[1] - 0.17364427F) < 1e-6F);
    in.kind = COXI_INIT_TRUNCATED_NORMAL;
    coxi_initializer_row(&in, 0, row, 2);
    assert_true(fabsf(row[0] - (float)(sqrt(-2 * log(1 - 0.350080163)) *
                                       cos(2 * 3.14159265 * 0.173644272))) < 1e-6F);
}

TEST(uniform_numbers_fill_their_range)
{
    enum { ROWS = 10000 };
    struct coxi_initializer in = of(COXI_INIT_UNIFORM, -2, 6, 1);
    double sum = 0;
    int counts[8] = {0};
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[DIM];
        coxi_initializer_row(&in, key, row, DIM);
        for (int k = 0; k < DIM; k++) {
            assert_true(row[k] >= -2 && row[k] < 6);
            sum += row[k];
            counts[(int)floorf(row[k]) + 2]++;
        }
    }
    assert_true(fabs(sum / (ROWS * DIM) - 2) < 0.05);
    for (int i = 0; i < 8; i++) {
        assert_in_range(counts[i], ROWS * DIM / 8 * 95 / 100,
                        ROWS * DIM / 8 * 105 / 100);
    }
}

TEST(uniform_numbers_stay_below_the_upper_end)
{
    /* The first number of this seed is the highest there is. */
    const uint64_t seed = 0x31628af67b2131ab;
    static const float ends[][2] = {{0, 1}, {1, 2}, {-1, 0}, {-0.05F, 0.05F}};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct coxi_initializer in =
            of(COXI_INIT_UNIFORM, ends[i][0], ends[i][1], seed);
        float x = 0;
        coxi_initializer_row(&in, 0, &x, 1);
        assert_true(x < ends[i][1]);
        assert_true(x > ends[i][1] - 1e-6F);
    }
}

TEST(normal_numbers_have_their_mean_and_deviation)
{
    enum { ROWS = 10000, N = ROWS * DIM };
    struct coxi_initializer in = of(COXI_INIT_NORMAL, 3, 0.5F, 9);
    double sum = 0;
    double squares = 0;
    int within_one = 0;
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[DIM];
        coxi_initializer_row(&in, key * 1000, row, DIM);
        for (int k = 0; k < DIM; k++) {
            double x = row[k] - 3.0;
            assert_true(isfinite(row[k]));
            sum += x;
            squares += x * x;
            within_one += fabs(x) < 0.5;
        }
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(sqrt(squares / N) - 0.5) < 0.01);
    assert_true(fabs((double)within_one / N - 0.6827) < 0.01);
}

/* The deviation of a standard normal number that is cut off at 2 deviations: Johnson,
 * Kotz, Balakrishnan, Continuous univariate distributions 1, 10.1. */
static const double truncated_deviation = 0.87962566;

TEST(truncated_normal_numbers_have_their_mean_deviation_and_bounds)
{
    enum { ROWS = 10000, N = ROWS * DIM };
    struct coxi_initializer in = of(COXI_INIT_TRUNCATED_NORMAL, -3, 0.5F, 9);
    double sum = 0;
    double squares = 0;
    int within_one = 0;
    int near_the_end = 0;
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[DIM];
        coxi_initializer_row(&in, key * 1000, row, DIM);
        for (int k = 0; k < DIM; k++) {
            double x = row[k] + 3.0;
            assert_true(row[k] >= -4 && row[k] <= -2);
            sum += x;
            squares += x * x;
            within_one += fabs(x) < 0.5;
            near_the_end += fabs(x) > 0.95;
        }
    }
    assert_true(fabs(sum / N) < 0.01);
    assert_true(fabs(sqrt(squares / N) - 0.5 * truncated_deviation) < 0.005);
    assert_true(fabs((double)within_one / N - 0.6827 / 0.9545) < 0.01);
    assert_true(fabs((double)near_the_end / N - 0.0119 / 0.9545) < 0.002);
}

/* Neighbours in a row come from one pair of random numbers, but must not be
 * correlated. */
TEST(normal_neighbours_are_not_correlated)
{
    enum { ROWS = 20000 };
    struct coxi_initializer in = of(COXI_INIT_NORMAL, 0, 1, 9);
    double products = 0;
    for (uint64_t key = 0; key < ROWS; key++) {
        float row[2];
        coxi_initializer_row(&in, key, row, 2);
        products += (double)row[0] * row[1];
    }
    assert_true(fabs(products / ROWS) < 0.04);
}

TEST(constants_and_zeros_are_just_that)
{
    struct coxi_initializer constant = of(COXI_INIT_CONSTANT, 0.1F, 9, 1);
    struct coxi_initializer zeros = of(COXI_INIT_ZEROS, 5, 5, 5);
    float row[DIM];
    coxi_initializer_row(&constant, 123, row, DIM);
    for (int k = 0; k < DIM; k++) {
        assert_true(row[k] == 0.1F);
    }
    coxi_initializer_row(&zeros, 123, row, DIM);
    for (int k = 0; k < DIM; k++) {
        assert_true(row[k] == 0 && !signbit(row[k]));
    }
}

TEST(good_parameters_are_accepted)
{
    struct coxi_initializer zeroed = {0};
    assert_code(0, coxi_initializer_check(&zeroed));
    const struct coxi_initializer good[] = {
        of(COXI_INIT_CONSTANT, -3, 0, 0), of(COXI_INIT_UNIFORM, -1, 1, 0),
        of(COXI_INIT_UNIFORM, 1, 1, 0),   of(COXI_INIT_NORMAL, -1, 0, 0),
        of(COXI_INIT_NORMAL, 5, 2, 0),    of(COXI_INIT_TRUNCATED_NORMAL, 5, 2, 0),
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_code(0, coxi_initializer_check(&good[i]));
    }
}

TEST(parameters_that_make_no_numbers_are_einval)
{
    const struct coxi_initializer bad[] = {
        of(COXI_INIT_END, 0, 0, 0),
        of(UINT32_MAX, 0, 0, 0),
        of(COXI_INIT_CONSTANT, NAN, 0, 0),
        of(COXI_INIT_CONSTANT, INFINITY, 0, 0),
        of(COXI_INIT_UNIFORM, -INFINITY, 0, 0),
        of(COXI_INIT_UNIFORM, 0, NAN, 0),
        of(COXI_INIT_UNIFORM, 1, -1, 0),
        of(COXI_INIT_UNIFORM, -3e38F, 3e38F, 0),
        of(COXI_INIT_NORMAL, 0, INFINITY, 0),
        of(COXI_INIT_NORMAL, 0, -1, 0),
        of(COXI_INIT_TRUNCATED_NORMAL, 0, -1, 0),
        of(COXI_INIT_TRUNCATED_NORMAL, NAN, 1, 0),
        of(COXI_INIT_ZEROS, 1, 0, 0),
        of(COXI_INIT_ZEROS, 0, 1, 0),
        of(COXI_INIT_CONSTANT, 1, 1, 0),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_code(COX_EINVAL, coxi_initializer_check(&bad[i]));
        assert_error_names("initializer");
    }
}

TEST(parameters_that_are_not_used_are_named)
{
    const struct coxi_initializer zeros = of(COXI_INIT_ZEROS, 0.5F, 0, 0);
    const struct coxi_initializer constant = of(COXI_INIT_CONSTANT, 1, 0.25F, 0);
    assert_code(COX_EINVAL, coxi_initializer_check(&zeros));
    assert_error_names(
        "the initializer's a is 0.5, but one of zeros has no use for it: leave it 0");
    assert_code(COX_EINVAL, coxi_initializer_check(&constant));
    assert_error_names(
        "the initializer's b is 0.25, but a constant has no use for it: leave it 0");
}
