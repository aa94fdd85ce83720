/*
 * A table as it was at one moment, the cut, read while changes go on (ps/table.h).
 *
 * Each row that existed then is handed out once: by the reader or, if a change comes to
 * it first, as a copy that the change has made. `taken` holds the rows that were
 * already handed out or copied, and the rows that were made after the cut. So row
 * numbers can be reused, and index lines can be split, without regard to the reader.
 * The reader goes through the index line by line; if the keys of the changed rows are
 * listed, it looks these up instead.
 *
 * Threads: changes, under the locks of their buckets, and one reader. Memory: a bit for
 * each row, and the copies, which the reader takes first.
 */
#include <stdlib.h>

#include "common/buffer.h"
#include "common/error.h"
#include "ps/table_internal.h"

enum {
    GROUP = 64,               /* most rows copied under one lock */
    GROUP_BYTES = 64 * 1024,  /* bytes of these rows, plus at most one row */
    GROUP_LINES = 32,         /* lines of a bucket looked at under one lock */
    LINES_AHEAD = 8,          /* how many lines ahead lines are prefetched */
    GROUPS = 256,             /* most groups at a time, however few rows they have */
    BLOCK_BYTES = 256 * 1024, /* of a block of copies, plus at most one row */
    HINT_LINES = 4,
    LINE_BYTES = 64,
};

/* Copies of rows. */
struct saved {
    struct saved *next;
    size_t n;
    uint64_t rows[];
};

struct coxi_table_cut {
    struct coxi_table *table;
    const struct coxi_bits *among; /* the rows that the cut holds; NULL: all */
    /* the keys of the rows in `among`, to be looked up; NULL: they are not listed */
    const struct coxi_stretch *keys;
    uint64_t n_keys;
    uint64_t rows;
    uint64_t step;
    size_t stride;
    size_t block_rows; /* rows in a block of copies, or handed out at a time */
    size_t group;      /* most rows copied under one lock */
    struct coxi_bits taken;
    struct coxi_hand hand; /* the place to read next ... */
    uint64_t next_key;     /* ... or, if keys are listed, the next key */
    atomic_bool failed;    /* there was no memory for a copy */

    struct coxi_spin lock; /* after locks of buckets; leaf */
    struct saved *full COXI_GUARDED_BY(lock);
    /* the block to which copies go, or NULL */
    struct saved *open COXI_GUARDED_BY(lock);
    struct saved *spare COXI_GUARDED_BY(lock);
    uint64_t saved_bytes COXI_GUARDED_BY(lock); /* of all blocks */
};

/* ---- its life */

int coxi_table_cut_new(struct coxi_table *table, struct coxi_table_cut **ret)
{
    struct coxi_table_cut *cut = calloc(1, sizeof(*cut));
    if (cut == NULL) {
        return coxi_error_memory("a snapshot");
    }
    cut->table = table;
    cut->stride = sizeof(uint64_t) + coxi_align(table->row_bytes, sizeof(uint64_t));
    cut->block_rows = BLOCK_BYTES / cut->stride + 1;
    cut->group = GROUP_BYTES / cut->stride + 1;
    cut->group = cut->group < GROUP ? cut->group : GROUP;
    coxi_bits_init(&cut->taken);
    *ret = cut;
    return 0;
}

static void free_list(struct saved *list)
{
    while (list != NULL) {
        struct saved *next = list->next;
        free(list);
        list = next;
    }
}

void coxi_table_cut_free(struct coxi_table_cut *cut)
{
    if (cut != NULL) {
        coxi_spin_unshared(&cut->lock);
        free_list(cut->full);
        free_list(cut->open);
        free_list(cut->spare);
        coxi_bits_fini(&cut->taken);
        free(cut);
    }
}

void coxi_table_cut_begin(struct coxi_table_cut *cut, bool changed)
{
    cut->among = changed ? coxi_table_track_rows(cut->table->track) : NULL;
    cut->keys = changed ? coxi_table_track_keys(cut->table->track, &cut->n_keys) : NULL;
    cut->rows = changed ? coxi_bits_count(cut->among) : coxi_table_rows(cut->table);
    cut->step = coxi_table_step(cut->table);
    cut->table->cut = cut;
}

void coxi_table_cut_end(struct coxi_table_cut *cut)
{
    cut->table->cut = NULL;
}

uint64_t coxi_table_cut_rows(const struct coxi_table_cut *cut)
{
    return cut->rows;
}

uint64_t coxi_table_cut_step(const struct coxi_table_cut *cut)
{
    return cut->step;
}

struct coxi_cut_layout coxi_table_cut_layout(const struct coxi_table_cut *cut)
{
    return (struct coxi_cut_layout){
        .stride = cut->stride,
        .values = sizeof(uint64_t),
        .state = sizeof(uint64_t) + cut->table->value_bytes,
        .life = cut->table->life_at > 0 ? sizeof(uint64_t) + cut->table->life_at : 0,
        .n_most = cut->block_rows};
}

uint64_t coxi_table_cut_saved(struct coxi_table_cut *cut)
{
    coxi_spin_lock(&cut->lock);
    uint64_t bytes = cut->saved_bytes;
    coxi_spin_unlock(&cut->lock);
    return bytes;
}

/* ---- rows */

/* Copies a row with its key. The bucket is locked. */
static void copy_row(const struct coxi_table_cut *cut, uint64_t key, uint32_t row,
                     uint8_t *to)
{
    memcpy(to, &key, sizeof(key));
    memcpy(to + sizeof(key), coxi_table_values(cut->table, row), cut->table->row_bytes);
}

/* True if the row belongs to the cut; it may have been taken already. */
static bool holds(const struct coxi_table_cut *cut, uint32_t row)
{
    return cut->among == NULL || coxi_bits_has(cut->among, row);
}

/* Takes a row. False: it was taken before, or there was no memory to note it. */
static bool take(struct coxi_table_cut *cut, uint32_t row)
{
    int r = coxi_bits_put(&cut->taken, row);
    if (r < 0) {
        atomic_store(&cut->failed, true);
    }
    return r == 0;
}

/* ---- what a change does */

/* A block that has room for a row; NULL: no memory. */
static struct saved *open_block(struct coxi_table_cut *cut) COXI_REQUIRES(cut->lock)
{
    if (cut->open != NULL && cut->open->n < cut->block_rows) {
        return cut->open;
    }
    struct saved *block = cut->spare;
    size_t bytes = sizeof(*block) + cut->block_rows * cut->stride;
    if (block != NULL) {
        cut->spare = block->next;
    } else {
        block = malloc(bytes);
        cut->saved_bytes += block != NULL ? bytes : 0;
    }
    if (block == NULL) {
        return NULL;
    }
    if (cut->open != NULL) {
        cut->open->next = cut->full;
        cut->full = cut->open;
    }
    block->next = NULL;
    block->n = 0;
    cut->open = block;
    return block;
}

void coxi_table_cut_save(struct coxi_table_cut *cut, uint64_t key, uint32_t row)
{
    if (atomic_load_explicit(&cut->failed, memory_order_relaxed) || !take(cut, row) ||
        !holds(cut, row)) {
        return;
    }
    coxi_spin_lock(&cut->lock);
    struct saved *block = open_block(cut);
    if (block != NULL) {
        copy_row(cut, key, row, (uint8_t *)block->rows + block->n * cut->stride);
        block->n++;
    } else {
        atomic_store(&cut->failed, true);
    }
    coxi_spin_unlock(&cut->lock);
}

void coxi_table_cut_pass(struct coxi_table_cut *cut, uint32_t row)
{
    (void)take(cut, row);
}

/* ---- reading */

/* Takes a block of copies: a full one or, with `any`, also one that is not full. NULL:
 * none. */
static struct saved *pop(struct coxi_table_cut *cut, bool any)
{
    coxi_spin_lock(&cut->lock);
    struct saved *block = cut->full;
    if (block != NULL) {
        cut->full = block->next;
    } else if (any) {
        block = cut->open;
        cut->open = NULL;
    }
    coxi_spin_unlock(&cut->lock);
    return block;
}

static size_t read_saved(struct coxi_table_cut *cut, bool any, uint8_t *to)
{
    struct saved *block = pop(cut, any);
    if (block == NULL) {
        return 0;
    }
    size_t n = block->n;
    memcpy(to, block->rows, n * cut->stride);
    coxi_spin_lock(&cut->lock);
    block->next = cut->spare;
    cut->spare = block;
    coxi_spin_unlock(&cut->lock);
    return n;
}

/* Rows of a bucket that were not taken yet. */
struct group {
    const struct coxi_table_cut *cut;
    size_t most;
    size_t n;
    uint64_t keys[GROUP];
    uint32_t rows[GROUP];
};

static int gather(void *arg, uint64_t key, uint32_t row)
{
    struct group *group = arg;
    const struct coxi_table *table = group->cut->table;
    if (!holds(group->cut, row) || coxi_bits_has(&group->cut->taken, row)) {
        return 0;
    }
    if (group->n == group->most) {
        return 1;
    }
    const uint8_t *at = (const uint8_t *)coxi_table_values(table, row);
    for (size_t b = 0; b < table->row_bytes && b < (size_t)HINT_LINES * LINE_BYTES;
         b += LINE_BYTES) {
        __builtin_prefetch(at + b);
    }
    group->keys[group->n] = key;
    group->rows[group->n] = row;
    group->n++;
    return 0;
}

static void hint_line(const struct coxi_table *table, const struct coxi_bucket *bucket,
                      uint32_t line)
{
    if (line < atomic_load_explicit(&bucket->index.n_lines, memory_order_relaxed)) {
        __builtin_prefetch(coxi_index_line(&table->index, &bucket->index, line));
    }
}

/* Moves to the next bucket, if this one has no more lines. */
static void move_on(struct coxi_hand *hand, const struct coxi_bucket *bucket)
{
    if (hand->line >=
        atomic_load_explicit(&bucket->index.n_lines, memory_order_relaxed)) {
        hand->bucket++;
        hand->line = 0;
    }
}

/* Moves the hand past empty buckets, up to a bound; false: it has found no bucket with
 * lines yet. Takes no lock, because locking would touch memory that empty buckets do
 * not use yet. */
static bool pass_empty(struct coxi_table *table, struct coxi_hand *hand)
{
    for (int i = 0; i < GROUPS && hand->bucket < COXI_BUCKETS; i++) {
        const struct coxi_bucket *bucket = &table->buckets[hand->bucket];
        if (atomic_load_explicit(&bucket->index.n_lines, memory_order_acquire) != 0) {
            return true;
        }
        move_on(hand, bucket);
    }
    return false;
}

/*
 * Reads the next rows of a bucket, at most `most`; possibly none. If a line was read
 * only partly, the next call reads it again. A line that is added meanwhile takes its
 * keys from a line with a lower number, and is itself read later. So no row is missed.
 */
static size_t read_some(struct coxi_table_cut *cut, size_t most, uint8_t *to)
{
    struct coxi_table *table = cut->table;
    struct coxi_hand *hand = &cut->hand;
    /* its array of rows stays uninitialized, because it is large and mostly unused */
    struct group group;
    size_t n = 0;
    if (!pass_empty(table, hand)) {
        return 0;
    }
    struct coxi_bucket *bucket = &table->buckets[hand->bucket];
    group.cut = cut;
    group.most = most < cut->group ? most : cut->group;
    group.n = 0;
    coxi_spin_lock(&bucket->lock);
    for (uint32_t i = 0; i < GROUP_LINES && group.n < group.most; i++) {
        hint_line(table, bucket, hand->line + LINES_AHEAD);
        if (hand->line >=
                atomic_load_explicit(&bucket->index.n_lines, memory_order_relaxed) ||
            coxi_index_each(&table->index, &bucket->index, hand->line, gather,
                            &group) != 0) {
            break;
        }
        hand->line++;
    }
    for (size_t i = 0; i < group.n; i++) {
        if (take(cut, group.rows[i])) {
            copy_row(cut, group.keys[i], group.rows[i], to + n * cut->stride);
            n++;
        }
    }
    move_on(hand, bucket);
    coxi_spin_unlock(&bucket->lock);
    return n;
}

/* Reads the row of a listed key; false: it was dropped, or is taken. */
static bool read_key(struct coxi_table_cut *cut, uint64_t key, uint8_t *to)
{
    struct coxi_table *table = cut->table;
    uint64_t hash = coxi_hash_key(key);
    struct coxi_bucket *bucket = coxi_table_bucket(table, hash);
    coxi_spin_lock(&bucket->lock);
    uint32_t row = coxi_index_find(&table->index, &bucket->index, key, hash);
    bool reads = row != 0 && holds(cut, row) && take(cut, row);
    if (reads) {
        copy_row(cut, key, row, to);
    }
    coxi_spin_unlock(&bucket->lock);
    return reads;
}

/* Reads the rows of the next listed keys, at most `most`. */
static size_t read_listed(struct coxi_table_cut *cut, size_t most, uint8_t *to)
{
    struct coxi_table *table = cut->table;
    uint64_t keys[GROUP] = {0};
    size_t n = 0;
    size_t n_keys = 0;
    while (n_keys < GROUP && n_keys < most && cut->next_key < cut->n_keys) {
        memcpy(&keys[n_keys++], coxi_stretch_at(cut->keys, (uint32_t)cut->next_key++),
               sizeof(*keys));
    }
    coxi_table_hint(table, keys, n_keys, 0, table->row_bytes);
    for (size_t i = 0; i < n_keys; i++) {
        n += read_key(cut, keys[i], to + n * cut->stride) ? 1 : 0;
    }
    return n;
}

/* True while the reader may still find rows that were not taken. */
static bool reads_on(const struct coxi_table_cut *cut)
{
    return cut->keys != NULL ? cut->next_key < cut->n_keys
                             : cut->hand.bucket < COXI_BUCKETS;
}

int coxi_table_cut_next(struct coxi_table_cut *cut, void *room, size_t *ret_n)
{
    uint8_t *to = room;
    size_t n = read_saved(cut, false, to);
    for (int i = 0; i < GROUPS && n < cut->block_rows && reads_on(cut); i++) {
        size_t most = cut->block_rows - n;
        n += cut->keys != NULL ? read_listed(cut, most, to + n * cut->stride)
                               : read_some(cut, most, to + n * cut->stride);
    }
    bool all = !reads_on(cut);
    if (n == 0 && all) {
        n = read_saved(cut, true, to);
    }
    if (atomic_load(&cut->failed)) {
        return coxi_error(COX_ENOMEM,
                          "out of memory for what changes while a snapshot is written");
    }
    *ret_n = n;
    return n > 0 || !all ? 1 : 0;
}
