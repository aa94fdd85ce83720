/*
 * Reads a snapshot's file (ps/snapshot.c) back into the store (coxi_store_restore). A
 * variable that is not in the file stays as it is. If a variable is in the file, all
 * its tensors must be there, in the type and shape that the variable has here.
 *
 * The file is loaded and its checksum computed in one pass, so a damaged file may be
 * loaded before the damage is known; the error then says that the file is damaged.
 * Until the last file of a chain is loaded the store is not ready: peers that pull or
 * commit are told that this ps is lost.
 *
 * The disk may be slow, so nobody waits for it. Files are opened and read without the
 * registry. The registry is held (read) only to copy a piece into the store. The
 * checksum has read the piece from the disk before that. If the run is forgotten
 * meanwhile, `store->restoring` is no longer this restore, and it ends; a part is
 * looked up again each time that the registry is taken.
 *
 * Cost: the file is mapped and read once. The memory of each piece is given back when
 * the piece is in the store, so a restore needs little more than what it loads.
 * Threads: any, one restore at a time, and some more for tables (ps/restore_rows.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/dtype.h"
#include "common/error.h"
#include "ps/restore_rows.h"

enum {
    PIECE_BYTES = 4 << 20, /* of a dense variable, read or copied at a time */
    DROP_MAX = 4096,       /* rows dropped at a time */
};

/* ---- tensors */

/* Bytes of an element in the types that snapshots have: those of variables, and U64. */
static size_t element_bytes(const char *dtype)
{
    return strcmp(dtype, "U64") == 0 ? sizeof(uint64_t)
                                     : coxi_dtype_size(coxi_dtype_parse(dtype));
}

/* Finds the tensor of a part, which must have `n` elements of type `dtype`. NULL: it is
 * not there, for the reason in the error text. */
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

/* Finds each kind of state of a part with `rows` rows and `values` values. */
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

/* Finds the tensor "step"; *ret NULL: the part has no optimizer. */
static int find_step(const struct coxi_st_file *file, const struct coxi_part *part,
                     const void **ret)
{
    *ret = NULL;
    if (part->variable->optimizer.kind == COXI_OPTIMIZER_NONE) {
        return 0;
    }
    *ret = find(file, part, "step", "U64", 1);
    return *ret != NULL ? 0 : COX_EFORMAT;
}

/* Finds the rate's tensor; *ret NULL: the rate was never changed. */
static int find_rate(const struct coxi_st_file *file, const struct coxi_part *part,
                     const void **ret)
{
    uint64_t n;
    *ret = NULL;
    if (!has(file, part, "rate", &n)) {
        return 0;
    }
    *ret = find(file, part, "rate", coxi_dtype_name(COX_F64), COXI_RATE_NUMBERS);
    return *ret != NULL ? 0 : COX_EFORMAT;
}

static uint64_t step_of(const void *step)
{
    uint64_t n = 0;
    if (step != NULL) {
        memcpy(&n, step, sizeof(n));
    }
    return n;
}

/* ---- taking the registry, for a little at a time */

/* The reason why this restore is not under way any more. Registry held. */
static int ended(const struct coxi_restoring *restoring)
{
    const struct coxi_store *store = restoring->store;
    int r = coxi_store_fenced(store, &restoring->request->session);
    return r != 0 ? r
                  : coxi_error(COX_EPSLOST, "ps %" PRIu32 ": the restore was abandoned",
                               store->ps_index);
}

int coxi_restore_enter(struct coxi_restoring *restoring)
{
    coxi_read_lock(&restoring->store->registry);
    if (restoring->store->restoring == restoring) {
        return 0;
    }
    int r = ended(restoring);
    coxi_rw_unlock(&restoring->store->registry);
    return r;
}

void coxi_restore_leave(struct coxi_restoring *restoring)
{
    coxi_rw_unlock(&restoring->store->registry);
}

/* Sets the part's rate to the file's (`from`; NULL: the file has none). */
static int load_rate(struct coxi_restoring *restoring, size_t part, const void *from)
{
    struct coxi_store *store = restoring->store;
    struct coxi_rate rate;
    if (from == NULL) {
        return 0;
    }
    memcpy(&rate, from, sizeof(rate));
    coxi_write_lock(&store->registry);
    int r = store->restoring == restoring ? coxi_part_rate(&store->parts[part], &rate)
                                          : ended(restoring);
    coxi_rw_unlock(&store->registry);
    return r == COX_EINVAL ? coxi_error(COX_EFORMAT, "%s", coxi_error_text()) : r;
}

/* Adds an array to the checksum. This also reads the array from the disk, before it is
 * copied with the registry held. */
static int sum_array(struct coxi_restoring *restoring, const void *array, size_t bytes)
{
    int r = 0;
    for (size_t at = 0, n; r == 0 && at < bytes; at += n) {
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        coxi_st_sum_piece(restoring->sum, (const uint8_t *)array + at, n);
        r = coxi_restore_enter(restoring);
        if (r == 0) {
            coxi_restore_leave(restoring);
        }
    }
    return r;
}

/* Gives the memory of a loaded array back to the system. */
static int drop_array(struct coxi_restoring *restoring, const void *array, size_t bytes)
{
    coxi_st_drop(restoring->file, array, bytes);
    return 0;
}

/* ---- parts of dense variables */

/* The arrays of a part in the file, and the facts about the part that are needed while
 * the registry is not held. */
struct dense_source {
    uint64_t begin;
    uint64_t rows;
    size_t row_bytes;
    size_t row_elements;
    struct coxi_state_layout layout;
    const uint8_t *values; /* NULL: the part is not in the file */
    const float *states[COXI_STATES_MAX];
    const void *step;
};

static int find_dense(const struct coxi_st_file *file, const struct coxi_part *part,
                      struct dense_source *ret)
{
    const struct coxi_variable *v = part->variable;
    uint64_t there;
    if (!has(file, part, NULL, &there)) {
        return 0;
    }
    *ret = (struct dense_source){.begin = part->shard->begin,
                                 .rows = part->shard->count,
                                 .row_bytes = coxi_variable_row_bytes(v),
                                 .layout = part->layout};
    ret->row_elements = ret->row_bytes / coxi_dtype_size(v->dtype);
    uint64_t n = ret->rows * ret->row_elements;
    ret->values = find(file, part, NULL, coxi_dtype_name(v->dtype), n);
    bool whole = ret->values != NULL &&
                 find_states(file, part, ret->rows, n, ret->states) == 0 &&
                 find_step(file, part, &ret->step) == 0;
    return whole ? 0 : COX_EFORMAT;
}

/* Calls `use` for the bytes of the rows [first, first + n) in each array. */
static int for_arrays(struct coxi_restoring *restoring,
                      const struct dense_source *source, uint64_t first, uint64_t n,
                      int (*use)(struct coxi_restoring *restoring, const void *array,
                                 size_t bytes))
{
    const struct coxi_state_layout *layout = &source->layout;
    int r = use(restoring, source->values + first * source->row_bytes,
                n * source->row_bytes);
    for (size_t s = 0; r == 0 && s < layout->n_slots + layout->n_row; s++) {
        size_t of_row = s < layout->n_slots ? source->row_elements : 1;
        r = use(restoring, source->states[s] + first * of_row,
                n * of_row * sizeof(float));
    }
    return r;
}

/* Loads the rows [first, first + n) of the part. */
static int load_rows(struct coxi_restoring *restoring, size_t part,
                     const struct dense_source *source, uint64_t first, uint64_t n)
{
    const float *states[COXI_STATES_MAX];
    for (size_t s = 0; s < source->layout.n_slots + source->layout.n_row; s++) {
        states[s] = source->states[s] +
                    first * (s < source->layout.n_slots ? source->row_elements : 1);
    }
    int r = coxi_restore_enter(restoring);
    if (r == 0) {
        coxi_dense_load(restoring->store->parts[part].dense, source->begin + first, n,
                        source->values + first * source->row_bytes, states,
                        step_of(source->step));
        coxi_restore_leave(restoring);
    }
    return r;
}

static int load_dense(struct coxi_restoring *restoring, size_t part,
                      const struct dense_source *source)
{
    uint64_t most = 1 + PIECE_BYTES / source->row_bytes;
    int r = 0;
    for (uint64_t first = 0, n; r == 0 && first < source->rows; first += n) {
        n = source->rows - first < most ? source->rows - first : most;
        r = for_arrays(restoring, source, first, n, sum_array);
        if (r == 0) {
            r = load_rows(restoring, part, source, first, n);
        }
        (void)for_arrays(restoring, source, first, n, drop_array);
    }
    return r;
}

/* ---- parts of tables */

struct table_source {
    struct coxi_table_rows rows; /* keys NULL: the table is not in the file */
    /* keys dropped since the snapshot that this one builds on */
    const uint64_t *removed;
    uint64_t n_removed;
    const void *step;
};

/* Finds the rows of the table in the file: their keys, values, states and lives. */
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

static int find_table(const struct coxi_st_file *file, const struct coxi_part *part,
                      struct table_source *ret)
{
    uint64_t n;
    if (!has(file, part, "keys", &n)) {
        return 0;
    }
    int r = find_rows(file, part, n, &ret->rows);
    if (r == 0) {
        r = find_step(file, part, &ret->step);
    }
    if (r == 0 && has(file, part, "removed", &ret->n_removed)) {
        ret->removed = find(file, part, "removed", "U64", ret->n_removed);
        r = ret->removed != NULL ? 0 : COX_EFORMAT;
    }
    return r;
}

static int raise_step(struct coxi_restoring *restoring, size_t part, uint64_t step)
{
    int r = coxi_restore_enter(restoring);
    if (r == 0) {
        coxi_table_raise_step(restoring->store->parts[part].table, step);
        coxi_restore_leave(restoring);
    }
    return r;
}

static int drop_removed(struct coxi_restoring *restoring, size_t part,
                        const struct table_source *source)
{
    int r = sum_array(restoring, source->removed, source->n_removed * sizeof(uint64_t));
    for (uint64_t at = 0, n; r == 0 && at < source->n_removed; at += n) {
        n = source->n_removed - at < DROP_MAX ? source->n_removed - at : DROP_MAX;
        r = coxi_restore_enter(restoring);
        if (r == 0) {
            coxi_table_drop(restoring->store->parts[part].table, source->removed + at,
                            n);
            coxi_restore_leave(restoring);
        }
        (void)drop_array(restoring, source->removed + at, n * sizeof(uint64_t));
    }
    return r;
}

/* The table's step is set before its rows are loaded, because rows count their age from
 * it. No row is evicted while they are loaded, because the table must be equal to the
 * cut. */
static int load_table(struct coxi_restoring *restoring, size_t part,
                      const struct table_source *source)
{
    int r = raise_step(restoring, part, step_of(source->step));
    if (r == 0) {
        r = drop_removed(restoring, part, source);
    }
    return r == 0 ? coxi_restore_rows(restoring, part, &source->rows) : r;
}

/* ---- the store */

/* Checks the file's metadata against the request. */
static int check_file(const struct coxi_restoring *restoring)
{
    const struct coxi_st_file *file = restoring->file;
    bool whole = restoring->request->at == 0;
    char run[32];
    char ps[32];
    const char *its_run = coxi_st_metadata(file, "run");
    const char *its_ps = coxi_st_metadata(file, "ps");
    (void)snprintf(run, sizeof(run), "%016" PRIx64, restoring->request->session.run);
    (void)snprintf(ps, sizeof(ps), "%" PRIu32, restoring->store->ps_index);
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

/* Makes the applied set of the request. */
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

static int load_part(struct coxi_restoring *restoring, size_t part)
{
    struct table_source table = {0};
    struct dense_source dense = {0};
    const void *rate = NULL;
    int r = coxi_restore_enter(restoring);
    if (r != 0) {
        return r;
    }
    const struct coxi_part *its = &restoring->store->parts[part];
    if (its->table != NULL) {
        r = find_table(restoring->file, its, &table);
    } else if (its->dense != NULL) {
        r = find_dense(restoring->file, its, &dense);
    }
    if (r == 0 && (its->table != NULL || its->dense != NULL)) {
        r = find_rate(restoring->file, its, &rate);
    }
    coxi_restore_leave(restoring);
    if (r == 0) {
        r = load_rate(restoring, part, rate);
    }
    if (r == 0 && table.rows.keys != NULL) {
        r = load_table(restoring, part, &table);
    } else if (r == 0 && dense.values != NULL) {
        r = load_dense(restoring, part, &dense);
    }
    return r;
}

static int load_parts(struct coxi_restoring *restoring)
{
    int r = coxi_restore_enter(restoring);
    if (r != 0) {
        return r;
    }
    /* n_parts does not change while this restore is under way */
    size_t n = restoring->store->n_parts;
    coxi_restore_leave(restoring);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = load_part(restoring, i);
    }
    return r;
}

/* Loads the file, then checks its sum. If the file is damaged, that is the reported
 * error, even if something else is wrong, too. */
static int load_file(struct coxi_restoring *restoring)
{
    int r = coxi_st_sum_new(restoring->file, &restoring->sum);
    if (r != 0) {
        return r;
    }
    r = check_file(restoring);
    if (r == 0) {
        r = load_parts(restoring);
    }
    uint32_t belongs = restoring->request->crc32;
    bool goes_on = r != COX_EFENCED && r != COX_EPSLOST;
    uint32_t found = goes_on ? coxi_st_sum_end(restoring->sum) : belongs;
    if (found != belongs) {
        r = coxi_error(COX_ECHECKSUM, "it is damaged: crc32 %08x where %08x belongs",
                       found, belongs);
    }
    coxi_st_sum_free(restoring->sum);
    return r;
}

/* Loads everything except the applied set, which it puts into *ret_applied. */
static int load(struct coxi_restoring *restoring, struct coxi_applied **ret_applied)
{
    const struct coxi_restore *request = restoring->request;
    struct coxi_st_file *file;
    int r = coxi_st_open_beneath(restoring->store->root, request->path, request->bytes,
                                 NULL, &file);
    if (r != 0) {
        return r;
    }
    restoring->file = file;
    r = load_file(restoring);
    if (r == 0) {
        r = load_applied(request, ret_applied);
    }
    if (r != 0) {
        r = coxi_error(r, "%s: %.400s", request->path, coxi_error_text());
    }
    coxi_st_close(file);
    return r;
}

/* Checks whether the restore may begin; *ret_done: it was done before. Registry
 * written. */
static int check_request(const struct coxi_store *store,
                         const struct coxi_restore *request, bool *ret_done)
{
    bool same = store->restored == request->round;
    int r = coxi_store_fenced(store, &request->session);
    *ret_done = same && store->restored_at >= request->at;
    if (r == 0 && request->at > 0 && (!same || store->restored_at + 1 < request->at)) {
        return coxi_error(COX_EINVAL, "%s builds on what ps %" PRIu32 " was not given",
                          request->path, store->ps_index);
    }
    if (r == 0 && store->restoring != NULL) {
        return coxi_error(COX_EBUSY, "ps %" PRIu32 " is being restored",
                          store->ps_index);
    }
    return r;
}

static int begin(struct coxi_restoring *restoring, bool *ret_done)
{
    struct coxi_store *store = restoring->store;
    coxi_write_lock(&store->registry);
    int r = check_request(store, restoring->request, ret_done);
    if (r == 0 && !*ret_done) {
        store->restoring = restoring;
        store->unready = true;
    }
    coxi_rw_unlock(&store->registry);
    return r;
}

/* After a restore has succeeded: the store takes its applied set, and notes which file
 * of the chain was loaded. Registry written. */
static void take(struct coxi_restoring *restoring, struct coxi_applied *applied)
{
    struct coxi_store *store = restoring->store;
    coxi_applied_free(store->applied);
    store->applied = applied;
    store->restored = restoring->request->round;
    store->restored_at = restoring->request->at;
    store->unready = restoring->request->more;
}

/* Ends a restore with `code`. Takes the applied set. */
static int end(struct coxi_restoring *restoring, int code, struct coxi_applied *applied)
{
    struct coxi_store *store = restoring->store;
    coxi_write_lock(&store->registry);
    int r = store->restoring == restoring ? code : ended(restoring);
    if (store->restoring == restoring) {
        store->restoring = NULL;
    }
    if (r == 0) {
        take(restoring, applied);
        applied = NULL;
    }
    coxi_rw_unlock(&store->registry);
    coxi_applied_free(applied);
    return r;
}

int coxi_store_restore(struct coxi_store *store, const struct coxi_restore *restore)
{
    struct coxi_restoring restoring = {.store = store, .request = restore};
    struct coxi_applied *applied = NULL;
    bool done = false;
    int r = begin(&restoring, &done);
    if (r != 0 || done) {
        return r;
    }
    r = load(&restoring, &applied);
    return end(&restoring, r, applied);
}

void coxi_store_abandon_restore(struct coxi_store *store)
{
    coxi_write_lock(&store->registry);
    store->restoring = NULL;
    coxi_rw_unlock(&store->registry);
}
