/*
 * Where a table's rows are: from key to row number, for keys that are spread over
 * buckets. Each bucket grows by itself, a line at a time (linear hashing: Litwin, VLDB
 * 1980): a put moves the keys of one line at most, however many there are.
 *
 * The caller locks the bucket for whatever takes one, but for hints and peeks: those read
 * without, may be out of date, and are for prefetching.
 */
#ifndef COXI_PS_INDEX_H
#define COXI_PS_INDEX_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/hash.h"
#include "ps/stretch.h"

enum { COXI_LINE_KEYS = 5 };

/* One cache line. What does not fit goes on in line `next` of the overflow. */
struct coxi_line {
    _Atomic(uint64_t) keys[COXI_LINE_KEYS];
    _Atomic(uint32_t) rows[COXI_LINE_KEYS]; /* 0: no key */
    _Atomic(uint32_t) next;                 /* 0: none */
};

struct coxi_index {
    struct coxi_stretch lines;    /* item i: the i-th lines of all buckets */
    struct coxi_stretch overflow; /* of lines */
    atomic_uint n_slots;          /* of buckets that have lines */
};

/* A zeroed one is empty. */
struct coxi_index_bucket {
    _Atomic(uint32_t) n_lines;
    uint32_t n_keys;
    uint32_t free_line; /* a list of lines of the overflow; 0: none */
    uint32_t n_moved;   /* keys in the line that was split last */
    uint16_t slot;      /* whose lines are its own; set before n_lines */
};

void coxi_index_init(struct coxi_index *index);
void coxi_index_fini(struct coxi_index *index);

/* The row of a key, or 0. */
uint32_t coxi_index_find(const struct coxi_index *index,
                         const struct coxi_index_bucket *bucket, uint64_t key,
                         uint64_t hash);

/* Puts a key that is not there; `row` is not 0. COX_ENOMEM, COX_ELIMIT: it is still not
 * there. */
int coxi_index_put(struct coxi_index *index, struct coxi_index_bucket *bucket,
                   uint64_t key, uint64_t hash, uint32_t row);

/* Makes lines for `n` keys in a bucket that has none, as far as there is memory. Of many
 * buckets first for one key each: what is taken for all is then taken in huge pages. */
void coxi_index_expect(struct coxi_index *index, struct coxi_index_bucket *bucket,
                       uint32_t n);

/* Takes a key out; its row, or 0 where it was not there. */
uint32_t coxi_index_remove(struct coxi_index *index, struct coxi_index_bucket *bucket,
                           uint64_t key, uint64_t hash);

/* Calls `visit` for each key whose line is `line` (below n_lines) until it returns other
 * than 0, and returns that. The order stays while no key is put or removed. */
typedef int (*coxi_index_visit)(void *arg, uint64_t key, uint32_t row);
int coxi_index_each(const struct coxi_index *index,
                    const struct coxi_index_bucket *bucket, uint32_t line,
                    coxi_index_visit visit, void *arg);

/* ---- ahead of time, without the lock */

/* The line number of a hash among n_lines (not 0). */
static inline uint32_t coxi_index_number(uint64_t hash, uint32_t n_lines)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(n_lines);
    uint32_t number = (uint32_t)hash & mask;
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

/* The line where a hash starts, or NULL: there are none. */
static inline struct coxi_line *coxi_index_start(const struct coxi_index *index,
                                                 const struct coxi_index_bucket *bucket,
                                                 uint64_t hash)
{
    uint32_t n_lines = atomic_load_explicit(&bucket->n_lines, memory_order_acquire);
    return n_lines == 0
               ? NULL
               : coxi_index_line(index, bucket, coxi_index_number(hash, n_lines));
}

/* The row of a key in one line, or 0. Without a branch: where a key is in its line cannot
 * be predicted. */
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

/*
 * A look-up in steps, each of which asks for the memory that the next one needs: begin,
 * then peek until the chain is at its end.
 */
static inline const struct coxi_line *
coxi_index_begin(const struct coxi_index *index, const struct coxi_index_bucket *bucket,
                 uint64_t hash)
{
    const struct coxi_line *line = coxi_index_start(index, bucket, hash);
    __builtin_prefetch(line);
    return line;
}

/* The row of a key in *line, as it seems; 0: not there, and *line is the next one or
 * NULL. */
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
