/*
 * The rows that a call is about: whether the variable has them; and those that are listed
 * each once and by the ps that holds it, which is what goes over the wire of them.
 */
#ifndef COXI_WORKER_ROWS_H
#define COXI_WORKER_ROWS_H

#include <stdbool.h>

#include "common/buffer.h"
#include "common/layout.h"
#include "coxswain/step.h"

/* COX_EINVAL, COX_ELIMIT unless `rows` are some of v's. */
int coxi_rows_check(const struct coxi_variable *v, const struct cox_rows *rows);

/* Where a row is: the ps, and which of those that go there it is. */
struct coxi_home {
    uint32_t ps;
    uint32_t row;
};

/* Scratch of an attempt, valid until the next call; zeroed is valid. */
struct coxi_spread {
    struct coxi_buffer slots; /* u32: a hash table of what is distinct */
    struct coxi_buffer
        distinct;              /* u64: keys or row numbers, in the order of the call */
    struct coxi_buffer homes;  /* struct coxi_home of each, where they are several */
    struct coxi_buffer counts; /* u32: how many of them each ps has */
    size_t n_distinct;
    bool one; /* all are on ps `ps`, in this order, and there are no homes */
    uint32_t ps;
};

/*
 * Spreads n keys of table `v`, or numbers of rows that the dense `v` has, over n_ps ps.
 * Appends to *places for each of them which of the distinct ones it is (u32), which is never
 * more than its own number. At most UINT32_MAX keys. COX_ENOMEM.
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

/* Of the i-th of the distinct ones. */
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
