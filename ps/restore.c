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
 * registry. The registry is held (read) only to copy a piece into the store, after the
 * piece was read and added to the checksum. If the run is forgotten
 * meanwhile, `store->restoring` is no longer this restore, and it ends; a part is
 * looked up again each time that the registry is taken.
 *
 * Cost: the file is read once, piece by piece, so a restore needs little more memory
 * than what it loads. Threads: any, one restore at a time, and some more for tables
 * (ps/restore_rows.c).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/dtype.h"
#include "common/error.h"
#include "ps/restore_internal.h"

/* ---- taking the registry, for a little at a time */

/* True if the restore is still under way. Registry held. */
static bool is_on(const struct coxi_restoring *restoring)
{
    const struct coxi_store *store = restoring->store;
    return store->restoring == restoring &&
           atomic_load(&store->abandons) == restoring->abandons;
}

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
    if (is_on(restoring)) {
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

/* Sets the part's rate to the file's, if the file has one. */
static int load_rate(struct coxi_restoring *restoring, size_t part,
                     const struct coxi_st_tensor *tensor)
{
    struct coxi_store *store = restoring->store;
    struct coxi_rate rate;
    int r = coxi_restore_read(restoring, tensor, &rate, sizeof(rate));
    if (r != 0 || tensor == NULL) {
        return r;
    }
    coxi_write_lock(&store->registry);
    r = is_on(restoring) ? coxi_part_rate(&store->parts[part], &rate)
                         : ended(restoring);
    coxi_rw_unlock(&store->registry);
    return r == COX_EINVAL ? coxi_error(COX_EFORMAT, "%s", coxi_error_text()) : r;
}

/* Finds the rate's tensor; *ret NULL: the rate was never changed. */
static int find_rate(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, const struct coxi_st_tensor **ret)
{
    uint64_t n;
    *ret = NULL;
    if ((part->table == NULL && part->dense == NULL) ||
        !coxi_restore_has(restoring, part, "rate", &n)) {
        return 0;
    }
    *ret = coxi_restore_find(restoring, part, "rate", coxi_dtype_name(COX_F64),
                             COXI_RATE_NUMBERS);
    return *ret != NULL ? 0 : COX_EFORMAT;
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
    const struct coxi_st_tensor *rate = NULL;
    int r = coxi_restore_enter(restoring);
    if (r != 0) {
        return r;
    }
    r = find_rate(restoring, &restoring->store->parts[part], &rate);
    coxi_restore_leave(restoring);
    if (r == 0) {
        r = load_rate(restoring, part, rate);
    }
    if (r == 0) {
        r = coxi_restore_dense(restoring, part);
    }
    return r == 0 ? coxi_restore_table(restoring, part) : r;
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

/* Checks the sum; `r` is the result so far. */
static int check_sum(const struct coxi_restoring *restoring, int r)
{
    char text[COXI_ERROR_TEXT_MAX];
    uint32_t belongs = restoring->request->crc32;
    uint32_t found = belongs;
    (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
    int ended = coxi_st_sum_end(restoring->sum, &found);
    if (ended == 0 && found != belongs) {
        return coxi_error(COX_ECHECKSUM, "it is damaged: crc32 %08x where %08x belongs",
                          found, belongs);
    }
    return r == 0 ? ended : coxi_error(r, "%s", text);
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
    bool goes_on = r != COX_EFENCED && r != COX_EPSLOST;
    r = goes_on ? check_sum(restoring, r) : r;
    coxi_st_sum_free(restoring->sum);
    return r;
}

/* Loads everything except the applied set, which it puts into *ret_applied. */
static int load(struct coxi_restoring *restoring, struct coxi_applied **ret_applied)
{
    const struct coxi_restore *request = restoring->request;
    struct coxi_st_file *file;
    int r =
        restoring->source != NULL
            ? coxi_st_open_from(restoring->source, request->path, request->bytes, &file)
            : coxi_st_open_beneath(restoring->store->root, request->path,
                                   request->bytes, NULL, &file);
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
    int r = is_on(restoring) ? code : ended(restoring);
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
    return coxi_store_restore_from(store, restore, NULL);
}

int coxi_store_restore_from(struct coxi_store *store,
                            const struct coxi_restore *restore,
                            const struct coxi_file_source *source)
{
    struct coxi_restoring restoring = {.store = store,
                                       .request = restore,
                                       .source = source,
                                       .abandons = atomic_load(&store->abandons)};
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
    atomic_fetch_add(&store->abandons, 1);
}
