/*
 * See table.h. A row is its values, then the optimizer's state and, if rows are evicted
 * (ps/eviction.c), its life; keys are in the index. Rows of all buckets lie in one
 * stretch of memory (ps/stretch.h). A bucket takes a few rows at a time, and uses its
 * own evicted rows first.
 *
 * Most time is spent waiting for memory: for a key's line of the index, then for its
 * row. So keys are processed in groups. Step one prefetches the lines of all keys; step
 * two reads these lines and prefetches the rows; step three locks the buckets one after
 * the other and uses the rows. The first two steps take no lock and may read stale
 * entries; only speed depends on them.
 *
 * Cost of a key: an exchange and a store for the lock, two or three cache lines.
 * Memory: a row's floats, about 23 bytes in the index, and at most a sixteenth more
 * rows than there are. Without rows: about 7 KiB, and 64 KiB more once keys of all
 * buckets were looked up.
 */
#include "ps/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/buffer.h"
#include "common/elements.h"
#include "common/error.h"
#include "common/initializer.h"
#include "common/sync.h"
#include "ps/staleness.h"
#include "ps/table_internal.h"

enum {
    GROUP = 64, /* keys whose memory is prefetched before the first is worked on */
    AHEAD = 32, /* rows that are prefetched ahead, if their addresses are known */
    LINE_BYTES = 64,
    HINT_LINES = 4,       /* cache lines of a row that are prefetched */
    STEPS = 3,            /* lines of a chain that are prefetched */
    RUN_MAX = 64,         /* rows that a bucket takes at a time */
    INDEX_ROW_BYTES = 23, /* on average, with overflow and free entries */
};

/* Makes the admission, if keys are not all admitted, and counts its memory. */
static int open_admission(struct coxi_table *table)
{
    char whom[COXI_WIRE_NAME_MAX + 16];
    int r = coxi_admission_new(&table->variable->lifecycle, &table->admission);
    if (r == 0 && table->memory != NULL) {
        (void)snprintf(whom, sizeof(whom), "table '%s'", table->variable->name);
        r = coxi_memory_take(table->memory, coxi_admission_bytes(table->admission),
                             whom);
    }
    if (r != 0) {
        coxi_admission_free(table->admission);
    }
    return r;
}

enum { BUCKETS_BYTES = COXI_BUCKETS * sizeof(struct coxi_bucket) };

/* Maps zeroed memory, because the kernel provides pages only when they are touched: a
 * table without rows takes none. */
static int map_buckets(struct coxi_table *table)
{
    void *at = mmap(NULL, BUCKETS_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table->buckets = at != MAP_FAILED ? at : NULL;
    return at != MAP_FAILED ? 0 : COX_ENOMEM;
}

static void unmap_buckets(struct coxi_table *table)
{
    (void)munmap(table->buckets, BUCKETS_BYTES);
}

int coxi_table_new(const struct coxi_variable *variable, struct coxi_memory *memory,
                   struct coxi_table **ret)
{
    struct coxi_table *table = calloc(1, sizeof(*table));
    if (table == NULL || map_buckets(table) != 0) {
        free(table);
        return coxi_error_memory("a table");
    }
    table->variable = variable;
    table->memory = memory;
    table->dim = coxi_table_dim(variable);
    table->layout = coxi_optimizer_layout(variable);
    size_t floats = table->dim * (1 + table->layout.n_slots) + table->layout.n_row;
    table->value_bytes = table->dim * sizeof(float);
    table->row_bytes = floats * sizeof(float);
    if (coxi_eviction_wanted(&variable->lifecycle)) {
        table->life_at = coxi_align(table->row_bytes, alignof(struct coxi_row_life));
        table->row_bytes = table->life_at + sizeof(struct coxi_row_life);
    }
    int r = open_admission(table);
    if (r != 0) {
        unmap_buckets(table);
        free(table);
        return r;
    }
    coxi_index_init(&table->index);
    coxi_stretch_init(&table->rows, table->row_bytes, UINT32_MAX);
    atomic_init(&table->version, COXI_VERSION_FIRST);
    coxi_mutex_init(&table->books);
    coxi_mutex_init(&table->tidying);
    *ret = table;
    return 0;
}

void coxi_table_free(struct coxi_table *table)
{
    if (table != NULL) {
        if (table->memory != NULL) {
            coxi_memory_give(table->memory, coxi_table_bytes(table));
        }
        coxi_table_cut_free(table->cut);
        coxi_table_track_free(table->track);
        coxi_stretch_fini(&table->rows);
        coxi_index_fini(&table->index);
        coxi_admission_free(table->admission);
        coxi_mutex_fini(&table->tidying);
        coxi_mutex_fini(&table->books);
        unmap_buckets(table);
        free(table);
    }
}

/* ---- prefetching: without locks, only for speed */

static void hint_bytes(const void *at, size_t bytes)
{
    const uint8_t *start = at;
    const uint8_t *line = start - (uintptr_t)at % LINE_BYTES;
    for (int i = 0; i < HINT_LINES && line < start + bytes; i++, line += LINE_BYTES) {
        __builtin_prefetch(line);
    }
}

void coxi_table_hint(struct coxi_table *table, const uint64_t *keys, size_t n,
                     size_t from, size_t bytes)
{
    const struct coxi_line *lines[GROUP];
    uint32_t at[GROUP];
    size_t n_open = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = coxi_hash_key(keys[i]);
        lines[n_open] = coxi_index_begin(&table->index,
                                         &coxi_table_bucket(table, hash)->index, hash);
        at[n_open] = (uint32_t)i;
        n_open += lines[n_open] != NULL ? 1 : 0;
    }
    for (size_t step = 0; step < STEPS && n_open > 0; step++) {
        size_t n_left = 0;
        for (size_t i = 0; i < n_open; i++) {
            const struct coxi_line *line = lines[i];
            uint32_t row = coxi_index_peek(&table->index, &line, keys[at[i]]);
            if (row != 0 && bytes > 0) {
                hint_bytes((uint8_t *)coxi_table_values(table, row) + from, bytes);
            }
            lines[n_left] = line;
            at[n_left] = at[i];
            n_left += row == 0 && line != NULL ? 1 : 0;
        }
        n_open = n_left;
    }
}

/* ---- reading */

/* The values of an absent row; `ret` may not be aligned for floats. */
static void copy_initial(const struct coxi_table *table, uint64_t key, uint8_t *ret)
{
    float values[COXI_TABLE_DIM_MAX];
    coxi_initializer_row(&table->variable->initializer, key, values, table->dim);
    memcpy(ret, values, table->value_bytes);
}

/* Copies the row of a key; false: it copied the initial values. */
static bool pull_row(struct coxi_table *table, uint64_t key, uint8_t *ret)
{
    uint64_t hash = coxi_hash_key(key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row != 0) {
        memcpy(ret, coxi_table_values(table, row), table->value_bytes);
    }
    coxi_spin_unlock(&bucket->lock);
    if (row == 0) {
        copy_initial(table, key, ret);
    }
    return row != 0;
}

void coxi_table_pull(struct coxi_table *table, const uint64_t *keys, size_t n,
                     void *ret)
{
    uint64_t n_hits = 0;
    for (size_t first = 0; first < n; first += GROUP) {
        size_t end = n - first < GROUP ? n : first + GROUP;
        coxi_table_hint(table, keys + first, end - first, 0, table->value_bytes);
        for (size_t i = first; i < end; i++) {
            uint8_t *to = (uint8_t *)ret + i * table->value_bytes;
            n_hits += pull_row(table, keys[i], to) ? 1 : 0;
        }
    }
    atomic_fetch_add_explicit(&table->n_lookups, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->n_hits, n_hits, memory_order_relaxed);
}

/* ---- memory */

static uint64_t paid_bytes(const struct coxi_table *table, uint64_t rows)
{
    return rows * (table->row_bytes + INDEX_ROW_BYTES);
}

int coxi_table_reserve_rows(struct coxi_table *table, uint64_t n)
{
    char whom[COXI_WIRE_NAME_MAX + 64];
    int r = 0;
    coxi_lock(&table->books);
    uint64_t held = table->held_rows + n;
    uint64_t more = held > table->paid_rows ? held - table->paid_rows : 0;
    if (more > 0 && table->memory != NULL) {
        (void)snprintf(whom, sizeof(whom), "%llu rows of table '%s'",
                       (unsigned long long)more, table->variable->name);
        r = coxi_memory_take(table->memory, paid_bytes(table, more), whom);
    }
    if (r == 0) {
        table->held_rows = held;
        table->paid_rows += more;
    }
    coxi_unlock(&table->books);
    return r;
}

void coxi_table_settle_rows(struct coxi_table *table, uint64_t n, uint64_t n_made)
{
    atomic_fetch_add_explicit(&table->n_rows, n_made, memory_order_relaxed);
    atomic_fetch_add_explicit(&table->n_admitted, n_made, memory_order_relaxed);
    coxi_lock(&table->books);
    table->held_rows -= n - n_made;
    coxi_unlock(&table->books);
}

/* ---- making rows */

void coxi_table_start_state(const struct coxi_table *table, float *state)
{
    const struct coxi_state_layout *layout = &table->layout;
    for (size_t s = 0; s < layout->n_slots + layout->n_row; s++) {
        size_t n = s < layout->n_slots ? table->dim : 1;
        for (size_t i = 0; i < n; i++) {
            *state++ = layout->states[s].start;
        }
    }
}

void coxi_table_start_life(struct coxi_table *table, float *values)
{
    uint64_t step = coxi_table_step(table);
    *coxi_table_life(table, values) =
        (struct coxi_row_life){.last = step, .made = step};
}

static void start_row(struct coxi_table *table, uint64_t key, float *values)
{
    coxi_initializer_row(&table->variable->initializer, key, values, table->dim);
    coxi_table_start_state(table, values + table->dim);
    if (table->life_at > 0) {
        coxi_table_start_life(table, values);
    }
}

/* Takes memory for a row; an evicted row's memory is used first. */
static int take_row(struct coxi_table *table, struct coxi_bucket *bucket, uint32_t *ret)
    COXI_REQUIRES(bucket->lock)
{
    if (bucket->free_row != 0) {
        *ret = bucket->free_row;
        memcpy(&bucket->free_row, coxi_table_values(table, *ret),
               sizeof(bucket->free_row));
        return 0;
    }
    if (bucket->n_run == 0) {
        uint32_t n = bucket->index.n_keys / 16 + 1;
        n = n < RUN_MAX ? n : RUN_MAX;
        int r = coxi_stretch_take(&table->rows, n, &bucket->run);
        if (r != 0) {
            return r;
        }
        bucket->n_run = n;
    }
    *ret = bucket->run++;
    bucket->n_run--;
    return 0;
}

int coxi_table_make_row(struct coxi_table *table, struct coxi_bucket *bucket,
                        uint64_t key, uint64_t hash, uint32_t *ret)
{
    uint32_t row = 0;
    int r = take_row(table, bucket, &row);
    if (r == 0) {
        r = coxi_index_put(&table->index, &bucket->index, key, hash, row);
        if (r != 0) {
            coxi_table_give_row(table, bucket, row);
        }
    }
    if (r != 0) {
        return coxi_error(r, "table '%s': %s", table->variable->name,
                          coxi_error_text());
    }
    if (table->cut != NULL) {
        coxi_table_cut_pass(table->cut, row);
    }
    if (table->track != NULL) {
        coxi_table_track_touch(table->track, key, row);
    }
    *ret = row;
    return 0;
}

float *coxi_table_reach_row(struct coxi_table *table, uint64_t key, uint32_t row)
{
    if (table->cut != NULL) {
        coxi_table_cut_save(table->cut, key, row);
    }
    if (table->track != NULL) {
        coxi_table_track_touch(table->track, key, row);
    }
    return coxi_table_values(table, row);
}

/* ---- resolving: a row that has a life is pinned from then on */

static float *pin_row(struct coxi_table *table, uint64_t key, uint32_t row)
{
    float *values = coxi_table_reach_row(table, key, row);
    if (table->life_at > 0) {
        coxi_table_life(table, values)->pins++;
    }
    return values;
}

/* Finds a row and pins it; NULL: there is none. */
static struct coxi_row *find_row(struct coxi_table *table, uint64_t key)
{
    uint64_t hash = coxi_hash_key(key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    float *values = NULL;
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row != 0) {
        values = pin_row(table, key, row);
    }
    coxi_spin_unlock(&bucket->lock);
    return (struct coxi_row *)values;
}

/* Makes the row of a key that had none, and counts it in *made. If another thread has
 * made the row in the meantime, uses that row. */
static int find_or_make_row(struct coxi_table *table, uint64_t key, uint64_t *made,
                            struct coxi_row **ret)
{
    uint64_t hash = coxi_hash_key(key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    int r = 0;
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    if (row == 0) {
        r = coxi_table_make_row(table, bucket, key, hash, &row);
        if (r == 0) {
            start_row(table, key, coxi_table_values(table, row));
            *made += 1;
        }
    }
    if (r == 0) {
        *ret = (struct coxi_row *)pin_row(table, key, row);
    }
    coxi_spin_unlock(&bucket->lock);
    return r;
}

/* Finds the rows that exist; the others are NULL. Returns how many are NULL. */
static size_t find_rows(struct coxi_table *table,
                        const struct coxi_table_change *change)
{
    size_t n_absent = 0;
    size_t life_bytes = table->life_at > 0 ? sizeof(struct coxi_row_life) : 0;
    for (size_t first = 0; first < change->n; first += GROUP) {
        size_t end = change->n - first < GROUP ? change->n : first + GROUP;
        coxi_table_hint(table, change->keys + first, end - first, table->life_at,
                        life_bytes);
        for (size_t i = first; i < end; i++) {
            change->rows[i] = find_row(table, change->keys[i]);
            n_absent += change->rows[i] == NULL ? 1 : 0;
        }
    }
    return n_absent;
}

/* A marker in place of a row that does not exist and must be made. */
static struct coxi_row *wanted(struct coxi_table *table)
{
    return (struct coxi_row *)table;
}

/* Marks the absent rows that must be made, and counts them. */
static size_t admit_rows(struct coxi_table *table,
                         const struct coxi_table_change *change)
{
    bool asks = table->admission != NULL && change->op == COXI_OP_GRADIENT;
    size_t n_wanted = 0;
    for (size_t i = 0; i < change->n; i++) {
        if (change->rows[i] != NULL) {
            continue;
        }
        if (!asks ||
            coxi_admission_ask(table->admission, change->keys[i], change->draw)) {
            change->rows[i] = wanted(table);
            n_wanted++;
        }
    }
    return n_wanted;
}

/* Makes the n marked rows. After an error, the rest of them are NULL. */
static int make_rows(struct coxi_table *table, const struct coxi_table_change *change,
                     size_t n)
{
    uint64_t n_made = 0;
    int r = coxi_table_reserve_rows(table, n);
    bool reserved = r == 0;
    for (size_t i = 0; i < change->n; i++) {
        if (change->rows[i] == wanted(table)) {
            change->rows[i] = NULL;
            if (r == 0) {
                r = find_or_make_row(table, change->keys[i], &n_made, &change->rows[i]);
            }
        }
    }
    if (reserved) {
        coxi_table_settle_rows(table, n, n_made);
    }
    return r;
}

int coxi_table_resolve(struct coxi_table *table, const struct coxi_table_change *change)
{
    if (find_rows(table, change) == 0) {
        return 0;
    }
    size_t n_wanted = admit_rows(table, change);
    int r = n_wanted > 0 ? make_rows(table, change, n_wanted) : 0;
    if (r != 0) {
        coxi_table_release(table, change);
    }
    return r;
}

/* ---- updating */

/* Applies the i-th gradient, compensated. The row's bucket is locked. */
static void push_compensated(struct coxi_table *table,
                             const struct coxi_table_change *change, size_t i,
                             const struct coxi_optimizer_step *step)
{
    float compensated[COXI_TABLE_DIM_MAX];
    float *row = (float *)change->rows[i];
    size_t at = i * table->dim;
    coxi_optimizer_compensate(step, table->variable->staleness.compensation, row,
                              change->bases + at, change->values + at, table->dim,
                              compensated);
    coxi_optimizer_row(step, row, row + table->dim, compensated, table->dim);
}

static void update_row(struct coxi_table *table, const struct coxi_table_change *change,
                       size_t i, const struct coxi_optimizer_step *step, uint64_t now)
{
    float *row = (float *)change->rows[i];
    const float *from = change->values + i * table->dim;
    struct coxi_bucket *bucket =
        coxi_table_bucket(table, coxi_hash_key(change->keys[i]));
    coxi_spin_lock(&bucket->lock);
    if (change->op == COXI_OP_GRADIENT && change->bases != NULL) {
        push_compensated(table, change, i, step);
    } else if (change->op == COXI_OP_GRADIENT) {
        coxi_optimizer_row(step, row, row + table->dim, from, table->dim);
    } else {
        coxi_elements_combine(COX_F32, change->op, row, from, table->value_bytes);
    }
    if (table->life_at > 0) {
        struct coxi_row_life *life = coxi_table_life(table, row);
        life->pins--;
        if (change->op == COXI_OP_GRADIENT) {
            life->last = life->last < now ? now : life->last;
            life->updates += life->updates < UINT32_MAX ? 1 : 0;
        }
    }
    coxi_spin_unlock(&bucket->lock);
}

void coxi_table_update(struct coxi_table *table, const struct coxi_table_change *change)
{
    struct coxi_optimizer_step step = {0};
    uint64_t before = 0;
    size_t n = change->n;
    if (change->op == COXI_OP_GRADIENT && n > 0) {
        before = atomic_fetch_add(&table->step, 1);
        coxi_optimizer_begin(&table->variable->optimizer, change->step, before, &step);
        coxi_optimizer_unscale(&step, change->loss_scale);
    }
    for (size_t i = 0; i < n + AHEAD; i++) {
        if (i < n && change->rows[i] != NULL) {
            hint_bytes(change->rows[i], table->row_bytes);
        }
        if (i >= AHEAD && change->rows[i - AHEAD] != NULL) {
            update_row(table, change, i - AHEAD, &step, before + 1);
        }
    }
    atomic_fetch_add_explicit(&table->version, 1, memory_order_release);
    coxi_eviction_tidy(table, n);
}

void coxi_table_release(struct coxi_table *table,
                        const struct coxi_table_change *change)
{
    for (size_t i = 0; table->life_at > 0 && i < change->n; i++) {
        if (change->rows[i] != NULL) {
            struct coxi_bucket *bucket =
                coxi_table_bucket(table, coxi_hash_key(change->keys[i]));
            coxi_spin_lock(&bucket->lock);
            coxi_table_life(table, (float *)change->rows[i])->pins--;
            coxi_spin_unlock(&bucket->lock);
        }
    }
    coxi_eviction_tidy(table, change->n);
}

/* ---- counts */

uint64_t coxi_table_rows(struct coxi_table *table)
{
    return atomic_load_explicit(&table->n_rows, memory_order_relaxed);
}

uint64_t coxi_table_step(struct coxi_table *table)
{
    return atomic_load(&table->step);
}

uint64_t coxi_table_version(const struct coxi_table *table)
{
    return atomic_load_explicit(&table->version, memory_order_acquire);
}

uint64_t coxi_table_bytes(struct coxi_table *table)
{
    coxi_lock(&table->books);
    uint64_t rows = table->paid_rows;
    coxi_unlock(&table->books);
    return paid_bytes(table, rows) + coxi_admission_bytes(table->admission);
}

struct coxi_table_track *coxi_table_tracked(const struct coxi_table *table)
{
    return table->track;
}

bool coxi_table_ages(const struct coxi_table *table)
{
    return table->life_at > 0;
}

void coxi_table_counts(struct coxi_table *table, struct coxi_table_counters *ret)
{
    *ret = (struct coxi_table_counters){
        .lookups = atomic_load(&table->n_lookups),
        .hits = atomic_load(&table->n_hits),
        .admitted = atomic_load(&table->n_admitted),
        .evicted = atomic_load(&table->n_evicted),
        .updates = coxi_table_step(table),
        .rows = coxi_table_rows(table),
        .bytes = coxi_table_bytes(table),
    };
}
