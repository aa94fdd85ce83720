/* Element types and the values (named tensors) that arguments and results are made
 * of. */
#ifndef COXI_COMMON_DTYPE_H
#define COXI_COMMON_DTYPE_H

#include "common/buffer.h"
#include "coxswain/types.h"

enum { COXI_VALUES_MAX = 64 }; /* arguments of a call, results of a step */

/* Bytes an element takes; 0 for a number that is no element type. */
size_t coxi_dtype_size(uint32_t dtype);

/* "F32" ... as safetensors names it, or NULL; and back, or 0. */
const char *coxi_dtype_name(uint32_t dtype);
uint32_t coxi_dtype_parse(const char *name);

/*
 * Number of elements of a shape and bytes they take; COX_ELIMIT where a size_t cannot
 * count them, COX_EINVAL for a rank or type that is none.
 */
int coxi_shape_bytes(uint32_t dtype, uint32_t rank, const uint64_t *shape, size_t *ret);

/*
 * Appends `value` to a packed form, which `out` holds from its start (empty: the
 * first). COX_EINVAL names the value that is wrong; COX_ELIMIT: it would be one too
 * many.
 */
int coxi_values_add(struct coxi_buffer *out, const struct cox_value *value);

/* Bytes of the packed form of `n` values; errors as of coxi_values_add. */
int coxi_values_size(const struct cox_value *values, size_t n, size_t *ret);

/* How many values a packed form has; it is one. */
size_t coxi_values_count(const void *bytes, size_t len);

/*
 * Values of `len` packed bytes (8-aligned; none at all is no values) that point into
 * them. COX_EPROTO: not a packed form; the bytes may come from a peer.
 */
int coxi_values_unpack(const void *bytes, size_t len,
                       struct cox_value ret[COXI_VALUES_MAX], size_t *ret_n);

enum { COXI_NAMES_TEXT = 400 }; /* bytes with the final NUL */

/* The names of values for an error's text, "x, y", cut where there are too many; "nothing" of
 * none. */
void coxi_values_names(const struct cox_value *values, size_t n,
                       char ret[COXI_NAMES_TEXT]);

#endif
