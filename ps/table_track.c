/*
 * Notes what changes in a table, so that the next snapshot can hold only that
 * (ps/table.h).
 *
 * There are two spans. `since` has the changes since the last cut. `before` has the
 * changes before that cut, back to the cut of the snapshot on which the last one was
 * built. A span has the rows that were touched in it and still exist, and the keys of
 * rows that were dropped. Only the next request tells whether the last snapshot became
 * durable. If it did, `before` is dropped; otherwise `since` is merged into `before`.
 *
 * Threads: rows under the locks of their buckets; dropped keys under `tidying`; spans
 * change while no change is under way. Memory: two bits for each row, and the dropped
 * keys, at most as many as there are rows: beyond that, or without memory, the span is
 * marked as broken, and the next snapshot must have everything. While only few rows are
 * touched, a span also lists their keys. A snapshot then looks up these keys and need
 * not go through the whole index.
 */
#include <stdlib.h>

#include "common/error.h"
#include "ps/table_internal.h"

enum {
    /* a span may have this many dropped keys, or one for each row */
    GONE_LEAST = 1 << 16,
    LISTED_LEAST = 1 << 10, /* a span may list this many keys ... */
    LISTED_SHARE = 8,       /* ... and one more for every 8 rows */
    /* longer lists are not merged, because commits wait meanwhile */
    MERGED_MAX = 1 << 18,
};

struct span {
    struct coxi_bits touched;
    /* keys of touched rows, added when a row's bit was not set before */
    struct coxi_stretch keys;
    atomic_uint_least64_t n_keys;
    atomic_bool unlisted; /* there are too many keys to list */
    uint64_t *gone;
    size_t n_gone;
    size_t gone_capacity;
    atomic_bool broken; /* something was not noted */
};

struct coxi_table_track {
    struct coxi_table *table;
    struct span spans[2];
    struct span *since;
    struct span *before;
};

static void span_init(struct span *span)
{
    *span = (struct span){0};
    coxi_bits_init(&span->touched);
    coxi_stretch_init(&span->keys, sizeof(uint64_t), UINT32_MAX);
}

static void span_fini(struct span *span)
{
    coxi_bits_fini(&span->touched);
    coxi_stretch_fini(&span->keys);
    free(span->gone);
}

int coxi_table_track(struct coxi_table *table)
{
    struct coxi_table_track *track = calloc(1, sizeof(*track));
    if (track == NULL) {
        return coxi_error_memory("what changes in a table");
    }
    track->table = table;
    track->since = &track->spans[0];
    track->before = &track->spans[1];
    span_init(track->since);
    span_init(track->before);
    table->track = track;
    return 0;
}

void coxi_table_track_free(struct coxi_table_track *track)
{
    if (track != NULL) {
        span_fini(track->since);
        span_fini(track->before);
        free(track);
    }
}

/* ---- changes */

static uint64_t *key_at(const struct span *span, uint64_t i)
{
    return (uint64_t *)(void *)coxi_stretch_at(&span->keys, (uint32_t)i);
}

static void list_key(const struct coxi_table_track *track, struct span *span,
                     uint64_t key)
{
    if (atomic_load_explicit(&span->unlisted, memory_order_relaxed)) {
        return;
    }
    uint64_t most = LISTED_LEAST + coxi_table_rows(track->table) / LISTED_SHARE;
    uint64_t i = atomic_fetch_add_explicit(&span->n_keys, 1, memory_order_relaxed);
    if (i < most && coxi_stretch_reserve(&span->keys, (uint32_t)i, 1) == 0) {
        *key_at(span, i) = key;
    } else {
        atomic_store(&span->unlisted, true);
    }
}

void coxi_table_track_touch(struct coxi_table_track *track, uint64_t key, uint32_t row)
{
    struct span *since = track->since;
    int r = coxi_bits_put(&since->touched, row);
    if (r < 0) {
        atomic_store(&since->broken, true);
    } else if (r == 0) {
        list_key(track, since, key);
    }
}

/* Makes room for `n` dropped keys; false: there is none. */
static bool reserve_gone(const struct coxi_table_track *track, struct span *span,
                         size_t n)
{
    uint64_t most = coxi_table_rows(track->table);
    if (n <= span->gone_capacity) {
        return true;
    }
    if (n > GONE_LEAST && n > most) {
        return false;
    }
    size_t capacity = span->gone_capacity * 2 > n ? span->gone_capacity * 2 : n + 64;
    uint64_t *gone = realloc(span->gone, capacity * sizeof(*gone));
    if (gone == NULL) {
        return false;
    }
    span->gone = gone;
    span->gone_capacity = capacity;
    return true;
}

void coxi_table_track_gone(struct coxi_table_track *track, uint64_t key, uint32_t row)
{
    struct span *since = track->since;
    coxi_bits_drop(&since->touched, row);
    coxi_bits_drop(&track->before->touched, row);
    if (atomic_load_explicit(&since->broken, memory_order_relaxed)) {
        return;
    }
    if (!reserve_gone(track, since, since->n_gone + 1)) {
        atomic_store(&since->broken, true);
        return;
    }
    since->gone[since->n_gone++] = key;
}

/* ---- cuts */

/* Adds the listed keys of a span to those of another. */
static void merge_keys(const struct coxi_table_track *track, const struct span *from,
                       struct span *to)
{
    uint64_t n = atomic_load(&from->n_keys);
    bool listed = !atomic_load(&from->unlisted) && n <= MERGED_MAX;
    for (uint64_t i = 0; listed && i < n; i++) {
        list_key(track, to, *key_at(from, i));
    }
    if (!listed) {
        atomic_store(&to->unlisted, true);
    }
}

/* Adds the span since the last cut to the span before it. */
static void merge(struct coxi_table_track *track)
{
    struct span *since = track->since;
    struct span *before = track->before;
    bool whole = !atomic_load(&since->broken) && !atomic_load(&before->broken) &&
                 coxi_bits_merge(&before->touched, &since->touched) == 0 &&
                 reserve_gone(track, before, before->n_gone + since->n_gone);
    if (whole && since->n_gone > 0) {
        memcpy(before->gone + before->n_gone, since->gone,
               since->n_gone * sizeof(*since->gone));
        before->n_gone += since->n_gone;
    }
    atomic_store(&before->broken, !whole);
    merge_keys(track, since, before);
}

void coxi_table_track_cut(struct coxi_table_track *track, bool drop_before)
{
    struct span *over = drop_before ? track->before : track->since;
    if (drop_before) {
        track->before = track->since;
        track->since = over;
    } else {
        merge(track);
    }
    span_fini(over);
    span_init(over);
}

bool coxi_table_track_whole(const struct coxi_table_track *track)
{
    return !atomic_load(&track->before->broken);
}

const struct coxi_bits *coxi_table_track_rows(const struct coxi_table_track *track)
{
    return &track->before->touched;
}

const struct coxi_stretch *coxi_table_track_keys(const struct coxi_table_track *track,
                                                 uint64_t *ret_n)
{
    const struct span *before = track->before;
    if (atomic_load(&before->unlisted)) {
        return NULL;
    }
    *ret_n = atomic_load(&before->n_keys);
    return &before->keys;
}

const uint64_t *coxi_table_track_removed(const struct coxi_table_track *track,
                                         size_t *ret_n)
{
    *ret_n = track->before->n_gone;
    return track->before->gone;
}
