/*
 * See records.h. Records are kept in streams: one for each kind, and one for each name
 * and source of scalars. A stream is an array sorted by number. A reader looks at a range
 * of numbers in every stream at a time, so the lock is never held for long.
 *
 * A scalar is kept as numbers; its line is made when it is read.
 */
#include "checkpoint/records.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "checkpoint/records_internal.h"
#include "common/error.h"

enum {
    POINTS_MAX = 1 << 15,    /* scalars of all names */
    PENDING_BYTES = 1 << 20, /* texts of pending records */
};

static const struct {
    size_t max;       /* records */
    size_t max_bytes; /* of their texts */
    bool thins;       /* or else drops the oldest */
} kinds[] = {
    [COXI_RECORD_RUN] = {256, 1 << 18, false},
    [COXI_RECORD_CONFIG] = {64, 1 << 19, false},
    [COXI_RECORD_SAMPLE] = {4096, 3 << 19, true},
    [COXI_RECORD_WORKERS] = {4096, 3 << 19, false},
    [COXI_RECORD_PS] = {4096, 3 << 18, true},
    [COXI_RECORD_SCALAR] = {0, 0, true},
    [COXI_RECORD_EVENT] = {10000, 2 << 20, false},
    [COXI_RECORD_CHECKPOINT] = {1000, 1 << 18, true},
    [COXI_RECORD_EVAL] = {1000, 1 << 18, true},
};

/* ---- texts */

static int text_new(const char *fields, struct coxi_record_text **ret)
{
    size_t len = strlen(fields);
    if (len > COXI_RECORD_MAX) {
        return coxi_error(COX_ELIMIT, "a record has %zu bytes, at most %d", len,
                          COXI_RECORD_MAX);
    }
    struct coxi_record_text *text = malloc(sizeof(*text) + len + 1);
    if (text == NULL) {
        return coxi_error_memory("a record");
    }
    atomic_init(&text->refs, 1);
    text->len = len;
    memcpy(text->json, fields, len + 1);
    *ret = text;
    return 0;
}

void coxi_record_text_unref(struct coxi_record_text *text)
{
    if (text != NULL && atomic_fetch_sub(&text->refs, 1) == 1) {
        free(text);
    }
}

struct coxi_record_item coxi_record_item_ref(const struct coxi_record_item *item)
{
    if (item->text != NULL) {
        atomic_fetch_add(&item->text->refs, 1);
    }
    return *item;
}

struct coxi_record coxi_record_of_item(const struct coxi_record_item *item)
{
    struct coxi_record record = {.seq = item->seq, .t = item->t, .kind = item->kind};
    if (item->series != NULL) {
        record.scalar = (struct coxi_record_scalar){
            item->series->name, item->series->source, item->step, item->value};
    } else {
        record.fields = item->text->json;
    }
    return record;
}

/* ---- streams */

static void drop(struct coxi_records *records, struct coxi_record_stream *stream,
                 const struct coxi_record_item *item)
{
    if (item->text != NULL) {
        stream->bytes -= item->text->len;
        coxi_record_text_unref(item->text);
    } else {
        records->n_points--;
    }
}

/* Of the older half, keeps the first item, and of all that there ever were one in `stride`. */
static void keep_one_in(struct coxi_records *records, struct coxi_record_stream *stream,
                        uint64_t stride)
{
    size_t half = stream->n / 2;
    size_t n = 0;
    for (size_t i = 0; i < stream->n; i++) {
        struct coxi_record_item *item = &stream->items[i];
        if (i > 0 && i < half && item->nth % stride != 0) {
            drop(records, stream, item);
        } else {
            stream->items[n++] = *item;
        }
    }
    stream->n = n;
}

/* Drops an eighth of the items at least, and of more than 3 at least one. What stays of the
 * older half covers the run evenly, because it has one stride all over. */
static void thin(struct coxi_records *records, struct coxi_record_stream *stream)
{
    size_t most = stream->n - stream->n / 8 - (stream->n < 8);
    stream->stride += stream->stride == 0;
    keep_one_in(records, stream, stream->stride);
    while (stream->n > most) {
        stream->stride *= 2;
        keep_one_in(records, stream, stream->stride);
    }
}

/* Drops the oldest eighth, at least one item. */
static void drop_oldest(struct coxi_records *records, struct coxi_record_stream *stream)
{
    size_t n = stream->n / 8 + 1;
    for (size_t i = 0; i < n; i++) {
        drop(records, stream, &stream->items[i]);
    }
    stream->n -= n;
    memmove(stream->items, stream->items + n, stream->n * sizeof(*stream->items));
}

/* Makes room after an item was added: the newest always stays. */
static void bound(struct coxi_records *records, struct coxi_record_stream *stream,
                  enum coxi_record_kind kind)
{
    while (stream->n > 1 &&
           (stream->n > kinds[kind].max || stream->bytes > kinds[kind].max_bytes)) {
        if (kinds[kind].thins && stream->n > 3) {
            thin(records, stream);
        } else {
            drop_oldest(records, stream);
        }
    }
}

/* Thins the longest series until the bound on all scalars holds. */
static void bound_points(struct coxi_records *records)
{
    while (records->n_points > POINTS_MAX) {
        struct coxi_record_stream *longest = &records->series[0]->stream;
        for (size_t i = 1; i < records->n_series; i++) {
            struct coxi_record_stream *stream = &records->series[i]->stream;
            longest = stream->n > longest->n ? stream : longest;
        }
        thin(records, longest);
    }
}

static int grow(struct coxi_record_item **items, size_t *capacity, size_t n)
{
    size_t larger = *capacity == 0 ? 16 : *capacity + *capacity / 2;
    if (n < *capacity) {
        return 0;
    }
    struct coxi_record_item *more = realloc(*items, larger * sizeof(*more));
    if (more == NULL) {
        return coxi_error_memory("records");
    }
    *items = more;
    *capacity = larger;
    return 0;
}

/* ---- series */

/* What a series is found by. Returns its length; 0: a name is too long. */
static size_t key_of(const struct coxi_record_scalar *scalar,
                     char key[2 * COXI_SCALAR_NAME_MAX + 2])
{
    size_t len = strlen(scalar->name);
    size_t source_len = strlen(scalar->source);
    if (len > COXI_SCALAR_NAME_MAX || source_len > COXI_SCALAR_NAME_MAX) {
        return 0;
    }
    memcpy(key, scalar->name, len);
    key[len] = '\1';
    memcpy(key + len + 1, scalar->source, source_len + 1);
    return len + 1 + source_len;
}

static int add_series(struct coxi_records *records, const char *key, size_t len,
                      size_t name_len, struct coxi_record_series **ret)
    COXI_REQUIRES(records->lock)
{
    if (records->n_series == COXI_SCALAR_NAMES_MAX) {
        return coxi_error(COX_ELIMIT, "there are %d names of scalars already",
                          COXI_SCALAR_NAMES_MAX);
    }
    struct coxi_record_series *series = calloc(1, sizeof(*series) + 2 * (len + 1));
    if (series == NULL) {
        return coxi_error_memory("a scalar's name");
    }
    char *texts = (char *)(series + 1);
    memcpy(texts, key, len + 1);
    memcpy(texts + len + 1, key, len + 1);
    texts[len + 1 + name_len] = '\0';
    series->named = (struct coxi_named){.name = texts, .len = len};
    series->name = texts + len + 1;
    series->source = series->name + name_len + 1;
    int r = coxi_names_add(&records->names, &series->named);
    if (r != 0) {
        free(series);
        return r;
    }
    records->series[records->n_series++] = series;
    *ret = series;
    return 0;
}

static int find_series(struct coxi_records *records,
                       const struct coxi_record_scalar *scalar,
                       struct coxi_record_series **ret) COXI_REQUIRES(records->lock)
{
    char key[2 * COXI_SCALAR_NAME_MAX + 2];
    size_t len = key_of(scalar, key);
    if (len == 0) {
        return coxi_error(COX_ELIMIT, "a scalar's name has more than %d bytes",
                          COXI_SCALAR_NAME_MAX);
    }
    struct coxi_record_series *found =
        (struct coxi_record_series *)coxi_names_get(&records->names, key, len);
    if (found != NULL) {
        *ret = found;
        return 0;
    }
    return add_series(records, key, len, strlen(scalar->name), ret);
}

/* ---- adding */

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Numbers the item and appends it to its stream. */
static int append(struct coxi_records *records, struct coxi_record_stream *stream,
                  struct coxi_record_item *item) COXI_REQUIRES(records->lock)
{
    int r = grow(&stream->items, &stream->capacity, stream->n);
    if (r != 0) {
        return r;
    }
    item->seq = item->seq > records->last ? item->seq : records->last + 1;
    item->nth = stream->n_added++;
    records->last = item->seq;
    stream->items[stream->n++] = *item;
    if (item->series != NULL) {
        records->n_points++;
    } else {
        stream->bytes += item->text->len;
    }
    return 0;
}

/* The item waits for coxi_records_take, or counts as lost. */
static void put_pending(struct coxi_records *records,
                        const struct coxi_record_item *item)
    COXI_REQUIRES(records->lock)
{
    size_t bytes = records->pending_bytes + (item->text != NULL ? item->text->len : 0);
    if (records->n_pending < COXI_PENDING_MAX && bytes <= PENDING_BYTES &&
        grow(&records->pending, &records->pending_capacity, records->n_pending) == 0) {
        records->pending[records->n_pending++] = coxi_record_item_ref(item);
        records->pending_bytes = bytes;
    } else {
        records->n_lost++;
    }
}

int coxi_records_add(struct coxi_records *records, const struct coxi_record *record,
                     bool lasting, uint64_t *ret_seq)
{
    bool is_scalar = record->kind == COXI_RECORD_SCALAR;
    struct coxi_record_item item = {.seq = record->seq,
                                    .t = record->t != 0 ? record->t : now_s(),
                                    .kind = record->kind,
                                    .step = record->scalar.step,
                                    .value = record->scalar.value};
    int r = is_scalar ? 0 : text_new(record->fields, &item.text);
    if (r != 0) {
        return r;
    }
    coxi_lock(&records->lock);
    struct coxi_record_stream *stream = &records->kinds[record->kind];
    if (is_scalar) {
        struct coxi_record_series *series = NULL;
        r = find_series(records, &record->scalar, &series);
        item.series = series;
        stream = series != NULL ? &series->stream : NULL;
    }
    if (r == 0) {
        r = append(records, stream, &item);
    }
    if (r == 0 && lasting && records->pending_on) {
        put_pending(records, &item);
    }
    if (r == 0 && is_scalar) {
        bound_points(records);
    } else if (r == 0) {
        bound(records, stream, record->kind);
    }
    coxi_unlock(&records->lock);
    if (r != 0) {
        coxi_record_text_unref(item.text);
    } else if (ret_seq != NULL) {
        *ret_seq = item.seq;
    }
    return r;
}

uint64_t coxi_records_last(struct coxi_records *records)
{
    coxi_lock(&records->lock);
    uint64_t last = records->last;
    coxi_unlock(&records->lock);
    return last;
}

void coxi_records_skip(struct coxi_records *records, uint64_t seq)
{
    coxi_lock(&records->lock);
    records->last = seq > records->last ? seq : records->last;
    coxi_unlock(&records->lock);
}

/* ---- those that wait */

void coxi_records_take(struct coxi_records *records,
                       void (*take)(void *arg, const struct coxi_record *record),
                       void *arg, uint64_t *ret_lost)
{
    coxi_lock(&records->lock);
    struct coxi_record_item *items = records->pending;
    size_t n = records->n_pending;
    *ret_lost = records->n_lost;
    records->pending = NULL;
    records->n_pending = records->pending_capacity = records->pending_bytes = 0;
    records->n_lost = 0;
    coxi_unlock(&records->lock);
    for (size_t i = 0; i < n; i++) {
        struct coxi_record record = coxi_record_of_item(&items[i]);
        take(arg, &record);
        coxi_record_text_unref(items[i].text);
    }
    free(items);
}

/* ---- a run that goes on from a checkpoint */

/* Drops the items up to number `seq`; of scalars that have `repeated`, those that are
 * void. */
static void forget(struct coxi_records *records, struct coxi_record_stream *stream,
                   uint64_t seq, const struct coxi_repeated *repeated)
{
    size_t n = 0;
    for (size_t i = 0; i < stream->n; i++) {
        struct coxi_record record = coxi_record_of_item(&stream->items[i]);
        if (record.seq <= seq &&
            (repeated == NULL || coxi_repeated_has(repeated, &record))) {
            drop(records, stream, &stream->items[i]);
        } else {
            stream->items[n++] = stream->items[i];
        }
    }
    stream->n = n;
}

void coxi_records_forget(struct coxi_records *records,
                         const struct coxi_repeated *repeated)
{
    coxi_lock(&records->lock);
    for (size_t i = 0; i < records->n_series; i++) {
        forget(records, &records->series[i]->stream, UINT64_MAX, repeated);
    }
    coxi_unlock(&records->lock);
}

void coxi_records_clear(struct coxi_records *records, uint64_t seq)
{
    coxi_lock(&records->lock);
    for (size_t i = 0; i < COXI_N_RECORD_KINDS + records->n_series; i++) {
        forget(records, coxi_records_stream(records, i), seq, NULL);
    }
    records->last = seq == UINT64_MAX ? 0 : records->last;
    coxi_unlock(&records->lock);
}

/* ---- life */

static void stream_fini(struct coxi_record_stream *stream)
{
    for (size_t i = 0; i < stream->n; i++) {
        coxi_record_text_unref(stream->items[i].text);
    }
    free(stream->items);
}

int coxi_records_new(bool pending, struct coxi_records **ret)
{
    struct coxi_records *records = calloc(1, sizeof(*records));
    if (records == NULL) {
        return coxi_error_memory("records");
    }
    static_assert(sizeof(kinds) / sizeof(*kinds) == COXI_N_RECORD_KINDS,
                  "each kind has its bounds");
    coxi_mutex_init(&records->lock);
    records->pending_on = pending;
    *ret = records;
    return 0;
}

void coxi_records_free(struct coxi_records *records)
{
    if (records == NULL) {
        return;
    }
    coxi_unshared(&records->lock);
    for (size_t i = 0; i < records->n_pending; i++) {
        coxi_record_text_unref(records->pending[i].text);
    }
    free(records->pending);
    for (size_t i = 0; i < COXI_N_RECORD_KINDS; i++) {
        stream_fini(&records->kinds[i]);
    }
    for (size_t i = 0; i < records->n_series; i++) {
        stream_fini(&records->series[i]->stream);
        free(records->series[i]);
    }
    coxi_names_fini(&records->names);
    coxi_mutex_fini(&records->lock);
    free(records);
}
