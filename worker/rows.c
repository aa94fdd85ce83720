/*
 * See rows.h. Equal keys are found with an open-addressing table of 4 bytes an entry,
 * at most half full, which is cleared for each call: for a few thousand keys it stays
 * in the first caches. Keys are looked up in groups, so that the cache misses of a
 * larger table overlap.
 *
 * Threads: a slot. Cost: a few nanoseconds a key; no allocation once the buffers have
 * grown.
 */
#include "worker/rows.h"

#include <string.h>

#include "common/error.h"
#include "common/hash.h"
#include "schema/maybe.h"

enum { SLOTS_MIN = 16, GROUP = 16 };

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

/* Makes empty slots for n keys; *ret_mask: the number of slots minus 1. */
static int clear_slots(struct coxi_spread *spread, size_t n, size_t *ret_mask)
{
    size_t n_slots = SLOTS_MIN;
    while (n_slots < n * 2) {
        n_slots *= 2;
    }
    int r = make_room(&spread->slots, n_slots, sizeof(struct coxi_maybe));
    if (r == 0) {
        memset(spread->slots.data, 0, n_slots * sizeof(struct coxi_maybe));
        *ret_mask = n_slots - 1;
    }
    return r;
}

/* Sets slots to the place of their distinct key. Returns how many are
 * distinct. */
static size_t find_distinct(struct coxi_maybe *slots, size_t mask, uint64_t seed,
                            const uint64_t *keys, size_t n, uint64_t *distinct,
                            uint32_t *places)
{
    uint32_t n_distinct = 0;
    for (size_t base = 0; base < n; base += GROUP) {
        size_t at[GROUP];
        size_t count = n - base < GROUP ? n - base : GROUP;
        for (size_t k = 0; k < count; k++) {
            at[k] = coxi_hash_place(coxi_hash_key(keys[base + k]), seed) & mask;
            __builtin_prefetch(&slots[at[k]]);
        }
        for (size_t k = 0; k < count; k++) {
            uint64_t key = keys[base + k];
            size_t slot = at[k];
            while (coxi_maybe_is_some(slots[slot]) &&
                   distinct[coxi_maybe_index(slots[slot])] != key) {
                slot = (slot + 1) & mask;
            }
            if (!coxi_maybe_is_some(slots[slot])) {
                distinct[n_distinct] = key;
                slots[slot] = coxi_maybe_of(n_distinct++);
            }
            places[base + k] = coxi_maybe_index(slots[slot]);
        }
    }
    return n_distinct;
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
    size_t mask = 0;
    spread->seed = spread->seed != 0 ? spread->seed : coxi_hash_seed();
    spread->one = v->kind == COXI_KIND_TABLE ? n_ps == 1 : v->n_shards == 1;
    spread->ps = v->kind == COXI_KIND_TABLE ? 0 : (uint32_t)v->shards[0].ps;
    int r = clear_slots(spread, n, &mask);
    r = r != 0 ? r : make_room(&spread->distinct, n, sizeof(uint64_t));
    r = r != 0 ? r : make_room(&spread->counts, n_ps, sizeof(uint32_t));
    r = r != 0 || spread->one ? r
                              : make_room(&spread->homes, n, sizeof(struct coxi_home));
    r = r != 0 ? r : coxi_buffer_reserve(places, n * sizeof(uint32_t));
    if (r != 0) {
        return r;
    }
    spread->n_distinct =
        find_distinct((struct coxi_maybe *)(void *)spread->slots.data, mask,
                      spread->seed, keys, n, (uint64_t *)(void *)spread->distinct.data,
                      (uint32_t *)(void *)(places->data + places->len));
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
