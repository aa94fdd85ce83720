/* See restore_internal.h. Threads: the restore's. Cost: memory for one piece of all
 * arrays. */
#include <stdlib.h>

#include "common/dtype.h"
#include "ps/restore_internal.h"

/* Of the values that are read and copied at a time; REMOTE_BYTES: from a store. */
enum { PIECE_BYTES = 1 << 20, REMOTE_BYTES = 4 << 20 };

/* Facts about the part, for the time when the registry is not held. */
struct source {
    struct coxi_restore_arrays arrays; /* n 0: the part is not in the file */
    uint64_t begin;
    const struct coxi_st_tensor *step_tensor;
    uint64_t step;
};

static int find_part(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, struct source *ret)
{
    uint64_t there;
    if (part->dense == NULL || !coxi_restore_has(restoring, part, NULL, &there)) {
        return 0;
    }
    const struct coxi_variable *v = part->variable;
    size_t n_each = coxi_variable_row_bytes(v) / coxi_dtype_size(v->dtype);
    ret->begin = part->shard->begin;
    ret->arrays.rows = part->shard->count;
    int r = coxi_restore_add(restoring, part, NULL, coxi_dtype_name(v->dtype), n_each,
                             &ret->arrays);
    if (r == 0) {
        r = coxi_restore_add_states(restoring, part, n_each, &ret->arrays);
    }
    return r == 0 ? coxi_restore_find_step(restoring, part, &ret->step_tensor) : r;
}

/* Copies rows that were read into the store. */
static int load_rows(struct coxi_restoring *restoring, size_t part,
                     const struct source *source, uint64_t first, uint64_t n,
                     const void *const at[COXI_RESTORE_ARRAYS_MAX])
{
    const float *states[COXI_STATES_MAX] = {NULL};
    for (size_t i = 1; i < source->arrays.n; i++) {
        states[i - 1] = at[i];
    }
    int r = coxi_restore_enter(restoring);
    if (r == 0) {
        coxi_dense_load(restoring->store->parts[part].dense, source->begin + first, n,
                        at[0], states, source->step);
        coxi_restore_leave(restoring);
    }
    return r;
}

static int load_part(struct coxi_restoring *restoring, size_t part,
                     const struct source *source)
{
    const void *at[COXI_RESTORE_ARRAYS_MAX] = {NULL};
    size_t bytes = coxi_st_is_remote(restoring->file) ? REMOTE_BYTES : PIECE_BYTES;
    uint64_t most = 1 + bytes / source->arrays.all[0].item_bytes;
    uint64_t rows = source->arrays.rows;
    void *room = coxi_restore_room(&source->arrays, most < rows ? most : rows);
    int r = room != NULL ? 0 : COX_ENOMEM;
    for (uint64_t first = 0, n; r == 0 && first < rows; first += n) {
        n = rows - first < most ? rows - first : most;
        r = coxi_restore_read_rows(restoring, &source->arrays, first, n, room, at);
        r = r == 0 ? load_rows(restoring, part, source, first, n, at) : r;
    }
    free(room);
    return r;
}

int coxi_restore_dense(struct coxi_restoring *restoring, size_t part)
{
    struct source source = {.begin = 0};
    int r = coxi_restore_enter(restoring);
    if (r != 0) {
        return r;
    }
    r = find_part(restoring, &restoring->store->parts[part], &source);
    coxi_restore_leave(restoring);
    if (r != 0 || source.arrays.n == 0) {
        return r;
    }
    r = coxi_restore_read(restoring, source.step_tensor, &source.step,
                          sizeof(source.step));
    return r == 0 ? load_part(restoring, part, &source) : r;
}
