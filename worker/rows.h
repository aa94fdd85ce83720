/* Checks the rows of a call, and spreads listed rows over the ps: finds each distinct
 * row once, with the ps that holds it. Only distinct rows go over the wire. */
#ifndef COXI_WORKER_ROWS_H
#define COXI_WORKER_ROWS_H

#include <stdbool.h>

#include "common/buffer.h"
#include "common/layout.h"
#include "coxswain/step.h"

/* Like coxi_rows_check, for rows that must be looked at. */
int coxi_rows_check_some(const struct coxi_variable *v, const struct cox_rows *rows);

/* COX_EINVAL, COX_ELIMIT unless `rows` are rows of `v`. */
static inline int coxi_rows_check(const struct coxi_variable *v,
                                  const struct cox_rows *rows)
{
    return rows->form == COX_ROWS_ALL && v->kind != COXI_KIND_TABLE
               ? 0
               : coxi_rows_check_some(v, rows);
}

/* The rows of `rows`, which are all rows of a dense variable or a slice, in a shard. */
static inline struct coxi_range coxi_rows_part(const struct cox_rows *rows,
                                               const struct coxi_shard *shard)
{
    return rows->form == COX_ROWS_ALL ? (struct coxi_range){shard->begin, shard->count}
                                      : coxi_shard_part(shard, rows->begin, rows->n);
}

/* Where a row goes: its ps, and its index among the rows that go there. */
struct coxi_home {
    uint32_t ps;
    uint32_t row;
};

/* Scratch of an attempt, valid until the next call; zeroed is valid. */
struct coxi_spread {
    struct coxi_buffer slots; /* u32: hash table of the distinct rows ... */
    uint64_t seed;            /* ... and its secret seed; 0: not chosen yet */
    /* u64: keys or row numbers, in the order of the call */
    struct coxi_buffer distinct;
    /* struct coxi_home of each distinct row; not used if `one` */
    struct coxi_buffer homes;
    struct coxi_buffer counts; /* u32: the number of distinct rows for each ps */
    size_t n_distinct;
    bool one; /* all rows are on ps `ps`, in the order of `distinct` */
    uint32_t ps;
};

/*
 * Spreads n keys of table `v`, or n row numbers that are valid in the dense `v`, over
 * n_ps ps. Appends to *places, for each of them, the index of its distinct row (u32),
 * which is never above its own index. At most UINT32_MAX keys. COX_ENOMEM.
 */
int coxi_spread_rows(struct coxi_spread *spread, const struct coxi_variable *v,
                     uint32_t n_ps, const uint64_t *keys, size_t n,
                     struct coxi_buffer *places);

static inline const uint64_t *coxi_spread_distinct(const struct coxi_spread *spread)
{
    return (const uint64_t *)(const void *)spread->distinct.data;
}

static inline size_t coxi_spread_count(const struct coxi_spread *spread, uint32_t ps)
{
    return ((const uint32_t *)(const void *)spread->counts.data)[ps];
}

/* The home of the i-th distinct row. */
static inline struct coxi_home coxi_spread_home(const struct coxi_spread *spread,
                                                size_t i)
{
    if (spread->one) {
        return (struct coxi_home){spread->ps, (uint32_t)i};
    }
    return ((const struct coxi_home *)(const void *)spread->homes.data)[i];
}

void coxi_spread_fini(struct coxi_spread *spread);

#endif
