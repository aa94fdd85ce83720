/* See restore_internal.h. Threads: the restore's, and those of restore_rows.c. */
#include <string.h>

#include "ps/restore_internal.h"

enum { DROP_MAX = 4096 /* rows dropped at a time */ };

struct source {
    struct coxi_restore_arrays arrays; /* n 0: the table is not in the file */
    bool ages;
    /* keys dropped since the snapshot that this one builds on */
    const struct coxi_st_tensor *removed; /* NULL: none */
    uint64_t n_removed;
    const struct coxi_st_tensor *step;
};

/* Finds the rows of the table in the file: their keys, values, states and lives. */
static int find_rows(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, struct source *ret)
{
    static const char *const lives[] = {"last", "made", "updates"};
    size_t dim = coxi_table_dim(part->variable);
    struct coxi_restore_arrays *arrays = &ret->arrays;
    int r = coxi_restore_add(restoring, part, "keys", "U64", 1, arrays);
    if (r == 0) {
        r = coxi_restore_add(restoring, part, "values", "F32", dim, arrays);
    }
    if (r == 0) {
        r = coxi_restore_add_states(restoring, part, dim, arrays);
    }
    ret->ages = coxi_table_ages(part->table);
    for (size_t i = 0; r == 0 && ret->ages && i < sizeof(lives) / sizeof(*lives); i++) {
        r = coxi_restore_add(restoring, part, lives[i], "U64", 1, arrays);
    }
    return r;
}

static int find_part(const struct coxi_restoring *restoring,
                     const struct coxi_part *part, struct source *ret)
{
    if (part->table == NULL ||
        !coxi_restore_has(restoring, part, "keys", &ret->arrays.rows)) {
        return 0;
    }
    int r = find_rows(restoring, part, ret);
    if (r == 0) {
        r = coxi_restore_find_step(restoring, part, &ret->step);
    }
    if (r == 0 && coxi_restore_has(restoring, part, "removed", &ret->n_removed)) {
        ret->removed =
            coxi_restore_find(restoring, part, "removed", "U64", ret->n_removed);
        r = ret->removed != NULL ? 0 : COX_EFORMAT;
    }
    return r;
}

static int raise_step(struct coxi_restoring *restoring, size_t part, uint64_t step)
{
    int r = coxi_restore_enter(restoring);
    if (r == 0) {
        coxi_table_raise_step(restoring->store->parts[part].table, step);
        coxi_restore_leave(restoring);
    }
    return r;
}

static int drop_keys(struct coxi_restoring *restoring, size_t part,
                     const uint64_t *keys, size_t n)
{
    int r = coxi_restore_enter(restoring);
    if (r == 0) {
        coxi_table_drop(restoring->store->parts[part].table, keys, n);
        coxi_restore_leave(restoring);
    }
    return r;
}

static int drop_removed(struct coxi_restoring *restoring, size_t part,
                        const struct source *source)
{
    uint64_t keys[DROP_MAX];
    int r = 0;
    for (uint64_t at = 0, n; r == 0 && at < source->n_removed; at += n) {
        n = source->n_removed - at < DROP_MAX ? source->n_removed - at : DROP_MAX;
        r = coxi_st_sum_read(restoring->sum, source->removed, at * sizeof(*keys), keys,
                             n * sizeof(*keys));
        r = r == 0 ? drop_keys(restoring, part, keys, n) : r;
    }
    return r;
}

/* The table's step is set before its rows are loaded, because rows count their age from
 * it. No row is evicted while they are loaded, because the table must be equal to the
 * cut. */
int coxi_restore_table(struct coxi_restoring *restoring, size_t part)
{
    struct source source = {.ages = false};
    uint64_t step;
    int r = coxi_restore_enter(restoring);
    if (r != 0) {
        return r;
    }
    r = find_part(restoring, &restoring->store->parts[part], &source);
    coxi_restore_leave(restoring);
    if (r != 0 || source.arrays.n == 0) {
        return r;
    }
    r = coxi_restore_read(restoring, source.step, &step, sizeof(step));
    if (r == 0) {
        r = raise_step(restoring, part, step);
    }
    if (r == 0 && source.removed != NULL) {
        r = drop_removed(restoring, part, &source);
    }
    return r == 0 ? coxi_restore_rows(restoring, part, &source.arrays, source.ages) : r;
}
