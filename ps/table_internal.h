/* What table.c, table_load.c, table_cut.c, table_track.c and eviction.c share. Not for others. */
#ifndef COXI_PS_TABLE_INTERNAL_H
#define COXI_PS_TABLE_INTERNAL_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

#include "common/sync.h"
#include "ps/admission.h"
#include "ps/bits.h"
#include "ps/index.h"
#include "ps/memory.h"
#include "ps/optimizer.h"
#include "ps/spin.h"
#include "ps/table.h"

struct coxi_bucket {
    alignas(64) struct coxi_spin lock; /* guards all below, the rows; leaf */
    struct coxi_index_bucket index;
    uint32_t run;   /* the next of the rows that it may make without asking ... */
    uint32_t n_run; /* ... and how many these are */
    uint32_t
        free_row; /* a list of evicted ones, linked by their first 4 bytes; 0: none */
};

/* Where eviction goes on: a line of a bucket. */
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
    size_t life_at; /* of struct coxi_row_life in a row; 0: rows have none */
    struct coxi_state_layout layout;
    struct coxi_admission *admission; /* NULL: all are admitted */
    struct coxi_index index;
    struct coxi_stretch rows;
    struct coxi_table_track *track; /* what has changed, or NULL: nobody asks */
    struct coxi_table_cut *cut; /* that is being read, or NULL; changed while no change
                                   is under way */

    atomic_uint_least64_t step;
    atomic_uint_least64_t n_rows;
    atomic_uint_least64_t n_lookups;
    atomic_uint_least64_t n_hits;
    atomic_uint_least64_t n_admitted;
    atomic_uint_least64_t n_evicted;

    pthread_mutex_t books; /* guards the next two; leaf */
    uint64_t held_rows;    /* that there are, and that commits have reserved */
    uint64_t paid_rows;    /* whose memory has been taken, some of them evicted */

    pthread_mutex_t tidying; /* guards the hands; before locks of buckets */
    struct coxi_hand sweep;
    struct coxi_hand sample;

    struct coxi_bucket
        *buckets; /* COXI_BUCKETS, in memory that takes room when it is used */
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

/* Has the processor fetch the index lines of up to 64 keys, and then `bytes` bytes of their
 * rows, from byte `from` on. Takes no lock. */
void coxi_table_hint(struct coxi_table *table, const uint64_t *keys, size_t n,
                     size_t from, size_t bytes);

/* Takes memory for n rows more, as far as those that have gone leave none. COX_ENOMEM.
 * Then, when n_made of them have been made, settles. No lock held. */
int coxi_table_reserve_rows(struct coxi_table *table, uint64_t n);
void coxi_table_settle_rows(struct coxi_table *table, uint64_t n, uint64_t n_made);

/* The row of an absent key, reserved; what is in it is up to the caller. COX_ENOMEM,
 * COX_ELIMIT. Locked. */
int coxi_table_make_row(struct coxi_table *table, struct coxi_bucket *bucket,
                        uint64_t key, uint64_t hash, uint32_t *ret);

/* What a new row's state begins with, and its life. Locked. */
void coxi_table_start_state(const struct coxi_table *table, float *state);
void coxi_table_start_life(struct coxi_table *table, float *values);

/* A row that was there, before it changes; its values. Locked. */
float *coxi_table_reach_row(struct coxi_table *table, uint64_t key, uint32_t row);

/* Keeps the memory of a row for the next one of its bucket. Locked. */
static inline void coxi_table_give_row(struct coxi_table *table,
                                       struct coxi_bucket *bucket, uint32_t row)
{
    memcpy(coxi_table_values(table, row), &bucket->free_row, sizeof(bucket->free_row));
    bucket->free_row = row;
}

/* Of a row's values, in a table whose rows have it. */
static inline struct coxi_row_life *coxi_table_life(const struct coxi_table *table,
                                                    float *values)
{
    return (struct coxi_row_life *)(void *)((uint8_t *)values + table->life_at);
}

/* Whether rows go again. */
static inline bool coxi_eviction_wanted(const struct coxi_lifecycle *lifecycle)
{
    return lifecycle->evict_age > 0 || lifecycle->evict_count > 0 ||
           lifecycle->rows_max > 0;
}

/* While a cut is being read, before a row that there was changes or goes; and of a row that
 * is made. The bucket is locked. */
void coxi_table_cut_save(struct coxi_table_cut *cut, uint64_t key, uint32_t row);
void coxi_table_cut_pass(struct coxi_table_cut *cut, uint32_t row);

/* What has changed: a row is touched or made, its bucket locked; one goes, with `tidying`
 * locked, too. */
void coxi_table_track_touch(struct coxi_table_track *track, uint64_t key, uint32_t row);
void coxi_table_track_gone(struct coxi_table_track *track, uint64_t key, uint32_t row);
void coxi_table_track_free(struct coxi_table_track *track); /* takes NULL */

/* The rows that were touched between the last two cuts that count. */
const struct coxi_bits *coxi_table_track_rows(const struct coxi_table_track *track);

/* Their keys (u64), some twice, and some of rows that went: items 0 to *ret_n - 1; or NULL:
 * they are too many to be listed. Until the next cut. */
const struct coxi_stretch *coxi_table_track_keys(const struct coxi_table_track *track,
                                                 uint64_t *ret_n);

/* So many rows less. */
static inline void coxi_table_count_gone(struct coxi_table *table, uint64_t n)
{
    atomic_fetch_sub_explicit(&table->n_rows, n, memory_order_relaxed);
    coxi_lock(&table->books);
    table->held_rows -= n;
    coxi_unlock(&table->books);
}

/* After an update of n rows: drops rows that are to go, a bounded number. No lock held. */
void coxi_eviction_tidy(struct coxi_table *table, size_t n);

#endif
