/* See ready.h. */
#include "ps/ready.h"

#include <math.h>

#include "common/error.h"
#include "common/floats.h"
#include "common/hash.h"

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
static int take_values(struct coxi_ready *update, const uint8_t **at, size_t *len)
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

/* Takes the values from which a gradient was computed off the payload. */
static int take_bases(struct coxi_ready *update, const uint8_t **at, size_t *len)
{
    const struct coxi_variable *variable = update->place.part->variable;
    size_t bytes = coxi_align(update->place.rows.count * update->place.row_bytes, 8);
    if (!(variable->staleness.compensation > 0) || bytes > *len) {
        return coxi_error(COX_EINVAL,
                          "variable '%s' takes no compensated gradients, or the values "
                          "are missing from which one was computed",
                          variable->name);
    }
    update->bases = (const float *)(const void *)*at;
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
static struct coxi_table_change change_of(const struct coxi_ready *update,
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
        .bases = update->bases,
        .rows = (struct coxi_row **)(void *)(scratch->data + update->rows_at),
    };
}

static bool has_rows(const struct coxi_ready *update)
{
    return update->place.part->table != NULL && update->place.rows.count > 0 &&
           !update->is_dropped;
}

/* The numbers of an update that are narrow, and must not stay so. */
static size_t count_narrow(const struct coxi_ready *update)
{
    return update->dtype == update->place.part->variable->dtype
               ? 0
               : update->place.rows.count * update->place.row_bytes / sizeof(float);
}

size_t coxi_ready_room(const struct coxi_ready *update)
{
    return has_rows(update) ? update->place.rows.count * sizeof(struct coxi_row *) +
                                  coxi_align(count_narrow(update) * sizeof(float), 8)
                            : 0;
}

int coxi_ready_resolve(const struct coxi_store *store, struct coxi_ready *update,
                       struct coxi_buffer *scratch)
{
    if (!has_rows(update)) {
        return 0;
    }
    size_t n = count_narrow(update);
    int r =
        coxi_memory_reserve(store->work, scratch, coxi_ready_room(update), "a commit");
    if (r != 0) {
        return r;
    }
    update->rows_at = scratch->len;
    scratch->len += update->place.rows.count * sizeof(struct coxi_row *);
    if (n > 0) {
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

/*
 * Finds out how many updates the values missed from which a gradient was computed, and
 * what its variable wants done about it. The version is that before the commit, so a
 * commit's updates do not count against each other. A peer may name any version.
 */
static void age(const struct coxi_store *store, const struct coxi_commit *commit,
                uint64_t pulled, struct coxi_ready *ready)
{
    const struct coxi_part *part = ready->place.part;
    if (pulled == 0 || part->stale == NULL || ready->op != COXI_OP_GRADIENT) {
        return;
    }
    uint64_t now = coxi_part_version(part);
    const struct coxi_staleness *rule = &part->variable->staleness;
    ready->is_aged = true;
    ready->staleness = now > pulled ? now - pulled : 0;
    ready->of_worker = coxi_stale_of(store->workers, commit->worker);
    if (ready->staleness <= rule->max) {
        return;
    }
    ready->is_dropped = rule->action == COXI_STALENESS_DROP;
    if (rule->action == COXI_STALENESS_SCALE) {
        float by = ready->loss_scale != 0 ? ready->loss_scale : 1;
        ready->loss_scale = by * (1 + (float)ready->staleness);
    }
}

int coxi_ready_take(const struct coxi_store *store, const struct coxi_commit *commit,
                    const struct coxi_update *update, const uint8_t **at, size_t *len,
                    struct coxi_ready *ret)
{
    bool is_compensated = update->op == COXI_OP_COMPENSATED;
    struct coxi_ready ready = {.op = is_compensated ? COXI_OP_GRADIENT
                                                    : (enum coxi_op)update->op,
                               .step = commit->step,
                               .draw = draw_of(commit, update->variable),
                               .loss_scale = commit->loss_scale};
    int r = coxi_store_find(store, update->variable, update->begin, update->count, at,
                            len, &ready.place);
    if (r == 0) {
        r = coxi_store_holds(store, &ready.place);
    }
    if (r == 0) {
        r = check_op(ready.place.part->variable, ready.op);
    }
    if (r == 0) {
        ready.dtype = values_dtype(ready.place.part->variable, ready.op);
        r = take_values(&ready, at, len);
    }
    if (r == 0 && is_compensated) {
        r = take_bases(&ready, at, len);
    }
    if (r == 0) {
        size_t i = (size_t)(update - commit->updates);
        age(store, commit, i < commit->n_pulled ? commit->pulled[i] : 0, &ready);
    }
    *ret = ready;
    return r;
}

int coxi_ready_check_scale(const struct coxi_commit *commit)
{
    return commit->loss_scale >= 0 && !isinf(commit->loss_scale)
               ? 0
               : coxi_error(COX_EINVAL, "a commit's loss scale is %g",
                            (double)commit->loss_scale);
}

void coxi_ready_count(const struct coxi_ready *update)
{
    if (update->is_aged) {
        coxi_stale_count(update->place.part->stale, update->staleness,
                         update->is_dropped);
        coxi_stale_count(update->of_worker, update->staleness, update->is_dropped);
    }
}

void coxi_ready_apply(const struct coxi_ready *update,
                      const struct coxi_buffer *scratch)
{
    const struct coxi_place *place = &update->place;
    if (update->is_dropped) {
        if (place->part->table == NULL) {
            coxi_dense_pass(place->part->dense);
        }
    } else if (place->part->table == NULL && update->op == COXI_OP_GRADIENT) {
        const struct coxi_dense_gradient gradient = {update->step, update->dtype,
                                                     update->values, update->loss_scale,
                                                     update->bases};
        coxi_dense_push(place->part->dense, &place->rows, &gradient);
    } else if (place->part->table == NULL) {
        coxi_dense_update(place->part->dense, &place->rows, update->op, update->step,
                          update->dtype, update->values);
    } else if (update->resolved) {
        struct coxi_table_change change = change_of(update, scratch);
        coxi_table_update(place->part->table, &change);
    }
}

void coxi_ready_release(const struct coxi_ready *update,
                        const struct coxi_buffer *scratch)
{
    if (update->resolved) {
        struct coxi_table_change change = change_of(update, scratch);
        coxi_table_release(update->place.part->table, &change);
    }
}
