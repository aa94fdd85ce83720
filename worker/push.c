/*
 * Updates of a step, collected for each ps in the form in which they are sent: the list
 * of rows, then their values; gradients in the variable's wire type. Values of equal
 * rows in one call are combined, so that a row goes over the wire once.
 *
 * Gradients are checked for numbers that are not finite, or so large that they would
 * overflow the state of their rule (common/rule.h). They are checked in the form in
 * which they are sent, because a sum or a rounding may be what overflows; and piece by
 * piece, while the piece is in the cache. The ps does not check them again.
 *
 * Threads: a slot. Cost: one copy of the values, which adds up, converts and checks; no
 * allocation once an attempt's buffers have grown.
 */
#include "worker/push.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/dtype.h"
#include "common/elements.h"
#include "common/error.h"
#include "common/floats.h"
#include "common/hash.h"
#include "common/rule.h"
#include "schema/check.h"
#include "worker/metric.h"
#include "worker/overflow.h"

enum { PIECE = 4096 }; /* numbers: a piece and its copy fit the first-level cache */

/* An update that is being collected. */
struct update {
    const struct coxi_variable *variable;
    enum coxi_op op;
    uint32_t dtype; /* type in which the values are sent */
    bool guarded;   /* all values must be below `limit` */
    float limit;
    bool skippable;   /* a gradient, which is not applied after an overflow */
    bool compensated; /* a gradient that takes along the values that were pulled */
    bool counted;     /* every shard counts it, even if it changes no row there */
    /* its places in coxi_versions, as in struct cox_variable; a gradient's only */
    size_t versions;
    size_t n_versions;
    bool merged; /* of several batches: as stale as the oldest of them */
    bool drawn;  /* rounded by chance: each row by `draw` and its key or number */
    uint64_t draw;
    size_t row_bytes;
    size_t size;      /* of a number in the variable's own type */
    size_t wire_size; /* ... and as it is sent */
};

/* The seed of random rounding. It is the same in every attempt, and for any number of
 * ps. */
static uint64_t draw_of(const struct coxi_attempt *attempt,
                        const struct coxi_variable *v)
{
    return coxi_hash_key(attempt->seed ^ ((uint64_t)v->id << 32 | attempt->n_pushes));
}

static struct update update_of(const struct coxi_attempt *attempt,
                               const struct cox_variable *variable, enum coxi_op op)
{
    const struct coxi_variable *v = variable->description;
    bool narrow = op == COXI_OP_GRADIENT && v->wire_dtype != 0;
    bool drawn = narrow && v->wire_rounding == COXI_ROUND_STOCHASTIC;
    return (struct update){
        .drawn = drawn,
        .draw = drawn ? draw_of(attempt, v) : 0,
        .variable = v,
        .op = op,
        .dtype = narrow ? v->wire_dtype : v->dtype,
        .guarded = op == COXI_OP_GRADIENT && !attempt->overflowed &&
                   v->nonfinite == COXI_NONFINITE_REJECT,
        .limit = variable->gradient_limit *
                 (attempt->scale != NULL ? attempt->loss_scale : 1),
        .skippable =
            op == COXI_OP_GRADIENT && v->optimizer.kind != COXI_OPTIMIZER_LOSS_SCALE,
        .compensated = op == COXI_OP_GRADIENT && v->staleness.compensation > 0,
        .counted = op == COXI_OP_GRADIENT && variable->counts,
        .versions = variable->versions,
        .n_versions = op == COXI_OP_GRADIENT ? variable->n_versions : 0,
        .row_bytes = variable->row_bytes,
        .size = variable->size,
        .wire_size = narrow ? variable->wire_size : variable->size,
    };
}

/* The i-th number of the update, as it is sent. */
static float number_at(const struct coxi_target *target, const struct update *update,
                       size_t i)
{
    float x;
    const uint8_t *at =
        target->update_payload.data + target->values_at + i * update->wire_size;
    if (update->dtype == COX_F32) {
        memcpy(&x, at, sizeof(x));
    } else {
        coxi_floats_widen(update->dtype, at, 1, &x);
    }
    return x;
}

/* Sets the error for a number that must not be sent: the i-th of the update for
 * `target`, in row `row`. */
static int nonfinite(struct coxi_attempt *attempt, const struct update *update,
                     const struct coxi_target *target, size_t i, uint64_t row)
{
    const struct coxi_variable *v = update->variable;
    bool is_table = v->kind == COXI_KIND_TABLE;
    float x = number_at(target, update, i);
    char why[160];
    if (isfinite(x)) {
        (void)snprintf(why, sizeof(why),
                       "%g: the state of %s takes less than %g, unless clip_value or "
                       "clip_norm bounds it",
                       (double)x, coxi_optimizer_name(&v->optimizer),
                       (double)update->limit);
    } else {
        (void)snprintf(why, sizeof(why), "not finite%s",
                       v->wire_dtype == 0 ? ""
                                          : " (in the type in which it would be sent)");
    }
    int r =
        coxi_error(COX_ENONFINITE, "step '%s': the gradient of %s '%s', %s %llu, is %s",
                   attempt->function->name, is_table ? "table" : "variable", v->name,
                   is_table ? "key" : "row", (unsigned long long)row, why);
    return coxi_overflow_nonfinite(attempt, r);
}

/* Appends an update of `count` rows to those for `target`, and sets where its list and
 * its values begin. The values get room for the variable's own type first. */
static int open_update(struct coxi_target *target, const struct update *update,
                       uint64_t begin, size_t count, size_t list_len)
{
    struct coxi_buffer *payload = &target->update_payload;
    const struct coxi_update head = {update->variable->id, update->op, begin, count};
    int r = coxi_buffer_append_raw(&target->updates, &head, sizeof(head));
    if (r == 0) {
        r = coxi_buffer_reserve(payload,
                                list_len + coxi_align(count * update->row_bytes, 8));
    }
    if (r == 0 && update->skippable) {
        const struct coxi_gradient gradient = {target->updates.len / sizeof(head) - 1,
                                               payload->len, 0};
        r = coxi_buffer_append_raw(&target->gradients, &gradient, sizeof(gradient));
    }
    target->list_at = payload->len;
    target->values_at = payload->len + list_len;
    return r;
}

/* The version of the update's place number `i`; 0: none. */
static uint64_t version_of(const struct coxi_attempt *attempt,
                           const struct update *update, size_t i)
{
    const struct coxi_versions *versions = &attempt->scratch->versions;
    return update->merged ? coxi_versions_oldest(versions, update->versions + i)
                          : coxi_versions_get(versions, update->versions + i);
}

/* Notes of which version the values were that the step has pulled last, from the
 * update's place number `i`. The update for `target` is open. */
static int note_version(const struct coxi_attempt *attempt, struct coxi_target *target,
                        const struct update *update, size_t i)
{
    uint64_t version = i < update->n_versions ? version_of(attempt, update, i) : 0;
    size_t before =
        (target->updates.len / sizeof(struct coxi_update) - 1) * sizeof(version);
    if (version == 0) {
        return 0;
    }
    int r = coxi_buffer_append(&target->pulled, NULL, before - target->pulled.len);
    return r == 0 ? coxi_buffer_append_raw(&target->pulled, &version, sizeof(version))
                  : r;
}

/* The rows of the values: the listed ones, or those from `begin` on. */
struct rows {
    const uint64_t *listed;
    uint64_t begin;
};

/* Narrows the numbers [at, at + n) of an update to the type in which they are sent. */
static void narrow(const struct update *update, const struct rows *rows,
                   const uint8_t *from, size_t at, size_t n, uint8_t *to)
{
    size_t numbers = update->row_bytes / sizeof(float);
    if (!update->drawn) {
        coxi_floats_narrow(update->dtype, from, n, to);
        return;
    }
    for (size_t done = 0; done < n;) {
        size_t row = (at + done) / numbers;
        size_t column = (at + done) % numbers;
        size_t count = numbers - column < n - done ? numbers - column : n - done;
        uint64_t name = rows->listed != NULL ? rows->listed[row] : rows->begin + row;
        coxi_floats_narrow_drawn(update->dtype, from + done * sizeof(float), count,
                                 coxi_hash_key(update->draw ^ coxi_hash_key(name)) +
                                     column,
                                 to + done * sizeof(uint16_t));
        done += count;
    }
}

/*
 * Puts `bytes` of values into their place in the form in which they are sent; `from`
 * may be that place. Returns the index of the first number that must not be sent, or
 * the count of numbers.
 */
static size_t put_values(struct coxi_target *target, const struct update *update,
                         const struct rows *rows, const uint8_t *from, size_t bytes)
{
    COXI_CHECK(from != NULL &&
               target->update_payload.data != NULL); /* `bytes` is not 0 */
    uint8_t *to = target->update_payload.data + target->values_at;
    size_t size = update->size;
    size_t wire_size = update->wire_size;
    size_t n = bytes / size;
    size_t bad = n;
    for (size_t at = 0; at < n && bad == n; at += PIECE) {
        size_t count = n - at < PIECE ? n - at : PIECE;
        uint8_t *piece = to + at * wire_size;
        if (wire_size != size) {
            narrow(update, rows, from + at * size, at, count, piece);
        } else if (from != to) {
            memcpy(piece, from + at * size, count * size);
        }
        if (update->guarded) {
            size_t first =
                coxi_floats_beyond(update->dtype, piece, count, update->limit);
            bad = first < count ? at + first : n;
        }
    }
    size_t len = n * wire_size;
    memset(to + len, 0, coxi_align(len, 8) - len);
    target->update_payload.len = target->values_at + coxi_align(len, 8);
    if (update->skippable) {
        struct coxi_gradient *gradient =
            (struct coxi_gradient *)(void *)(target->gradients.data +
                                             target->gradients.len) -
            1;
        gradient->len = target->update_payload.len - gradient->at;
    }
    return bad;
}

/* Appends the values from which a compensated gradient was computed, if the step has
 * pulled them all. The values of the gradient are in place; `listed`: its rows are listed
 * before them. */
static int put_bases(struct coxi_attempt *attempt, struct coxi_target *target,
                     const struct update *update, bool listed, uint64_t begin,
                     size_t count)
{
    struct coxi_buffer *payload = &target->update_payload;
    size_t bytes = count * update->row_bytes;
    size_t padded = coxi_align(bytes, 8);
    bool known = false;
    int r = update->compensated ? coxi_buffer_reserve(payload, padded) : 0;
    if (r == 0 && update->compensated) {
        const uint64_t *rows =
            (const uint64_t *)(const void *)(payload->data + target->list_at);
        r = coxi_bases_get(&attempt->scratch->bases, update->variable,
                           listed ? rows : NULL, begin, count,
                           payload->data + payload->len, &known);
    }
    if (r != 0 || !known) {
        return r;
    }
    memset(payload->data + payload->len + bytes, 0, padded - bytes);
    payload->len += padded;
    ((struct coxi_update *)(void *)(target->updates.data + target->updates.len) - 1)
        ->op = COXI_OP_COMPENSATED;
    ((struct coxi_gradient *)(void *)(target->gradients.data + target->gradients.len) -
     1)
        ->len += padded;
    return 0;
}

/* Appends an update of no rows, if the shard must count it. */
static int update_nothing(struct coxi_target *target, const struct update *update,
                          const struct coxi_shard *shard)
{
    return update->counted && shard != NULL
               ? open_update(target, update, shard->begin, 0, 0)
               : 0;
}

/* ---- ranges of rows of a dense variable: a part of them for each shard */

/* `rows` are all rows or a slice. */
static int update_range(struct coxi_attempt *attempt, const struct update *update,
                        const struct cox_rows *rows, const uint8_t *values)
{
    bool all = rows->form == COX_ROWS_ALL;
    uint64_t begin = all ? 0 : rows->begin;
    const struct coxi_variable *v = update->variable;
    size_t numbers = update->row_bytes / update->size;
    for (size_t i = 0; (all || rows->n > 0) && i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        struct coxi_range part = coxi_rows_part(rows, shard);
        struct coxi_target *target = &attempt->targets[shard->ps];
        int r = part.count == 0
                    ? update_nothing(target, update, shard)
                    : open_update(target, update, part.begin, part.count, 0);
        if (r == 0 && part.count > 0) {
            r = note_version(attempt, target, update, i);
        }
        if (r != 0) {
            return r;
        }
        if (part.count == 0) {
            continue;
        }
        size_t bytes = part.count * update->row_bytes;
        size_t bad =
            put_values(target, update, &(struct rows){NULL, part.begin},
                       values + (part.begin - begin) * update->row_bytes, bytes);
        r = bad < part.count * numbers
                ? nonfinite(attempt, update, target, bad, part.begin + bad / numbers)
                : put_bases(attempt, target, update, false, part.begin, part.count);
        if (r != 0) {
            return r;
        }
    }
    return 0;
}

/* ---- listed rows */

static uint8_t *row_at(const struct coxi_attempt *attempt, const struct update *update,
                       struct coxi_home home)
{
    const struct coxi_target *target = &attempt->targets[home.ps];
    return target->update_payload.data + target->values_at +
           home.row * update->row_bytes;
}

/*
 * Copies the first values of each row, and combines the row's later values with them.
 */
static void combine_values(struct coxi_attempt *attempt, const struct update *update,
                           const uint32_t *places, size_t n, const uint8_t *values)
{
    const struct coxi_spread *spread = &attempt->scratch->spread;
    enum coxi_op op = update->op == COXI_OP_GRADIENT ? COXI_OP_ADD : update->op;
    size_t n_seen = 0;
    for (size_t i = 0; i < n; i++, values += update->row_bytes) {
        uint8_t *to = row_at(attempt, update, coxi_spread_home(spread, places[i]));
        if (places[i] == n_seen) {
            memcpy(to, values, update->row_bytes);
            n_seen++;
        } else {
            coxi_elements_combine(update->variable->dtype, op, to, values,
                                  update->row_bytes);
        }
    }
}

static void put_lists(struct coxi_attempt *attempt)
{
    const struct coxi_spread *spread = &attempt->scratch->spread;
    const uint64_t *distinct = coxi_spread_distinct(spread);
    for (size_t i = 0; i < spread->n_distinct; i++) {
        struct coxi_home home = coxi_spread_home(spread, i);
        struct coxi_target *target = &attempt->targets[home.ps];
        uint8_t *list = target->update_payload.data + target->list_at;
        ((uint64_t *)(void *)list)[home.row] = distinct[i];
    }
}

/* Puts the combined values for a ps into the form in which they are sent. */
static int finish_list(struct coxi_attempt *attempt, const struct update *update,
                       uint32_t ps, const uint8_t *values)
{
    struct coxi_target *target = &attempt->targets[ps];
    size_t count = coxi_spread_count(&attempt->scratch->spread, ps);
    size_t numbers = update->row_bytes / update->size;
    if (values == NULL) {
        values = target->update_payload.data + target->values_at;
    }
    const uint64_t *list =
        (const uint64_t *)(void *)(target->update_payload.data + target->list_at);
    size_t bad = put_values(target, update, &(struct rows){list, 0}, values,
                            count * update->row_bytes);
    return bad < count * numbers
               ? nonfinite(attempt, update, target, bad, list[bad / numbers])
               : put_bases(attempt, target, update, true, 0, count);
}

/* Opens the update for the rows that a ps has, if there are any. */
static int open_list(struct coxi_attempt *attempt, const struct update *update,
                     uint32_t ps)
{
    const struct coxi_variable *v = update->variable;
    struct coxi_target *target = &attempt->targets[ps];
    size_t count = coxi_spread_count(&attempt->scratch->spread, ps);
    bool is_table = v->kind == COXI_KIND_TABLE;
    const struct coxi_shard *shard = is_table ? NULL : coxi_variable_shard(v, ps);
    if (count == 0) {
        return update_nothing(target, update, shard);
    }
    int r = open_update(target, update, is_table ? 0 : COXI_ROWS_LISTED, count,
                        count * sizeof(uint64_t));
    return r == 0 ? note_version(attempt, target, update,
                                 is_table ? ps : (size_t)(shard - v->shards))
                  : r;
}

static int update_listed(struct coxi_attempt *attempt, const struct update *update,
                         const uint64_t *keys, size_t n, const uint8_t *values)
{
    const struct coxi_variable *v = update->variable;
    struct coxi_spread *spread = &attempt->scratch->spread;
    struct coxi_buffer *places = &attempt->scratch->places;
    places->len = 0;
    int r = coxi_spread_rows(spread, v, attempt->n_targets, keys, n, places);
    for (uint32_t p = 0; r == 0 && n > 0 && p < attempt->n_targets; p++) {
        r = open_list(attempt, update, p);
    }
    if (r != 0) {
        return r;
    }
    put_lists(attempt);
    /* Nothing to combine or to sort: the values go into place at once. */
    bool as_it_is = spread->one && spread->n_distinct == n;
    if (!as_it_is) {
        combine_values(attempt, update, (const uint32_t *)(void *)places->data, n,
                       values);
    }
    for (uint32_t p = 0; r == 0 && p < attempt->n_targets; p++) {
        if (coxi_spread_count(spread, p) > 0) {
            r = finish_list(attempt, update, p, as_it_is ? values : NULL);
        }
    }
    return r;
}

/* ---- any update */

static int check_op(const struct coxi_variable *v, uint32_t op)
{
    if (op > COXI_OP_MAX) {
        return coxi_error(COX_EINVAL, "%u is no update", op);
    }
    if (op == COXI_OP_GRADIENT) {
        return v->optimizer.kind != COXI_OPTIMIZER_NONE
                   ? 0
                   : coxi_error(COX_EINVAL,
                                "'%s' takes no gradients: it has no optimizer%s; "
                                "cox_step_add adds, cox_step_assign replaces",
                                v->name,
                                v->dtype != COX_F32 ? " (those are for F32)" : "");
    }
    return coxi_elements_take(v->dtype, (enum coxi_op)op)
               ? 0
               : coxi_error(COX_EINVAL,
                            "'%s' is only assigned: its type %s has no arithmetic",
                            v->name, coxi_dtype_name(v->dtype));
}

int coxi_push_check(const struct coxi_variable *v, uint32_t op,
                    const struct cox_rows *rows, const void *values)
{
    int r = check_op(v, op);
    if (r == 0) {
        r = coxi_rows_check(v, rows);
    }
    if (r == 0 && values == NULL && (rows->form == COX_ROWS_ALL || rows->n > 0)) {
        r = coxi_error(COX_EINVAL, "an update of '%s' has no values", v->name);
    }
    return r;
}

int coxi_push(struct coxi_attempt *attempt, struct cox_variable *variable, uint32_t op,
              const struct cox_rows *rows, const void *values)
{
    const struct coxi_variable *v = variable->description;
    int r = coxi_push_check(v, op, rows, values);
    if (r != 0) {
        return r;
    }
    if (op != COXI_OP_GRADIENT || v->optimizer.kind != COXI_OPTIMIZER_LOSS_SCALE) {
        return coxi_push_now(attempt, variable, op, rows, values);
    }
    bool none = rows->form != COX_ROWS_ALL && rows->n == 0;
    return none ? 0
                : coxi_overflow_tell(attempt, variable, *(const float *)values != 0);
}

static int push(struct coxi_attempt *attempt, const struct update *update,
                const struct cox_rows *rows, const void *values)
{
    return rows->form == COX_ROWS_LISTED
               ? update_listed(attempt, update, rows->keys, rows->n, values)
               : update_range(attempt, update, rows, values);
}

int coxi_push_now(struct coxi_attempt *attempt, const struct cox_variable *variable,
                  uint32_t op, const struct cox_rows *rows, const void *values)
{
    if (variable->description->metric != COXI_METRIC_NONE) {
        coxi_metric_end(attempt, variable->description);
    }
    attempt->n_pushes++;
    const struct update update = update_of(attempt, variable, (enum coxi_op)op);
    return push(attempt, &update, rows, values);
}

int coxi_push_merged(struct coxi_attempt *attempt, const struct cox_variable *variable,
                     const struct cox_rows *rows, const float *gradient)
{
    attempt->n_pushes++;
    struct update update = update_of(attempt, variable, COXI_OP_GRADIENT);
    update.merged = true;
    update.compensated = false; /* its batches have used different values */
    return push(attempt, &update, rows, gradient);
}
