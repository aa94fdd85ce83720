/*
 * Maps keys of a table to row numbers. The keys are spread over buckets. Each bucket
 * grows by itself, one line at a time (linear hashing: Litwin, VLDB 1980), so a put
 * moves the keys of at most one line, however many there are.
 *
 * The caller holds the lock of the bucket that it passes, except for hints and peeks:
 * these read without the lock, may be out of date, and are for prefetching.
 */
#ifndef COXI_PS_INDEX_H
#define COXI_PS_INDEX_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/hash.h"
#include "ps/stretch.h"

enum { COXI_LINE_KEYS = 5 };

/* One cache line. Entries that do not fit are in line `next` of the overflow. */
struct coxi_line {
    _Atomic(uint64_t) keys[COXI_LINE_KEYS];
    _Atomic(uint32_t) rows[COXI_LINE_KEYS]; /* 0: no key */
    _Atomic(uint32_t) next;                 /* 0: none */
};

struct coxi_index {
    struct coxi_stretch lines;    /* item i: the i-th lines of all buckets */
    struct coxi_stretch overflow; /* of lines */
    uint64_t seed;                /* of the places of keys; secret */
    atomic_uint n_slots;          /* buckets that have lines */
};

/* A zeroed bucket is empty. */
struct coxi_index_bucket {
    _Atomic(uint32_t) n_lines;
    uint32_t n_keys;
    uint32_t free_line; /* a list of free lines of the overflow; 0: none */
    uint32_t n_moved;   /* keys that the last split moved */
    uint16_t slot;      /* the bucket's place among the lines; set before n_lines */
};

void coxi_index_init(struct coxi_index *index);
void coxi_index_fini(struct coxi_index *index);

/* The row of a key, or 0. */
uint32_t coxi_index_find(const struct coxi_index *index,
                         const struct coxi_index_bucket *bucket, uint64_t key,
                         uint64_t hash);

/* Adds a key that is not in the index; `row` is not 0. COX_ENOMEM, COX_ELIMIT: it was
 * not added. */
int coxi_index_put(struct coxi_index *index, struct coxi_index_bucket *bucket,
                   uint64_t key, uint64_t hash, uint32_t row);

/*
 * Makes lines for `n` keys in an empty bucket, as far as there is memory. For many
 * buckets: first call it for one key each, because the memory for all of them then
 * comes in huge pages.
 */
void coxi_index_expect(struct coxi_index *index, struct coxi_index_bucket *bucket,
                       uint32_t n);

/* Removes a key. Returns its row, or 0 if the key was not there. */
uint32_t coxi_index_remove(struct coxi_index *index, struct coxi_index_bucket *bucket,
                           uint64_t key, uint64_t hash);

/*
 * Calls `visit` for each key of line `line` (below n_lines) until it returns something
 * other than 0, and returns that. The order stays the same while no key is put or
 * removed.
 */
typedef int (*coxi_index_visit)(void *arg, uint64_t key, uint32_t row);
int coxi_index_each(const struct coxi_index *index,
                    const struct coxi_index_bucket *bucket, uint32_t line,
                    coxi_index_visit visit, void *arg);

/* ---- prefetching, without the lock */

/* The place of a hash in its bucket. */
static inline uint32_t coxi_index_place(const struct coxi_index *index, uint64_t hash)
{
    return coxi_hash_place(hash, index->seed);
}

/* The line number of a place among n_lines (not 0). */
static inline uint32_t coxi_index_number(uint32_t place, uint32_t n_lines)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(n_lines);
    uint32_t number = place & mask;
    return number < n_lines ? number : number & mask >> 1;
}

static inline struct coxi_line *coxi_index_line(const struct coxi_index *index,
                                                const struct coxi_index_bucket *bucket,
                                                uint32_t number)
{
    struct coxi_stretch_place place = coxi_stretch_locate(&index->lines, number);
    uint8_t *segment = coxi_stretch_segment(&index->lines, &place);
    size_t line = ((size_t)bucket->slot << place.bits) + place.offset;
    return (struct coxi_line *)(void *)segment + line;
}

/* The line where the look-up of a hash starts, or NULL: the bucket has no lines. */
static inline struct coxi_line *coxi_index_start(const struct coxi_index *index,
                                                 const struct coxi_index_bucket *bucket,
                                                 uint64_t hash)
{
    uint32_t n_lines = atomic_load_explicit(&bucket->n_lines, memory_order_acquire);
    return n_lines == 0 ? NULL
                        : coxi_index_line(index, bucket,
                                          coxi_index_number(
                                              coxi_index_place(index, hash), n_lines));
}

/* The row of a key in one line, or 0. Without a branch, because the place of a key in
 * its line cannot be predicted. */
static inline uint32_t coxi_line_find(const struct coxi_line *line, uint64_t key)
{
    uint32_t found = 0;
    for (int i = 0; i < COXI_LINE_KEYS; i++) {
        uint64_t is = atomic_load_explicit(&line->keys[i], memory_order_relaxed);
        uint32_t row = atomic_load_explicit(&line->rows[i], memory_order_relaxed);
        found |= is == key ? row : 0;
    }
    return found;
}

/* A look-up in steps, each of which prefetches the memory that the next one needs:
 * begin, then peek until the chain ends. */
static inline const struct coxi_line *
coxi_index_begin(const struct coxi_index *index, const struct coxi_index_bucket *bucket,
                 uint64_t hash)
{
    const struct coxi_line *line = coxi_index_start(index, bucket, hash);
    __builtin_prefetch(line);
    return line;
}

/* Looks for a key in *line without the lock, and returns its row. 0: the key is not
 * there; then *line becomes the next line of the chain, or NULL. */
static inline uint32_t coxi_index_peek(const struct coxi_index *index,
                                       const struct coxi_line **line, uint64_t key)
{
    uint32_t row = coxi_line_find(*line, key);
    uint32_t next = atomic_load_explicit(&(*line)->next, memory_order_relaxed);
    if (row == 0) {
        *line = next == 0 ? NULL
                          : (const struct coxi_line *)(const void *)coxi_stretch_at(
                                &index->overflow, next);
        __builtin_prefetch(*line);
    }
    return row;
}

#endif
