/*
 * See monitor.h. The thread wakes ten times a second. Each time it writes the records
 * that were added and tells those who watch, and once a second it samples. What waits for
 * a disk that is full or slow is bounded; records beyond that are left out, which an
 * event says.
 *
 * Locks: `lock`, which only guards the thread's life; it is a leaf.
 */
#include "coordinator/monitor/monitor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/generation.h"
#include "checkpoint/history_file.h"
#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/history.h"
#include "coordinator/coordinator.h"
#include "coordinator/monitor/evaluations.h"
#include "coordinator/monitor/exposed.h"
#include "coordinator/monitor/sampler.h"
#include "coordinator/monitor/tensorboard.h"

enum {
    WRITE_MS = 100,
    SAMPLE_MS = 1000,
    RETRY_MS = 1000, /* after a write has failed */
    TELL_LOST_MS = 60000,
    LINES_MAX = 1 << 20 /* bytes of lines that wait for the disk */
};

/* A place that is written to: metrics.jsonl, or the files for TensorBoard. */
struct place {
    const char *what;
    bool failing;
    uint64_t retry_ms; /* not tried before */
    uint64_t left_out; /* records since it fails */
};

struct coxi_monitor {
    struct cox_coordinator *c;
    struct coxi_sampler *sampler;
    struct coxi_evaluations *evaluations;

    /* ---- what is known when the thread starts */
    uint64_t before; /* the number of the last record of earlier clients */
    uint64_t cut;    /* see note_checkpoint */
    bool goes_on;    /* the run goes on from a checkpoint */
    struct coxi_repeated repeated;

    /* ---- of the thread */
    struct coxi_history_file file;
    struct coxi_buffer lines; /* that wait to be written */
    struct place file_place;
    uint64_t lost;         /* records, of which no event has told yet */
    uint64_t tell_lost_ms; /* not told before */
    struct coxi_tensorboard *board;
    struct place board_place;
    uint64_t sampled_ms;

    pthread_t thread;
    bool runs;
    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed;
    bool samples_end;
    bool samples; /* a sample is being taken */
    bool stop;
};

/* ---- places that cannot be written */

static void failed(struct coxi_monitor *monitor, struct place *place)
{
    place->retry_ms = coxi_now_ms() + RETRY_MS;
    if (!place->failing) {
        place->failing = true;
        coxi_event(monitor->c, COX_EVENT_METRICS_FAILED, COXI_OF(.error = COX_EIO),
                   "%s cannot be written, and training goes on: %.350s", place->what,
                   coxi_error_text());
    }
}

static void written(struct coxi_monitor *monitor, struct place *place)
{
    if (place->failing) {
        coxi_event(monitor->c, COX_EVENT_METRICS_BACK, COXI_OF(0),
                   "%s can be written again; %" PRIu64 " record%s missing there",
                   place->what, place->left_out,
                   place->left_out == 1 ? " is" : "s are");
        place->failing = false;
        place->left_out = 0;
    }
}

/* ---- writing */

static int write_lines(struct coxi_monitor *monitor)
{
    struct cox_coordinator *c = monitor->c;
    int r = 0;
    if (c->saving.dir != NULL) { /* a client that has been replaced writes nothing */
        r = coxi_generation_check(c->saving.dir, &c->session);
    }
    if (r == 0 && monitor->file.fd < 0) {
        r = coxi_history_file_open(coxi_history_dir(c), &monitor->file);
    }
    if (r == 0) {
        r = coxi_history_file_append(&monitor->file, monitor->lines.data,
                                     monitor->lines.len);
    }
    if (r == 0) {
        monitor->lines.len = 0;
    }
    return r;
}

/* Adds the line of a record to those that wait. Many at once are written in pieces. */
static void add_line(struct coxi_monitor *monitor, const struct coxi_record *record)
{
    struct place *place = &monitor->file_place;
    if (monitor->lines.len >= LINES_MAX / 2 && !place->failing &&
        write_lines(monitor) != 0) {
        failed(monitor, place);
    }
    size_t before = monitor->lines.len;
    if (before >= LINES_MAX || coxi_record_line(&monitor->lines, record) != 0) {
        monitor->lines.len = before; /* the disk is full, or there is no memory */
        place->left_out++;
    }
}

static void take(void *arg, const struct coxi_record *record)
{
    struct coxi_monitor *monitor = arg;
    coxi_evaluations_note(monitor->evaluations, record);
    if (coxi_history_dir(monitor->c) != NULL) {
        add_line(monitor, record);
    }
    if (record->kind == COXI_RECORD_SCALAR && monitor->board != NULL &&
        coxi_tensorboard_add(monitor->board, record) != 0) {
        monitor->board_place.left_out++;
    }
}

/* Records came faster than they are written. Says so once a minute. */
static void tell_lost(struct coxi_monitor *monitor, uint64_t lost)
{
    uint64_t now_ms = coxi_now_ms();
    monitor->lost += lost;
    if (monitor->lost > 0 && now_ms >= monitor->tell_lost_ms) {
        coxi_event(monitor->c, COX_EVENT_METRICS_FAILED, COXI_OF(.error = COX_ELIMIT),
                   "more is logged than can be written: %" PRIu64
                   " records are missing in metrics.jsonl",
                   monitor->lost);
        monitor->lost = 0;
        monitor->tell_lost_ms = now_ms + TELL_LOST_MS;
    }
}

static void write_history(struct coxi_monitor *monitor, bool last)
{
    uint64_t lost = 0;
    struct place *place = &monitor->file_place;
    coxi_records_take(monitor->c->history, take, monitor, &lost);
    tell_lost(monitor, lost);
    if (monitor->lines.len == 0 ||
        (place->failing && !last && coxi_now_ms() < place->retry_ms)) {
        return;
    }
    int r = write_lines(monitor);
    if (r == COX_EFENCED) {
        monitor->lines.len = 0;
    } else if (r != 0) {
        failed(monitor, place);
    } else {
        written(monitor, place);
    }
}

static uint64_t first_unsettled(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint64_t first = c->ids.first_unsettled;
    coxi_unlock(&c->lock);
    return first;
}

static void write_board(struct coxi_monitor *monitor, bool last)
{
    struct place *place = &monitor->board_place;
    if (monitor->board == NULL ||
        (place->failing && !last && coxi_now_ms() < place->retry_ms)) {
        return;
    }
    if (coxi_tensorboard_flush(monitor->board, first_unsettled(monitor->c), last) !=
        0) {
        failed(monitor, place);
    } else {
        written(monitor, place);
    }
}

static void open_board(struct coxi_monitor *monitor)
{
    const struct cox_coordinator *c = monitor->c;
    const char *dir = c->options.tensorboard_dir;
    if (dir != NULL &&
        coxi_tensorboard_new(dir, coxi_history_dir(c),
                             monitor->goes_on ? &monitor->repeated : NULL,
                             &monitor->board) != 0) {
        failed(monitor, &monitor->board_place);
    }
}

/* ---- the thread */

static bool may_sample(struct coxi_monitor *monitor)
{
    coxi_lock(&monitor->lock);
    monitor->samples = !monitor->samples_end && coxi_history_is_sampled(monitor->c);
    bool may = monitor->samples;
    coxi_unlock(&monitor->lock);
    return may;
}

static void sample(struct coxi_monitor *monitor)
{
    uint64_t now_ms = coxi_now_ms();
    if (now_ms < monitor->sampled_ms + SAMPLE_MS || !may_sample(monitor)) {
        return;
    }
    monitor->sampled_ms = now_ms;
    coxi_sampler_take(monitor->sampler, false);
    coxi_evaluations_take(monitor->evaluations);
    coxi_lock(&monitor->lock);
    monitor->samples = false;
    (void)pthread_cond_broadcast(&monitor->changed);
    coxi_unlock(&monitor->lock);
}

/* Waits for the next time to write; false: the thread must end. */
static bool rest(struct coxi_monitor *monitor)
{
    struct timespec until = coxi_deadline(WRITE_MS);
    coxi_lock(&monitor->lock);
    while (!monitor->stop &&
           coxi_wait_until(&monitor->changed, &monitor->lock, &until)) {
    }
    bool goes_on = !monitor->stop;
    coxi_unlock(&monitor->lock);
    return goes_on;
}

/* Wakes those who watch over HTTP if there are records after number `told`; returns the
 * number of the newest. */
static uint64_t tell_watchers(struct coxi_monitor *monitor, uint64_t told)
{
    uint64_t last = coxi_records_last(monitor->c->history);
    if (last != told) {
        coxi_exposed_wake(monitor->c);
    }
    return last;
}

static void *monitor_thread(void *arg)
{
    struct coxi_monitor *monitor = arg;
    uint64_t told = 0;
    open_board(monitor);
    do {
        write_history(monitor, false);
        write_board(monitor, false);
        sample(monitor);
        told = tell_watchers(monitor, told);
    } while (rest(monitor));
    coxi_evaluations_take(monitor->evaluations);
    write_history(monitor, true);
    write_board(monitor, true);
    return NULL;
}

/* ---- where the run is */

/* Notes what the history says of the checkpoint from which the run goes on: the number of
 * the newest record when it was cut. */
static void note_checkpoint(void *arg, const struct coxi_record *record)
{
    struct coxi_monitor *monitor = arg;
    coxi_evaluations_note(monitor->evaluations, record);
    if (record->kind == COXI_RECORD_CHECKPOINT &&
        coxi_record_count(record, "number") ==
            monitor->c->saving.started.checkpoint) {
        monitor->cut = coxi_record_count(record, "cut");
    }
}

int coxi_monitor_load(struct cox_coordinator *c)
{
    uint64_t end;
    const char *dir = coxi_history_dir(c);
    if (c->history == NULL || dir == NULL) {
        return 0;
    }
    int r = c->saving.dir == NULL ? coxi_directory_make(dir) : 0;
    if (r == 0) {
        r = coxi_history_load(dir, c->history, &end);
    }
    c->monitor->before = coxi_records_last(c->history);
    return r == COX_ENOMEM ? r : 0; /* a file that cannot be read stops no run */
}

/* The run goes on from a checkpoint, or begins. */
static void find_place(struct coxi_monitor *monitor)
{
    struct cox_coordinator *c = monitor->c;
    uint64_t end;
    const char *dir = coxi_history_dir(c);
    monitor->goes_on = c->saving.started.checkpoint != 0;
    if (monitor->goes_on) {
        if (dir != NULL) {
            (void)coxi_history_each(dir, 0, note_checkpoint, monitor, &end);
        }
        monitor->repeated =
            (struct coxi_repeated){monitor->cut, c->saving.started.closure};
        coxi_records_forget(c->history, &monitor->repeated);
    } else if (dir != NULL) {
        coxi_records_clear(c->history, monitor->before);
        coxi_evaluations_skip(monitor->evaluations);
        if (coxi_history_file_retire(dir) != 0) {
            failed(monitor, &monitor->file_place);
        }
    }
}

static int add_text(struct coxi_buffer *to, const char *name, const char *text)
{
    int r = coxi_buffer_printf(to, ",\"%s\":", name);
    return r == 0 ? (text != NULL ? coxi_json_text(to, text)
                                  : coxi_buffer_printf(to, "null"))
                  : r;
}

static int run_fields(struct coxi_monitor *monitor, struct coxi_buffer *to)
{
    const struct cox_coordinator *c = monitor->c;
    char host[128] = "";
    (void)gethostname(host, sizeof(host) - 1);
    int r = coxi_buffer_printf(
        to,
        "\"run\":\"%016" PRIx64 "\",\"generation\":%" PRIu64
        ",\"version\":\"%s\",\"pid\":%d,\"n_ps\":%u,\"n_workers\":%u",
        c->session.run, c->session.generation, COXI_VERSION_TEXT, (int)getpid(),
        c->ps.n, c->site.cluster->n_workers);
    r = r == 0 ? add_text(to, "host", host) : r;
    r = r == 0 ? add_text(to, "program", program_invocation_short_name) : r;
    r = r == 0 ? add_text(to, "checkpoint_dir", c->saving.dir) : r;
    r = r == 0 ? add_text(to, "log_dir", c->options.log_dir) : r;
    if (r == 0 && monitor->goes_on) {
        r = coxi_buffer_printf(to,
                               ",\"resumed\":{\"checkpoint\":%" PRIu64
                               ",\"closure\":%" PRIu64 ",\"seq\":%" PRIu64 "}",
                               c->saving.started.checkpoint, monitor->repeated.closure,
                               monitor->repeated.seq);
    }
    return r == 0 ? coxi_buffer_append_raw(to, "", 1) : r;
}

static void tell_run(struct coxi_monitor *monitor)
{
    struct coxi_buffer fields = {0};
    if (run_fields(monitor, &fields) == 0) {
        coxi_history_add(monitor->c, COXI_RECORD_RUN, (const char *)fields.data, true);
    }
    coxi_buffer_fini(&fields);
}

/* ---- life */

int coxi_monitor_new(struct cox_coordinator *c)
{
    if (c->options.history != 0 && c->options.history != -1) {
        return coxi_error(COX_EINVAL, "history is %d: 0, or -1 for none",
                          c->options.history);
    }
    int r = coxi_history_new(c);
    if (r != 0 || c->history == NULL) {
        return r;
    }
    struct coxi_monitor *monitor = calloc(1, sizeof(*monitor));
    if (monitor == NULL) {
        return coxi_error_memory("the run's history");
    }
    monitor->c = c;
    monitor->file.fd = -1;
    monitor->file_place.what = "metrics.jsonl";
    monitor->board_place.what = "the files for TensorBoard";
    coxi_mutex_init(&monitor->lock);
    coxi_cond_init(&monitor->changed);
    c->monitor = monitor;
    return coxi_evaluations_new(c, &monitor->evaluations);
}

int coxi_monitor_start(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor == NULL) {
        return 0;
    }
    int r = coxi_sampler_new(c, &monitor->sampler);
    if (r == 0) {
        find_place(monitor);
        tell_run(monitor);
        r = coxi_thread_start(&monitor->thread, "cox:monitor", monitor_thread, monitor);
        monitor->runs = r == 0;
    }
    return r;
}

void coxi_monitor_end_samples(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor == NULL) {
        return;
    }
    coxi_lock(&monitor->lock);
    monitor->samples_end = true;
    while (monitor->samples) {
        /* it comes: a sample waits for the loop, and for the ps until the close begins */
        coxi_wait_for_end(&monitor->changed, &monitor->lock);
    }
    coxi_unlock(&monitor->lock);
    if (monitor->runs && coxi_history_is_sampled(c)) {
        coxi_sampler_take(monitor->sampler, true);
    }
}

void coxi_monitor_stop(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor == NULL || !monitor->runs) {
        return;
    }
    coxi_lock(&monitor->lock);
    monitor->stop = true;
    (void)pthread_cond_broadcast(&monitor->changed);
    coxi_unlock(&monitor->lock);
    (void)pthread_join(monitor->thread, NULL);
    monitor->runs = false;
}

void coxi_monitor_free(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    coxi_monitor_stop(c);
    if (monitor != NULL) {
        coxi_sampler_free(monitor->sampler);
        coxi_evaluations_free(monitor->evaluations);
        coxi_tensorboard_free(monitor->board);
        coxi_history_file_close(&monitor->file);
        coxi_buffer_fini(&monitor->lines);
        (void)pthread_cond_destroy(&monitor->changed);
        coxi_mutex_fini(&monitor->lock);
        free(monitor);
    }
    c->monitor = NULL;
    coxi_history_free(c);
}
