/* See row_store.h. */
#include "worker/row_store.h"

#include <stdlib.h>
#include <string.h>

#include "common/distinct.h"
#include "common/elements.h"
#include "common/error.h"
#include "common/hash.h"
#include "schema/check.h"

enum { AHEAD = 8 }; /* rows that are fetched to the cache before they are used */

/* Of the budget, for each row that is found by a table: its key, and its slots. */
enum { KEY_BYTES = sizeof(uint64_t) + 4 * sizeof(struct coxi_maybe) };

/* ---- the table of rows */

static struct coxi_distinct distinct_of(const struct coxi_row_store *store)
{
    return (struct coxi_distinct){
        .keys = (uint64_t *)(void *)store->keys.data,
        .slots = (struct coxi_maybe *)(void *)store->slots.data,
        .n_slots = store->n_slots,
        .seed = store->seed,
        .n = store->n,
    };
}

/* Makes room for `more` keys. */
static int reserve_keys(struct coxi_row_store *store, size_t more)
{
    size_t n_slots = coxi_distinct_slots(store->n + more);
    size_t bytes = n_slots * sizeof(struct coxi_maybe);
    store->seed = store->seed != 0 ? store->seed : coxi_hash_seed();
    store->keys.len = store->n * sizeof(uint64_t);
    int r = store->n + more > UINT32_MAX
                ? coxi_error(COX_ELIMIT, "a step keeps more than %u rows of '%s'",
                             UINT32_MAX, store->variable->name)
                : coxi_buffer_reserve(&store->keys, more * sizeof(uint64_t));
    if (r != 0 || n_slots <= store->n_slots) {
        return r;
    }
    store->slots.len = 0;
    r = coxi_buffer_reserve(&store->slots, bytes);
    if (r == 0) {
        memset(store->slots.data, 0, bytes);
        store->n_slots = n_slots;
        struct coxi_distinct distinct = distinct_of(store);
        coxi_distinct_enter(&distinct);
    }
    return r;
}

/* The rows of a call, as keys; of a slice, or of all rows, in memory of `work`. */
static int list_rows(const struct coxi_row_store *store, const struct cox_rows *rows,
                     struct coxi_row_work *work, const uint64_t **ret, size_t *ret_n)
{
    bool all = rows->form == COX_ROWS_ALL;
    size_t n = all ? coxi_variable_rows(store->variable->description) : rows->n;
    *ret = rows->keys;
    *ret_n = n;
    if (rows->form == COX_ROWS_LISTED) {
        return 0;
    }
    work->numbers.len = 0;
    int r = coxi_buffer_reserve(&work->numbers, n * sizeof(uint64_t));
    uint64_t *numbers = (uint64_t *)(void *)work->numbers.data;
    for (size_t i = 0; r == 0 && i < n; i++) {
        numbers[i] = (all ? 0 : rows->begin) + i;
    }
    *ret = numbers;
    return r;
}

/* Makes room for n entries in the list of places, which begin at *ret. */
static int reserve_list(struct coxi_row_work *work, size_t n, uint32_t **ret)
{
    int r = coxi_buffer_reserve(&work->list, n * sizeof(**ret));
    *ret = (uint32_t *)(void *)(work->list.data + work->list.len);
    return r;
}

static struct coxi_row_places list_end(struct coxi_row_work *work, size_t n)
{
    struct coxi_row_places places = {.n = n, .at = work->list.len / sizeof(uint32_t)};
    work->list.len += n * sizeof(uint32_t);
    return places;
}

/* ---- rows with a place */

/* What a row counts in a budget. */
static size_t bytes_of_row(const struct coxi_row_store *store)
{
    size_t bytes = store->whole ? 0 : KEY_BYTES;
    for (uint32_t c = 0; c < store->n_columns; c++) {
        bytes += store->widths[c];
    }
    return bytes;
}

size_t coxi_row_store_bytes(const struct coxi_row_store *store)
{
    return store->n * bytes_of_row(store);
}

/* Makes room in the columns for the rows from `before` on, within the budget. */
static int grow(struct coxi_row_store *store, size_t before,
                struct coxi_row_budget *budget)
{
    size_t more = store->n - before;
    size_t row_bytes = bytes_of_row(store);
    COXI_CHECK(row_bytes > 0); /* there is at least one column */
    if (more > (budget->bytes_max - budget->bytes) / row_bytes) {
        return coxi_error(
            COX_ELIMIT,
            "%zu rows of '%s' are beyond the %zu bytes that the rows which a step "
            "keeps "
            "may take: let it push and flush after fewer batches, or give workers a "
            "larger --step-rows-max",
            store->n, store->variable->name, budget->bytes_max);
    }
    budget->bytes += more * row_bytes;
    int r = 0;
    for (uint32_t c = 0; r == 0 && c < store->n_columns; c++) {
        store->columns[c].len = before * store->widths[c];
        r = coxi_buffer_reserve(&store->columns[c], more * store->widths[c]);
        store->columns[c].len = store->n * store->widths[c];
    }
    return r;
}

/* The places in a whole store. */
static struct coxi_row_places whole_places(const struct coxi_row_store *store,
                                           const struct cox_rows *rows)
{
    bool listed = rows->form == COX_ROWS_LISTED;
    bool all = rows->form == COX_ROWS_ALL;
    return (struct coxi_row_places){.n = all ? store->n : rows->n,
                                    .run = !listed,
                                    .first = all || listed ? 0 : (size_t)rows->begin,
                                    .numbers = listed ? rows->keys : NULL};
}

int coxi_row_store_add(struct coxi_row_store *store, const struct cox_rows *rows,
                       struct coxi_row_budget *budget, struct coxi_row_work *work,
                       struct coxi_row_places *ret)
{
    size_t before = store->n;
    const uint64_t *keys = NULL;
    uint32_t *list = NULL;
    size_t n = 0;
    if (before == 0 && rows->form == COX_ROWS_ALL) {
        store->whole = true;
        store->n = coxi_variable_rows(store->variable->description);
    }
    if (store->whole) {
        *ret = whole_places(store, rows);
        return store->n > before ? grow(store, before, budget) : 0;
    }
    int r = list_rows(store, rows, work, &keys, &n);
    r = r == 0 ? reserve_keys(store, n) : r;
    r = r == 0 ? reserve_list(work, n, &list) : r;
    if (r != 0) {
        return r;
    }
    struct coxi_distinct distinct = distinct_of(store);
    coxi_distinct_add(&distinct, keys, n, list);
    store->n = distinct.n;
    *ret = list_end(work, n);
    return store->n > before ? grow(store, before, budget) : 0;
}

int coxi_row_store_find(const struct coxi_row_store *store, const struct cox_rows *rows,
                        struct coxi_row_work *work, struct coxi_row_places *ret)
{
    const uint64_t *keys = NULL;
    uint32_t *list = NULL;
    size_t n = 0;
    if (store->whole) {
        *ret = whole_places(store, rows);
        return 0;
    }
    int r = list_rows(store, rows, work, &keys, &n);
    r = r == 0 ? reserve_list(work, n, &list) : r;
    if (r != 0) {
        return r;
    }
    const struct coxi_distinct distinct = distinct_of(store);
    size_t found = store->n > 0 ? coxi_distinct_find(&distinct, keys, n, list) : 0;
    if (found < n) {
        const struct coxi_variable *v = store->variable->description;
        return coxi_error(COX_ENOENT, "%s %llu of '%s'",
                          v->kind == COXI_KIND_TABLE ? "key" : "row",
                          (unsigned long long)keys[found], v->name);
    }
    *ret = list_end(work, n);
    return 0;
}

/* ---- sums */

/* Copies what comes for a row first, and adds the rest to it. The rows from place
 * `seen` on are new, and come in the order of their places. */
static void merge_rows(struct coxi_row_store *store, size_t seen,
                       const struct coxi_row_places *places,
                       const struct coxi_row_work *work, const uint8_t *from)
{
    size_t bytes = store->widths[0];
    for (size_t i = 0; i < places->n; i++, from += bytes) {
        if (i + AHEAD < places->n) {
            __builtin_prefetch(
                coxi_row_at(store, 0, coxi_row_place(places, work, i + AHEAD)), 1);
        }
        size_t place = coxi_row_place(places, work, i);
        uint8_t *to = coxi_row_at(store, 0, place);
        if (place >= seen) {
            memcpy(to, from, bytes);
            seen++;
        } else {
            coxi_elements_combine(COX_F32, COXI_OP_ADD, to, from, bytes);
        }
    }
}

int coxi_row_store_merge(struct coxi_row_store *store, const struct cox_rows *rows,
                         const float *gradient, struct coxi_row_budget *budget,
                         struct coxi_row_work *work)
{
    struct coxi_row_places places;
    size_t before = store->n;
    work->list.len = 0;
    int r = coxi_row_store_add(store, rows, budget, work, &places);
    if (r != 0 || places.n == 0) {
        return r;
    }
    if (!places.run) {
        merge_rows(store, before, &places, work, (const uint8_t *)gradient);
        return 0;
    }
    void *to = coxi_row_at(store, 0, places.first);
    size_t bytes = places.n * store->widths[0];
    if (store->n > before) { /* all rows are new: the store is whole from now on */
        memcpy(to, gradient, bytes);
    } else {
        coxi_elements_combine(COX_F32, COXI_OP_ADD, to, gradient, bytes);
    }
    return 0;
}

struct cox_rows coxi_rows_shortest(const struct coxi_variable *v, const uint64_t *keys,
                                   size_t n)
{
    bool run = v->kind == COXI_KIND_DENSE && n > 0;
    for (size_t i = 1; run && i < n; i++) {
        run = keys[i] == keys[0] + i;
    }
    if (!run) {
        return cox_rows_listed(keys, n);
    }
    return n == coxi_variable_rows(v) ? cox_rows_all() : cox_rows_slice(keys[0], n);
}

struct cox_rows coxi_row_store_rows(const struct coxi_row_store *store, size_t begin,
                                    size_t n)
{
    if (!store->whole) {
        const uint64_t *keys = (const uint64_t *)(const void *)store->keys.data;
        return coxi_rows_shortest(store->variable->description, keys + begin, n);
    }
    return n == store->n ? cox_rows_all() : cox_rows_slice(begin, n);
}

/* ---- the stores of a step */

struct coxi_row_store *coxi_row_stores_find(const struct coxi_row_stores *stores,
                                            const struct cox_variable *variable)
{
    struct coxi_row_store *store = stores->first;
    while (store != NULL && store->variable != NULL && store->variable != variable) {
        store = store->next;
    }
    return store != NULL && store->variable != NULL ? store : NULL;
}

int coxi_row_stores_take(struct coxi_row_stores *stores, size_t size,
                         struct cox_variable *variable, struct coxi_row_store **ret)
{
    struct coxi_row_store **at = &stores->first;
    while (*at != NULL && (*at)->variable != NULL) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = calloc(1, size);
    }
    if (*at == NULL) {
        return coxi_error_memory("rows of a step");
    }
    struct coxi_row_store *store = *at;
    store->variable = variable;
    store->whole = false;
    store->n = 0;
    store->n_slots = 0;
    store->n_columns = 0;
    *ret = store;
    return 0;
}

static size_t capacity(const struct coxi_row_store *store)
{
    size_t bytes = store->keys.capacity + store->slots.capacity;
    for (uint32_t c = 0; c < COXI_ROW_COLUMNS_MAX; c++) {
        bytes += store->columns[c].capacity;
    }
    return bytes;
}

void coxi_row_stores_reset(struct coxi_row_stores *stores, size_t keep)
{
    size_t bytes = 0;
    for (struct coxi_row_store *store = stores->first; store != NULL;
         store = store->next) {
        store->variable = NULL;
        bytes += capacity(store);
    }
    if (bytes > keep) {
        coxi_row_stores_fini(stores);
    }
}

void coxi_row_store_fini(struct coxi_row_store *store)
{
    coxi_buffer_fini(&store->keys);
    coxi_buffer_fini(&store->slots);
    for (uint32_t c = 0; c < COXI_ROW_COLUMNS_MAX; c++) {
        coxi_buffer_fini(&store->columns[c]);
    }
}

void coxi_row_stores_fini(struct coxi_row_stores *stores)
{
    while (stores->first != NULL) {
        struct coxi_row_store *store = stores->first;
        stores->first = store->next;
        coxi_row_store_fini(store);
        free(store);
    }
}
