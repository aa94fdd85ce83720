/*
 * Reading what ps/snapshot.c has written back into the store (coxi_store_restore). A
 * variable that the file has nothing of stays as it is; of one that it has, everything has
 * to be there, in the type and shape that the variable has here.
 *
 * The file is loaded and its checksum taken in one pass, so a file that turns out to be
 * damaged has been loaded; the error says so, and the store has to be claimed anew.
 *
 * Cost: the file is mapped and read once. Threads: the caller's, and some for tables
 * (ps/restore_rows.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/safetensors.h"
#include "ps/restore_rows.h"

/* ---- tensors */

/* Of the types that snapshots are written in: those of variables, and U64. */
static size_t element_bytes(const char *dtype)
{
    return strcmp(dtype, "U64") == 0 ? sizeof(uint64_t)
                                     : coxi_dtype_size(coxi_dtype_parse(dtype));
}

/* The tensor of a part, of `n` elements of that type; NULL where it is not there, with the
 * reason as the error text. */
static const void *find(const struct coxi_st_file *file, const struct coxi_part *part,
                        const char *suffix, const char *dtype, uint64_t n)
{
    char name[COXI_TENSOR_NAME_MAX];
    coxi_part_tensor_name(part, suffix, name);
    const struct coxi_st_tensor *tensor = coxi_st_find(file, name);
    if (tensor == NULL) {
        (void)coxi_error(COX_EFORMAT, "there is no tensor '%s'", name);
        return NULL;
    }
    if (strcmp(tensor->dtype, dtype) != 0 ||
        tensor->bytes != n * element_bytes(dtype)) {
        (void)coxi_error(COX_EFORMAT,
                         "tensor '%s' is %s of %" PRIu64 " bytes, not %s of %" PRIu64
                         " elements",
                         name, tensor->dtype, tensor->bytes, dtype, n);
        return NULL;
    }
    return tensor->data;
}

static bool has(const struct coxi_st_file *file, const struct coxi_part *part,
                const char *suffix, uint64_t *ret_rows)
{
    char name[COXI_TENSOR_NAME_MAX];
    coxi_part_tensor_name(part, suffix, name);
    const struct coxi_st_tensor *tensor = coxi_st_find(file, name);
    if (tensor != NULL) {
        *ret_rows = tensor->rank > 0 ? tensor->shape[0] : 0;
    }
    return tensor != NULL;
}

/* The kinds of state of a part with `rows` rows, `values` values in all. */
static int find_states(const struct coxi_st_file *file, const struct coxi_part *part,
                       uint64_t rows, uint64_t values,
                       const float *ret[COXI_STATES_MAX])
{
    const struct coxi_state_layout *layout = &part->layout;
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        ret[s] = find(file, part, layout->states[s].name, "F32",
                      s < layout->n_slots ? values : rows);
        if (ret[s] == NULL) {
            return COX_EFORMAT;
        }
    }
    return 0;
}

/* How many gradients it has seen; 0 where it has no optimizer. */
static int find_step(const struct coxi_st_file *file, const struct coxi_part *part,
                     uint64_t *ret)
{
    *ret = 0;
    if (part->variable->optimizer.kind == COXI_OPTIMIZER_NONE) {
        return 0;
    }
    const void *step = find(file, part, "step", "U64", 1);
    if (step == NULL) {
        return COX_EFORMAT;
    }
    memcpy(ret, step, sizeof(*ret));
    return 0;
}

/* ---- parts */

/* Read as the disk goes, before they are copied array by array. */
static void sum_dense(struct coxi_st_sum *sum, const struct coxi_part *part, uint64_t n,
                      const void *values, const float *states[COXI_STATES_MAX])
{
    coxi_st_sum_piece(sum, values, n * coxi_dtype_size(part->variable->dtype));
    for (size_t s = 0; s < part->layout.n_slots; s++) {
        coxi_st_sum_piece(sum, states[s], n * sizeof(float));
    }
}

static int load_dense(const struct coxi_st_file *file, const struct coxi_part *part,
                      struct coxi_st_sum *sum)
{
    const struct coxi_variable *v = part->variable;
    uint64_t rows = part->shard->count;
    uint64_t n = rows * (coxi_variable_row_bytes(v) / coxi_dtype_size(v->dtype));
    const float *states[COXI_STATES_MAX];
    uint64_t there;
    uint64_t step;
    if (!has(file, part, NULL, &there)) {
        return 0;
    }
    const void *values = find(file, part, NULL, coxi_dtype_name(v->dtype), n);
    if (values == NULL || find_states(file, part, rows, n, states) != 0 ||
        find_step(file, part, &step) != 0) {
        return COX_EFORMAT;
    }
    sum_dense(sum, part, n, values, states);
    coxi_dense_load(part->dense, part->shard->begin, rows, values, states, step);
    return 0;
}

/* Finds what rows of the table have beside their keys. */
static int find_rows(const struct coxi_st_file *file, const struct coxi_part *part,
                     uint64_t n, struct coxi_table_rows *ret)
{
    uint64_t n_values = n * coxi_table_dim(part->variable);
    ret->n = n;
    ret->keys = find(file, part, "keys", "U64", n);
    ret->values = find(file, part, "values", "F32", n_values);
    if (ret->keys == NULL || ret->values == NULL ||
        find_states(file, part, n, n_values, ret->states) != 0) {
        return COX_EFORMAT;
    }
    if (coxi_table_ages(part->table)) {
        ret->last = find(file, part, "last", "U64", n);
        ret->made = find(file, part, "made", "U64", n);
        ret->updates = find(file, part, "updates", "U64", n);
        if (ret->last == NULL || ret->made == NULL || ret->updates == NULL) {
            return COX_EFORMAT;
        }
    }
    return 0;
}

/* Drops the rows that went since the snapshot that this one builds on. */
static int drop_removed(const struct coxi_st_file *file, const struct coxi_part *part)
{
    uint64_t n;
    if (!has(file, part, "removed", &n)) {
        return 0;
    }
    const uint64_t *removed = find(file, part, "removed", "U64", n);
    if (removed == NULL) {
        return COX_EFORMAT;
    }
    coxi_table_drop(part->table, removed, n);
    return 0;
}

/* The step comes before the rows, which count their age by it, and no row goes while they
 * are loaded: the table is to be what was cut. */
static int load_table(const struct coxi_st_file *file, const struct coxi_part *part,
                      struct coxi_st_sum *sum)
{
    struct coxi_table_rows rows = {0};
    uint64_t n;
    uint64_t step;
    if (!has(file, part, "keys", &n)) {
        return 0;
    }
    int r = find_rows(file, part, n, &rows);
    if (r == 0) {
        r = find_step(file, part, &step);
    }
    if (r == 0) {
        coxi_table_raise_step(part->table, step);
        r = drop_removed(file, part);
    }
    return r == 0 ? coxi_restore_rows(sum, part, &rows) : r;
}

/* ---- the store */

/* What the file says of itself, against what it should be. */
static int check_file(const struct coxi_store *store, const struct coxi_st_file *file,
                      bool whole)
{
    char run[32];
    char ps[32];
    const char *its_run = coxi_st_metadata(file, "run");
    const char *its_ps = coxi_st_metadata(file, "ps");
    (void)snprintf(run, sizeof(run), "%016" PRIx64, store->session.run);
    (void)snprintf(ps, sizeof(ps), "%" PRIu32, store->ps_index);
    if (its_run == NULL || strcmp(its_run, run) != 0) {
        return coxi_error(COX_EFORMAT, "it is of run %s, not of run %s",
                          its_run != NULL ? its_run : "(unknown)", run);
    }
    if (its_ps == NULL || strcmp(its_ps, ps) != 0) {
        return coxi_error(COX_EFORMAT, "it is of ps %s, not of ps %s",
                          its_ps != NULL ? its_ps : "(unknown)", ps);
    }
    if ((coxi_st_metadata(file, "base") == NULL) != whole) {
        return coxi_error(COX_EFORMAT, whole ? "it builds on another snapshot"
                                             : "it builds on no other snapshot");
    }
    return 0;
}

/* A set of what the request says. */
static int load_applied(const struct coxi_restore *restore, struct coxi_applied **ret)
{
    struct coxi_applied_list list;
    struct coxi_applied *applied;
    int r =
        coxi_applied_list_copy(restore->watermark, restore->applied, restore->n_applied,
                               restore->touched, restore->n_touched, &list);
    if (r != 0) {
        return r;
    }
    r = coxi_applied_new(&applied);
    if (r == 0) {
        r = coxi_applied_load(applied, &list);
        if (r != 0) {
            coxi_applied_free(applied);
        } else {
            *ret = applied;
        }
    }
    coxi_applied_list_fini(&list);
    return r;
}

static int load_parts(const struct coxi_store *store, const struct coxi_st_file *file,
                      struct coxi_st_sum *sum)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < store->n_parts; i++) {
        const struct coxi_part *part = &store->parts[i];
        if (part->table != NULL) {
            r = load_table(file, part, sum);
        } else if (part->dense != NULL) {
            r = load_dense(file, part, sum);
        }
    }
    return r;
}

/* Loads all that there is, and tells whether it was worth it: of a damaged file, that it is
 * damaged, whatever else may be wrong with it. */
static int load_file(const struct coxi_store *store, const struct coxi_restore *restore,
                     const struct coxi_st_file *file)
{
    struct coxi_st_sum *sum;
    int r = coxi_st_sum_new(file, &sum);
    if (r != 0) {
        return r;
    }
    r = check_file(store, file, restore->at == 0);
    if (r == 0) {
        r = load_parts(store, file, sum);
    }
    uint32_t found = coxi_st_sum_end(sum);
    if (found != restore->crc32) {
        r = coxi_error(COX_ECHECKSUM, "it is damaged: crc32 %08x where %08x belongs",
                       found, restore->crc32);
    }
    coxi_st_sum_free(sum);
    return r;
}

static int load(struct coxi_store *store, const struct coxi_restore *restore)
{
    struct coxi_st_file *file;
    struct coxi_applied *applied = NULL;
    int r = coxi_st_open(restore->path, restore->bytes, NULL, &file);
    if (r != 0) {
        return r;
    }
    r = load_file(store, restore, file);
    if (r == 0) {
        r = load_applied(restore, &applied);
    }
    if (r == 0) {
        coxi_applied_free(store->applied);
        store->applied = applied;
        store->restored = restore->round;
        store->restored_at = restore->at;
    } else {
        r = coxi_error(r, "%s: %.400s", restore->path, coxi_error_text());
    }
    coxi_st_close(file);
    return r;
}

int coxi_store_restore(struct coxi_store *store, const struct coxi_restore *restore)
{
    (void)pthread_rwlock_wrlock(&store->registry);
    int r = coxi_store_fenced(store, &restore->session);
    bool same = store->restored == restore->round;
    if (r == 0 && restore->at > 0 && (!same || store->restored_at + 1 < restore->at)) {
        r = coxi_error(COX_EINVAL, "%s builds on what ps %" PRIu32 " was not given",
                       restore->path, store->ps_index);
    } else if (r == 0 && (!same || store->restored_at < restore->at)) {
        r = load(store, restore);
    }
    (void)pthread_rwlock_unlock(&store->registry);
    return r;
}
