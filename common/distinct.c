/* See distinct.h. */
#include "common/distinct.h"

#include "common/hash.h"

enum { SLOTS_MIN = 16, GROUP = 16 };

size_t coxi_distinct_slots(size_t n)
{
    size_t n_slots = SLOTS_MIN;
    while (n_slots < n * 2) {
        n_slots *= 2;
    }
    return n_slots;
}

/* Where the search for each of n keys begins; n is at most GROUP. */
static inline void hint(const struct coxi_distinct *distinct, const uint64_t *keys,
                        size_t n, size_t ret[GROUP])
{
    for (size_t i = 0; i < n; i++) {
        ret[i] = coxi_hash_place(coxi_hash_key(keys[i]), distinct->seed) &
                 (distinct->n_slots - 1);
        __builtin_prefetch(&distinct->slots[ret[i]]);
    }
}

/* The slot of a key, or the free one where it belongs. */
static inline struct coxi_maybe *slot_of(const struct coxi_distinct *distinct,
                                         uint64_t key, size_t at)
{
    struct coxi_maybe *slots = distinct->slots;
    while (coxi_maybe_is_some(slots[at]) &&
           distinct->keys[coxi_maybe_index(slots[at])] != key) {
        at = (at + 1) & (distinct->n_slots - 1);
    }
    return &slots[at];
}

void coxi_distinct_add(struct coxi_distinct *distinct, const uint64_t *keys, size_t n,
                       uint32_t *ret)
{
    struct coxi_distinct d = *distinct; /* in registers: no store below changes it */
    for (size_t base = 0; base < n; base += GROUP) {
        size_t at[GROUP];
        size_t count = n - base < GROUP ? n - base : GROUP;
        hint(&d, keys + base, count, at);
        for (size_t k = 0; k < count; k++) {
            uint64_t key = keys[base + k];
            struct coxi_maybe *slot = slot_of(&d, key, at[k]);
            if (!coxi_maybe_is_some(*slot)) {
                d.keys[d.n] = key;
                *slot = coxi_maybe_of((uint32_t)d.n++);
            }
            ret[base + k] = coxi_maybe_index(*slot);
        }
    }
    distinct->n = d.n;
}

size_t coxi_distinct_find(const struct coxi_distinct *distinct, const uint64_t *keys,
                          size_t n, uint32_t *ret)
{
    for (size_t base = 0; base < n; base += GROUP) {
        size_t at[GROUP];
        size_t count = n - base < GROUP ? n - base : GROUP;
        hint(distinct, keys + base, count, at);
        for (size_t k = 0; k < count; k++) {
            const struct coxi_maybe *slot = slot_of(distinct, keys[base + k], at[k]);
            if (!coxi_maybe_is_some(*slot)) {
                return base + k;
            }
            ret[base + k] = coxi_maybe_index(*slot);
        }
    }
    return n;
}

void coxi_distinct_enter(struct coxi_distinct *distinct)
{
    for (size_t base = 0; base < distinct->n; base += GROUP) {
        size_t at[GROUP];
        size_t count = distinct->n - base < GROUP ? distinct->n - base : GROUP;
        hint(distinct, distinct->keys + base, count, at);
        for (size_t k = 0; k < count; k++) {
            *slot_of(distinct, distinct->keys[base + k], at[k]) =
                coxi_maybe_of((uint32_t)(base + k));
        }
    }
}
