/*
 * See reader.h. A batch is in a slot:
 *
 *     free -> (the thread fills it) -> ready -> (the user has it) -> used -> free
 *
 * Ready slots are a queue. Free ones are a stack, so that few slots have memory if few are
 * ready at a time. Only the thread touches blocks: it clears used slots, and so releases
 * their blocks, before it fills the next one.
 *
 * Waking a thread costs as much as decoding tens of KiB. So small batches are handed over
 * several at a time: the user's thread is woken when AT_ONCE_BYTES wait for it, or after
 * a millisecond; the reader's when half of what it may read ahead was taken. Only a
 * task's first batch is handed over as soon as it is there.
 *
 * Cost: a lock for each batch, and a wake-up for each AT_ONCE_BYTES.
 */
#include "data/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/rand.h"
#include "common/sync.h"
#include "coxswain/dataset.h"
#include "data/formats.h"
#include "data/name.h"

enum {
    BATCH_SIZE = 256,
    PREFETCH = 2,
    PREFETCH_MAX = 1024,
    SLOTS_LEAST = 64, /* for small batches */
    AHEAD_BYTES = 4 << 20,
    AT_ONCE_BYTES = 2 << 20,
    AT_ONCE_MS = 1,
};

/* Records that are mixed, and how far they were handed out. */
struct mix {
    struct coxi_rows rows;
    uint32_t *order;
    size_t order_capacity;
    size_t size; /* 0: records are not mixed */
    size_t next;
    uint64_t seed;
};

struct slot {
    struct coxi_rows rows;
    size_t bytes;      /* that it keeps in memory, about */
    struct slot *next; /* of those that are free, or used */
};

struct coxi_reader {
    const struct coxi_task *task;
    const struct coxi_format *format;
    struct coxi_source source;
    size_t batch_size;
    size_t prefetch;
    size_t n_slots;
    struct slot *slots;
    struct slot *at_user; /* NULL, or the slot of the last batch; the user's */
    uint64_t records;     /* handed out; the user's */

    /* the thread's */
    struct coxi_block_pool pool;
    struct coxi_stream stream;
    struct coxi_parser parser;
    struct coxi_bad_records bad;
    struct mix mix;
    struct slot *free;
    int ending; /* of the parser: 0, or the code with which it has ended */
    struct coxi_file_mark mark; /* of the file, when its reading began */
    bool marked;                /* `mark` is known */

    pthread_t thread;
    bool runs; /* the thread; the user's */
    atomic_bool closing;
    atomic_bool cancelled;              /* nobody needs what is still to be read */
    struct coxi_mutex lock;             /* leaf */
    pthread_cond_t may_fill;            /* the thread waits for it */
    pthread_cond_t may_take;            /* the user waits for it */
    bool fills COXI_GUARDED_BY(lock);   /* otherwise the thread waits */
    bool hurries COXI_GUARDED_BY(lock); /* the user takes what there is */
    /* [n_slots]: a queue from `taken` to `filled`, modulo; entries are guarded like these */
    struct slot **ready;
    uint64_t filled COXI_GUARDED_BY(lock);
    uint64_t taken COXI_GUARDED_BY(lock);
    size_t bytes COXI_GUARDED_BY(lock); /* of ready slots */
    struct slot *used COXI_GUARDED_BY(lock);
    int end COXI_GUARDED_BY(lock); /* not 0: no more slots are filled, and why */
    struct coxi_reader_counts counts COXI_GUARDED_BY(lock); /* all but `records` */
    char text[COXI_ERROR_TEXT_MAX] COXI_GUARDED_BY(lock);   /* of `end` */
};

/* ---- filling */

static int parse(struct coxi_reader *reader, struct coxi_rows *rows, size_t n)
{
    if (reader->ending == 0) {
        reader->ending = reader->format->parse(&reader->parser, rows, n);
    }
    return reader->ending;
}

/* Fisher and Yates. */
static int mix_order(struct mix *mix)
{
    if (mix->rows.n > mix->order_capacity) {
        uint32_t *order = reallocarray(mix->order, mix->rows.n, sizeof(*order));
        if (order == NULL) {
            return coxi_error_memory("mixed records");
        }
        mix->order = order;
        mix->order_capacity = mix->rows.n;
    }
    for (size_t i = 0; i < mix->rows.n; i++) {
        size_t j = coxi_rand(&mix->seed) % (i + 1);
        mix->order[i] = j < i ? mix->order[j] : 0;
        mix->order[j] = (uint32_t)i;
    }
    return 0;
}

/* Fills the window anew if all its records were handed out. An error of the parser comes
 * behind the records before it. */
static int fill_mix(struct coxi_reader *reader)
{
    struct mix *mix = &reader->mix;
    if (mix->next < mix->rows.n) {
        return 0;
    }
    coxi_rows_clear(&mix->rows);
    mix->next = 0;
    int r = parse(reader, &mix->rows, mix->size);
    return mix->rows.n > 0 ? mix_order(mix) : r;
}

static int fill_mixed(struct coxi_reader *reader, struct coxi_rows *rows)
{
    struct mix *mix = &reader->mix;
    int r = 0;
    while (r == 0 && rows->n < reader->batch_size) {
        r = fill_mix(reader);
        size_t left = mix->rows.n - mix->next;
        size_t room = reader->batch_size - rows->n;
        size_t n = left < room ? left : room;
        r = r == 0 ? coxi_rows_gather(rows, &mix->rows, mix->order + mix->next, n) : r;
        mix->next += n;
    }
    return r;
}

static int fill(struct coxi_reader *reader, struct coxi_rows *rows)
{
    coxi_rows_clear(rows);
    return reader->mix.size > 0 ? fill_mixed(reader, rows)
                                : parse(reader, rows, reader->batch_size);
}

/* ---- the thread */

static int begin(struct coxi_reader *reader)
{
    const struct coxi_task *task = reader->task;
    uint64_t before = task->begin > 0 ? reader->format->before : 0;
    int r = reader->source.kind->stat(reader->source.self, &reader->mark);
    reader->marked = r == 0;
    r = r == 0 ? coxi_source_check(&reader->source, &task->mark) : r;
    if (r == 0) {
        r = coxi_stream_open(&reader->source, task->begin - before, &reader->pool,
                             &reader->cancelled, &reader->stream);
    }
    if (r == 0 && reader->format->open != NULL) {
        r = reader->format->open(&reader->parser);
    }
    if (r == 0 && task->begin > 0) {
        r = reader->format->sync(&reader->parser);
    }
    return r;
}

/* The bytes of the task that were read. */
static uint64_t bytes_read(const struct coxi_reader *reader)
{
    const struct coxi_stream *stream = &reader->stream;
    uint64_t at = stream->inflater != NULL ? stream->next : stream->offset;
    return at > reader->task->begin ? at - reader->task->begin : 0;
}

/* The thread goes on until a slot less than all is filled, or enough is ahead. */
static bool is_far_ahead(const struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    uint64_t ready = reader->filled - reader->taken;
    return ready + 2 > reader->n_slots ||
           (ready >= reader->prefetch && reader->bytes >= AHEAD_BYTES);
}

/* It begins again when half of that was taken. */
static bool is_behind(const struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    uint64_t ready = reader->filled - reader->taken;
    return ready <= reader->prefetch / 2 ||
           (ready <= reader->n_slots / 2 && reader->bytes <= AHEAD_BYTES / 2);
}

/* Frees used slots, the least recently used one first. */
static void free_slots(struct coxi_reader *reader, struct slot *used)
{
    while (used != NULL) {
        struct slot *next = used->next;
        coxi_rows_clear(&used->rows);
        used->next = reader->free;
        reader->free = used;
        used = next;
    }
}

/* Waits until another slot may be filled; false: the reader is being closed. */
static bool await_slot(struct coxi_reader *reader)
{
    coxi_lock(&reader->lock);
    reader->fills = !is_far_ahead(reader);
    /* The user takes slots or closes the reader. */
    while (!atomic_load(&reader->closing) && !reader->fills) {
        coxi_wait_for_work(&reader->may_fill, &reader->lock);
        reader->fills = is_behind(reader);
    }
    struct slot *used = reader->used;
    reader->used = NULL;
    coxi_unlock(&reader->lock);
    free_slots(reader, used);
    return !atomic_load(&reader->closing);
}

/* True: the user need not wait any longer. */
static bool is_enough(const struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    uint64_t ready = reader->filled - reader->taken;
    return reader->end != 0 ||
           (ready > 0 && (reader->hurries || reader->bytes >= AT_ONCE_BYTES ||
                          is_far_ahead(reader)));
}

/* Tells the user of a filled slot (or NULL), and of the end (unless `r` is 0). */
static void publish(struct coxi_reader *reader, struct slot *slot, int r)
{
    coxi_lock(&reader->lock);
    if (slot != NULL) {
        reader->ready[reader->filled++ % reader->n_slots] = slot;
        reader->bytes += slot->bytes;
    }
    reader->counts = reader->bad.counts;
    reader->counts.bytes = bytes_read(reader);
    reader->end = r;
    if (r != 0) {
        (void)snprintf(reader->text, sizeof(reader->text), "%s",
                       r == COX_EEOF ? "the task has no more records"
                                     : coxi_error_text());
    }
    bool enough = is_enough(reader);
    coxi_unlock(&reader->lock);
    if (enough) {
        (void)pthread_cond_signal(&reader->may_take);
    }
}

/* At the end of the file's reading, with code `r`: a file that has changed meanwhile is
 * COX_ECONFLICT, whatever was read. */
static int check_end(const struct coxi_reader *reader, int r)
{
    if (r == 0 || r == COX_ECANCELLED || !reader->marked) {
        return r;
    }
    int changed = coxi_source_check_unchanged(&reader->source, &reader->mark);
    return changed == COX_ECONFLICT || (changed != 0 && r == COX_EEOF) ? changed : r;
}

/* Fills a free slot and hands it over. */
static int fill_slot(struct coxi_reader *reader)
{
    struct slot *slot = reader->free;
    uint64_t before = bytes_read(reader);
    int r = check_end(reader, fill(reader, &slot->rows));
    if (slot->rows.n == 0) {
        publish(reader, NULL, r);
        return r;
    }
    /* records may be short parts of what they keep in memory */
    uint64_t kept = slot->rows.n_blocks > 0 ? bytes_read(reader) - before : 0;
    size_t bytes = coxi_rows_bytes(&slot->rows);
    slot->bytes = kept > bytes ? (size_t)kept : bytes;
    reader->free = slot->next;
    publish(reader, slot, r);
    return r;
}

static void *run(void *arg)
{
    struct coxi_reader *reader = arg;
    int r = check_end(reader, begin(reader));
    if (r != 0) {
        publish(reader, NULL, r);
    }
    while (r == 0 && await_slot(reader)) {
        r = fill_slot(reader);
    }
    return NULL;
}

/* ---- the user's side */

static int make_slots(struct coxi_reader *reader)
{
    const struct coxi_task *task = reader->task;
    uint32_t ahead = task->prefetch > 0 ? task->prefetch : PREFETCH;
    struct coxi_rows_shape shape = reader->format->shape(&task->decoding);
    reader->prefetch = ahead < PREFETCH_MAX ? ahead : PREFETCH_MAX;
    size_t n = reader->prefetch + 2 > SLOTS_LEAST ? reader->prefetch + 2 : SLOTS_LEAST;
    reader->slots = calloc(n, sizeof(*reader->slots));
    reader->ready = (struct slot **)calloc(n, sizeof(*reader->ready));
    if (reader->slots == NULL || reader->ready == NULL) {
        return coxi_error_memory("a reader");
    }
    reader->n_slots = n;
    for (size_t i = 0; i < n; i++) {
        coxi_rows_init(&reader->slots[i].rows, &shape, &reader->pool);
        reader->slots[i].next = reader->free;
        reader->free = &reader->slots[i];
    }
    coxi_rows_init(&reader->mix.rows, &shape, &reader->pool);
    reader->mix.size = task->shuffle_window > 1 ? task->shuffle_window : 0;
    reader->mix.seed = task->seed;
    return 0;
}

static void reader_free(struct coxi_reader *reader)
{
    if (reader->format != NULL && reader->format->close != NULL) {
        reader->format->close(&reader->parser);
    }
    for (size_t i = 0; i < reader->n_slots; i++) {
        coxi_rows_fini(&reader->slots[i].rows);
    }
    coxi_rows_fini(&reader->mix.rows);
    coxi_stream_close(&reader->stream);
    coxi_block_pool_fini(&reader->pool);
    coxi_source_close(&reader->source);
    coxi_mutex_fini(&reader->lock);
    (void)pthread_cond_destroy(&reader->may_fill);
    (void)pthread_cond_destroy(&reader->may_take);
    free(reader->mix.order);
    free((void *)reader->ready);
    free(reader->slots);
    free(reader);
}

static int check(const struct coxi_reader *reader)
{
    const struct coxi_task *task = reader->task;
    bool splits = reader->format != NULL && reader->format->splits &&
                  !coxi_name_inflates(reader->source.name);
    if (reader->format == NULL) {
        return coxi_error(COX_EINVAL, "%s: this worker does not know format %u",
                          reader->source.name, task->decoding.format);
    }
    if (!splits && (task->begin != 0 || task->end != UINT64_MAX)) {
        return coxi_error(COX_EINVAL, "%s: the file cannot be cut",
                          reader->source.name);
    }
    return 0;
}

static int start(struct coxi_reader *reader)
{
    int r = check(reader);
    r = r == 0 ? make_slots(reader) : r;
    r = r == 0 ? coxi_thread_start(&reader->thread, "coxi-read", run, reader) : r;
    reader->runs = r == 0;
    return r;
}

int coxi_reader_open(const struct coxi_task *task, struct coxi_source *source,
                     struct coxi_reader **ret)
{
    struct coxi_reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        coxi_source_close(source);
        return coxi_error_memory("a reader");
    }
    reader->task = task;
    reader->format = coxi_format_of(task->decoding.format);
    reader->source = *source;
    *source = (struct coxi_source){0};
    reader->batch_size = task->batch_size > 0 ? task->batch_size : BATCH_SIZE;
    reader->bad.file = reader->source.name;
    reader->bad.leaves_out = task->decoding.on_bad_record == COX_BAD_SKIP_RECORD;
    reader->parser = (struct coxi_parser){.stream = &reader->stream,
                                          .decoding = &task->decoding,
                                          .begin = task->begin,
                                          .end = task->end,
                                          .bad = &reader->bad};
    coxi_mutex_init(&reader->lock);
    coxi_cond_init(&reader->may_fill);
    coxi_cond_init(&reader->may_take);
    int r = start(reader);
    if (r != 0) {
        reader_free(reader);
        return r;
    }
    *ret = reader;
    return 0;
}

/* Waits for a slot or the end. The thread fills slots or ends, because sources answer in
 * bounded time. */
static void await_batch(struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    if (reader->taken < reader->filled) {
        return;
    }
    struct timespec until = coxi_deadline(AT_ONCE_MS);
    bool patient = reader->taken > 0; /* the task's first batch is wanted at once */
    reader->hurries = !patient;
    while (!is_enough(reader)) {
        if (patient) {
            patient = coxi_wait_until(&reader->may_take, &reader->lock, &until);
            reader->hurries = !patient;
        } else {
            coxi_wait_for_end(&reader->may_take, &reader->lock);
        }
    }
}

/* The user needs its slot no more. */
static void give_back(struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    if (reader->at_user != NULL) {
        reader->at_user->next = reader->used;
        reader->used = reader->at_user;
        reader->at_user = NULL;
    }
}

/* Takes the next slot, if one is ready. */
static void take(struct coxi_reader *reader) COXI_REQUIRES(reader->lock)
{
    if (reader->taken == reader->filled) {
        return;
    }
    reader->at_user = reader->ready[reader->taken++ % reader->n_slots];
    reader->bytes -= reader->at_user->bytes;
    if (!reader->fills && is_behind(reader)) {
        reader->fills = true;
        (void)pthread_cond_signal(&reader->may_fill);
    }
}

int coxi_reader_next(struct coxi_reader *reader, struct cox_batch *ret)
{
    int end = 0;
    coxi_lock(&reader->lock);
    give_back(reader);
    await_batch(reader);
    take(reader);
    if (reader->at_user == NULL) {
        end = coxi_error(reader->end, "%s", reader->text);
    }
    coxi_unlock(&reader->lock);
    if (reader->at_user != NULL) {
        coxi_rows_batch(&reader->at_user->rows, ret);
        ret->file = reader->source.name;
        ret->epoch = reader->task->epoch;
        reader->records += reader->at_user->rows.n;
    }
    return end;
}

void coxi_reader_counts(struct coxi_reader *reader, struct coxi_reader_counts *ret)
{
    coxi_lock(&reader->lock);
    *ret = reader->counts;
    coxi_unlock(&reader->lock);
    ret->records = reader->records;
}

void coxi_reader_cancel(struct coxi_reader *reader)
{
    atomic_store(&reader->cancelled, true);
    coxi_source_cancel(&reader->source);
}

/* Ends the thread. */
static void stop(struct coxi_reader *reader)
{
    if (!reader->runs) {
        return;
    }
    coxi_lock(&reader->lock);
    atomic_store(&reader->closing, true);
    (void)pthread_cond_signal(&reader->may_fill);
    coxi_unlock(&reader->lock);
    coxi_reader_cancel(reader);
    (void)pthread_join(reader->thread, NULL);
    reader->runs = false;
}

int coxi_reader_end(struct coxi_reader *reader)
{
    stop(reader);
    coxi_lock(&reader->lock);
    bool whole = reader->end == COX_EEOF; /* then the thread has looked */
    coxi_unlock(&reader->lock);
    int r = whole || !reader->marked
                ? 0
                : coxi_source_check_unchanged(&reader->source, &reader->mark);
    return r == COX_ECONFLICT ? r : 0;
}

void coxi_reader_close(struct coxi_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    stop(reader);
    reader_free(reader);
}
