/*
 * Closures on the loop: from the intake to the queue, to workers, and to their end. The
 * states are drawn in coordinator.h; set_state is where they change.
 *
 * A turn of the loop handles mail (frames from workers) and then runs coxi_dispatch
 * once: closures of many calls leave in one message a worker, and users are told of
 * everything that was settled under one lock.
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/queue.h"
#include "coordinator/voiding.h"
#include "coordinator/worker.h"

enum {
    CHUNK_MAX = 16,              /* closures given to one worker before looking again */
    MESSAGE_CLOSURES_MAX = 1024, /* in one dispatch */
    MESSAGE_BYTES_MAX = 1 << 20,
    WATERMARK_STEP = 1024, /* closures between two watermarks, under load */
    WATERMARK_MS = 1000,
};

/* ---- states, and who is in line where */

static void set_state(struct cox_future *f, enum coxi_closure_state state)
{
    static const bool allowed[6][6] = {
        [COXI_QUEUED] = {[COXI_ASSIGNED] = true,
                         [COXI_VOIDING] = true,
                         [COXI_FAILED] = true,
                         [COXI_CANCELLED] = true},
        [COXI_ASSIGNED] = {[COXI_QUEUED] = true,
                           [COXI_VOIDING] = true,
                           [COXI_DONE_OK] = true,
                           [COXI_FAILED] = true,
                           [COXI_CANCELLED] = true},
        [COXI_VOIDING] =
            {[COXI_DONE_OK] = true, [COXI_FAILED] = true, [COXI_CANCELLED] = true},
    };
    assert(allowed[f->state][state]);
    (void)allowed;
    f->state = (uint8_t)state;
}

/* Where it stands in line: of the only worker that may run it, or of all. */
static struct coxi_queue *queue_of(struct cox_coordinator *c,
                                   const struct cox_future *f)
{
    return f->only_worker != 0 ? &c->workers[f->only_worker - 1]->queue : &c->queue;
}

static void leave_queue(struct cox_coordinator *c, struct cox_future *f)
{
    coxi_queue_remove(queue_of(c, f), f);
    c->n_queued--;
}

/* ---- the end of closures */

/* The closure is off every list; `text` (may be NULL) is copied. */
static void settle(struct cox_coordinator *c, struct cox_future *f,
                   enum coxi_closure_state state, int code, const char *text)
{
    set_state(f, state);
    f->code = code;
    free(f->text);
    f->text = text != NULL && *text != '\0' ? strdup(text) : NULL;
    f->worker = NULL;
    (void)coxi_window_take(&c->closures, f->id);
    coxi_list_append(&c->settling, f);
}

void coxi_dispatch_end(struct cox_coordinator *c, struct cox_future *f,
                       const struct coxi_ending *ending)
{
    c->n_voiding -= f->state == COXI_VOIDING;
    settle(c, f, ending->state, ending->code, ending->text);
}

/* As settle, but asks the ps first: something of it may be applied untold. */
static void void_and_settle(struct cox_coordinator *c, struct cox_future *f,
                            const struct coxi_ending *ending)
{
    if (c->fatal_handled || c->shutting_down) {
        coxi_dispatch_end(c, f, ending); /* nobody is left who could be asked */
        return;
    }
    set_state(f, COXI_VOIDING);
    f->worker = NULL;
    c->n_voiding++;
    if (coxi_voiding_start(c, f, ending) != 0) {
        struct coxi_ending failed = {COXI_FAILED, COX_ENOMEM, coxi_error_text(), NULL,
                                     0};
        coxi_dispatch_end(c, f, &failed);
    }
}

/* Counts one settled closure and wakes who waits for it. Locked. */
static void tell(struct cox_coordinator *c, struct cox_future *f)
{
    coxi_future_settled(f);
    c->n_unsettled--;
    if (f->state == COXI_DONE_OK) {
        c->stats.done++;
        return;
    }
    c->stats.failed++;
    if (f->state == COXI_FAILED && !c->options.keep_going) {
        char text[COXI_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "closure %llu (%s): %.400s",
                       (unsigned long long)f->id, f->function->name,
                       f->text != NULL ? f->text : coxi_strerror(f->code));
        coxi_note_error(c, f->code, text);
    }
}

void coxi_dispatch_settle(struct cox_coordinator *c)
{
    if (c->settling.n == 0) {
        return;
    }
    coxi_lock(&c->lock);
    for (struct cox_future *f = c->settling.first; f != NULL; f = f->next) {
        tell(c, f);
    }
    c->first_unsettled = c->closures.count > 0 ? c->closures.first : c->closures.next;
    if (c->n_unsettled == 0) {
        (void)pthread_cond_broadcast(&c->idle);
    }
    (void)pthread_cond_broadcast(&c->room);
    coxi_unlock(&c->lock);
    for (struct cox_future *f = c->settling.first; f != NULL;) {
        struct cox_future *next = f->next;
        coxi_future_unref(f);
        f = next;
    }
    c->settling = (struct coxi_list){0};
}

void coxi_dispatch_fail_queue(struct cox_coordinator *c, struct coxi_queue *queue,
                              int code, const char *text)
{
    size_t n = queue->n;
    struct cox_future *f;
    while ((f = coxi_queue_first(queue)) != NULL) {
        struct coxi_ending ending = {
            .state = code == COX_ECANCELLED ? COXI_CANCELLED : COXI_FAILED,
            .code = code,
            .text = text,
        };
        leave_queue(c, f);
        if (f->attempt > 0) {
            void_and_settle(c, f, &ending);
        } else {
            coxi_dispatch_end(c, f, &ending);
        }
    }
    coxi_lock(&c->lock);
    c->n_waiting -= n;
    coxi_unlock(&c->lock);
    coxi_dispatch_settle(c);
}

void coxi_dispatch_fail_all(struct cox_coordinator *c, int code, const char *text)
{
    coxi_dispatch_fail_queue(c, &c->queue, code, text);
    for (uint32_t i = 0; i < c->n_workers && c->n_queued > 0; i++) {
        coxi_dispatch_fail_queue(c, &c->workers[i]->queue, code, text);
    }
}

/* It has crashed its process too often: `text` says where and how. */
static void end_crashed(struct cox_coordinator *c, struct cox_future *f)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "it crashed its process %u times: %.400s",
                   f->crashes, f->text != NULL ? f->text : "");
    struct coxi_ending ending = {COXI_FAILED, COX_ECRASHED, text, NULL, 0};
    void_and_settle(c, f, &ending);
}

/* Adds "worker 3: Segmentation fault" to what is known of its crashes. */
static void note_crash(struct cox_future *f, uint32_t worker, int signum)
{
    char text[COXI_TEXT_MAX];
    const char *before = f->text != NULL ? f->text : "";
    (void)snprintf(text, sizeof(text), "%.300s%sworker %u: %s", before,
                   *before != '\0' ? ", " : "", worker,
                   signum != 0 ? strsignal(signum) : "it called exit");
    free(f->text);
    f->text = strdup(text);
    f->crashes = (uint8_t)(f->crashes < UINT8_MAX ? f->crashes + 1 : UINT8_MAX);
}

void coxi_dispatch_crashed(struct coxi_worker *worker,
                           const struct coxi_crashed *crashed)
{
    struct cox_coordinator *c = worker->c;
    size_t n_ended = 0;
    for (size_t i = 0; i < crashed->n_closures; i++) {
        const struct coxi_crashed_head *head = &crashed->closures[i];
        struct cox_future *f = coxi_window_get(&c->closures, head->closure);
        bool counts = f != NULL && f->function != NULL && head->attempt <= f->attempt &&
                      head->cause != SIGKILL; /* that is a loss: of memory, of a host */
        if (!counts || f->state == COXI_VOIDING) {
            continue;
        }
        note_crash(f, worker->index, head->cause);
        if (f->state == COXI_QUEUED && f->crashes >= c->options.max_crashes) {
            leave_queue(c, f);
            end_crashed(c, f);
            n_ended++;
        }
    }
    coxi_lock(&c->lock);
    c->n_waiting -= n_ended;
    coxi_unlock(&c->lock);
}

void coxi_dispatch_put_back(struct coxi_worker *worker, uint32_t running)
{
    struct cox_coordinator *c = worker->c;
    size_t n_back = 0;
    /* From the newest to the oldest, so that the oldest is first in the queue again. */
    struct cox_future *f;
    while ((f = worker->in_flight.last) != NULL) {
        bool was_running = worker->in_flight.n <= running;
        coxi_list_remove(&worker->in_flight, f);
        f->losses = (uint8_t)(f->losses + was_running);
        if (f->losses >= COXI_LOSSES_MAX) {
            char text[COXI_TEXT_MAX];
            (void)snprintf(text, sizeof(text),
                           "%d workers were lost while they ran it, the last at %.300s",
                           COXI_LOSSES_MAX, worker->url);
            struct coxi_ending ending = {COXI_FAILED, COX_ELOST, text, NULL, 0};
            void_and_settle(c, f, &ending);
            continue;
        }
        if (f->crashes >= c->options.max_crashes) {
            end_crashed(c, f);
            continue;
        }
        set_state(f, COXI_QUEUED);
        f->worker = NULL;
        coxi_queue_prepend(queue_of(c, f), f);
        c->n_queued++;
        n_back++;
    }
    coxi_lock(&c->lock);
    c->n_waiting += n_back;
    c->stats.put_back += n_back;
    coxi_unlock(&c->lock);
}

/* ---- results */

/* The next `len` bytes (padded to 8) of a payload, or NULL past its end. */
static const uint8_t *take(const uint8_t **at, size_t *left, size_t len)
{
    const uint8_t *bytes = *at;
    size_t padded = coxi_align(len, 8);
    if (padded > *left) {
        return NULL;
    }
    *at += padded;
    *left -= padded;
    return bytes;
}

static void end_closure(struct cox_future *f, const struct coxi_done_head *head,
                        const uint32_t *touched, const uint8_t *result)
{
    struct cox_coordinator *c = f->c;
    char text[COXI_TEXT_MAX] = "";
    struct coxi_ending ending = {.state = COXI_DONE_OK,
                                 .code = head->code,
                                 .touched = touched,
                                 .n_touched = head->touched_n};
    /* Attempts before may have committed; so may this one, on one ps of several. */
    bool doubtful = head->attempt > 1 || (head->code != 0 && head->touched_n > 0);
    if (head->code == 0 && coxi_future_keep(f, result, head->result_len) != 0) {
        ending.state = COXI_FAILED;
        ending.code = COX_ENOMEM;
        ending.text = "out of memory for its result";
    } else if (head->code != 0) {
        size_t len =
            head->result_len < sizeof(text) ? head->result_len : sizeof(text) - 1;
        if (len > 0) {
            memcpy(text, result, len);
        }
        f->step_code = head->step_code;
        ending.state = head->code == COX_ECANCELLED ? COXI_CANCELLED : COXI_FAILED;
        ending.text = text;
    }
    if (ending.code == COX_EPSLOST || ending.code == COX_EFENCED) {
        coxi_fatal(c, ending.code, text);
        doubtful = false; /* the run is over */
    }
    if (doubtful) {
        void_and_settle(c, f, &ending);
    } else {
        coxi_dispatch_end(c, f, &ending);
    }
}

int coxi_dispatch_done(struct coxi_worker *worker, const struct coxi_done *done,
                       const uint8_t *payload, size_t len)
{
    struct cox_coordinator *c = worker->c;
    for (size_t i = 0; i < done->n_closures; i++) {
        const struct coxi_done_head *head = &done->closures[i];
        const uint8_t *touched =
            take(&payload, &len, (size_t)head->touched_n * sizeof(uint32_t));
        const uint8_t *result = take(&payload, &len, head->result_len);
        if (touched == NULL || result == NULL) {
            return coxi_error(COX_EPROTO, "results are shorter than they say");
        }
        struct cox_future *f = coxi_window_get(&c->closures, head->closure);
        if (f == NULL || f->worker != worker || f->attempt != head->attempt) {
            continue; /* of an attempt that counts for nothing any more */
        }
        coxi_list_remove(&worker->in_flight, f);
        worker->average_us += 0.1 * (head->run_us + 0.5 - worker->average_us);
        end_closure(f, head, (const uint32_t *)(const void *)touched, result);
    }
    return 0;
}

/* ---- from the queue to workers */

/* The ready worker with the most room for what it can take, or NULL. */
static struct coxi_worker *pick_worker(struct cox_coordinator *c, size_t *ret_room)
{
    struct coxi_worker *best = NULL;
    double best_load = 1;
    for (uint32_t i = 0; i < c->n_workers; i++) {
        struct coxi_worker *worker = c->workers[i];
        if (worker->state != COXI_WORKER_READY) {
            continue;
        }
        size_t capacity = coxi_worker_capacity(worker);
        double load = (double)worker->in_flight.n / (double)capacity;
        if (load < best_load) {
            best = worker;
            best_load = load;
            *ret_room = capacity - worker->in_flight.n;
        }
    }
    return best;
}

static int assign_one(struct coxi_worker *worker, struct cox_future *f)
{
    struct coxi_closure_head head = {
        .closure = f->id,
        .attempt = f->attempt + 1,
        .module = f->function->module->id,
        .function = f->function->index,
        .args_len = f->args_len,
    };
    int r = coxi_buffer_reserve(&worker->heads, sizeof(head));
    if (r == 0) {
        r = coxi_buffer_append(&worker->args, f->args, f->args_len);
    }
    if (r != 0) {
        return r;
    }
    (void)coxi_buffer_append_raw(&worker->heads, &head, sizeof(head));
    leave_queue(worker->c, f);
    set_state(f, COXI_ASSIGNED);
    f->attempt = head.attempt;
    f->worker = worker;
    coxi_list_append(&worker->in_flight, f);
    return 0;
}

/* Gives the worker up to `n` closures from the queue: how many. */
static size_t give(struct coxi_worker *worker, struct coxi_queue *queue, size_t n)
{
    size_t given = 0;
    while (given < n && queue->n > 0 &&
           assign_one(worker, coxi_queue_first(queue)) == 0) {
        given++;
        if (worker->heads.len >=
                MESSAGE_CLOSURES_MAX * sizeof(struct coxi_closure_head) ||
            worker->args.len >= MESSAGE_BYTES_MAX) {
            coxi_worker_send(worker);
        }
    }
    return given;
}

/* What only one worker may run comes first there. */
static size_t assign_own(struct cox_coordinator *c)
{
    size_t n = 0;
    for (uint32_t i = 0; i < c->n_workers && c->n_queued > c->queue.n; i++) {
        struct coxi_worker *worker = c->workers[i];
        size_t capacity = coxi_worker_capacity(worker);
        if (worker->state == COXI_WORKER_READY && worker->in_flight.n < capacity) {
            n += give(worker, &worker->queue, capacity - worker->in_flight.n);
        }
    }
    return n;
}

static void assign(struct cox_coordinator *c)
{
    size_t n_assigned = assign_own(c);
    size_t n_given = 1;
    size_t room = 0;
    struct coxi_worker *worker;
    while (n_given > 0 && c->queue.n > 0 && (worker = pick_worker(c, &room)) != NULL) {
        size_t share = c->queue.n / c->n_workers;
        size_t chunk = share < 1 ? 1 : share < CHUNK_MAX ? share : CHUNK_MAX;
        n_given = give(worker, &c->queue, chunk < room ? chunk : room);
        n_assigned += n_given;
    }
    for (uint32_t i = 0; i < c->n_workers; i++) {
        coxi_worker_send(c->workers[i]);
    }
    if (n_assigned > 0) {
        coxi_lock(&c->lock);
        c->n_waiting -= n_assigned;
        (void)pthread_cond_broadcast(&c->room);
        coxi_unlock(&c->lock);
    }
}

/* ---- a turn of the loop */

/* Closures from the intake to the queue; the window takes their ids in order. */
static void take_in(struct cox_coordinator *c, struct coxi_list *intake)
{
    size_t n_failed = 0;
    for (struct cox_future *f = intake->first; f != NULL;) {
        struct cox_future *next = f->next;
        bool kept = coxi_window_put(&c->closures, f->id, f) == 0;
        if (f->function != NULL) { /* an operation is only an id here */
            coxi_queue_append(queue_of(c, f), f);
            c->n_queued++;
        }
        if (f->function != NULL && !kept) {
            /* Out of memory: it cannot be kept track of, so it cannot run. */
            leave_queue(c, f);
            settle(c, f, COXI_FAILED, COX_ENOMEM, NULL);
            n_failed++;
        }
        f = next;
    }
    if (n_failed > 0) {
        coxi_lock(&c->lock);
        c->n_waiting -= n_failed;
        coxi_unlock(&c->lock);
    }
}

/* When it has moved on enough; and now and then, for a message may be lost. */
static void send_watermark(struct cox_coordinator *c)
{
    uint64_t first = c->closures.count > 0 ? c->closures.first : c->closures.next;
    bool idle = c->closures.count == 0;
    uint64_t now = coxi_now_ms();
    if (first - 1 < c->watermark_sent + (idle ? 1 : WATERMARK_STEP) &&
        (first == 1 || now - c->watermark_sent_ms < WATERMARK_MS)) {
        return;
    }
    c->watermark_sent = first - 1;
    c->watermark_sent_ms = now;
    struct coxi_message message = {.kind = COXI_WATERMARK};
    message.watermark.session = c->session;
    message.watermark.watermark = c->watermark_sent;
    for (uint32_t i = 0; i < c->n_ps; i++) {
        coxi_psc_tell(c->ps[i], &message);
    }
}

/* Cancels what has not started, once for each reason to. */
static void cancel(struct cox_coordinator *c, int code, const char *text)
{
    coxi_dispatch_fail_all(c, code, text);
    if (!c->recalled) {
        c->recalled = true;
        coxi_workers_recall(c);
    }
}

void coxi_dispatch(void *coordinator)
{
    struct cox_coordinator *c = coordinator;
    char fatal_text[COXI_TEXT_MAX];
    coxi_lock(&c->lock);
    struct coxi_list intake = c->intake;
    c->intake = (struct coxi_list){0};
    bool layout = c->layout_changed;
    c->layout_changed = false;
    int fatal = c->fatal;
    memcpy(fatal_text, c->fatal_text, sizeof(fatal_text));
    bool stopping = c->reporting || c->closing;
    bool shutdown = c->shutdown;
    bool modules = c->n_modules > c->n_shipped;
    coxi_unlock(&c->lock);

    take_in(c, &intake);
    if (layout || (fatal != 0 && !c->fatal_handled)) {
        c->fatal_handled = fatal != 0;
        coxi_workers_layout(c);
    }
    if (modules) {
        coxi_workers_modules(c);
    }
    if (fatal != 0) {
        cancel(c, fatal, fatal_text);
    } else if (stopping) {
        cancel(c, COX_ECANCELLED, "cancelled");
    } else {
        c->recalled = false;
        assign(c);
    }
    coxi_dispatch_settle(c);
    send_watermark(c);
    if (shutdown && !c->shutting_down) {
        c->shutting_down = true;
        coxi_workers_shutdown(c);
        for (uint32_t i = 0; i < c->n_ps; i++) {
            coxi_psc_give_up(c->ps[i], "the coordinator is being closed");
        }
    }
    if (c->shutting_down && c->n_conns == 0 && c->n_voiding == 0) {
        coxi_dispatch_fail_all(c, COX_ECANCELLED, "the coordinator was closed");
        coxi_loop_stop(c->loop);
    }
}
