#include "common/dtype.h"

#include <string.h>

#include "common/error.h"
#include "common/rand.h"
#include "tests/test.h"

TEST(names_and_sizes_of_all_types_are_those_of_safetensors)
{
    static const struct {
        uint32_t dtype;
        const char *name;
        size_t size;
    } types[] = {
        {COX_F32, "F32", 4}, {COX_F64, "F64", 8}, {COX_I32, "I32", 4},
        {COX_I64, "I64", 8}, {COX_U8, "U8", 1},   {COX_BF16, "BF16", 2},
        {COX_F16, "F16", 2},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        assert_int_equal(i + 1, types[i].dtype);
        assert_string_equal(types[i].name, coxi_dtype_name(types[i].dtype));
        assert_int_equal(types[i].dtype, coxi_dtype_parse(types[i].name));
        assert_int_equal(types[i].size, coxi_dtype_size(types[i].dtype));
    }
}

TEST(numbers_and_names_that_are_no_type_have_none)
{
    static const uint32_t numbers[] = {0, 8, 255, UINT32_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        assert_int_equal(0, coxi_dtype_size(numbers[i]));
        assert_null(coxi_dtype_name(numbers[i]));
    }
    assert_int_equal(0, coxi_dtype_parse(""));
    assert_int_equal(0, coxi_dtype_parse("f32"));
    assert_int_equal(0, coxi_dtype_parse("F3"));
    assert_int_equal(0, coxi_dtype_parse("U64"));
}

/* ---- shapes */

TEST(bytes_of_a_shape_are_its_elements_times_their_size)
{
    const uint64_t shape[COX_RANK_MAX] = {2, 3, 4, 5, 1, 1, 1, 7};
    size_t bytes = 0;
    assert_code(0, coxi_shape_bytes(COX_F64, 0, shape, &bytes));
    assert_int_equal(8, bytes);
    assert_code(0, coxi_shape_bytes(COX_BF16, 3, shape, &bytes));
    assert_int_equal(48, bytes);
    assert_code(0, coxi_shape_bytes(COX_F32, COX_RANK_MAX, shape, &bytes));
    assert_int_equal(4 * 840, bytes);
    const uint64_t nothing[2] = {0, 5};
    assert_code(0, coxi_shape_bytes(COX_F32, 2, nothing, &bytes));
    assert_int_equal(0, bytes);
}

TEST(a_shape_with_more_bytes_than_can_be_counted_is_elimit)
{
    static const uint64_t shapes[][3] = {
        {UINT64_MAX, 1, 1},
        {(uint64_t)1 << 62, 1, 1},
        {(uint64_t)1 << 32, (uint64_t)1 << 30, 1},
        {(uint64_t)1 << 31, (uint64_t)1 << 31, 2},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX},
    };
    size_t bytes = 77;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
        assert_code(COX_ELIMIT, coxi_shape_bytes(COX_F32, 3, shapes[i], &bytes));
    }
    assert_int_equal(77, bytes);
    assert_code(COX_ELIMIT, coxi_shape_bytes(COX_U8, 1, shapes[0], &bytes));
    const uint64_t most = COXI_SHAPE_BYTES_MAX;
    const uint64_t more = COXI_SHAPE_BYTES_MAX + 1;
    assert_code(0, coxi_shape_bytes(COX_U8, 1, &most, &bytes));
    assert_int_equal(COXI_SHAPE_BYTES_MAX, bytes);
    assert_code(COX_ELIMIT, coxi_shape_bytes(COX_U8, 1, &more, &bytes));
}

TEST(a_type_or_rank_that_is_none_is_einval)
{
    const uint64_t shape[COX_RANK_MAX + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    size_t bytes = 77;
    assert_code(COX_EINVAL, coxi_shape_bytes(0, 1, shape, &bytes));
    assert_code(COX_EINVAL, coxi_shape_bytes(8, 1, shape, &bytes));
    assert_error_names("8");
    assert_code(COX_EINVAL, coxi_shape_bytes(COX_F32, 9, shape, &bytes));
    assert_error_names("rank 9");
    assert_int_equal(77, bytes);
}

/* ---- values */

static void assert_value(const struct cox_value *expected,
                         const struct cox_value *found)
{
    size_t bytes = 0;
    assert_string_equal(expected->name != NULL ? expected->name : "", found->name);
    assert_int_equal(expected->dtype, found->dtype);
    assert_int_equal(expected->rank, found->rank);
    assert_memory_equal(expected->shape, found->shape,
                        expected->rank * sizeof(*expected->shape));
    assert_code(
        0, coxi_shape_bytes(expected->dtype, expected->rank, expected->shape, &bytes));
    if (bytes > 0) {
        assert_memory_equal(expected->data, found->data, bytes);
    }
}

/* Some of everything: a scalar, odd lengths, no elements, no name, the highest rank. */
static size_t sample(struct cox_value values[8])
{
    static const double scalar = 0.1;
    static const uint8_t bytes[5] = {1, 2, 3, 4, 5};
    static const float cube[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    static const uint16_t half[3] = {1, 2, 3};
    const struct cox_value all[] = {
        COX_SCALAR("scalar", COX_F64, &scalar),
        COX_VECTOR("bytes", COX_U8, 5, bytes),
        COX_VECTOR("none", COX_I64, 0, NULL),
        {NULL, COX_F32, 3, {2, 3, 2}, cube},
        {"high", COX_F16, 8, {1, 1, 3, 1, 1, 1, 1, 1}, half},
    };
    memcpy(values, all, sizeof(all));
    return sizeof(all) / sizeof(*all);
}

static void pack_sample(struct coxi_buffer *out)
{
    struct cox_value values[8];
    size_t n = sample(values);
    for (size_t i = 0; i < n; i++) {
        assert_code(0, coxi_values_add(out, &values[i]));
    }
}

TEST(values_come_out_as_they_went_in)
{
    struct coxi_buffer packed = {0};
    struct cox_value values[8];
    struct cox_value found[COXI_VALUES_MAX];
    size_t n = 0;
    pack_sample(&packed);
    assert_int_equal(0, packed.len % 8);
    assert_code(0, coxi_values_unpack(packed.data, packed.len, found, &n));
    assert_int_equal(sample(values), n);
    for (size_t i = 0; i < n; i++) {
        assert_value(&values[i], &found[i]);
    }
    coxi_buffer_fini(&packed);
}

TEST(values_have_the_size_that_is_said_of_them)
{
    struct cox_value values[8];
    size_t n = sample(values);
    size_t size = 1;
    assert_code(0, coxi_values_size(values, 0, &size));
    assert_int_equal(0, size);
    for (size_t from = 0; from < n; from++) {
        struct coxi_buffer packed = {0};
        for (size_t i = from; i < n; i++) {
            assert_code(0, coxi_values_add(&packed, &values[i]));
        }
        assert_code(0, coxi_values_size(&values[from], n - from, &size));
        assert_int_equal(packed.len, size);
        coxi_buffer_fini(&packed);
    }
    values[0].dtype = 99;
    assert_code(COX_EINVAL, coxi_values_size(values, n, &size));
}

TEST(no_bytes_are_no_values)
{
    struct cox_value found[COXI_VALUES_MAX];
    size_t n = 77;
    assert_code(0, coxi_values_unpack(NULL, 0, found, &n));
    assert_int_equal(0, n);
}

TEST(as_many_values_as_allowed_are_packed_and_no_more)
{
    struct coxi_buffer packed = {0};
    struct cox_value found[COXI_VALUES_MAX];
    size_t n = 0;
    for (int64_t i = 0; i < COXI_VALUES_MAX; i++) {
        struct cox_value value = COX_SCALAR("i", COX_I64, &i);
        assert_code(0, coxi_values_add(&packed, &value));
    }
    size_t len = packed.len;
    assert_code(COX_ELIMIT, coxi_values_add(&packed, &found[0]));
    assert_int_equal(len, packed.len);
    assert_code(0, coxi_values_unpack(packed.data, packed.len, found, &n));
    assert_int_equal(COXI_VALUES_MAX, n);
    assert_int_equal(COXI_VALUES_MAX - 1, *(const int64_t *)found[n - 1].data);
    uint64_t one_more = COXI_VALUES_MAX + 1;
    memcpy(packed.data, &one_more, sizeof(one_more));
    assert_code(COX_EPROTO, coxi_values_unpack(packed.data, packed.len, found, &n));
    coxi_buffer_fini(&packed);
}

TEST(a_value_that_is_wrong_is_named_and_leaves_the_rest_as_it_was)
{
    char name[COX_NAME_MAX + 2];
    const int64_t one = 1;
    struct coxi_buffer packed = {0};
    memset(name, 'n', sizeof(name));
    name[COX_NAME_MAX] = '\0';
    const struct cox_value good = COX_SCALAR(name, COX_I64, &one);
    const struct cox_value no_type = COX_SCALAR("a", 9, &one);
    const struct cox_value no_data = COX_SCALAR("b", COX_I64, NULL);
    const struct cox_value too_big = COX_VECTOR("c", COX_I64, UINT64_MAX / 2, &one);
    struct cox_value too_high = {"d", COX_I64, COX_RANK_MAX + 1, {0}, &one};
    assert_code(COX_EINVAL, coxi_values_add(&packed, &no_type));
    assert_int_equal(0, packed.len);
    assert_code(0, coxi_values_add(&packed, &good));
    size_t len = packed.len;
    assert_code(COX_EINVAL, coxi_values_add(&packed, &no_type));
    assert_error_names("'a'");
    assert_code(COX_EINVAL, coxi_values_add(&packed, &no_data));
    assert_error_names("'b'");
    assert_code(COX_ELIMIT, coxi_values_add(&packed, &too_big));
    assert_error_names("'c'");
    assert_code(COX_EINVAL, coxi_values_add(&packed, &too_high));
    assert_error_names("'d'");
    name[COX_NAME_MAX] = 'n';
    name[COX_NAME_MAX + 1] = '\0';
    assert_code(COX_EINVAL, coxi_values_add(&packed, &good));
    assert_error_names("nnnn");
    assert_int_equal(len, packed.len);
    struct cox_value found[COXI_VALUES_MAX];
    size_t n = 0;
    assert_code(0, coxi_values_unpack(packed.data, packed.len, found, &n));
    assert_int_equal(1, n);
    assert_int_equal(COX_NAME_MAX, strlen(found[0].name));
    coxi_buffer_fini(&packed);
}

/* ---- bytes from a peer */

/* Unpacks the bytes from memory of exactly their length, and reads all values. */
static int unpack_exactly(const uint8_t *bytes, size_t len)
{
    struct cox_value found[COXI_VALUES_MAX];
    size_t n = 0;
    uint8_t *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int r = coxi_values_unpack(copy, len, found, &n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t value_bytes = 0;
        assert_true(found[i].rank <= COX_RANK_MAX);
        assert_code(0, coxi_shape_bytes(found[i].dtype, found[i].rank, found[i].shape,
                                        &value_bytes));
        const uint8_t *data = found[i].data;
        assert_true(data >= copy && value_bytes <= (size_t)(copy + len - data));
        assert_true((const uint8_t *)found[i].name + strlen(found[i].name) <
                    copy + len);
    }
    free(copy);
    return r;
}

TEST(values_cut_short_anywhere_are_eproto)
{
    struct coxi_buffer packed = {0};
    pack_sample(&packed);
    for (size_t len = 1; len < packed.len; len++) {
        assert_code(COX_EPROTO, unpack_exactly(packed.data, len));
    }
    assert_code(0, unpack_exactly(packed.data, packed.len));
    coxi_buffer_fini(&packed);
}

/* After the count come the first value's head, shape and name. */
TEST(a_name_of_another_length_than_told_is_eproto)
{
    const int64_t one = 1;
    const struct cox_value value = COX_VECTOR("seven77", COX_I64, 1, &one);
    struct coxi_buffer packed = {0};
    assert_code(0, coxi_values_add(&packed, &value));
    char *name = (char *)packed.data + 8 + 8 + 8;
    assert_string_equal("seven77", name);
    name[3] = '\0';
    assert_code(COX_EPROTO, unpack_exactly(packed.data, packed.len));
    name[3] = 'e';
    name[7] = '7';
    assert_code(COX_EPROTO, unpack_exactly(packed.data, packed.len));
    name[7] = '\0';
    assert_code(0, unpack_exactly(packed.data, packed.len));
    coxi_buffer_fini(&packed);
}

TEST(values_with_changed_bytes_stay_inside_what_was_sent)
{
    enum { ROUNDS = 20000 };
    struct coxi_buffer packed = {0};
    uint64_t rng = 7;
    int refused = 0;
    pack_sample(&packed);
    uint8_t *changed = malloc(packed.len);
    assert_non_null(changed);
    for (int i = 0; i < ROUNDS; i++) {
        memcpy(changed, packed.data, packed.len);
        for (uint64_t k = coxi_rand(&rng) % 3; k < 3; k++) {
            changed[coxi_rand(&rng) % packed.len] = (uint8_t)coxi_rand(&rng);
        }
        int r = unpack_exactly(changed, packed.len);
        assert_true(r == 0 || r == COX_EPROTO);
        refused += r != 0;
    }
    assert_true(refused > ROUNDS / 4 && refused < ROUNDS);
    free(changed);
    coxi_buffer_fini(&packed);
}

TEST(garbage_is_eproto)
{
    uint64_t garbage[32];
    uint64_t rng = 8;
    for (int i = 0; i < 20000; i++) {
        for (size_t k = 0; k < 32; k++) {
            garbage[k] = coxi_rand(&rng);
        }
        garbage[0] = i % 2 == 0 ? 1 + garbage[0] % COXI_VALUES_MAX : garbage[0];
        garbage[1] &= 0x0807ff; /* a short name, few dimensions */
        int r = unpack_exactly((const uint8_t *)garbage,
                               1 + coxi_rand(&rng) % sizeof(garbage));
        assert_code(COX_EPROTO, r);
    }
}
