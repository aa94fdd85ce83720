/*
 * See names.h. Open addressing in a table of 2^k slots that is at most half full. A
 * full table is replaced by one of twice the size; readers may still be in the old
 * table, so it stays until the end.
 *
 * Invariant: a slot changes once, from NULL to an item that does not change any more.
 * So a reader sees an item whole or not at all.
 *
 * Cost: a look-up reads a slot or two, one item and its name. Memory: at most 128 bytes
 * for an item, old tables included.
 */
#include "common/names.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/error.h"

enum { SLOTS_FIRST = 16 };

struct slot {
    atomic_uint_least64_t hash; /* of the item's name; set before `item` */
    _Atomic(struct coxi_named *) item;
};

struct coxi_names_table {
    struct coxi_names_table *older;
    size_t n_slots;
    struct slot slots[];
};

static struct coxi_names_table *table_of(const struct coxi_names *names)
{
    return atomic_load_explicit(&names->table, memory_order_acquire);
}

/* Puts the item in the first free slot, from the slot of its hash on. */
static void put(struct coxi_names_table *table, struct coxi_named *item)
{
    size_t i = item->hash & (table->n_slots - 1);
    while (atomic_load_explicit(&table->slots[i].item, memory_order_relaxed) != NULL) {
        i = (i + 1) & (table->n_slots - 1);
    }
    atomic_store_explicit(&table->slots[i].hash, item->hash, memory_order_relaxed);
    atomic_store_explicit(&table->slots[i].item, item, memory_order_release);
}

/* Replaces the table by a larger one, if there is no room for one more item. */
static int grow(struct coxi_names *names)
{
    struct coxi_names_table *old = table_of(names);
    size_t n_slots = old != NULL ? old->n_slots : SLOTS_FIRST / 2;
    if (old != NULL && (names->n + 1) * 2 <= n_slots) {
        return 0;
    }
    struct coxi_names_table *table =
        calloc(1, sizeof(*table) + 2 * n_slots * sizeof(table->slots[0]));
    if (table == NULL) {
        return coxi_error_memory("names");
    }
    table->older = old;
    table->n_slots = 2 * n_slots;
    for (size_t i = 0; old != NULL && i < n_slots; i++) {
        struct coxi_named *item =
            atomic_load_explicit(&old->slots[i].item, memory_order_relaxed);
        if (item != NULL) {
            put(table, item);
        }
    }
    atomic_store_explicit(&names->table, table, memory_order_release);
    return 0;
}

int coxi_names_add(struct coxi_names *names, struct coxi_named *item)
{
    int r = grow(names);
    if (r == 0) {
        item->hash = XXH3_64bits(item->name, item->len);
        put(table_of(names), item);
        names->n++;
    }
    return r;
}

struct coxi_named *coxi_names_get(const struct coxi_names *names, const char *name,
                                  size_t len)
{
    const struct coxi_names_table *table = table_of(names);
    if (table == NULL) {
        return NULL;
    }
    uint64_t hash = XXH3_64bits(name, len);
    size_t i = hash & (table->n_slots - 1);
    struct coxi_named *item;
    while ((item = atomic_load_explicit(&table->slots[i].item, memory_order_acquire)) !=
           NULL) {
        if (atomic_load_explicit(&table->slots[i].hash, memory_order_relaxed) == hash &&
            item->len == len && memcmp(item->name, name, len) == 0) {
            return item;
        }
        i = (i + 1) & (table->n_slots - 1);
    }
    return NULL;
}

void coxi_names_fini(struct coxi_names *names)
{
    struct coxi_names_table *table = table_of(names);
    while (table != NULL) {
        struct coxi_names_table *older = table->older;
        free(table);
        table = older;
    }
    *names = (struct coxi_names){0};
}
