/* See bases.h. Few variables are compensated, so a list of them will do. */
#include "worker/bases.h"

#include <stdlib.h>
#include <string.h>

#include "common/distinct.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/layout.h"

enum { CHUNK = 64 };

/* What was pulled last from a variable. */
struct coxi_base {
    struct coxi_base *next;
    const struct coxi_variable *variable;
    uint64_t step; /* which pulled it */
    bool is_listed;
    uint64_t begin;
    size_t n;
    struct coxi_buffer keys;  /* u64, if it is listed */
    struct coxi_buffer slots; /* struct coxi_maybe: of `index` */
    /* the keys; those that are listed twice are found at the last place. No slots: not
     * made yet */
    struct coxi_distinct index;
    struct coxi_buffer values; /* of the rows, in F32 */
};

/* ---- pulls under way */

struct base_pull {
    const struct coxi_variable *variable;
    const void *values;
    bool is_listed;
    uint64_t begin;
    size_t n;
    size_t keys_at;
};

int coxi_base_pulls_add(struct coxi_base_pulls *pulls, const struct cox_pull *pull,
                        const struct coxi_variable *variable)
{
    const struct cox_rows *rows = &pull->rows;
    struct base_pull kept = {.variable = variable,
                             .values = pull->values,
                             .is_listed = rows->form == COX_ROWS_LISTED,
                             .keys_at = pulls->keys.len};
    kept.begin = rows->form == COX_ROWS_SLICE ? rows->begin : 0;
    kept.n = rows->form == COX_ROWS_ALL ? coxi_variable_rows(variable) : rows->n;
    int r = coxi_buffer_append_raw(&pulls->pulls, &kept, sizeof(kept));
    return r == 0 && kept.is_listed
               ? coxi_buffer_append_raw(&pulls->keys, rows->keys,
                                        rows->n * sizeof(*rows->keys))
               : r;
}

void coxi_base_pulls_reset(struct coxi_base_pulls *pulls)
{
    pulls->pulls.len = pulls->keys.len = 0;
}

void coxi_base_pulls_fini(struct coxi_base_pulls *pulls)
{
    coxi_buffer_fini(&pulls->pulls);
    coxi_buffer_fini(&pulls->keys);
}

/* ---- values */

void coxi_bases_begin(struct coxi_bases *bases)
{
    bases->step++;
}

void coxi_bases_fini(struct coxi_bases *bases)
{
    while (bases->first != NULL) {
        struct coxi_base *base = bases->first;
        bases->first = base->next;
        coxi_buffer_fini(&base->keys);
        coxi_buffer_fini(&base->slots);
        coxi_buffer_fini(&base->values);
        free(base);
    }
}

static struct coxi_base *find(const struct coxi_bases *bases,
                              const struct coxi_variable *variable)
{
    struct coxi_base *base = bases->first;
    while (base != NULL && base->variable != variable) {
        base = base->next;
    }
    return base;
}

/* The base of a variable, made if need be; NULL: there is no memory. */
static struct coxi_base *get(struct coxi_bases *bases,
                             const struct coxi_variable *variable)
{
    struct coxi_base *base = find(bases, variable);
    if (base == NULL) {
        base = calloc(1, sizeof(*base));
        if (base != NULL) {
            base->variable = variable;
            base->next = bases->first;
            bases->first = base;
        }
    }
    return base;
}

static int take(struct coxi_bases *bases, const struct base_pull *pull,
                const uint8_t *keys)
{
    struct coxi_base *base = get(bases, pull->variable);
    if (base == NULL) {
        return coxi_error_memory("pulled values");
    }
    base->step = 0; /* of no step, until all is here */
    base->is_listed = pull->is_listed;
    base->begin = pull->begin;
    base->n = pull->n;
    base->index.n_slots = 0;
    base->keys.len = base->values.len = 0;
    int r = coxi_buffer_append_raw(&base->values, pull->values,
                                   pull->n * coxi_variable_row_bytes(pull->variable));
    if (r == 0 && pull->is_listed) {
        r = coxi_buffer_append_raw(&base->keys, keys + pull->keys_at,
                                   pull->n * sizeof(uint64_t));
    }
    base->step = r == 0 ? bases->step : 0;
    return r;
}

int coxi_bases_take(struct coxi_bases *bases, const struct coxi_base_pulls *pulls)
{
    const struct base_pull *all =
        (const struct base_pull *)(const void *)pulls->pulls.data;
    int r = 0;
    for (size_t i = 0; r == 0 && i < pulls->pulls.len / sizeof(*all); i++) {
        if (all[i].n > 0) {
            r = take(bases, &all[i], pulls->keys.data);
        }
    }
    return r;
}

/* ---- finding rows */

static int make_index(struct coxi_base *base)
{
    size_t n_slots = coxi_distinct_slots(base->n);
    base->slots.len = 0;
    int r = coxi_buffer_append(&base->slots, NULL, n_slots * sizeof(struct coxi_maybe));
    if (r == 0) {
        base->index = (struct coxi_distinct){
            .keys = (uint64_t *)(void *)base->keys.data,
            .slots = (struct coxi_maybe *)(void *)base->slots.data,
            .n_slots = n_slots,
            .seed = coxi_hash_seed(),
            .n = base->n};
        coxi_distinct_enter(&base->index);
    }
    return r;
}

/* Copies the values of up to CHUNK rows; false: not all of them were pulled. */
static bool copy_listed(const struct coxi_base *base, const uint64_t *rows, size_t n,
                        size_t row_bytes, uint8_t *to)
{
    uint32_t places[CHUNK];
    bool known = coxi_distinct_find(&base->index, rows, n, places) == n;
    for (size_t i = 0; known && i < n; i++) {
        memcpy(to + i * row_bytes, base->values.data + places[i] * row_bytes,
               row_bytes);
    }
    return known;
}

/* The same, if rows [base->begin, base->begin + base->n) were pulled. */
static bool copy_range(const struct coxi_base *base, const uint64_t *rows, size_t n,
                       size_t row_bytes, uint8_t *to)
{
    bool known = true;
    for (size_t i = 0; known && i < n; i++) {
        uint64_t at = rows[i] - base->begin;
        known = rows[i] >= base->begin && at < base->n;
        if (known) {
            memcpy(to + i * row_bytes, base->values.data + at * row_bytes, row_bytes);
        }
    }
    return known;
}

/* Copies the values of rows that follow each other, of which a range was pulled, or of
 * those that were listed, in their order; false: it is neither. */
static bool copy_whole(const struct coxi_base *base, const uint64_t *listed,
                       uint64_t begin, size_t count, size_t row_bytes, uint8_t *to)
{
    size_t at = 0;
    if (base->is_listed != (listed != NULL)) {
        return false;
    }
    if (listed != NULL) {
        if (count != base->n ||
            memcmp(listed, base->keys.data, count * sizeof(*listed)) != 0) {
            return false;
        }
    } else {
        at = begin - base->begin;
        if (begin < base->begin || at > base->n || count > base->n - at) {
            return false;
        }
    }
    memcpy(to, base->values.data + at * row_bytes, count * row_bytes);
    return true;
}

int coxi_bases_get(struct coxi_bases *bases, const struct coxi_variable *variable,
                   const uint64_t *listed, uint64_t begin, size_t count, uint8_t *to,
                   bool *ret_known)
{
    struct coxi_base *base = find(bases, variable);
    *ret_known = base != NULL && base->step == bases->step;
    if (!*ret_known) {
        return 0;
    }
    size_t row_bytes = coxi_variable_row_bytes(variable);
    if (copy_whole(base, listed, begin, count, row_bytes, to)) {
        return 0;
    }
    int r = base->is_listed && base->index.n_slots == 0 ? make_index(base) : 0;
    for (size_t at = 0; r == 0 && *ret_known && at < count; at += CHUNK) {
        uint64_t rows[CHUNK];
        size_t n = count - at < CHUNK ? count - at : CHUNK;
        for (size_t i = 0; i < n; i++) {
            rows[i] = listed != NULL ? listed[at + i] : begin + at + i;
        }
        *ret_known = (base->is_listed ? copy_listed : copy_range)(
            base, rows, n, row_bytes, to + at * row_bytes);
    }
    return r;
}
