/*
 * Commits. All work that can fail is done before the first update is applied, so a
 * commit is applied either as a whole or not at all.
 *
 * A commit that changes a rate changes nothing else, and nothing else runs beside it,
 * because updates read the rate without a lock.
 *
 * Threads: any, many at once: rows and blocks have locks of their own. Holds the
 * registry and the moment (read); to change a rate, the registry written. Cost: no
 * allocation once the caller's scratch has grown. Each row of a table takes 8 bytes of
 * scratch, and its gradient in F32 if it came narrow.
 */
#include <math.h>
#include <string.h>

#include "common/error.h"
#include "common/floats.h"
#include "common/hash.h"
#include "net/message.h"
#include "ps/store_internal.h"

/* An update that cannot fail any more. It refers to scratch by offset, because scratch
 * moves. */
struct ready_update {
    struct coxi_place place;
    enum coxi_op op;
    uint32_t dtype; /* of its values */
    /* offset in scratch of the values converted to F32; 0: they are not converted */
    size_t widened_at;
    const void *values;
    bool resolved;  /* a table's update: its rows are known ... */
    size_t rows_at; /* ... and listed at this offset in scratch */
    uint64_t draw;
    uint64_t step;
    float loss_scale; /* of gradients; 0: none */
};

static int check_op(const struct coxi_variable *variable, uint32_t op)
{
    if (coxi_dense_takes(variable, (enum coxi_op)op)) {
        return 0;
    }
    return coxi_error(COX_EINVAL, "variable '%s' takes no %s", variable->name,
                      op == COXI_OP_GRADIENT ? "gradients: it has no optimizer"
                      : op > COXI_OP_MAX     ? "such update"
                                             : "arithmetic: not in its type");
}

/* The type of an update's values. */
static uint32_t values_dtype(const struct coxi_variable *variable, enum coxi_op op)
{
    return op == COXI_OP_GRADIENT && variable->wire_dtype != 0 ? variable->wire_dtype
                                                               : variable->dtype;
}

/* Takes the values of an update off the payload. */
static int take_values(struct ready_update *update, const uint8_t **at, size_t *len)
{
    size_t bytes = update->place.rows.count * update->place.row_bytes;
    const struct coxi_variable *variable = update->place.part->variable;
    if (update->dtype != variable->dtype) {
        bytes /= 2;
    }
    bytes = coxi_align(bytes, 8);
    if (bytes > *len) {
        return coxi_error(COX_EINVAL, "values of variable '%s' are missing",
                          variable->name);
    }
    update->values = *at;
    *at += bytes;
    *len -= bytes;
    return 0;
}

/* The number from which a table decides, for this update, which keys it admits by
 * chance. */
static uint64_t draw_of(const struct coxi_commit *commit, uint32_t variable)
{
    uint64_t draw = coxi_hash_key(commit->session.run ^ variable);
    draw = coxi_hash_key(draw ^ commit->closure);
    return coxi_hash_key(draw ^ commit->segment);
}

/* Describes the update as a change of its table; valid until scratch moves. */
static struct coxi_table_change change_of(const struct ready_update *update,
                                          const struct coxi_buffer *scratch)
{
    const uint8_t *widened = scratch->data + update->widened_at;
    return (struct coxi_table_change){
        .op = update->op,
        .step = update->step,
        .draw = update->draw,
        .loss_scale = update->loss_scale,
        .keys = update->place.rows.listed,
        .n = update->place.rows.count,
        .values = update->widened_at > 0 ? (const void *)widened : update->values,
        .rows = (struct coxi_row **)(void *)(scratch->data + update->rows_at),
    };
}

/* Finds or makes the rows of a table, and converts their gradients to F32 if they are
 * narrow. */
static int prepare_rows(const struct coxi_store *store, struct ready_update *update,
                        struct coxi_buffer *scratch)
{
    uint64_t count = update->place.rows.count;
    size_t n = count * update->place.row_bytes / sizeof(float);
    bool widen = update->dtype != COX_F32;
    int r = coxi_memory_reserve(store->work, scratch,
                                count * sizeof(struct coxi_row *) +
                                    (widen ? coxi_align(n * sizeof(float), 8) : 0),
                                "a commit");
    if (r != 0) {
        return r;
    }
    update->rows_at = scratch->len;
    scratch->len += count * sizeof(struct coxi_row *);
    if (widen) {
        update->widened_at = scratch->len;
        coxi_floats_widen(update->dtype, update->values, n,
                          scratch->data + scratch->len);
        scratch->len += coxi_align(n * sizeof(float), 8);
    }
    struct coxi_table_change change = change_of(update, scratch);
    r = coxi_table_resolve(update->place.part->table, &change);
    update->resolved = r == 0;
    return r;
}

static int prepare(const struct coxi_store *store, const struct coxi_commit *commit,
                   const struct coxi_update *update, const uint8_t **at, size_t *len,
                   struct coxi_buffer *scratch, struct ready_update *ret)
{
    struct ready_update ready = {.op = (enum coxi_op)update->op,
                                 .step = commit->step,
                                 .loss_scale = commit->loss_scale};
    int r = coxi_store_find(store, update->variable, update->begin, update->count, at,
                            len, &ready.place);
    if (r == 0) {
        r = coxi_store_holds(store, &ready.place);
    }
    if (r == 0) {
        r = check_op(ready.place.part->variable, update->op);
    }
    if (r == 0) {
        ready.dtype = values_dtype(ready.place.part->variable, ready.op);
        r = take_values(&ready, at, len);
    }
    if (r == 0 && ready.place.part->table != NULL && update->count > 0) {
        ready.draw = draw_of(commit, update->variable);
        r = prepare_rows(store, &ready, scratch);
    }
    *ret = ready;
    return r;
}

static void apply(const struct ready_update *update, const struct coxi_buffer *scratch)
{
    const struct coxi_place *place = &update->place;
    if (place->part->table == NULL) {
        coxi_dense_update_scaled(place->part->dense, &place->rows, update->op,
                                 update->step, update->dtype, update->values,
                                 update->loss_scale);
    } else if (update->resolved) {
        struct coxi_table_change change = change_of(update, scratch);
        coxi_table_update(place->part->table, &change);
    }
}

/* Releases what a prepared update holds, because the update will not be applied. */
static void release(const struct ready_update *update,
                    const struct coxi_buffer *scratch)
{
    if (update->resolved) {
        struct coxi_table_change change = change_of(update, scratch);
        coxi_table_release(update->place.part->table, &change);
    }
}

/* The i-th update; the updates are at the start of scratch. */
static struct ready_update *ready_at(const struct coxi_buffer *scratch, size_t i)
{
    return (struct ready_update *)(void *)scratch->data + i;
}

static int apply_commit(struct coxi_store *store, const struct coxi_commit *commit,
                        const void *payload, size_t len, struct coxi_buffer *scratch)
{
    const uint8_t *at = payload;
    scratch->len = 0;
    if (!(commit->loss_scale >= 0) || isinf(commit->loss_scale)) {
        return coxi_error(COX_EINVAL, "a commit's loss scale is %g",
                          (double)commit->loss_scale);
    }
    size_t bytes = commit->n_updates * sizeof(struct ready_update);
    int r = coxi_memory_reserve(store->work, scratch, bytes, "a commit");
    /* All zeros: no update is resolved yet. */
    r = r == 0 ? coxi_buffer_append(scratch, NULL, bytes) : r;
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < commit->n_updates; i++) {
        struct ready_update ready;
        r = prepare(store, commit, &commit->updates[i], &at, &len, scratch, &ready);
        *ready_at(scratch, i) = ready;
    }
    if (r == 0 && len > 0) {
        r = coxi_error(COX_EINVAL, "a commit has %zu bytes more than its updates", len);
    }
    for (size_t i = 0; i < commit->n_updates; i++) {
        (r == 0 ? apply : release)(ready_at(scratch, i), scratch);
    }
    return r;
}

static bool is_rate(const struct coxi_commit *commit)
{
    return commit->n_updates > 0 && commit->updates[0].op == COXI_OP_RATE;
}

/* Applies a rate, which must be the only update of its commit. Registry written. */
static int apply_rate(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, struct coxi_buffer *scratch)
{
    (void)scratch;
    const struct coxi_update *update = &commit->updates[0];
    struct coxi_part *part =
        update->variable < store->n_parts ? &store->parts[update->variable] : NULL;
    struct coxi_rate rate;
    if (part == NULL || (part->table == NULL && part->dense == NULL)) {
        return coxi_error(COX_ENOENT, "ps %u has nothing of variable %u",
                          store->ps_index, update->variable);
    }
    if (commit->n_updates != 1 || len != sizeof(rate)) {
        return coxi_error(COX_EINVAL, "variable '%s': a rate comes alone, in %zu bytes",
                          part->variable->name, sizeof(rate));
    }
    memcpy(&rate, payload, sizeof(rate));
    return coxi_part_rate(part, &rate);
}

/* Applies a commit unless it was applied before. */
static int commit_once(
    struct coxi_store *store, const struct coxi_commit *commit, bool *ret_duplicate,
    int (*apply_it)(struct coxi_store *store, const struct coxi_commit *commit,
                    const void *payload, size_t len, struct coxi_buffer *scratch),
    const void *payload, size_t len, struct coxi_buffer *scratch)
    COXI_REQUIRES_SHARED(store->registry)
{
    coxi_read_lock(&store->moment);
    int r = coxi_store_check(store, &commit->session, commit->incarnation);
    if (r == 0) {
        r = coxi_applied_begin(store->applied, commit);
        *ret_duplicate = r == COX_EEXIST;
        if (r == 0) {
            r = apply_it(store, commit, payload, len, scratch);
            coxi_applied_end(store->applied, commit->closure, r);
            atomic_fetch_add_explicit(&store->commits, r == 0, memory_order_relaxed);
        } else if (r == COX_EEXIST) {
            atomic_fetch_add_explicit(&store->duplicates, 1, memory_order_relaxed);
            r = 0;
        }
    }
    coxi_rw_unlock(&store->moment);
    return r;
}

int coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, struct coxi_buffer *scratch,
                      bool *ret_duplicate)
{
    int r;
    if (is_rate(commit)) {
        coxi_write_lock(&store->registry);
        r = commit_once(store, commit, ret_duplicate, apply_rate, payload, len,
                        scratch);
        coxi_rw_unlock(&store->registry);
    } else {
        coxi_read_lock(&store->registry);
        r = commit_once(store, commit, ret_duplicate, apply_commit, payload, len,
                        scratch);
        coxi_rw_unlock(&store->registry);
    }
    return r;
}
