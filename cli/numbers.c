/* See numbers.h. */
#include "cli/numbers.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "common/dtype.h"

static double from_bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return (double)value;
}

static double from_f16(uint16_t bits)
{
    enum { EXPONENT_BIAS = 127 - 15 };
    uint32_t exponent = bits >> 10 & 31;
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t fraction = (uint32_t)(bits & 0x3ff) << 13;
    float value;
    if (exponent == 0) { /* zero, or subnormal: a multiple of 2^-24 */
        double magnitude = (double)(bits & 0x3ff) * 0x1p-24;
        return sign != 0 ? -magnitude : magnitude;
    }
    uint32_t wide =
        sign | fraction | (exponent == 31 ? 255u : exponent + EXPONENT_BIAS) << 23;
    memcpy(&value, &wide, sizeof(value));
    return (double)value;
}

/* U64 is not among the types of variables; keys and steps have it. */
static bool is_u64(const char *dtype)
{
    return strcmp(dtype, "U64") == 0;
}

size_t coxi_number_size(const char *dtype)
{
    return is_u64(dtype) ? sizeof(uint64_t) : coxi_dtype_size(coxi_dtype_parse(dtype));
}

double coxi_number(const char *dtype, const void *data, uint64_t i)
{
    if (is_u64(dtype)) {
        return (double)((const uint64_t *)data)[i];
    }
    switch (coxi_dtype_parse(dtype)) {
    case COX_F32:
        return (double)((const float *)data)[i];
    case COX_F64:
        return ((const double *)data)[i];
    case COX_I32:
        return (double)((const int32_t *)data)[i];
    case COX_I64:
        return (double)((const int64_t *)data)[i];
    case COX_BF16:
        return from_bf16(((const uint16_t *)data)[i]);
    case COX_F16:
        return from_f16(((const uint16_t *)data)[i]);
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

struct coxi_summary coxi_summarize(const struct coxi_st_tensor *tensor)
{
    struct coxi_summary summary = {.least = DBL_MAX, .most = -DBL_MAX};
    size_t size = coxi_number_size(tensor->dtype);
    summary.elements = size > 0 ? tensor->bytes / size : 0;
    for (uint64_t i = 0; i < summary.elements; i++) {
        double x = coxi_number(tensor->dtype, tensor->data, i);
        summary.sum += x;
        summary.least = x < summary.least ? x : summary.least;
        summary.most = x > summary.most ? x : summary.most;
    }
    return summary;
}
