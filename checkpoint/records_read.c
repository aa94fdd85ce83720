/*
 * Reading records (records.h). A reader takes references to the items of a range of numbers
 * under the lock, and makes their lines without it. So the lock is never held for long.
 */
#include <assert.h>
#include <stdlib.h>

#include "checkpoint/records_internal.h"
#include "common/error.h"

enum {
    SPAN = 1024,      /* numbers that are looked at under the lock at a time */
    PER_KIND = 64,    /* records of one kind that coxi_records_some takes at a time */
    ITEMS_MAX = 4096, /* of a range */
};

/* Items of a range of numbers, with a reference each. */
struct range {
    struct coxi_record_item items[ITEMS_MAX];
    size_t n;
    uint64_t end; /* the range's last number */
};

/* The first item after number `seq`. */
static size_t first_after(const struct coxi_record_stream *stream, uint64_t seq)
{
    size_t low = 0;
    size_t high = stream->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (stream->items[middle].seq <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void add_item(struct range *range, const struct coxi_record_item *item)
{
    assert(range->n < ITEMS_MAX);
    range->items[range->n++] = coxi_record_item_ref(item);
}

/* ---- all of a range */

static void note_first(const struct coxi_record_stream *stream, uint64_t seq,
                       uint64_t *first)
{
    size_t i = first_after(stream, seq);
    if (i < stream->n && stream->items[i].seq < *first) {
        *first = stream->items[i].seq;
    }
}

static void collect(const struct coxi_record_stream *stream, uint64_t seq,
                    struct range *range)
{
    for (size_t i = first_after(stream, seq);
         i < stream->n && stream->items[i].seq <= range->end; i++) {
        add_item(range, &stream->items[i]);
    }
}

/* The first range with items after `seq`; without items: there are none. */
static void next_range(struct coxi_records *records, uint64_t seq, struct range *ret)
{
    uint64_t first = UINT64_MAX;
    ret->n = 0;
    coxi_lock(&records->lock);
    size_t n_streams = COXI_N_RECORD_KINDS + records->n_series;
    for (size_t i = 0; i < n_streams; i++) {
        note_first(coxi_records_stream(records, i), seq, &first);
    }
    /* Numbers are unique, so a range of SPAN numbers has no more than SPAN items. */
    ret->end = first == UINT64_MAX ? records->last : first + SPAN - 1;
    for (size_t i = 0; i < n_streams && first != UINT64_MAX; i++) {
        collect(coxi_records_stream(records, i), seq, ret);
    }
    coxi_unlock(&records->lock);
}

/* ---- of scalars some */

/* All kinds of records but scalars have at most PER_KIND items up to there. */
static uint64_t end_of_some(struct coxi_records *records, uint64_t seq)
    COXI_REQUIRES(records->lock)
{
    uint64_t end = records->last;
    for (size_t i = 0; i < COXI_N_RECORD_KINDS; i++) {
        const struct coxi_record_stream *stream = &records->kinds[i];
        size_t last = first_after(stream, seq) + PER_KIND - 1;
        if (last < stream->n && stream->items[last].seq < end) {
            end = stream->items[last].seq;
        }
    }
    return end;
}

/* The newest item, and of every `one_of` older ones one, at random: a pattern in a curve
 * must not meet a pattern here. */
static void collect_some(struct coxi_records *records,
                         const struct coxi_record_stream *stream, uint64_t seq,
                         size_t most, struct range *range) COXI_REQUIRES(records->lock)
{
    size_t begin = first_after(stream, seq);
    size_t end = first_after(stream, range->end);
    if (begin == end) {
        return;
    }
    size_t one_of = (end - begin + most - 1) / most;
    add_item(range, &stream->items[end - 1]);
    for (size_t i = begin; i + one_of < end; i += one_of) {
        records->scattered = records->scattered * 1664525u + 1013904223u;
        add_item(range, &stream->items[i + (records->scattered >> 16) % one_of]);
    }
}

/* The next range, without most of its scalars. */
static void next_some(struct coxi_records *records, uint64_t seq, size_t scalars,
                      struct range *ret)
{
    static_assert(COXI_N_RECORD_KINDS * PER_KIND + 2 * COXI_SCALAR_NAMES_MAX +
                          COXI_RECORDS_SOME_MAX <=
                      ITEMS_MAX,
                  "each name of a scalar may have two items more than its share");
    size_t n_names = 0;
    ret->n = 0;
    coxi_lock(&records->lock);
    ret->end = end_of_some(records, seq);
    for (size_t i = 0; i < COXI_N_RECORD_KINDS; i++) {
        collect(&records->kinds[i], seq, ret);
    }
    for (size_t i = 0; i < records->n_series; i++) {
        const struct coxi_record_stream *stream = &records->series[i]->stream;
        n_names += first_after(stream, seq) < first_after(stream, ret->end);
    }
    size_t share = n_names > 0 && n_names < scalars ? scalars / n_names : 1;
    for (size_t i = 0; i < records->n_series; i++) {
        collect_some(records, &records->series[i]->stream, seq, share, ret);
    }
    coxi_unlock(&records->lock);
}

/* ---- lines */

static int by_seq(const void *a, const void *b)
{
    uint64_t x = ((const struct coxi_record_item *)a)->seq;
    uint64_t y = ((const struct coxi_record_item *)b)->seq;
    return (x > y) - (x < y);
}

/* Appends the lines of a range while there are less than `end` bytes. */
static int append_range(struct range *range, size_t end, struct coxi_buffer *out,
                        uint64_t *ret_seq)
{
    int r = 0;
    qsort(range->items, range->n, sizeof(*range->items), by_seq);
    for (size_t i = 0; i < range->n; i++) {
        if (r == 0 && (out->len < end || i == 0)) {
            struct coxi_record record = coxi_record_of_item(&range->items[i]);
            r = coxi_record_line(out, &record);
            *ret_seq = record.seq;
        }
        coxi_record_text_unref(range->items[i].text);
    }
    return r;
}

int coxi_records_since(struct coxi_records *records, uint64_t seq, size_t most,
                       struct coxi_buffer *out, uint64_t *ret_seq)
{
    struct range *range = malloc(sizeof(*range));
    size_t end = out->len + most;
    uint64_t at = seq;
    if (range == NULL) {
        return coxi_error_memory("records");
    }
    int r;
    do {
        next_range(records, at, range);
        if (range->n == 0) {
            at = range->end > at ? range->end : at;
        }
        r = append_range(range, end, out, &at);
    } while (r == 0 && range->n > 0 && out->len < end);
    free(range);
    if (r == 0) {
        *ret_seq = at;
    }
    return r;
}

int coxi_records_some(struct coxi_records *records, uint64_t seq, size_t scalars,
                      size_t most, struct coxi_buffer *out, uint64_t *ret_seq)
{
    struct range *range = malloc(sizeof(*range));
    uint64_t at = seq;
    if (range == NULL) {
        return coxi_error_memory("records");
    }
    assert(scalars > 0 && scalars <= COXI_RECORDS_SOME_MAX);
    next_some(records, seq, scalars, range);
    if (range->n == 0) {
        at = range->end > at ? range->end : at;
    }
    int r = append_range(range, out->len + most, out, &at);
    free(range);
    if (r == 0) {
        *ret_seq = at;
    }
    return r;
}
