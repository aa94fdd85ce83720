/* See elements.h. */
#include "common/elements.h"

#include <string.h>

#include "coxswain/types.h"

bool coxi_elements_take(uint32_t dtype, enum coxi_op op)
{
    bool counts = dtype != COX_BF16 && dtype != COX_F16;
    switch (op) {
    case COXI_OP_ASSIGN:
        return true;
    case COXI_OP_ADD:
    case COXI_OP_MIN:
    case COXI_OP_MAX:
        return counts;
    case COXI_OP_GRADIENT:
    case COXI_OP_RATE:
    case COXI_OP_ROUND:
    case COXI_OP_COMPENSATED:
        break;
    }
    return false;
}

#define ADD(a, b) ((a) + (b))
/* If one side is a NaN, the result is the other side; `a != a` is true only for a
 * NaN. */
#define LEAST(a, b) ((b) < (a) || (a) != (a) ? (b) : (a))
#define MOST(a, b)  ((b) > (a) || (a) != (a) ? (b) : (a))

#define EACH(type, make)                                                               \
    for (size_t i = 0; i < bytes / sizeof(type); i++) {                                \
        ((type *)to)[i] = (type)(make(((type *)to)[i], ((const type *)from)[i]));      \
    }                                                                                  \
    break

/* combine_<name>: integers are added as type `sum`, which is unsigned and wraps
 * around. */
#define DEFINE_COMBINE(name, type, sum)                                                \
    static void combine_##name(enum coxi_op op, void *restrict to,                     \
                               const void *restrict from, size_t bytes)                \
    {                                                                                  \
        switch (op) {                                                                  \
        case COXI_OP_ADD:                                                              \
            EACH(sum, ADD);                                                            \
        case COXI_OP_MIN:                                                              \
            EACH(type, LEAST);                                                         \
        case COXI_OP_MAX:                                                              \
            EACH(type, MOST);                                                          \
        case COXI_OP_ASSIGN:                                                           \
            memcpy(to, from, bytes);                                                   \
            break;                                                                     \
        case COXI_OP_GRADIENT:                                                         \
        case COXI_OP_RATE:                                                             \
        case COXI_OP_ROUND:                                                            \
        case COXI_OP_COMPENSATED:                                                      \
            break;                                                                     \
        }                                                                              \
    }

DEFINE_COMBINE(f32, float, float)
DEFINE_COMBINE(f64, double, double)
DEFINE_COMBINE(i32, int32_t, uint32_t)
DEFINE_COMBINE(i64, int64_t, uint64_t)
DEFINE_COMBINE(u8, uint8_t, uint8_t)

void coxi_elements_combine(uint32_t dtype, enum coxi_op op, void *to, const void *from,
                           size_t bytes)
{
    switch ((enum cox_dtype)dtype) {
    case COX_F32:
        combine_f32(op, to, from, bytes);
        break;
    case COX_F64:
        combine_f64(op, to, from, bytes);
        break;
    case COX_I32:
        combine_i32(op, to, from, bytes);
        break;
    case COX_I64:
        combine_i64(op, to, from, bytes);
        break;
    case COX_U8:
        combine_u8(op, to, from, bytes);
        break;
    case COX_BF16:
    case COX_F16:
        memcpy(to, from, bytes); /* these types support only assign */
        break;
    }
}
