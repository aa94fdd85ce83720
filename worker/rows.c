/*
 * See rows.h. The table of distinct keys is cleared for each call: for a few thousand
 * keys it stays in the first caches.
 *
 * Threads: a slot. Cost: a few nanoseconds a key; no allocation once the buffers have
 * grown.
 */
#include "worker/rows.h"

#include <string.h>

#include "common/distinct.h"
#include "common/error.h"
#include "common/hash.h"

/* ---- checks */

static int check_list(const struct coxi_variable *v, const struct cox_rows *rows)
{
    bool is_table = v->kind == COXI_KIND_TABLE;
    uint64_t n = is_table ? UINT64_MAX : coxi_variable_rows(v);
    if (rows->n > UINT32_MAX) {
        return coxi_error(COX_ELIMIT, "more than %u rows of '%s' in one call",
                          UINT32_MAX, v->name);
    }
    if (rows->keys == NULL && rows->n > 0) {
        return coxi_error(COX_EINVAL, "%zu rows of '%s' and no %s", rows->n, v->name,
                          is_table ? "keys" : "list of them");
    }
    for (size_t i = 0; !is_table && i < rows->n; i++) {
        if (rows->keys[i] >= n) {
            return coxi_error(COX_EINVAL, "'%s' has %llu rows, and no row %llu",
                              v->name, (unsigned long long)n,
                              (unsigned long long)rows->keys[i]);
        }
    }
    return 0;
}

int coxi_rows_check_some(const struct coxi_variable *v, const struct cox_rows *rows)
{
    uint64_t n = coxi_variable_rows(v);
    if (rows->form > COX_ROWS_LISTED) {
        return coxi_error(COX_EINVAL, "'%s': %u is no form of rows", v->name,
                          rows->form);
    }
    if (rows->form == COX_ROWS_LISTED) {
        return check_list(v, rows);
    }
    if (v->kind == COXI_KIND_TABLE) {
        return coxi_error(COX_EINVAL,
                          "table '%s' needs keys (COX_ROWS_LISTED): a step cannot "
                          "take all rows of a table, or a slice",
                          v->name);
    }
    if (rows->form == COX_ROWS_SLICE &&
        (rows->begin > n || rows->n > n - rows->begin)) {
        return coxi_error(COX_EINVAL, "'%s' has %llu rows, and not %llu+%zu", v->name,
                          (unsigned long long)n, (unsigned long long)rows->begin,
                          rows->n);
    }
    return 0;
}

/* ---- distinct rows */

/* Empties the buffer and makes room for n items of `size` bytes. */
static int make_room(struct coxi_buffer *buffer, size_t n, size_t size)
{
    buffer->len = 0;
    return coxi_buffer_reserve(buffer, n * size);
}

/* Makes empty slots for n keys. */
static int clear_slots(struct coxi_spread *spread, size_t n)
{
    size_t bytes = coxi_distinct_slots(n) * sizeof(struct coxi_maybe);
    int r = make_room(&spread->slots, bytes, 1);
    if (r == 0) {
        memset(spread->slots.data, 0, bytes);
    }
    return r;
}

/* The ps of a row of a dense variable, whose shards tile its rows. */
static uint32_t row_ps(const struct coxi_variable *v, uint64_t row)
{
    size_t low = 0;
    size_t high = v->n_shards;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (v->shards[middle].begin <= row) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (uint32_t)v->shards[low].ps;
}

static void find_homes(struct coxi_spread *spread, const struct coxi_variable *v,
                       uint32_t n_ps)
{
    const uint64_t *distinct = coxi_spread_distinct(spread);
    uint32_t *counts = (uint32_t *)(void *)spread->counts.data;
    struct coxi_home *homes = (struct coxi_home *)(void *)spread->homes.data;
    for (size_t i = 0; i < spread->n_distinct; i++) {
        uint32_t ps = v->kind == COXI_KIND_TABLE ? coxi_key_ps(distinct[i], n_ps)
                                                 : row_ps(v, distinct[i]);
        homes[i] = (struct coxi_home){ps, counts[ps]++};
    }
}

int coxi_spread_rows(struct coxi_spread *spread, const struct coxi_variable *v,
                     uint32_t n_ps, const uint64_t *keys, size_t n,
                     struct coxi_buffer *places)
{
    spread->seed = spread->seed != 0 ? spread->seed : coxi_hash_seed();
    spread->one = v->kind == COXI_KIND_TABLE ? n_ps == 1 : v->n_shards == 1;
    spread->ps = v->kind == COXI_KIND_TABLE ? 0 : (uint32_t)v->shards[0].ps;
    int r = clear_slots(spread, n);
    r = r != 0 ? r : make_room(&spread->distinct, n, sizeof(uint64_t));
    r = r != 0 ? r : make_room(&spread->counts, n_ps, sizeof(uint32_t));
    r = r != 0 || spread->one ? r
                              : make_room(&spread->homes, n, sizeof(struct coxi_home));
    r = r != 0 ? r : coxi_buffer_reserve(places, n * sizeof(uint32_t));
    if (r != 0) {
        return r;
    }
    struct coxi_distinct distinct = {
        .keys = (uint64_t *)(void *)spread->distinct.data,
        .slots = (struct coxi_maybe *)(void *)spread->slots.data,
        .n_slots = coxi_distinct_slots(n),
        .seed = spread->seed};
    coxi_distinct_add(&distinct, keys, n,
                      (uint32_t *)(void *)(places->data + places->len));
    spread->n_distinct = distinct.n;
    places->len += n * sizeof(uint32_t);
    memset(spread->counts.data, 0, n_ps * sizeof(uint32_t));
    if (spread->one) {
        ((uint32_t *)(void *)spread->counts.data)[spread->ps] =
            (uint32_t)spread->n_distinct;
    } else {
        find_homes(spread, v, n_ps);
    }
    return 0;
}

void coxi_spread_fini(struct coxi_spread *spread)
{
    coxi_buffer_fini(&spread->slots);
    coxi_buffer_fini(&spread->distinct);
    coxi_buffer_fini(&spread->homes);
    coxi_buffer_fini(&spread->counts);
}
