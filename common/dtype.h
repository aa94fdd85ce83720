/* Element types and the values (named tensors) that arguments and results are made
 * of. */
#ifndef COXI_COMMON_DTYPE_H
#define COXI_COMMON_DTYPE_H

#include "common/buffer.h"
#include "coxswain/types.h"

enum { COXI_VALUES_MAX = 64 }; /* arguments of a call, results of a step */

/* Bytes of an element; 0 if the number is no element type. */
size_t coxi_dtype_size(uint32_t dtype);

/* The name of a type as in safetensors ("F32" ...), or NULL; the type of a name,
 * or 0. */
const char *coxi_dtype_name(uint32_t dtype);
uint32_t coxi_dtype_parse(const char *name);

/* The most bytes of a variable or value: more than any machine has, but so few that the
 * sum of a few such sizes cannot overflow. */
#define COXI_SHAPE_BYTES_MAX ((size_t)1 << 48)

/* The number of bytes of a shape's elements. COX_ELIMIT: more than
 * COXI_SHAPE_BYTES_MAX. COX_EINVAL: there is no such type or rank. */
int coxi_shape_bytes(uint32_t dtype, uint32_t rank, const uint64_t *shape, size_t *ret);

/* Appends `value` to the packed form in `out`, which begins at the buffer's start;
 * `out` may be empty. COX_EINVAL: the text names the value that is wrong. COX_ELIMIT:
 * there are too many values. */
int coxi_values_add(struct coxi_buffer *out, const struct cox_value *value);

/* Bytes of the packed form of `n` values; errors as in coxi_values_add. */
int coxi_values_size(const struct cox_value *values, size_t n, size_t *ret);

/* The number of values in a valid packed form. */
size_t coxi_values_count(const void *bytes, size_t len);

/*
 * Unpacks values from `len` bytes (8-aligned; 0 bytes are no values); the values point
 * into the bytes. COX_EPROTO: this is no packed form; the bytes may come from a peer.
 */
int coxi_values_unpack(const void *bytes, size_t len,
                       struct cox_value ret[COXI_VALUES_MAX], size_t *ret_n);

enum { COXI_NAMES_TEXT = 400 }; /* bytes with the final NUL */

/* The names of values for the text of an error, "x, y", cut if they are too many;
 * "nothing" if there are no values. */
void coxi_values_names(const struct cox_value *values, size_t n,
                       char ret[COXI_NAMES_TEXT]);

#endif
