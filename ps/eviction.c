/*
 * Evicts rows (coxswain.h, struct cox_lifecycle). After each update the updating thread
 * evicts a few rows, in proportion to the update. It skips this if another thread is
 * evicting.
 *
 *   by age and count   a hand goes round all lines and drops the rows that are due. It
 *                      has been everywhere when about three times as many rows were
 *                      updated as there are
 *   by rows_max        while there are too many, the oldest of SAMPLE rows is dropped;
 *                      another hand chooses the next SAMPLE each time. So approximately
 *                      the oldest row of all is dropped. After a commit without others
 *                      beside it there are at most rows_max
 *
 * A row that a commit has resolved and not updated yet is pinned, and stays.
 *
 * The same commits in the same order drop the same rows. Cost of a row dropped by
 * rows_max: a look at SAMPLE others.
 */
#include "common/sync.h"
#include "common/trace.h"
#include "ps/table_internal.h"

enum {
    SAMPLE = 8,
    RUN = 8,         /* most lines of a bucket looked at under one lock */
    SWEEP_SHARE = 8, /* one line is looked at for this many updated rows ... */
    SWEEP_LEAST = 4, /* ... but at least this many lines */
    DUE_MAX = 16,    /* most rows dropped from a line at a time */
    DROP_LEAST = 64, /* rows that may be dropped for rows_max after any update */
};

/* Moves to the first line of the next bucket that has lines; if none has, stays. */
static void next_bucket(const struct coxi_table *table, struct coxi_hand *hand)
{
    hand->line = 0;
    for (uint32_t i = 0; i < COXI_BUCKETS; i++) {
        hand->bucket = (hand->bucket + 1) % COXI_BUCKETS;
        if (atomic_load_explicit(&table->buckets[hand->bucket].index.n_lines,
                                 memory_order_relaxed) > 0) {
            return;
        }
    }
}

static int ask_for_life(void *arg, uint64_t key, uint32_t row)
{
    const struct coxi_table *table = arg;
    (void)key;
    __builtin_prefetch(coxi_table_life(table, coxi_table_values(table, row)));
    return 0;
}

/* Locks `bucket`, to which the hand points, and prefetches the lives of the rows in its
 * next lines, up to `n` (1 to RUN). Returns the number of lines. hand_end moves the
 * hand past these lines and unlocks the bucket. */
static uint32_t hand_begin(struct coxi_table *table, struct coxi_bucket *bucket,
                           const struct coxi_hand *hand, uint32_t n)
    COXI_ACQUIRES(bucket->lock)
{
    coxi_spin_lock(&bucket->lock);
    uint32_t n_lines =
        atomic_load_explicit(&bucket->index.n_lines, memory_order_relaxed);
    uint32_t left = n_lines > hand->line ? n_lines - hand->line : 0;
    n = left < n ? left : n;
    for (uint32_t i = 0; i < n; i++) {
        (void)coxi_index_each(&table->index, &bucket->index, hand->line + i,
                              ask_for_life, table);
    }
    return n;
}

static void hand_end(struct coxi_table *table, struct coxi_bucket *bucket,
                     struct coxi_hand *hand, uint32_t n) COXI_RELEASES(bucket->lock)
{
    hand->line += n;
    bool ends = hand->line >=
                atomic_load_explicit(&bucket->index.n_lines, memory_order_relaxed);
    coxi_spin_unlock(&bucket->lock);
    if (ends) {
        next_bucket(table, hand);
    }
}

/* Drops a row and keeps its memory for the bucket's next row. */
static void drop(struct coxi_table *table, struct coxi_bucket *bucket, uint64_t key)
    COXI_REQUIRES(bucket->lock)
{
    uint32_t row =
        coxi_index_remove(&table->index, &bucket->index, key, coxi_hash_key(key));
    if (table->cut != NULL) {
        coxi_table_cut_save(table->cut, key, row);
    }
    if (table->track != NULL) {
        coxi_table_track_gone(table->track, key, row);
    }
    coxi_table_give_row(table, bucket, row);
}

/* ---- by age and by count */

struct due {
    const struct coxi_table *table;
    uint64_t step;
    uint64_t keys[DUE_MAX];
    size_t n;
};

static bool is_due(const struct coxi_lifecycle *l, const struct coxi_row_life *life,
                   uint64_t step)
{
    if (life->pins > 0) {
        return false;
    }
    return (l->evict_age > 0 && step - life->last >= l->evict_age) ||
           (life->updates < l->evict_count && step - life->made >= l->evict_count_age);
}

static int note_due(void *arg, uint64_t key, uint32_t row)
{
    struct due *due = arg;
    const struct coxi_table *table = due->table;
    if (is_due(&table->variable->lifecycle,
               coxi_table_life(table, coxi_table_values(table, row)), due->step)) {
        due->keys[due->n++] = key;
    }
    return due->n == DUE_MAX ? 1 : 0;
}

/* Drops the rows that are due in the next lines, at most `most` lines. Returns the
 * number of rows dropped, and adds the lines looked at to *lines. */
static size_t sweep_some(struct coxi_table *table, uint32_t most, size_t *lines)
{
    struct coxi_hand *hand = &table->sweep;
    struct coxi_bucket *bucket = &table->buckets[hand->bucket];
    size_t n_gone = 0;
    uint32_t n = hand_begin(table, bucket, hand, most);
    for (uint32_t i = 0; i < n; i++) {
        /* Read the step under the lock: no row of this bucket was updated later. */
        struct due due = {.table = table, .step = coxi_table_step(table)};
        (void)coxi_index_each(&table->index, &bucket->index, hand->line + i, note_due,
                              &due);
        for (size_t k = 0; k < due.n; k++) {
            drop(table, bucket, due.keys[k]);
        }
        n_gone += due.n;
    }
    hand_end(table, bucket, hand, n);
    *lines += n > 0 ? n : 1;
    return n_gone;
}

static uint64_t sweep(struct coxi_table *table, size_t lines)
{
    uint64_t n_gone = 0;
    for (size_t done = 0; done < lines;) {
        size_t left = lines - done;
        n_gone += sweep_some(table, left < RUN ? (uint32_t)left : RUN, &done);
    }
    return n_gone;
}

/* ---- by number */

struct oldest {
    const struct coxi_table *table;
    size_t n_seen;
    uint64_t key;
    uint64_t last;
    bool found;
};

static int note_oldest(void *arg, uint64_t key, uint32_t row)
{
    struct oldest *oldest = arg;
    const struct coxi_table *table = oldest->table;
    const struct coxi_row_life *life =
        coxi_table_life(table, coxi_table_values(table, row));
    if (life->pins == 0) {
        oldest->n_seen++;
        if (!oldest->found || life->last < oldest->last) {
            oldest->found = true;
            oldest->key = key;
            oldest->last = life->last;
        }
    }
    return 0;
}

/* Looks at the next SAMPLE rows or a few more, or at all rows if there are fewer. */
static void sample_rows(struct coxi_table *table, struct oldest *oldest)
{
    struct coxi_hand *hand = &table->sample;
    for (size_t i = 0; i < COXI_BUCKETS && oldest->n_seen < SAMPLE; i++) {
        struct coxi_bucket *bucket = &table->buckets[hand->bucket];
        uint32_t n = hand_begin(table, bucket, hand, 2);
        for (uint32_t k = 0; k < n; k++) {
            (void)coxi_index_each(&table->index, &bucket->index, hand->line + k,
                                  note_oldest, oldest);
        }
        hand_end(table, bucket, hand, n);
    }
}

/* Drops the oldest row of a sample. False: all rows of the sample are pinned, or the
 * oldest was touched meanwhile. */
static bool drop_oldest(struct coxi_table *table)
{
    struct oldest oldest = {.table = table};
    bool gone = false;
    sample_rows(table, &oldest);
    if (!oldest.found) {
        return false;
    }
    uint64_t hash = coxi_hash_key(oldest.key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, oldest.key, hash);
    if (row != 0) {
        const struct coxi_row_life *life =
            coxi_table_life(table, coxi_table_values(table, row));
        gone = life->pins == 0 && life->last == oldest.last;
    }
    if (gone) {
        drop(table, bucket, oldest.key);
    }
    coxi_spin_unlock(&bucket->lock);
    return gone;
}

/* ---- the entry point */

void coxi_eviction_tidy(struct coxi_table *table, size_t n)
{
    const struct coxi_lifecycle *l = &table->variable->lifecycle;
    if (table->life_at == 0 || !coxi_trylock(&table->tidying)) {
        return;
    }
    uint64_t begun_ns = coxi_trace_begin();
    uint64_t n_gone = 0;
    if (l->evict_age > 0 || l->evict_count > 0) {
        n_gone += sweep(table, n / SWEEP_SHARE + SWEEP_LEAST);
    }
    size_t left = l->rows_max > 0 ? 2 * n + DROP_LEAST : 0;
    while (left > 0 && coxi_table_rows(table) - n_gone > l->rows_max) {
        n_gone += drop_oldest(table) ? 1 : 0;
        left--;
    }
    if (n_gone > 0) {
        atomic_fetch_add_explicit(&table->n_evicted, n_gone, memory_order_relaxed);
        coxi_table_count_gone(table, n_gone);
    }
    coxi_unlock(&table->tidying);
    coxi_trace_end_part(begun_ns, COXI_TRACE_EVICT, n_gone);
}
