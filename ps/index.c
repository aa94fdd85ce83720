/*
 * See index.h. A bucket has n lines, 2^k <= n < 2^(k + 1). A hash has a place under the
 * index's secret seed, so nobody can choose keys that all fall into one line. The lower
 * k + 1 bits of the place are the key's line number; if that line does not exist yet,
 * the lower k bits are. When there are too many keys for the lines, the next line is
 * added: it takes its keys from the one line that has held them so far. Lines are never
 * removed.
 *
 * A chain is a line and its overflow lines. All its lines except the last are full, and
 * no overflow line is empty. Clearing an entry clears its row number before its key.
 *
 * Threads: all under the bucket's lock; entries are atomic for threads that peek. Cost:
 * 64 bytes for LINE_SHARE / 4 keys, and about an eighth of that in overflow; a find
 * touches 1.1 cache lines.
 */
#include "ps/index.h"
#include "schema/check.h"

#include <assert.h>
#include <stdbool.h>

_Static_assert(sizeof(struct coxi_line) == 64, "a cache line");

/* A bucket gets another line when it has more than LINE_SHARE / 4 keys a line. */
enum { LINE_SHARE = 13, LINES_MAX = 1 << 22 };

void coxi_index_init(struct coxi_index *index)
{
    coxi_stretch_init(&index->lines, COXI_BUCKETS * sizeof(struct coxi_line),
                      LINES_MAX);
    coxi_stretch_init(&index->overflow, sizeof(struct coxi_line), UINT32_MAX);
    index->seed = coxi_hash_seed();
    atomic_init(&index->n_slots, 0);
}

void coxi_index_fini(struct coxi_index *index)
{
    coxi_stretch_fini(&index->lines);
    coxi_stretch_fini(&index->overflow);
}

/* ---- lines and their entries */

static uint64_t key_at(const struct coxi_line *line, uint32_t i)
{
    return atomic_load_explicit(&line->keys[i], memory_order_relaxed);
}

static uint32_t row_at(const struct coxi_line *line, uint32_t i)
{
    return atomic_load_explicit(&line->rows[i], memory_order_relaxed);
}

static uint32_t next_of(const struct coxi_line *line)
{
    return atomic_load_explicit(&line->next, memory_order_relaxed);
}

static void set(struct coxi_line *line, uint32_t i, uint64_t key, uint32_t row)
{
    atomic_store_explicit(&line->keys[i], key, memory_order_relaxed);
    atomic_store_explicit(&line->rows[i], row, memory_order_relaxed);
}

static void set_next(struct coxi_line *line, uint32_t next)
{
    atomic_store_explicit(&line->next, next, memory_order_relaxed);
}

static void clear(struct coxi_line *line)
{
    set_next(line, 0);
    for (uint32_t i = 0; i < COXI_LINE_KEYS; i++) {
        set(line, i, 0, 0);
    }
}

/* The number of entries in use, which are always the first ones. */
static uint32_t count_of(const struct coxi_line *line)
{
    uint32_t n = 0;
    while (n < COXI_LINE_KEYS && row_at(line, n) != 0) {
        n++;
    }
    return n;
}

static struct coxi_line *overflow_at(const struct coxi_index *index, uint32_t number)
{
    return (struct coxi_line *)(void *)coxi_stretch_at(&index->overflow, number);
}

/* Makes sure that the bucket has a free overflow line. */
static int provide(struct coxi_index *index, struct coxi_index_bucket *bucket)
{
    if (bucket->free_line != 0) {
        return 0;
    }
    return coxi_stretch_take(&index->overflow, 1, &bucket->free_line);
}

static void give_back(struct coxi_index *index, struct coxi_index_bucket *bucket,
                      uint32_t number)
{
    set_next(overflow_at(index, number), bucket->free_line);
    bucket->free_line = number;
}

/* ---- chains of lines */

/* The end of a chain. */
struct tail {
    struct coxi_line *line;
    uint32_t n;
};

static struct tail tail_of(const struct coxi_index *index, struct coxi_line *line)
{
    while (next_of(line) != 0) {
        line = overflow_at(index, next_of(line));
    }
    return (struct tail){line, count_of(line)};
}

/* Appends an entry to a chain. If the chain's last line is full, the bucket must have a
 * free line. */
static void append(struct coxi_index *index, struct coxi_index_bucket *bucket,
                   struct tail *tail, uint64_t key, uint32_t row)
{
    if (tail->n == COXI_LINE_KEYS) {
        uint32_t number = bucket->free_line;
        COXI_CHECK(number != 0);
        struct coxi_line *line = overflow_at(index, number);
        bucket->free_line = next_of(line);
        clear(line);
        set_next(tail->line, number);
        *tail = (struct tail){line, 0};
    }
    set(tail->line, tail->n, key, row);
    tail->n++;
}

/* ---- growth */

/*
 * Divides the keys of a chain between it and the chain of a new line. Needs no memory:
 * each overflow line is free once it was copied, and the new chain brings its own first
 * line. So the two chains never need more overflow lines than the old chain had.
 */
static void split(struct coxi_index *index, struct coxi_index_bucket *bucket,
                  uint32_t new_number)
{
    uint32_t bit = UINT32_C(1) << (31 - __builtin_clz(new_number));
    struct tail stays = {coxi_index_line(index, bucket, new_number - bit), 0};
    struct tail goes = {coxi_index_line(index, bucket, new_number), 0};
    struct coxi_line *from = stays.line;
    uint32_t number = 0;
    bucket->n_moved = 0;
    do {
        uint64_t keys[COXI_LINE_KEYS];
        uint32_t rows[COXI_LINE_KEYS];
        uint32_t n = count_of(from);
        uint32_t next = next_of(from);
        for (uint32_t i = 0; i < n; i++) {
            keys[i] = key_at(from, i);
            rows[i] = row_at(from, i);
        }
        clear(from);
        if (number != 0) {
            give_back(index, bucket, number);
        }
        for (uint32_t i = 0; i < n; i++) {
            bool moves = (coxi_index_place(index, coxi_hash_key(keys[i])) & bit) != 0;
            append(index, bucket, moves ? &goes : &stays, keys[i], rows[i]);
        }
        bucket->n_moved += n;
        number = next;
        from = next != 0 ? overflow_at(index, next) : NULL;
    } while (from != NULL);
}

/* The fraction of the slots that buckets have taken. */
static double share(const struct coxi_index *index)
{
    return (double)atomic_load(&index->n_slots) / COXI_BUCKETS;
}

/* Makes the bucket's first line. */
static int open_bucket(struct coxi_index *index, struct coxi_index_bucket *bucket)
{
    int r = coxi_stretch_reserve(&index->lines, 0, share(index));
    if (r == 0) {
        bucket->slot = (uint16_t)atomic_fetch_add(&index->n_slots, 1);
        atomic_store_explicit(&bucket->n_lines, 1, memory_order_release);
    }
    return r;
}

/* Adds a line. If there is no memory for it, the chains get longer, and the next put
 * tries again. */
static void grow(struct coxi_index *index, struct coxi_index_bucket *bucket,
                 uint32_t n_lines)
{
    if (coxi_stretch_reserve(&index->lines, n_lines, share(index)) != 0) {
        return;
    }
    split(index, bucket, n_lines);
    atomic_store_explicit(&bucket->n_lines, n_lines + 1, memory_order_release);
}

/* ---- the index */

uint32_t coxi_index_find(const struct coxi_index *index,
                         const struct coxi_index_bucket *bucket, uint64_t key,
                         uint64_t hash)
{
    const struct coxi_line *line = coxi_index_start(index, bucket, hash);
    while (line != NULL) {
        uint32_t row = coxi_line_find(line, key);
        if (row != 0) {
            return row;
        }
        uint32_t next = next_of(line);
        line = next != 0 ? overflow_at(index, next) : NULL;
    }
    return 0;
}

int coxi_index_put(struct coxi_index *index, struct coxi_index_bucket *bucket,
                   uint64_t key, uint64_t hash, uint32_t row)
{
    int r = 0;
    if (coxi_index_start(index, bucket, hash) == NULL) {
        r = open_bucket(index, bucket);
    }
    if (r != 0) {
        return r;
    }
    struct tail tail = tail_of(index, coxi_index_start(index, bucket, hash));
    if (tail.n == COXI_LINE_KEYS) {
        r = provide(index, bucket);
    }
    if (r != 0) {
        return r;
    }
    append(index, bucket, &tail, key, row);
    bucket->n_keys++;
    uint32_t n_lines = atomic_load_explicit(&bucket->n_lines, memory_order_relaxed);
    if ((uint64_t)bucket->n_keys * 4 > (uint64_t)n_lines * LINE_SHARE) {
        grow(index, bucket, n_lines);
    }
    return 0;
}

void coxi_index_expect(struct coxi_index *index, struct coxi_index_bucket *bucket,
                       uint32_t n)
{
    uint64_t wanted = (uint64_t)n * 4 / LINE_SHARE + 1;
    uint32_t n_lines = atomic_load_explicit(&bucket->n_lines, memory_order_relaxed);
    assert(bucket->n_keys == 0);
    if (n_lines == 0) {
        n_lines = open_bucket(index, bucket) == 0 ? 1 : 0;
    }
    /* Lines without keys need no split. */
    while (n_lines > 0 && n_lines < wanted && n_lines < LINES_MAX &&
           coxi_stretch_reserve(&index->lines, n_lines, share(index)) == 0) {
        n_lines++;
    }
    atomic_store_explicit(&bucket->n_lines, n_lines, memory_order_release);
}

/* Fills the place of an entry with the last entry of its chain, which begins at
 * `start`. */
static void fill_hole(struct coxi_index *index, struct coxi_index_bucket *bucket,
                      struct coxi_line *start, struct coxi_line *line, uint32_t at)
{
    struct coxi_line *before = NULL;
    struct coxi_line *last = start;
    while (next_of(last) != 0) {
        before = last;
        last = overflow_at(index, next_of(last));
    }
    uint32_t end = count_of(last) - 1;
    set(line, at, key_at(last, end), row_at(last, end));
    set(last, end, 0, 0);
    if (end == 0 && before != NULL) {
        give_back(index, bucket, next_of(before));
        set_next(before, 0);
    }
}

uint32_t coxi_index_remove(struct coxi_index *index, struct coxi_index_bucket *bucket,
                           uint64_t key, uint64_t hash)
{
    struct coxi_line *start = coxi_index_start(index, bucket, hash);
    struct coxi_line *line = start;
    while (line != NULL) {
        for (uint32_t i = 0; i < COXI_LINE_KEYS; i++) {
            uint32_t row = row_at(line, i);
            if (row != 0 && key_at(line, i) == key) {
                fill_hole(index, bucket, start, line, i);
                bucket->n_keys--;
                return row;
            }
        }
        uint32_t next = next_of(line);
        line = next != 0 ? overflow_at(index, next) : NULL;
    }
    return 0;
}

int coxi_index_each(const struct coxi_index *index,
                    const struct coxi_index_bucket *bucket, uint32_t number,
                    coxi_index_visit visit, void *arg)
{
    const struct coxi_line *line = coxi_index_line(index, bucket, number);
    int r = 0;
    while (r == 0 && line != NULL) {
        uint32_t n = count_of(line);
        for (uint32_t i = 0; r == 0 && i < n; i++) {
            r = visit(arg, key_at(line, i), row_at(line, i));
        }
        uint32_t next = next_of(line);
        line = next != 0 ? overflow_at(index, next) : NULL;
    }
    return r;
}
