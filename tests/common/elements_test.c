/* What updates do to elements of each type. */
#include "common/elements.h"

#include <math.h>

#include "coxswain/types.h"
#include "tests/test.h"

#define ASSERT_COMBINED(expected, dtype, type, op, a, b)                               \
    do {                                                                               \
        type to_ = (type)(a);                                                          \
        const type from_ = (type)(b);                                                  \
        coxi_elements_combine(dtype, op, &to_, &from_, sizeof(to_));                   \
        assert_true(to_ == (expected));                                                \
    } while (0)

#define ASSERT_COMBINES(dtype, type)                                                   \
    do {                                                                               \
        ASSERT_COMBINED(8, dtype, type, COXI_OP_ADD, 3, 5);                            \
        ASSERT_COMBINED(5, dtype, type, COXI_OP_ASSIGN, 3, 5);                         \
        ASSERT_COMBINED(3, dtype, type, COXI_OP_MIN, 3, 5);                            \
        ASSERT_COMBINED(3, dtype, type, COXI_OP_MIN, 5, 3);                            \
        ASSERT_COMBINED(5, dtype, type, COXI_OP_MAX, 3, 5);                            \
        ASSERT_COMBINED(5, dtype, type, COXI_OP_MAX, 5, 3);                            \
    } while (0)

TEST(elements_of_every_type_combine)
{
    ASSERT_COMBINES(COX_F32, float);
    ASSERT_COMBINES(COX_F64, double);
    ASSERT_COMBINES(COX_I32, int32_t);
    ASSERT_COMBINES(COX_I64, int64_t);
    ASSERT_COMBINES(COX_U8, uint8_t);
    ASSERT_COMBINED(5, COX_BF16, uint16_t, COXI_OP_ASSIGN, 3, 5);
    ASSERT_COMBINED(5, COX_F16, uint16_t, COXI_OP_ASSIGN, 3, 5);
}

TEST(negative_integers_are_less_than_0)
{
    ASSERT_COMBINED(-1, COX_I32, int32_t, COXI_OP_MIN, 0, -1);
    ASSERT_COMBINED(0, COX_I32, int32_t, COXI_OP_MAX, 0, -1);
    ASSERT_COMBINED(INT64_MIN, COX_I64, int64_t, COXI_OP_MIN, 0, INT64_MIN);
    ASSERT_COMBINED(-1, COX_I64, int64_t, COXI_OP_MAX, INT64_MIN, -1);
}

TEST(integers_wrap_around)
{
    ASSERT_COMBINED(INT32_MIN, COX_I32, int32_t, COXI_OP_ADD, INT32_MAX, 1);
    ASSERT_COMBINED(INT64_MIN, COX_I64, int64_t, COXI_OP_ADD, INT64_MAX, 1);
    ASSERT_COMBINED(1, COX_U8, uint8_t, COXI_OP_ADD, 255, 2);
}

TEST(min_and_max_take_no_notice_of_nan)
{
    ASSERT_COMBINED(3, COX_F32, float, COXI_OP_MIN, 3, NAN);
    ASSERT_COMBINED(3, COX_F32, float, COXI_OP_MAX, 3, NAN);
    ASSERT_COMBINED(3, COX_F64, double, COXI_OP_MIN, 3, NAN);
    ASSERT_COMBINED(3, COX_F64, double, COXI_OP_MAX, 3, NAN);
}

TEST(min_and_max_replace_a_nan)
{
    ASSERT_COMBINED(3, COX_F32, float, COXI_OP_MIN, NAN, 3);
    ASSERT_COMBINED(3, COX_F32, float, COXI_OP_MAX, NAN, 3);
    ASSERT_COMBINED(3, COX_F64, double, COXI_OP_MIN, NAN, 3);
    ASSERT_COMBINED(3, COX_F64, double, COXI_OP_MAX, NAN, 3);
    ASSERT_COMBINED(-INFINITY, COX_F32, float, COXI_OP_MAX, NAN, -INFINITY);
}

TEST(two_nans_leave_a_nan)
{
    float to = NAN;
    const float from = NAN;
    coxi_elements_combine(COX_F32, COXI_OP_MIN, &to, &from, sizeof(to));
    assert_true(isnan(to));
    coxi_elements_combine(COX_F32, COXI_OP_MAX, &to, &from, sizeof(to));
    assert_true(isnan(to));
}

TEST(types_take_what_they_have_arithmetic_for)
{
    for (uint32_t dtype = COX_F32; dtype <= COX_F16; dtype++) {
        bool half = dtype == COX_BF16 || dtype == COX_F16;
        assert_true(coxi_elements_take(dtype, COXI_OP_ASSIGN));
        assert_false(coxi_elements_take(dtype, COXI_OP_GRADIENT));
        assert_false(coxi_elements_take(dtype, (enum coxi_op)(COXI_OP_MAX + 1)));
        assert_int_equal(!half, coxi_elements_take(dtype, COXI_OP_ADD));
        assert_int_equal(!half, coxi_elements_take(dtype, COXI_OP_MIN));
        assert_int_equal(!half, coxi_elements_take(dtype, COXI_OP_MAX));
    }
}
