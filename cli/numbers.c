/* See numbers.h. */
#include "cli/numbers.h"

#include <float.h>
#include <stdbool.h>
#include <string.h>

#include "common/dtype.h"
#include "common/floats.h"

/* U64 is no type of variables, but keys and steps have it. */
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
    uint32_t type = coxi_dtype_parse(dtype);
    float wide = 0;
    switch (type) {
    case COX_F32:
        return (double)((const float *)data)[i];
    case COX_F64:
        return ((const double *)data)[i];
    case COX_I32:
        return (double)((const int32_t *)data)[i];
    case COX_I64:
        return (double)((const int64_t *)data)[i];
    case COX_BF16:
    case COX_F16:
        coxi_floats_widen(type, (const uint16_t *)data + i, 1, &wide);
        return (double)wide;
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

struct summing {
    const char *dtype;
    size_t size; /* of an element */
    struct coxi_summary summary;
};

static int sum_some(void *arg, const void *data, size_t len)
{
    struct summing *summing = arg;
    struct coxi_summary *summary = &summing->summary;
    uint64_t n = len / summing->size;
    for (uint64_t i = 0; i < n; i++) {
        double x = coxi_number(summing->dtype, data, i);
        summary->sum += x;
        summary->least = x < summary->least ? x : summary->least;
        summary->most = x > summary->most ? x : summary->most;
    }
    summary->elements += n;
    return 0;
}

int coxi_summarize(const struct coxi_st_file *file, const struct coxi_st_tensor *tensor,
                   struct coxi_summary *ret)
{
    struct summing summing = {.dtype = tensor->dtype,
                              .size = coxi_number_size(tensor->dtype),
                              .summary = {.least = DBL_MAX, .most = -DBL_MAX}};
    int r = summing.size > 0 ? coxi_st_stream(file, tensor, sum_some, &summing) : 0;
    if (r == 0) {
        *ret = summing.summary;
    }
    return r;
}
