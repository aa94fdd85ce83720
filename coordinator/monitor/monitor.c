/*
 * See monitor.h. The thread wakes ten times a second. Each time it tells those who watch if
 * there are new records, and once a second it samples. It never uses the disk, so that the
 * page goes on when the disk does not answer, and says so.
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

#include "checkpoint/history_file.h"
#include "checkpoint/place.h"
#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"
#include "common/process.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/history.h"
#include "coordinator/coordinator.h"
#include "coordinator/monitor/evaluations.h"
#include "coordinator/monitor/exposed.h"
#include "coordinator/monitor/sampler.h"
#include "coordinator/monitor/writer.h"

enum {
    TELL_MS = 100,
    SAMPLE_MS = 1000,
};

struct coxi_monitor {
    struct cox_coordinator *c;
    struct coxi_sampler *sampler;
    struct coxi_writer *writer;
    struct coxi_evaluations *evaluations; /* until the writer has them */

    /* ---- what is known when the thread starts */
    uint64_t before; /* the number of the last record of earlier clients */
    uint64_t cut;    /* see note_checkpoint */
    bool goes_on;    /* the run goes on from a checkpoint */
    struct coxi_repeated repeated;

    /* ---- of the thread */
    uint64_t sampled_ms;
    uint64_t busy_since_ms; /* of the writer */
    struct coxi_patience patience;

    bool leaves_disk; /* of cox_close: the disk does not answer */
    pthread_t thread;
    bool runs;
    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed;
    bool samples_end;
    bool samples; /* a sample is being taken */
    bool stop;
};

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
    coxi_sampler_take(monitor->sampler);
    coxi_lock(&monitor->lock);
    monitor->samples = false;
    (void)pthread_cond_broadcast(&monitor->changed);
    coxi_unlock(&monitor->lock);
}

/* Waits for the next turn; false: the thread must end. */
static bool rest(struct coxi_monitor *monitor)
{
    struct timespec until = coxi_deadline(TELL_MS);
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

/* Tells of a disk that does not answer, and when it does again. */
static void watch_writer(struct coxi_monitor *monitor)
{
    uint64_t now_ms = coxi_now_ms();
    uint64_t since_ms = coxi_writer_busy_since(monitor->writer);
    if (since_ms != monitor->busy_since_ms || since_ms == 0) {
        if (coxi_patience_has_ended(&monitor->patience)) {
            coxi_event(monitor->c, COX_EVENT_METRICS_BACK, COXI_OF(0),
                       "the disk of the run's history answers again");
        }
        monitor->patience = (struct coxi_patience){0};
        monitor->busy_since_ms = since_ms;
    } else if (coxi_patience_ends(&monitor->patience, now_ms)) {
        coxi_event(monitor->c, COX_EVENT_METRICS_FAILED,
                   COXI_OF(.error = COX_ETIMEDOUT),
                   "the disk of the run's history has not answered for %" PRIu64
                   " s, and training goes on",
                   (now_ms - since_ms) / 1000);
    }
}

static void *monitor_thread(void *arg)
{
    struct coxi_monitor *monitor = arg;
    uint64_t told = 0;
    do {
        sample(monitor);
        watch_writer(monitor);
        told = tell_watchers(monitor, told);
    } while (rest(monitor));
    return NULL;
}

/* ---- where the run is */

/* Notes what the history says of the checkpoint from which the run goes on: the number of
 * the newest record when it was cut. */
static void note_checkpoint(void *arg, const struct coxi_record *record)
{
    struct coxi_monitor *monitor = arg;
    coxi_evaluations_load(monitor->evaluations, record);
    if (record->kind == COXI_RECORD_CHECKPOINT &&
        coxi_record_count(record, "number") == monitor->c->saving.started.checkpoint) {
        monitor->cut = coxi_record_count(record, "cut");
    }
}

int coxi_monitor_load(struct cox_coordinator *c)
{
    const char *dir = coxi_history_dir(c);
    if (c->history == NULL || dir == NULL) {
        return 0;
    }
    int r = dir != c->saving.dir ? coxi_directory_make(dir) : 0;
    if (r == 0) {
        r = coxi_history_load(dir, c->history);
    }
    c->monitor->before = coxi_records_last(c->history);
    return r == COX_ENOMEM ? r : 0; /* a file that cannot be read stops no run */
}

/* The run goes on from a checkpoint, or begins. */
static void find_place(struct coxi_monitor *monitor)
{
    struct cox_coordinator *c = monitor->c;
    const char *dir = coxi_history_dir(c);
    monitor->goes_on = c->saving.started.checkpoint != 0;
    if (monitor->goes_on) {
        if (dir != NULL) {
            (void)coxi_history_each(dir,
                                    COXI_RECORDS_OF(COXI_RECORD_CHECKPOINT) |
                                        COXI_RECORDS_OF(COXI_RECORD_EVAL),
                                    note_checkpoint, monitor);
        }
        monitor->repeated =
            (struct coxi_repeated){monitor->cut, c->saving.started.closure};
        coxi_records_forget(c->history, &monitor->repeated);
    } else if (dir != NULL) {
        coxi_records_clear(c->history, monitor->before);
        coxi_evaluations_skip(monitor->evaluations);
        if (coxi_history_file_retire(dir) != 0) {
            coxi_event(c, COX_EVENT_METRICS_FAILED, COXI_OF(.error = COX_EIO),
                       "the history of the run before stays in metrics.jsonl: %.350s",
                       coxi_error_text());
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

/* By which others of this host tell whether the client lives. */
static int add_process(struct coxi_buffer *to)
{
    struct coxi_process_id id;
    return coxi_process_self(&id)
               ? coxi_buffer_printf(to,
                                    ",\"process\":{\"began_ticks\":%" PRIu64
                                    ",\"pid_namespace\":%" PRIu64 ",\"boot\":\"%s\"}",
                                    id.began_ticks, id.pid_namespace, id.boot)
               : 0;
}

/* Readers of the record have another working directory. */
static int add_log_dir(const struct cox_coordinator *c, struct coxi_buffer *to)
{
    char path[PATH_MAX];
    const char *given = c->options.log_dir;
    bool is_known = given != NULL && coxi_path_absolute(given, path) == 0;
    return add_text(to, "log_dir", is_known ? path : given);
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
    r = r == 0 ? add_process(to) : r;
    r = r == 0 ? add_text(to, "host", host) : r;
    r = r == 0 ? add_text(to, "program", program_invocation_short_name) : r;
    r = r == 0 ? add_text(to, "checkpoint_dir", c->saving.dir) : r;
    r = r == 0 ? add_log_dir(c, to) : r;
    r = r == 0 ? add_text(to, "http", cox_http_address(c)) : r;
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
    coxi_mutex_init(&monitor->lock);
    coxi_cond_init(&monitor->changed);
    c->monitor = monitor;
    return 0;
}

static int start_writer(struct coxi_monitor *monitor)
{
    struct cox_coordinator *c = monitor->c;
    bool in_directory = c->saving.dir != NULL && !coxi_place_in_store(c->saving.dir);
    const struct coxi_writer_options options = {
        .records = c->history,
        .evaluations = monitor->evaluations,
        .dir = coxi_history_dir(c),
        .checkpoints = in_directory ? c->saving.dir : NULL,
        .board = c->options.tensorboard_dir,
        .session = &c->session,
        .repeated = monitor->goes_on ? &monitor->repeated : NULL,
    };
    monitor->evaluations = NULL;
    return coxi_writer_start(c, &options, &monitor->writer);
}

int coxi_monitor_start(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor == NULL) {
        return 0;
    }
    int r = coxi_sampler_new(c, &monitor->sampler);
    if (r == 0) {
        r = coxi_evaluations_new(coxi_history_is_sampled(c) ? c->saving.dir : NULL,
                                 c->history, &monitor->evaluations);
    }
    if (r == 0) {
        find_place(monitor);
        tell_run(monitor);
        r = start_writer(monitor);
    }
    if (r == 0) {
        r = coxi_thread_start(&monitor->thread, "cox:monitor", monitor_thread, monitor);
        monitor->runs = r == 0;
    }
    return r;
}

void coxi_monitor_end_samples(struct cox_coordinator *c, const struct timespec *until)
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
        coxi_sampler_last(monitor->sampler, until);
    }
}

void coxi_monitor_flush(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor != NULL && monitor->writer != NULL &&
        !coxi_writer_flush(monitor->writer, until)) {
        monitor->leaves_disk = true;
        coxi_event(c, COX_EVENT_METRICS_FAILED, COXI_OF(.error = COX_ETIMEDOUT),
                   "the end of the run's history is not written, because its disk "
                   "does not answer");
    }
}

void coxi_monitor_stop(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor != NULL && monitor->runs) {
        coxi_lock(&monitor->lock);
        monitor->stop = true;
        (void)pthread_cond_broadcast(&monitor->changed);
        coxi_unlock(&monitor->lock);
        (void)pthread_join(monitor->thread, NULL);
        monitor->runs = false;
    }
    if (monitor != NULL && monitor->writer != NULL) {
        coxi_writer_stop(monitor->writer, monitor->leaves_disk ? NULL : until);
    }
}

void coxi_monitor_free(struct cox_coordinator *c)
{
    struct coxi_monitor *monitor = c->monitor;
    if (monitor != NULL) {
        coxi_sampler_free(monitor->sampler);
        coxi_evaluations_free(monitor->evaluations);
        if (monitor->writer != NULL) {
            coxi_writer_free(monitor->writer); /* and the history */
            c->history = NULL;
        }
        (void)pthread_cond_destroy(&monitor->changed);
        coxi_mutex_fini(&monitor->lock);
        free(monitor);
    }
    c->monitor = NULL;
    coxi_history_free(c);
}
