/* See restore_internal.h. Threads: any. Cost: a look through the file's list of tensors
 * for each one that is found. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/error.h"
#include "ps/restore_internal.h"

/* Bytes of an element in the types that snapshots have: those of variables, and U64. */
static size_t element_bytes(const char *dtype)
{
    return strcmp(dtype, "U64") == 0 ? sizeof(uint64_t)
                                     : coxi_dtype_size(coxi_dtype_parse(dtype));
}

const struct coxi_st_tensor *coxi_restore_find(const struct coxi_restoring *restoring,
                                               const struct coxi_part *part,
                                               const char *suffix, const char *dtype,
                                               uint64_t n)
{
    char name[COXI_TENSOR_NAME_MAX];
    coxi_part_tensor_name(part, suffix, name);
    const struct coxi_st_tensor *tensor = coxi_st_find(restoring->file, name);
    if (tensor == NULL) {
        (void)coxi_error(COX_EFORMAT, "there is no tensor '%s'", name);
        return NULL;
    }
    uint64_t bytes = 0;
    if (strcmp(tensor->dtype, dtype) != 0 ||
        __builtin_mul_overflow(n, element_bytes(dtype), &bytes) ||
        tensor->bytes != bytes) {
        (void)coxi_error(COX_EFORMAT,
                         "tensor '%s' is %s of %" PRIu64 " bytes, not %s of %" PRIu64
                         " elements",
                         name, tensor->dtype, tensor->bytes, dtype, n);
        return NULL;
    }
    return tensor;
}

bool coxi_restore_has(const struct coxi_restoring *restoring,
                      const struct coxi_part *part, const char *suffix,
                      uint64_t *ret_rows)
{
    char name[COXI_TENSOR_NAME_MAX];
    coxi_part_tensor_name(part, suffix, name);
    const struct coxi_st_tensor *tensor = coxi_st_find(restoring->file, name);
    if (tensor != NULL) {
        *ret_rows = tensor->rank > 0 ? tensor->shape[0] : 0;
    }
    return tensor != NULL;
}

int coxi_restore_find_step(const struct coxi_restoring *restoring,
                           const struct coxi_part *part,
                           const struct coxi_st_tensor **ret)
{
    *ret = NULL;
    if (part->variable->optimizer.kind == COXI_OPTIMIZER_NONE) {
        return 0;
    }
    *ret = coxi_restore_find(restoring, part, "step", "U64", 1);
    return *ret != NULL ? 0 : COX_EFORMAT;
}

int coxi_restore_read(const struct coxi_restoring *restoring,
                      const struct coxi_st_tensor *tensor, void *ret, size_t bytes)
{
    memset(ret, 0, bytes);
    return tensor != NULL ? coxi_st_sum_read(restoring->sum, tensor, 0, ret, bytes) : 0;
}

/* ---- arrays */

int coxi_restore_add(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, const char *suffix,
                     const char *dtype, size_t n_each,
                     struct coxi_restore_arrays *arrays)
{
    uint64_t n = 0;
    bool fits = !__builtin_mul_overflow(arrays->rows, n_each, &n);
    const struct coxi_st_tensor *tensor =
        coxi_restore_find(restoring, part, suffix, dtype, fits ? n : UINT64_MAX);
    if (tensor == NULL) {
        return COX_EFORMAT;
    }
    arrays->all[arrays->n++] =
        (struct coxi_restore_array){tensor, n_each * element_bytes(dtype)};
    return 0;
}

int coxi_restore_add_states(const struct coxi_restoring *restoring,
                            const struct coxi_part *part, size_t n_values,
                            struct coxi_restore_arrays *arrays)
{
    const struct coxi_state_layout *layout = &part->layout;
    int r = 0;
    for (size_t s = 0; r == 0 && s < layout->n_slots + layout->n_row; s++) {
        r = coxi_restore_add(restoring, part, layout->states[s].name, "F32",
                             s < layout->n_slots ? n_values : 1, arrays);
    }
    return r;
}

/* Bytes of that many rows of an array, in a room: aligned for the next array. */
static size_t room_bytes(const struct coxi_restore_array *array, uint64_t rows)
{
    return coxi_align(rows * array->item_bytes, 64);
}

void *coxi_restore_room(const struct coxi_restore_arrays *arrays, uint64_t rows)
{
    size_t bytes = 64;
    for (size_t i = 0; i < arrays->n; i++) {
        bytes += room_bytes(&arrays->all[i], rows);
    }
    void *room = coxi_aligned_new(bytes);
    if (room == NULL) {
        (void)coxi_error_memory("restoring a variable");
    }
    return room;
}

int coxi_restore_read_rows(const struct coxi_restoring *restoring,
                           const struct coxi_restore_arrays *arrays, uint64_t first,
                           uint64_t n, void *room,
                           const void *at[COXI_RESTORE_ARRAYS_MAX])
{
    uint8_t *to = room;
    int r = 0;
    for (size_t i = 0; r == 0 && i < arrays->n; i++) {
        const struct coxi_restore_array *array = &arrays->all[i];
        r = coxi_st_sum_read(restoring->sum, array->tensor, first * array->item_bytes,
                             to, n * array->item_bytes);
        at[i] = to;
        to += room_bytes(array, n);
    }
    return r;
}
