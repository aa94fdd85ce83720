/* What table.c, table_load.c, table_cut.c, table_track.c and eviction.c share. Not for
 * others. */
#ifndef COXI_PS_TABLE_INTERNAL_H
#define COXI_PS_TABLE_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "common/optimizer.h"
#include "common/sync.h"
#include "ps/admission.h"
#include "ps/bits.h"
#include "ps/index.h"
#include "ps/memory.h"
#include "ps/spin.h"
#include "ps/table.h"

struct coxi_bucket {
    alignas(64) struct coxi_spin lock; /* guards the rows, too; leaf */
    struct coxi_index_bucket index COXI_GUARDED_BY(lock);
    /* the next row that the bucket may make without asking for more ... */
    uint32_t run COXI_GUARDED_BY(lock);
    uint32_t n_run COXI_GUARDED_BY(lock); /* ... and how many such rows there are */
    /* list of evicted rows, linked by their first 4 bytes; 0: none */
    uint32_t free_row COXI_GUARDED_BY(lock);
};

/* The place where eviction goes on: a line of a bucket. */
struct coxi_hand {
    uint32_t bucket;
    uint32_t line;
};

struct coxi_table {
    const struct coxi_variable *variable;
    struct coxi_memory *memory;
    size_t dim;
    size_t value_bytes;
    size_t row_bytes;
    size_t life_at; /* offset of struct coxi_row_life in a row; 0: rows have none */
    struct coxi_state_layout layout;
    struct coxi_admission *admission; /* NULL: all keys are admitted */
    struct coxi_index index;
    struct coxi_stretch rows;
    /* the changes so far; NULL: changes are not noted */
    struct coxi_table_track *track;
    /* the cut that is being read, or NULL; changed while no change is under way */
    struct coxi_table_cut *cut;

    atomic_uint_least64_t step;
    atomic_uint_least64_t version;
    atomic_uint_least64_t n_rows;
    atomic_uint_least64_t n_lookups;
    atomic_uint_least64_t n_hits;
    atomic_uint_least64_t n_admitted;
    atomic_uint_least64_t n_evicted;

    struct coxi_mutex books; /* leaf */
    /* rows that exist, and rows that commits have reserved */
    uint64_t held_rows COXI_GUARDED_BY(books);
    /* rows whose memory was taken; some of them are evicted */
    uint64_t paid_rows COXI_GUARDED_BY(books);

    struct coxi_mutex tidying; /* before locks of buckets */
    struct coxi_hand sweep COXI_GUARDED_BY(tidying);
    struct coxi_hand sample COXI_GUARDED_BY(tidying);

    /* COXI_BUCKETS, in memory that takes room only when it is used */
    struct coxi_bucket *buckets;
};

static inline struct coxi_bucket *coxi_table_bucket(struct coxi_table *table,
                                                    uint64_t hash)
{
    return &table->buckets[coxi_hash_bucket(hash)];
}

static inline float *coxi_table_values(const struct coxi_table *table, uint32_t row)
{
    return (float *)(void *)coxi_stretch_at(&table->rows, row);
}

/* Prefetches the index lines of up to 64 keys, and then `bytes` bytes of their rows,
 * from byte `from` on. Takes no lock. */
void coxi_table_hint(struct coxi_table *table, const uint64_t *keys, size_t n,
                     size_t from, size_t bytes);

/* _reserve_rows reserves memory for n more rows; evicted rows count toward it.
 * COX_ENOMEM. Then make the rows, and call _settle_rows with the number that were
 * really made. No lock held. */
int coxi_table_reserve_rows(struct coxi_table *table, uint64_t n);
void coxi_table_settle_rows(struct coxi_table *table, uint64_t n, uint64_t n_made);

/* Makes the row of an absent key, with memory that was reserved; the caller fills the
 * row. COX_ENOMEM, COX_ELIMIT. */
int coxi_table_make_row(struct coxi_table *table, struct coxi_bucket *bucket,
                        uint64_t key, uint64_t hash, uint32_t *ret)
    COXI_REQUIRES(bucket->lock);

/* Set the state of a new row, and its life, to their initial values. The row's bucket
 * is locked. */
void coxi_table_start_state(const struct coxi_table *table, float *state);
void coxi_table_start_life(struct coxi_table *table, float *values);

/* Call this before an existing row is changed; returns the row's values. The row's
 * bucket is locked. */
float *coxi_table_reach_row(struct coxi_table *table, uint64_t key, uint32_t row);

/* Keeps a dropped row's memory for the next row of the same bucket. */
static inline void coxi_table_give_row(struct coxi_table *table,
                                       struct coxi_bucket *bucket, uint32_t row)
    COXI_REQUIRES(bucket->lock)
{
    memcpy(coxi_table_values(table, row), &bucket->free_row, sizeof(bucket->free_row));
    bucket->free_row = row;
}

/* The life of the row with these values, in a table whose rows have one. */
static inline struct coxi_row_life *coxi_table_life(const struct coxi_table *table,
                                                    float *values)
{
    return (struct coxi_row_life *)(void *)((uint8_t *)values + table->life_at);
}

/* True if rows are evicted. */
static inline bool coxi_eviction_wanted(const struct coxi_lifecycle *lifecycle)
{
    return lifecycle->evict_age > 0 || lifecycle->evict_count > 0 ||
           lifecycle->rows_max > 0;
}

/* While a cut is being read: call _save before a row that the cut may hold changes or
 * is dropped, and _pass when a row was made. The bucket is locked. */
void coxi_table_cut_save(struct coxi_table_cut *cut, uint64_t key, uint32_t row);
void coxi_table_cut_pass(struct coxi_table_cut *cut, uint32_t row);

/* Note a change: _touch when a row is changed or made, with its bucket locked; _gone
 * when a row is dropped, with `tidying` locked, too. */
void coxi_table_track_touch(struct coxi_table_track *track, uint64_t key, uint32_t row);
void coxi_table_track_gone(struct coxi_table_track *track, uint64_t key, uint32_t row);
void coxi_table_track_free(struct coxi_table_track *track); /* takes NULL */

/* The rows that were touched since the snapshot's base (table_track.c, `before`). */
const struct coxi_bits *coxi_table_track_rows(const struct coxi_table_track *track);

/*
 * The keys (u64) of these rows: items 0 to *ret_n - 1. Some appear twice, and some
 * belong to rows that were dropped. NULL: they are too many to be listed. Valid until
 * the next cut.
 */
const struct coxi_stretch *coxi_table_track_keys(const struct coxi_table_track *track,
                                                 uint64_t *ret_n);

/* Subtracts n from the number of rows. */
static inline void coxi_table_count_gone(struct coxi_table *table, uint64_t n)
{
    atomic_fetch_sub_explicit(&table->n_rows, n, memory_order_relaxed);
    coxi_lock(&table->books);
    table->held_rows -= n;
    coxi_unlock(&table->books);
}

/* After an update of n rows: evicts rows that are due, a bounded number. No lock
 * held. */
void coxi_eviction_tidy(struct coxi_table *table, size_t n);

#endif
