/*
 * See dtype.h. Packed form of values, little-endian, each item padded to 8 bytes:
 *   u64 count, then for each value:
 *     {u16 name_len, u8 dtype, u8 rank, u32 0}, u64 shape[rank], name and its
 *     NUL, elements
 */
#include "common/dtype.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

struct packed_value {
    uint16_t name_len;
    uint8_t dtype;
    uint8_t rank;
    uint32_t zero;
};

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [COX_F32] = {"F32", 4}, [COX_F64] = {"F64", 8}, [COX_I32] = {"I32", 4},
    [COX_I64] = {"I64", 8}, [COX_U8] = {"U8", 1},   [COX_BF16] = {"BF16", 2},
    [COX_F16] = {"F16", 2},
};

enum { N_DTYPES = sizeof(dtypes) / sizeof(*dtypes) };

size_t coxi_dtype_size(uint32_t dtype)
{
    return dtype < N_DTYPES ? dtypes[dtype].size : 0;
}

const char *coxi_dtype_name(uint32_t dtype)
{
    return dtype < N_DTYPES ? dtypes[dtype].name : NULL;
}

uint32_t coxi_dtype_parse(const char *name)
{
    for (uint32_t i = 1; i < N_DTYPES; i++) {
        if (strcmp(name, dtypes[i].name) == 0) {
            return i;
        }
    }
    return 0;
}

int coxi_shape_bytes(uint32_t dtype, uint32_t rank, const uint64_t *shape, size_t *ret)
{
    size_t bytes = coxi_dtype_size(dtype);
    if (bytes == 0) {
        return coxi_error(COX_EINVAL, "%u is no element type", dtype);
    }
    if (rank > COX_RANK_MAX) {
        return coxi_error(COX_EINVAL, "rank %u is above the highest, %d", rank,
                          COX_RANK_MAX);
    }
    bool fits = true;
    for (uint32_t i = 0; i < rank && fits; i++) {
        fits = !__builtin_mul_overflow(bytes, shape[i], &bytes);
    }
    if (!fits || bytes > COXI_SHAPE_BYTES_MAX) {
        return coxi_error(COX_ELIMIT, "a tensor of that shape has too many bytes");
    }
    *ret = bytes;
    return 0;
}

/* Checks that the value can be packed; sets its name's length and its elements'
 * bytes. */
static int check_value(const struct cox_value *value, size_t *ret_name_len,
                       size_t *ret_bytes)
{
    const char *name = value->name != NULL ? value->name : "";
    size_t name_len = strlen(name);
    size_t bytes = 0;
    if (name_len > COX_NAME_MAX) {
        return coxi_error(COX_EINVAL, "the name '%.32s...' is longer than %d bytes",
                          name, COX_NAME_MAX);
    }
    int r = coxi_shape_bytes(value->dtype, value->rank, value->shape, &bytes);
    if (r != 0) {
        return coxi_error(r, "value '%s': %s", name, coxi_error_text());
    }
    if (bytes > 0 && value->data == NULL) {
        return coxi_error(COX_EINVAL, "value '%s' has no data", name);
    }
    *ret_name_len = name_len;
    *ret_bytes = bytes;
    return 0;
}

int coxi_values_size(const struct cox_value *values, size_t n, size_t *ret)
{
    size_t size = n > 0 ? sizeof(uint64_t) : 0;
    for (size_t i = 0; i < n; i++) {
        size_t name_len = 0;
        size_t bytes = 0;
        int r = check_value(&values[i], &name_len, &bytes);
        if (r != 0) {
            return r;
        }
        size_t head = sizeof(struct packed_value) + values[i].rank * sizeof(uint64_t) +
                      coxi_align(name_len + 1, 8);
        if (bytes > SIZE_MAX - 8 - size - head) {
            return coxi_error(COX_ELIMIT, "values have too many bytes");
        }
        size += head + coxi_align(bytes, 8);
    }
    *ret = size;
    return 0;
}

void coxi_values_names(const struct cox_value *values, size_t n,
                       char ret[COXI_NAMES_TEXT])
{
    size_t used = (size_t)snprintf(ret, COXI_NAMES_TEXT, "%s", n > 0 ? "" : "nothing");
    for (size_t i = 0; i < n && used < COXI_NAMES_TEXT; i++) {
        used += (size_t)snprintf(ret + used, COXI_NAMES_TEXT - used, "%s%s",
                                 i > 0 ? ", " : "", values[i].name);
    }
}

static int pack_value(const struct cox_value *value, struct coxi_buffer *out)
{
    size_t name_len = 0;
    size_t bytes = 0;
    int r = check_value(value, &name_len, &bytes);
    if (r != 0) {
        return r;
    }
    struct packed_value head = {(uint16_t)name_len, (uint8_t)value->dtype,
                                (uint8_t)value->rank, 0};
    r = coxi_buffer_append(out, &head, sizeof(head));
    if (r == 0) {
        r = coxi_buffer_append(out, value->shape, value->rank * sizeof(*value->shape));
    }
    if (r == 0) {
        r = coxi_buffer_append(out, value->name != NULL ? value->name : "",
                               name_len + 1);
    }
    if (r == 0) {
        r = coxi_buffer_append(out, value->data, bytes);
    }
    return r;
}

int coxi_values_add(struct coxi_buffer *out, const struct cox_value *value)
{
    size_t len_before = out->len;
    uint64_t count = 0;
    int r = out->len == 0 ? coxi_buffer_append(out, &count, sizeof(count)) : 0;
    if (r == 0) {
        memcpy(&count, out->data, sizeof(count));
        r = count == COXI_VALUES_MAX
                ? coxi_error(COX_ELIMIT, "more than %d values", COXI_VALUES_MAX)
                : pack_value(value, out);
    }
    if (r != 0) {
        out->len = len_before;
        return r;
    }
    count++;
    memcpy(out->data, &count, sizeof(count));
    return 0;
}

size_t coxi_values_count(const void *bytes, size_t len)
{
    uint64_t count = 0;
    if (len > 0) {
        memcpy(&count, bytes, sizeof(count));
    }
    return count;
}

/* The next `len` bytes of a packed form, or NULL past its end. */
static const void *take(const uint8_t **at, const uint8_t *end, size_t len)
{
    const uint8_t *bytes = *at;
    size_t left = (size_t)(end - bytes);
    if (len > left || coxi_align(len, 8) > left) {
        return NULL;
    }
    *at = bytes + coxi_align(len, 8);
    return bytes;
}

static bool unpack_value(const uint8_t **at, const uint8_t *end, struct cox_value *ret)
{
    struct cox_value value = {0};
    size_t bytes = 0;
    const struct packed_value *head = take(at, end, sizeof(*head));
    if (head == NULL || head->rank > COX_RANK_MAX || head->name_len > COX_NAME_MAX) {
        return false;
    }
    value.dtype = head->dtype;
    value.rank = head->rank;
    const uint64_t *shape = take(at, end, head->rank * sizeof(*shape));
    value.name = take(at, end, (size_t)head->name_len + 1);
    if (shape == NULL || value.name == NULL ||
        strnlen(value.name, (size_t)head->name_len + 1) != head->name_len ||
        coxi_shape_bytes(head->dtype, head->rank, shape, &bytes) != 0) {
        return false;
    }
    memcpy(value.shape, shape, head->rank * sizeof(*shape));
    value.data = take(at, end, bytes);
    *ret = value;
    return value.data != NULL;
}

int coxi_values_unpack(const void *bytes, size_t len,
                       struct cox_value ret[COXI_VALUES_MAX], size_t *ret_n)
{
    *ret_n = 0;
    if (len == 0) {
        return 0; /* `bytes` may be NULL */
    }
    const uint8_t *at = bytes;
    const uint8_t *end = at + len;
    const uint64_t *count = take(&at, end, sizeof(*count));
    if (count == NULL || *count > COXI_VALUES_MAX) {
        return coxi_error(COX_EPROTO, "malformed values");
    }
    for (size_t i = 0; i < *count; i++) {
        if (!unpack_value(&at, end, &ret[i])) {
            return coxi_error(COX_EPROTO, "malformed values");
        }
    }
    *ret_n = *count;
    return 0;
}
