/*
 * Shared by the files of ps/restore:
 *
 *   restore.c         a restore from its beginning to its end
 *   restore_find.c    finds tensors in the snapshot's file, and reads them
 *   restore_dense.c   loads parts of dense variables
 *   restore_table.c   loads tables; restore_rows.c: their rows, by several threads
 */
#ifndef COXI_PS_RESTORE_INTERNAL_H
#define COXI_PS_RESTORE_INTERNAL_H

#include "checkpoint/safetensors.h"
#include "ps/store_internal.h"

/* A restore under way. */
struct coxi_restoring {
    struct coxi_store *store;
    const struct coxi_restore *request;
    const struct coxi_file_source *source; /* NULL: the file of the request */
    const struct coxi_st_file *file;
    struct coxi_st_sum *sum;
    unsigned abandons; /* the store's, when this restore began */
};

/*
 * Takes the registry (read) if this restore is still under way. Otherwise the registry
 * is not held: COX_EFENCED (the run was forgotten), COX_EPSLOST (the restore was
 * abandoned). Any thread.
 */
int coxi_restore_enter(struct coxi_restoring *restoring)
    COXI_ACQUIRES_SHARED_IF_0(restoring->store->registry);
void coxi_restore_leave(struct coxi_restoring *restoring)
    COXI_RELEASES_ANY(restoring->store->registry);

/* ---- tensors: the registry is held while they are found, not while they are read */

/* Finds the tensor of a part, which must have `n` elements of type `dtype`. NULL: it is
 * not there, for the reason in the error text. */
const struct coxi_st_tensor *coxi_restore_find(const struct coxi_restoring *restoring,
                                               const struct coxi_part *part,
                                               const char *suffix, const char *dtype,
                                               uint64_t n);

/* True if the part has that tensor; sets *ret_rows. */
bool coxi_restore_has(const struct coxi_restoring *restoring,
                      const struct coxi_part *part, const char *suffix,
                      uint64_t *ret_rows);

/* Finds the tensor "step"; *ret NULL: the part has no optimizer. COX_EFORMAT. */
int coxi_restore_find_step(const struct coxi_restoring *restoring,
                           const struct coxi_part *part,
                           const struct coxi_st_tensor **ret);

/* Reads all of a small tensor, `bytes` bytes; tensor NULL: zeros. Errors of
 * coxi_st_read. */
int coxi_restore_read(const struct coxi_restoring *restoring,
                      const struct coxi_st_tensor *tensor, void *ret, size_t bytes);

/* The arrays of a part, which have an item for each of its rows. */
struct coxi_restore_array {
    const struct coxi_st_tensor *tensor;
    size_t item_bytes;
};

enum { COXI_RESTORE_ARRAYS_MAX = 2 + COXI_STATES_MAX + 3 };

struct coxi_restore_arrays {
    struct coxi_restore_array all[COXI_RESTORE_ARRAYS_MAX];
    size_t n;
    uint64_t rows;
};

/* Finds an array of the part, with `n_each` elements for each row. COX_EFORMAT. */
int coxi_restore_add(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, const char *suffix,
                     const char *dtype, size_t n_each,
                     struct coxi_restore_arrays *arrays);

/* Finds each kind of state of a part, `n_values` numbers a row. COX_EFORMAT. */
int coxi_restore_add_states(const struct coxi_restoring *restoring,
                            const struct coxi_part *part, size_t n_values,
                            struct coxi_restore_arrays *arrays);

/* Memory for `rows` rows of all arrays, for free(); NULL: COX_ENOMEM. */
void *coxi_restore_room(const struct coxi_restore_arrays *arrays, uint64_t rows);

/* Reads the rows [first, first + n) of all arrays into the room, adds them to the
 * checksum, and sets at[] to their places. Errors of coxi_st_read. Any thread. */
int coxi_restore_read_rows(const struct coxi_restoring *restoring,
                           const struct coxi_restore_arrays *arrays, uint64_t first,
                           uint64_t n, void *room,
                           const void *at[COXI_RESTORE_ARRAYS_MAX]);

/* ---- parts: load one if the file has it. Errors of coxi_restore_enter and
 * coxi_st_read; COX_EFORMAT, COX_ENOMEM, COX_ELIMIT */

int coxi_restore_dense(struct coxi_restoring *restoring, size_t part);
int coxi_restore_table(struct coxi_restoring *restoring, size_t part);

/* Loads the rows of a table: arrays "keys", "values", its states, and, if `ages`,
 * "last", "made" and "updates". */
int coxi_restore_rows(struct coxi_restoring *restoring, size_t part,
                      const struct coxi_restore_arrays *arrays, bool ages);

#endif
