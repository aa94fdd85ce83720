/*
 * What a store has counted: commits and pulls, the memory and the rows of its variables,
 * and how stale gradients were (ps/staleness.h).
 *
 * Threads: any. Holds the registry (read).
 */
#include "ps/store_internal.h"

/* Adds a part's numbers to the totals. */
static void count_part(struct coxi_part *part, struct coxi_counters *all)
{
    if (part->table != NULL) {
        all->rows += coxi_table_rows(part->table);
        all->bytes += coxi_table_bytes(part->table);
    } else if (part->dense != NULL) {
        all->bytes += coxi_dense_bytes(part->dense);
    }
}

/* Adds what was counted of the staleness of gradients. Registry read. */
static void add_stale(const struct coxi_store *store, const struct coxi_count *count,
                      struct coxi_histogram *to)
{
    switch (count->stale_of) {
    case COXI_STALE_ALL:
        if (store->workers != NULL) {
            coxi_stale_workers_add_all(store->workers, to);
        }
        return;
    case COXI_STALE_VARIABLE:
        if (count->index < store->n_parts && store->parts[count->index].stale != NULL) {
            coxi_stale_add_to(store->parts[count->index].stale, to);
        }
        return;
    case COXI_STALE_WORKER:
        if (store->workers != NULL) {
            coxi_stale_workers_add(store->workers, count->index, to);
        }
        return;
    case COXI_STALE_NONE:
        return;
    }
}

void coxi_store_counts(struct coxi_store *store, const struct coxi_count *count,
                       struct coxi_counts *ret)
{
    coxi_read_lock(&store->registry);
    struct coxi_counts counts = {
        .all = {.commits = atomic_load(&store->commits),
                .duplicates = atomic_load(&store->duplicates),
                .pulls = atomic_load(&store->pulls)},
        .infinite = atomic_load(&store->infinite),
    };
    for (size_t i = 0; i < store->n_parts; i++) {
        count_part(&store->parts[i], &counts.all);
    }
    struct coxi_maybe table = count->table;
    bool is_there =
        coxi_maybe_is_some(table) && coxi_maybe_index(table) < store->n_parts;
    struct coxi_table *of =
        is_there ? store->parts[coxi_maybe_index(table)].table : NULL;
    if (of != NULL) {
        coxi_table_counts(of, &counts.table);
    }
    add_stale(store, count, &counts.stale);
    coxi_rw_unlock(&store->registry);
    *ret = counts;
}
