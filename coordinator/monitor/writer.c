/*
 * See writer.h. The thread wakes ten times a second and writes the records that were
 * added. What waits for a disk that is full or slow is bounded; records beyond that are
 * left out, which an event says.
 *
 * Locks: `lock` comes before c->lock and the locks that an event takes. It is never held
 * while the disk is used.
 */
#include "coordinator/monitor/writer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/generation.h"
#include "checkpoint/history_file.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/coordinator.h"
#include "coordinator/monitor/evaluations.h"
#include "coordinator/monitor/tensorboard.h"

enum {
    WRITE_MS = 100,
    EVALUATIONS_MS = 1000,
    RETRY_MS = 1000, /* after a write has failed */
    TELL_LOST_MS = 60000,
    LINES_MAX = 1 << 20, /* bytes of lines that wait for the disk */
    PIECE = 1 << 14,
    CLOSE_LEAST_MS = 500 /* a disk that answers gets so long, also if time is over */
};

atomic_uint coxi_writer_close_ms = 5000;

/* A place that is written to: metrics.jsonl, or the files for TensorBoard. */
struct place {
    const char *what;
    bool failing;
    uint64_t retry_ms; /* not tried before */
    uint64_t left_out; /* records since it fails */
};

struct coxi_writer {
    struct coxi_records *records;
    char *dir;
    char *checkpoints;
    char *board_dir;
    struct coxi_session session;
    bool goes_on; /* the run goes on from a checkpoint */
    struct coxi_repeated repeated;

    /* ---- of the thread */
    struct coxi_evaluations *evaluations;
    uint64_t evaluations_ms; /* when they were taken over last */
    struct coxi_history_file file;
    struct coxi_buffer lines; /* that wait to be written */
    struct place file_place;
    uint64_t lost;         /* records, of which no event has told yet */
    uint64_t tell_lost_ms; /* not told before */
    struct coxi_tensorboard *board;
    struct place board_place;

    pthread_t thread;
    struct coxi_mutex lock;
    pthread_cond_t changed;
    struct cox_coordinator *c COXI_GUARDED_BY(lock); /* NULL: left behind */
    uint64_t wanted COXI_GUARDED_BY(lock);           /* flushes that were asked for */
    uint64_t begun COXI_GUARDED_BY(lock);            /* of these, with this turn */
    uint64_t done COXI_GUARDED_BY(lock);
    uint64_t since_ms COXI_GUARDED_BY(lock); /* the turn began then; 0: it rests */
    bool stop COXI_GUARDED_BY(lock);
    bool ended COXI_GUARDED_BY(lock);
    bool is_orphan COXI_GUARDED_BY(lock); /* the thread frees the writer */
};

static void destroy(struct coxi_writer *writer)
{
    coxi_evaluations_free(writer->evaluations);
    coxi_tensorboard_free(writer->board);
    coxi_history_file_close(&writer->file);
    coxi_buffer_fini(&writer->lines);
    coxi_records_free(writer->records);
    free(writer->dir);
    free(writer->checkpoints);
    free(writer->board_dir);
    (void)pthread_cond_destroy(&writer->changed);
    coxi_mutex_fini(&writer->lock);
    free(writer);
}

/* ---- the coordinator, which may be closed meanwhile */

__attribute__((format(printf, 4, 5))) static void tell(struct coxi_writer *writer,
                                                       enum cox_event_code code,
                                                       int error, const char *format,
                                                       ...)
{
    char text[COXI_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    coxi_lock(&writer->lock);
    if (writer->c != NULL) {
        coxi_event(writer->c, code, COXI_OF(.error = error), "%s", text);
    }
    coxi_unlock(&writer->lock);
}

static uint64_t first_unsettled(struct coxi_writer *writer)
{
    uint64_t first = UINT64_MAX;
    coxi_lock(&writer->lock);
    if (writer->c != NULL) {
        coxi_lock(&writer->c->lock);
        first = writer->c->ids.first_unsettled;
        coxi_unlock(&writer->c->lock);
    }
    coxi_unlock(&writer->lock);
    return first;
}

static bool is_left(struct coxi_writer *writer)
{
    coxi_lock(&writer->lock);
    bool left = writer->c == NULL;
    coxi_unlock(&writer->lock);
    return left;
}

/* ---- places that cannot be written */

static void failed(struct coxi_writer *writer, struct place *place)
{
    place->retry_ms = coxi_now_ms() + RETRY_MS;
    if (!place->failing) {
        place->failing = true;
        tell(writer, COX_EVENT_METRICS_FAILED, COX_EIO,
             "%s cannot be written, and training goes on: %.350s", place->what,
             coxi_error_text());
    }
}

static void written(struct coxi_writer *writer, struct place *place)
{
    if (place->failing) {
        tell(writer, COX_EVENT_METRICS_BACK, 0,
             "%s can be written again; %" PRIu64 " record%s missing there", place->what,
             place->left_out, place->left_out == 1 ? " is" : "s are");
        place->failing = false;
        place->left_out = 0;
    }
}

/* ---- writing */

/* Bytes of whole lines to write at once: little, so that what waits is written bit by bit as
 * a full disk gets room. */
static size_t piece_of(const uint8_t *lines, size_t len)
{
    const uint8_t *end = len > PIECE ? memrchr(lines, '\n', PIECE) : NULL;
    if (end == NULL && len > PIECE) {
        end = memchr(lines, '\n', len);
    }
    return end != NULL ? (size_t)(end + 1 - lines) : len;
}

static int write_lines(struct coxi_writer *writer)
{
    int r = 0;
    if (writer->checkpoints != NULL) { /* a replaced client writes nothing */
        r = coxi_generation_check(writer->checkpoints, &writer->session);
    }
    if (r == 0 && writer->file.fd < 0) {
        r = coxi_history_file_open(writer->dir, &writer->file);
    }
    size_t done = 0;
    while (r == 0 && done < writer->lines.len) {
        const uint8_t *lines = writer->lines.data + done;
        size_t len = piece_of(lines, writer->lines.len - done);
        r = coxi_history_file_append(&writer->file, lines, len);
        done += r == 0 ? len : 0;
    }
    writer->lines.len -= done;
    if (done > 0 && writer->lines.len > 0) {
        memmove(writer->lines.data, writer->lines.data + done, writer->lines.len);
    }
    return r;
}

/* Adds the line of a record to those that wait. Many at once are written in pieces. */
static void add_line(struct coxi_writer *writer, const struct coxi_record *record)
{
    struct place *place = &writer->file_place;
    if (writer->lines.len >= LINES_MAX / 2 && !place->failing &&
        write_lines(writer) != 0) {
        failed(writer, place);
    }
    size_t before = writer->lines.len;
    if (before >= LINES_MAX || coxi_record_line(&writer->lines, record) != 0) {
        writer->lines.len = before; /* the disk is full, or there is no memory */
        place->left_out++;
    }
}

static void take(void *arg, const struct coxi_record *record)
{
    struct coxi_writer *writer = arg;
    coxi_evaluations_note(writer->evaluations, record);
    if (writer->dir != NULL) {
        add_line(writer, record);
    }
    if (record->kind == COXI_RECORD_SCALAR && writer->board != NULL &&
        coxi_tensorboard_add(writer->board, record) != 0) {
        writer->board_place.left_out++;
    }
}

/* Records came faster than they are written. Says so once a minute. */
static void tell_lost(struct coxi_writer *writer, uint64_t lost)
{
    uint64_t now_ms = coxi_now_ms();
    writer->lost += lost;
    if (writer->lost > 0 && now_ms >= writer->tell_lost_ms) {
        tell(writer, COX_EVENT_METRICS_FAILED, COX_ELIMIT,
             "more is logged than can be written: %" PRIu64
             " records are missing in metrics.jsonl",
             writer->lost);
        writer->lost = 0;
        writer->tell_lost_ms = now_ms + TELL_LOST_MS;
    }
}

static void write_history(struct coxi_writer *writer, bool last)
{
    uint64_t lost = 0;
    struct place *place = &writer->file_place;
    coxi_records_take(writer->records, take, writer, &lost);
    tell_lost(writer, lost);
    if (writer->lines.len == 0 ||
        (place->failing && !last && coxi_now_ms() < place->retry_ms)) {
        return;
    }
    int r = write_lines(writer);
    if (r == COX_EFENCED) {
        writer->lines.len = 0;
    } else if (r != 0) {
        failed(writer, place);
    } else {
        written(writer, place);
    }
}

/* Closures below `settled` had settled before the records were taken, so what they have
 * logged is among these. */
static void write_board(struct coxi_writer *writer, uint64_t settled, bool last)
{
    struct place *place = &writer->board_place;
    if (writer->board == NULL ||
        (place->failing && !last && coxi_now_ms() < place->retry_ms)) {
        return;
    }
    if (coxi_tensorboard_flush(writer->board, settled, last) != 0) {
        failed(writer, place);
    } else {
        written(writer, place);
    }
}

static void open_board(struct coxi_writer *writer)
{
    if (writer->board_dir != NULL &&
        coxi_tensorboard_new(writer->board_dir, writer->dir,
                             writer->goes_on ? &writer->repeated : NULL,
                             &writer->board_place.left_out, &writer->board) != 0) {
        failed(writer, &writer->board_place);
    }
}

static void take_evaluations(struct coxi_writer *writer, bool last)
{
    uint64_t now_ms = coxi_now_ms();
    if (last || now_ms >= writer->evaluations_ms + EVALUATIONS_MS) {
        writer->evaluations_ms = now_ms;
        coxi_evaluations_take(writer->evaluations);
    }
}

static void write_once(struct coxi_writer *writer, bool last)
{
    uint64_t settled = first_unsettled(writer);
    take_evaluations(writer, last);
    write_history(writer, last);
    write_board(writer, settled, last);
}

/* ---- the thread */

/* Ends a turn and waits for the next one; false: the thread must end. */
static bool rest(struct coxi_writer *writer)
{
    struct timespec until = coxi_deadline(WRITE_MS);
    coxi_lock(&writer->lock);
    writer->done = writer->begun;
    writer->since_ms = 0;
    (void)pthread_cond_broadcast(&writer->changed);
    while (!writer->stop && writer->wanted == writer->done &&
           coxi_wait_until(&writer->changed, &writer->lock, &until)) {
    }
    writer->begun = writer->wanted;
    writer->since_ms = coxi_now_ms();
    bool goes_on = !writer->stop;
    coxi_unlock(&writer->lock);
    return goes_on;
}

static void *write_all(void *arg)
{
    struct coxi_writer *writer = arg;
    open_board(writer);
    do {
        write_once(writer, false);
    } while (rest(writer));
    if (!is_left(writer)) {
        coxi_evaluations_hurry(writer->evaluations);
        write_once(writer, true);
    }
    coxi_lock(&writer->lock);
    writer->ended = true;
    bool is_orphan = writer->is_orphan;
    (void)pthread_cond_broadcast(&writer->changed);
    coxi_unlock(&writer->lock);
    if (is_orphan) {
        destroy(writer);
    }
    return NULL;
}

/* ---- life */

static int copy(const char *text, char **ret)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text == NULL || *ret != NULL ? 0 : coxi_error_memory("the run's history");
}

int coxi_writer_start(struct cox_coordinator *c,
                      const struct coxi_writer_options *options,
                      struct coxi_writer **ret)
{
    struct coxi_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        coxi_evaluations_free(options->evaluations);
        return coxi_error_memory("the run's history");
    }
    coxi_mutex_init(&writer->lock);
    coxi_cond_init(&writer->changed);
    coxi_unshared(&writer->lock);
    writer->c = c;
    writer->since_ms = coxi_now_ms();
    writer->evaluations = options->evaluations;
    writer->session = *options->session;
    writer->goes_on = options->repeated != NULL;
    if (writer->goes_on) {
        writer->repeated = *options->repeated;
    }
    writer->file.fd = -1;
    writer->file_place.what = "metrics.jsonl";
    writer->board_place.what = "the files for TensorBoard";
    int r = copy(options->dir, &writer->dir);
    r = r == 0 ? copy(options->checkpoints, &writer->checkpoints) : r;
    r = r == 0 ? copy(options->board, &writer->board_dir) : r;
    writer->records = options->records;
    r = r == 0 ? coxi_thread_start(&writer->thread, "cox:history", write_all, writer)
               : r;
    if (r != 0) {
        writer->records = NULL; /* still the caller's */
        destroy(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

uint64_t coxi_writer_busy_since(struct coxi_writer *writer)
{
    coxi_lock(&writer->lock);
    uint64_t since_ms = writer->since_ms;
    coxi_unlock(&writer->lock);
    return since_ms;
}

/* How long a closing client waits that has time until `until`. */
static struct timespec patience(const struct timespec *until)
{
    struct timespec least = coxi_deadline(CLOSE_LEAST_MS);
    struct timespec most = coxi_deadline((int)atomic_load(&coxi_writer_close_ms));
    struct timespec end = coxi_before(until, &least) ? least : *until;
    return coxi_before(&most, &end) ? most : end;
}

bool coxi_writer_flush(struct coxi_writer *writer, const struct timespec *until)
{
    struct timespec end = patience(until);
    coxi_lock(&writer->lock);
    uint64_t wanted = ++writer->wanted;
    (void)pthread_cond_broadcast(&writer->changed);
    while (writer->done < wanted &&
           coxi_wait_until(&writer->changed, &writer->lock, &end)) {
    }
    bool done = writer->done >= wanted;
    coxi_unlock(&writer->lock);
    return done;
}

void coxi_writer_stop(struct coxi_writer *writer, const struct timespec *until)
{
    struct timespec end = until != NULL ? patience(until) : coxi_deadline(0);
    coxi_lock(&writer->lock);
    writer->stop = true;
    (void)pthread_cond_broadcast(&writer->changed);
    while (!writer->ended && coxi_wait_until(&writer->changed, &writer->lock, &end)) {
    }
    writer->c = NULL;
    bool ended = writer->ended;
    coxi_unlock(&writer->lock);
    if (ended) {
        (void)pthread_join(writer->thread, NULL);
    } else {
        (void)pthread_detach(writer->thread);
    }
}

void coxi_writer_free(struct coxi_writer *writer)
{
    coxi_lock(&writer->lock);
    bool ended = writer->ended;
    writer->is_orphan = !ended;
    coxi_unlock(&writer->lock);
    if (ended) {
        destroy(writer);
    }
}
