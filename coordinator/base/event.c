/*
 * See event.h, coxswain/event.h. A thread that emits an event appends it to a queue. A
 * thread of the coordinator's own takes events from there, and calls on_event or writes
 * a line. So a thread that emits an event never waits for the program or for standard
 * error, and may hold any lock.
 *
 * The queue has a bound: when it is full the oldest event is dropped, and the next
 * event that is handed out tells how many were.
 *
 * Lines: each code has a bucket of tokens. A line takes one. Without a token the line
 * is only counted, and reported with the next line of its code, or when there is a
 * token again.
 *
 * Threads: any, and its own, which alone uses the buckets.
 */
#include "coordinator/base/event.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "coordinator/base/call.h"
#include "coordinator/base/history.h"
#include "coordinator/coordinator.h"

enum {
    QUEUE_MAX = 1024,
    BURST = 10,     /* lines of one code at once */
    RECORDS = 100,  /* the same, of records in the history */
    TOKEN_MS = 1000 /* after these, one line in this time */
};

static const struct {
    const char *name;
    enum cox_event_level level;
} kinds[] = {
    [COX_EVENT_PS_LOST] = {"ps_lost", COX_EVENT_WARNING},
    [COX_EVENT_PS_BACK] = {"ps_back", COX_EVENT_INFO},
    [COX_EVENT_PS_NOT_TAKEN] = {"ps_not_taken", COX_EVENT_WARNING},
    [COX_EVENT_RECOVERED] = {"recovered", COX_EVENT_INFO},
    [COX_EVENT_PS_OUT_OF_REACH] = {"ps_out_of_reach", COX_EVENT_WARNING},
    [COX_EVENT_PS_IN_REACH] = {"ps_in_reach", COX_EVENT_INFO},
    [COX_EVENT_WORKER_JOINED] = {"worker_joined", COX_EVENT_INFO},
    [COX_EVENT_WORKER_LOST] = {"worker_lost", COX_EVENT_WARNING},
    [COX_EVENT_WORKER_BACK] = {"worker_back", COX_EVENT_INFO},
    [COX_EVENT_WORKER_LEFT] = {"worker_left", COX_EVENT_INFO},
    [COX_EVENT_WORKER_REFUSED] = {"worker_refused", COX_EVENT_WARNING},
    [COX_EVENT_MODULE_REFUSED] = {"module_refused", COX_EVENT_ERROR},
    [COX_EVENT_CHECKPOINT_SAVED] = {"checkpoint_saved", COX_EVENT_DEBUG},
    [COX_EVENT_CHECKPOINT_FAILED] = {"checkpoint_failed", COX_EVENT_ERROR},
    [COX_EVENT_CHECKPOINT_NOT_USED] = {"checkpoint_not_used", COX_EVENT_WARNING},
    [COX_EVENT_RESUMED] = {"resumed", COX_EVENT_INFO},
    [COX_EVENT_BLOCKED] = {"blocked", COX_EVENT_WARNING},
    [COX_EVENT_UNBLOCKED] = {"unblocked", COX_EVENT_INFO},
    [COX_EVENT_FENCED] = {"fenced", COX_EVENT_ERROR},
    [COX_EVENT_RUN_OVER] = {"run_over", COX_EVENT_ERROR},
    [COX_EVENT_CLOSURE_AGAIN] = {"closure_again", COX_EVENT_DEBUG},
    [COX_EVENT_CLOSURES_FAILED] = {"closures_failed", COX_EVENT_WARNING},
    [COX_EVENT_STEP_CRASHED] = {"step_crashed", COX_EVENT_WARNING},
    [COX_EVENT_STEP_OVERRUN] = {"step_overrun", COX_EVENT_WARNING},
    [COX_EVENT_MODULE_MISSING] = {"module_missing", COX_EVENT_WARNING},
    [COX_EVENT_CONNECTION_DENIED] = {"connection_denied", COX_EVENT_WARNING},
    [COX_EVENT_TASK_FAILED] = {"task_failed", COX_EVENT_WARNING},
    [COX_EVENT_TASK_RETRIED] = {"task_retried", COX_EVENT_DEBUG},
    [COX_EVENT_EPOCH_DONE] = {"epoch_done", COX_EVENT_INFO},
    [COX_EVENT_SERVES] = {"serves", COX_EVENT_INFO},
    [COX_EVENT_METRICS_FAILED] = {"metrics_failed", COX_EVENT_WARNING},
    [COX_EVENT_METRICS_BACK] = {"metrics_back", COX_EVENT_INFO},
    [COX_EVENT_TRACE_FAILED] = {"trace_failed", COX_EVENT_WARNING},
    [COX_EVENT_PS_MOVED] = {"ps_moved", COX_EVENT_INFO},
    [COX_EVENT_ETCD_LOST] = {"etcd_lost", COX_EVENT_WARNING},
    [COX_EVENT_ETCD_BACK] = {"etcd_back", COX_EVENT_INFO},
};
enum { N_KINDS = sizeof(kinds) / sizeof(*kinds) };

struct event {
    struct event *next;
    struct cox_event told; /* its strings are `text`, and a name in `kinds` */
    char text[COXI_TEXT_MAX];
};

struct bucket {
    uint32_t used;         /* tokens */
    uint64_t full_ms;      /* when the next used token comes back */
    uint64_t left_out;     /* lines */
    struct cox_event last; /* the last of them, without its text */
};

struct coxi_events {
    void (*on_event)(void *arg, const struct cox_event *event); /* NULL: write lines */
    void *arg;
    int least; /* the least level of lines; above COX_EVENT_ERROR: no lines */
    struct bucket buckets[N_KINDS]; /* of lines; used by the thread alone */
    struct bucket records[N_KINDS]; /* of records; the same */
    pthread_t thread;
    bool runs;
    struct coxi_mutex lock; /* guards all below; leaf */
    pthread_cond_t changed;
    struct event *first;
    struct event **end;
    size_t n;
    uint64_t n_dropped; /* since the last event that was handed out */
    bool stop;
};

/* The coordinator whose on_event this thread is calling, or NULL. */
static _Thread_local const struct cox_coordinator *hands_out;

int coxi_events_check(const struct cox_coordinator *c, const char *what)
{
    return coxi_call_check(c, hands_out, what, "on_event");
}

/* ---- lines */

static_assert((int)COX_EVENT_DEBUG == (int)COXI_LOG_DEBUG &&
                  (int)COX_EVENT_ERROR == (int)COXI_LOG_ERROR,
              "an event's level is that of its line");

/* Appends " name=value" if the event has it (`is`). */
static void add(char *line, size_t size, const char *name, uint64_t value, bool is)
{
    size_t used = strlen(line);
    if (is) {
        (void)snprintf(line + used, size - used, "%s=%llu ", name,
                       (unsigned long long)value);
    }
}

static void write_line(const struct cox_event *event, uint64_t left_out)
{
    char ids[256] = "";
    char text[COXI_TEXT_MAX];
    /* a program may have made the event with an older header */
    bool has_run = event->size > offsetof(struct cox_event, run) && event->run != 0;
    if (has_run && coxi_log_is_json()) { /* in text, one client has one run */
        (void)snprintf(ids, sizeof(ids), "run=%016llx ",
                       (unsigned long long)event->run);
    }
    add(ids, sizeof(ids), "ps", (uint64_t)event->ps, event->ps >= 0);
    add(ids, sizeof(ids), "worker", (uint64_t)event->worker, event->worker >= 0);
    add(ids, sizeof(ids), "closure", event->closure, event->closure != 0);
    add(ids, sizeof(ids), "checkpoint", event->checkpoint, event->checkpoint != 0);
    add(ids, sizeof(ids), "seconds", event->seconds, event->seconds != 0);
    add(ids, sizeof(ids), "more", left_out, left_out != 0);
    add(ids, sizeof(ids), "dropped", event->dropped, event->dropped != 0);
    (void)snprintf(text, sizeof(text), "%s", event->text);
    for (char *at = text; (at = strchr(at, '"')) != NULL;) {
        *at = '\'';
    }
    coxi_log_line((enum coxi_log_level)event->level, event->name, "%stext=\"%s\"", ids,
                  text);
}

void cox_event_write(const struct cox_event *event)
{
    if (event != NULL && event->name != NULL && event->text != NULL &&
        event->level >= COX_EVENT_DEBUG && event->level <= COX_EVENT_ERROR) {
        write_line(event, 0);
    }
}

/* Takes one of `burst` tokens; false: there is none. */
static bool take_token(struct bucket *bucket, uint64_t now, uint32_t burst)
{
    while (bucket->used > 0 && now >= bucket->full_ms) {
        bucket->used--;
        bucket->full_ms += TOKEN_MS;
    }
    if (bucket->used == burst) {
        return false;
    }
    bucket->full_ms = bucket->used == 0 ? now + TOKEN_MS : bucket->full_ms;
    bucket->used++;
    return true;
}

static void write_limited(struct coxi_events *events, const struct cox_event *event)
{
    struct bucket *bucket = &events->buckets[event->code];
    if (event->level < events->least) {
        return;
    }
    if (take_token(bucket, coxi_now_ms(), BURST)) {
        write_line(event, bucket->left_out);
        bucket->left_out = 0;
    } else {
        bucket->left_out++;
        bucket->last = *event;
    }
}

/* Reports lines that were left out, if there is a token for their code or `all` is
 * true. */
static bool write_left_out(struct coxi_events *events, bool all)
{
    bool any = false;
    for (size_t i = 0; i < N_KINDS; i++) {
        struct bucket *bucket = &events->buckets[i];
        if (bucket->left_out > 0 && (all || take_token(bucket, coxi_now_ms(), BURST))) {
            bucket->last.ps = bucket->last.worker = -1;
            bucket->last.text = "more of these were left out";
            write_line(&bucket->last, bucket->left_out);
            bucket->left_out = 0;
        }
        any = any || bucket->left_out > 0;
    }
    return any;
}

/* ---- the thread */

/* Adds the event to the history, which has at most RECORDS of a code at once, then one a
 * second. */
static void record(struct cox_coordinator *c, const struct cox_event *event)
{
    struct bucket *bucket = &c->events->records[event->code];
    if (take_token(bucket, coxi_now_ms(), RECORDS)) {
        coxi_history_event(c, event, bucket->left_out);
        bucket->left_out = 0;
    } else {
        bucket->left_out++;
    }
}

static void hand_out(struct cox_coordinator *c, const struct cox_event *event)
{
    struct coxi_events *events = c->events;
    record(c, event);
    if (events->on_event != NULL) {
        events->on_event(events->arg, event);
    } else {
        write_limited(events, event);
    }
}

/* The oldest event; NULL: the thread must end. Unlocks while it waits. */
static struct event *take(struct coxi_events *events) COXI_REQUIRES(events->lock)
{
    while (events->first == NULL && !events->stop) {
        coxi_unlock(&events->lock);
        struct timespec until =
            coxi_deadline(write_left_out(events, false) ? TOKEN_MS : -1);
        coxi_lock(&events->lock);
        if (events->first == NULL && !events->stop) {
            (void)coxi_wait_until(&events->changed, &events->lock, &until);
        }
    }
    struct event *event = events->first;
    if (event != NULL) {
        events->first = event->next;
        events->end = events->first == NULL ? &events->first : events->end;
        events->n--;
        event->told.dropped = events->n_dropped;
        events->n_dropped = 0;
    }
    return event;
}

static void *event_thread(void *arg)
{
    struct cox_coordinator *c = arg;
    struct coxi_events *events = c->events;
    struct event *event;
    hands_out = c;
    coxi_lock(&events->lock);
    while ((event = take(events)) != NULL) {
        coxi_unlock(&events->lock);
        hand_out(c, &event->told);
        free(event);
        coxi_lock(&events->lock);
    }
    coxi_unlock(&events->lock);
    (void)write_left_out(events, true);
    return NULL;
}

/* ---- emitting */

static void append(struct coxi_events *events, struct event *event)
{
    struct event *dropped = event;
    coxi_lock(&events->lock);
    if (!events->stop) {
        dropped = events->n == QUEUE_MAX ? events->first : NULL;
        if (dropped != NULL) {
            events->first = dropped->next;
            events->n--;
            events->n_dropped++;
        }
        *events->end = event;
        events->end = &event->next;
        events->n++;
        (void)pthread_cond_signal(&events->changed);
    }
    coxi_unlock(&events->lock);
    free(dropped);
}

void coxi_event(struct cox_coordinator *c, enum cox_event_code code,
                const struct coxi_event_of *of, const char *format, ...)
{
    struct timespec now;
    struct event *event = c->events != NULL ? malloc(sizeof(*event)) : NULL;
    if (event == NULL) {
        return; /* without memory the event cannot be reported */
    }
    (void)clock_gettime(CLOCK_REALTIME, &now);
    *event = (struct event){
        .told = {.size = sizeof(event->told),
                 .code = code,
                 .level = of->level != 0 ? of->level - 1 : (int)kinds[code].level,
                 .name = kinds[code].name,
                 .text = event->text,
                 .error = of->error,
                 .ps = (int64_t)of->ps.number - 1,
                 .worker = (int64_t)of->worker.number - 1,
                 .closure = of->closure.n,
                 .checkpoint = of->checkpoint,
                 .seconds = of->seconds,
                 .run = c->session.run}};
    event->told.time_s = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(event->text, sizeof(event->text), format, args);
    va_end(args);
    append(c->events, event);
}

/* ---- life */

/* Reads COX_LOG: the least level of lines. */
static int choose_level(int *ret)
{
    static const struct {
        const char *word;
        int least;
    } words[] = {{"quiet", COX_EVENT_ERROR + 1},
                 {"error", COX_EVENT_ERROR},
                 {"warn", COX_EVENT_WARNING},
                 {"info", COX_EVENT_INFO},
                 {"debug", COX_EVENT_DEBUG}};
    const char *text = getenv("COX_LOG"); /* NOLINT(concurrency-mt-unsafe) */
    *ret = COX_EVENT_INFO;
    for (size_t i = 0; text != NULL && i < sizeof(words) / sizeof(*words); i++) {
        if (strcmp(text, words[i].word) == 0) {
            *ret = words[i].least;
            return 0;
        }
    }
    return text == NULL || *text == '\0'
               ? 0
               : coxi_error(COX_EINVAL,
                            "COX_LOG is '%s': quiet, error, warn, info or debug", text);
}

int coxi_events_start(struct cox_coordinator *c)
{
    int least = COX_EVENT_INFO;
    int r = c->options.on_event == NULL ? choose_level(&least) : 0;
    r = r == 0 ? coxi_log_format(NULL) : r;
    struct coxi_events *events = r == 0 ? calloc(1, sizeof(*events)) : NULL;
    if (events == NULL) {
        return r != 0 ? r : coxi_error_memory("events");
    }
    events->on_event = c->options.on_event;
    events->arg = c->options.event_arg;
    events->least = least;
    events->end = &events->first;
    coxi_mutex_init(&events->lock);
    coxi_cond_init(&events->changed);
    c->events = events;
    r = coxi_thread_start(&events->thread, "cox:events", event_thread, c);
    events->runs = r == 0;
    return r;
}

void coxi_events_stop(struct cox_coordinator *c)
{
    struct coxi_events *events = c->events;
    if (events == NULL || !events->runs) {
        return;
    }
    coxi_lock(&events->lock);
    events->stop = true;
    (void)pthread_cond_signal(&events->changed);
    coxi_unlock(&events->lock);
    (void)pthread_join(events->thread, NULL);
    events->runs = false;
}

void coxi_events_free(struct cox_coordinator *c)
{
    struct coxi_events *events = c->events;
    coxi_events_stop(c);
    if (events != NULL) {
        (void)pthread_cond_destroy(&events->changed);
        coxi_mutex_fini(&events->lock);
        free(events);
    }
    c->events = NULL;
}
