/*
 * See trace.h, coxswain/trace.h. The loop asks every ps and worker for its spans, and each
 * answer goes into a queue as it is. A thread of the trace takes it from there, together
 * with the spans of this process, and makes the text; another one writes the file
 * (trace_out.h). So no other thread makes text, and nobody waits for the disk. While much
 * waits for the disk, answers stay in the queue. When that is full, they are dropped and
 * counted.
 *
 * Clocks: every answer tells the peer's time, and the shortest way there and back tells
 * how far its clock is from ours (common/peer_clock.h).
 *
 *   OFF -> (cox_trace_start) ON -> (cox_trace_stop: asks for the rest) ENDING -> OFF
 *
 * Threads: any start and stop, one at a time (`starting`); the loop asks; answers come on
 * threads of ps clients and on the loop; the trace's own thread makes text. The lock
 * guards what they share; it comes after c->lock.
 */
#include "coordinator/monitor/trace.h"

#include <stdlib.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/peer_clock.h"
#include "common/sync.h"
#include "common/trace.h"
#include "coordinator/base/call.h"
#include "coordinator/base/event.h"
#include "coordinator/monitor/trace_out.h"
#include "coordinator/monitor/trace_write.h"
#include "coordinator/workers/worker.h"
#include "coordinator/workers/workers.h"
#include "coxswain/trace.h"
#include "net/ps_client.h"

enum {
    ASK_MS = 100,
    WAIT_MS = 5000,       /* how long the beginning and the end wait for answers, ... */
    CLOSE_MS = 1000,      /* ... and the end in cox_close */
    CLOSE_LEAST_MS = 500, /* a disk that answers gets so long, also if time is over */
    QUEUE_MAX = 16 << 20, /* bytes of answers that wait to be written */
    ENTRIES_MAX = 2000000, /* of a file */
    OWN_MAX = 4096,        /* spans of this process taken at once */
    FILE_BUFFER = 1 << 20,
};

atomic_uint coxi_tracing_silent_ms = 5000;

enum state { OFF, ON, ENDING };

/* One question to a ps. */
struct asked {
    struct coxi_psc_request request; /* must be the first member */
    struct coxi_tracing *tracing;
    uint32_t process;
    bool is_asked;
    uint64_t sent_us;
    struct coxi_peer_clock clock;
};

/* An answer in the queue; its spans and threads follow. */
struct chunk {
    uint32_t process;
    uint32_t n_threads;
    uint64_t n_spans;
    int64_t ahead_us;
};

struct coxi_tracing {
    struct cox_coordinator *c;
    struct coxi_mutex starting; /* held while a trace starts or stops; before c->lock */
    struct coxi_mutex lock;     /* guards what follows, up to the next comment */
    pthread_cond_t changed;
    enum state state;
    struct coxi_buffer queue; /* struct chunk ... */
    uint64_t n_lost;
    uint32_t n_asked;    /* questions without an answer */
    bool hurries;        /* answers are waited for during CLOSE_MS, not WAIT_MS */
    bool was_asked;      /* ON: everybody was asked once */
    bool last_was_asked; /* ENDING: everybody was asked for the rest */
    struct asked *ps;
    struct coxi_peer_clock *workers; /* by index; used by the loop alone */
    uint32_t n_workers;

    /* the loop's */
    uint64_t asked_ms;

    /* the thread's, while it runs */
    pthread_t thread;
    struct coxi_trace_out *out; /* NULL: there is no trace */
    bool is_asked;              /* it was begun by coxi_tracing_begin */
    struct coxi_trace_writer writer;
    struct coxi_trace_span *own; /* OWN_MAX */
};

/* ---- answers */

/* Puts an answer into the queue. */
static void take_answer(struct coxi_tracing *t, uint32_t process, int64_t ahead_us,
                        const struct coxi_trace_told *told) COXI_REQUIRES(t->lock)
{
    const struct chunk chunk = {process, (uint32_t)told->n_threads, told->n_spans,
                                ahead_us};
    size_t spans = told->n_spans * sizeof(*told->spans);
    size_t threads = told->n_threads * sizeof(*told->threads);
    size_t bytes = sizeof(chunk) + spans + threads;
    t->n_lost += told->dropped;
    if (t->state == OFF || t->queue.len + bytes > QUEUE_MAX ||
        coxi_buffer_reserve(&t->queue, bytes) != 0) {
        t->n_lost += told->n_spans;
        return;
    }
    (void)coxi_buffer_append_raw(&t->queue, &chunk, sizeof(chunk));
    (void)coxi_buffer_append_raw(&t->queue, told->spans, spans);
    (void)coxi_buffer_append_raw(&t->queue, told->threads, threads);
}

static void answered(struct coxi_tracing *t) COXI_REQUIRES(t->lock)
{
    t->n_asked -= t->n_asked > 0;
    (void)pthread_cond_broadcast(&t->changed);
}

/* On a ps client's thread. */
static void on_ps(struct coxi_psc_request *request, int code,
                  const struct coxi_message *answer, void *payload, size_t len)
{
    struct asked *asked = (struct asked *)request;
    struct coxi_tracing *t = asked->tracing;
    (void)payload;
    (void)len;
    uint64_t now_us = coxi_now_us();
    coxi_lock(&t->lock);
    if (code == 0 && answer->kind == COXI_TRACE_TOLD && answer->trace_told.code == 0) {
        coxi_peer_clock_note(&asked->clock, asked->sent_us, answer->trace_told.now_us,
                             now_us);
        take_answer(t, asked->process, asked->clock.ahead_us, &answer->trace_told);
    }
    asked->is_asked = false;
    answered(t);
    coxi_unlock(&t->lock);
}

/* The answer of a worker, which repeats the moment when it was asked. Loop. */
static void on_worker(struct cox_coordinator *c, uint32_t index, uint64_t sent_us,
                      const struct coxi_trace_told *told)
{
    struct coxi_tracing *t = c->tracing;
    uint64_t now_us = coxi_now_us();
    coxi_lock(&t->lock);
    if (index < t->n_workers && told->code == 0 && sent_us <= now_us) {
        coxi_peer_clock_note(&t->workers[index], sent_us, told->now_us, now_us);
        take_answer(t, COXI_TRACE_WORKER + index, t->workers[index].ahead_us, told);
    }
    answered(t);
    coxi_unlock(&t->lock);
}

/* ---- questions (loop) */

static void ask_ps(struct coxi_tracing *t, uint32_t p, bool goes_on)
{
    const struct coxi_message message = {.kind = COXI_TRACE_ASK,
                                         .trace_ask = {.goes_on = goes_on}};
    struct asked *asked = &t->ps[p];
    coxi_lock(&t->lock);
    bool asks = !asked->is_asked && coxi_psc_is_up(t->c->ps.clients[p]);
    if (asks) {
        asked->is_asked = true;
        asked->sent_us = coxi_now_us();
        asked->request = (struct coxi_psc_request){.done = on_ps};
        t->n_asked++;
    }
    coxi_unlock(&t->lock);
    if (asks && coxi_psc_submit_now(t->c->ps.clients[p], &message, &asked->request,
                                    false) != 0) {
        coxi_lock(&t->lock);
        asked->is_asked = false;
        answered(t);
        coxi_unlock(&t->lock);
    }
}

/* Makes room for the clocks of all workers. */
static int know_workers(struct coxi_tracing *t)
{
    uint32_t n = t->c->workers->n;
    struct coxi_peer_clock *grown =
        n > t->n_workers ? realloc(t->workers, n * sizeof(*grown)) : t->workers;
    if (n > t->n_workers && grown == NULL) {
        return coxi_error_memory("a trace");
    }
    for (uint32_t i = t->n_workers; i < n; i++) {
        grown[i] = (struct coxi_peer_clock){0};
    }
    t->workers = grown;
    t->n_workers = n > t->n_workers ? n : t->n_workers;
    return 0;
}

static void ask_worker(struct coxi_tracing *t, struct coxi_worker *worker, bool goes_on)
{
    const struct coxi_message message = {.kind = COXI_TRACE_ASK,
                                         .request = coxi_now_us(),
                                         .trace_ask = {.goes_on = goes_on}};
    if (coxi_worker_is_there(worker) && worker->control != NULL) {
        coxi_lock(&t->lock);
        t->n_asked++;
        coxi_unlock(&t->lock);
        if (coxi_worker_send(worker, &message, NULL) != 0) {
            coxi_lock(&t->lock);
            answered(t);
            coxi_unlock(&t->lock);
        }
    }
}

static void ask_all(struct coxi_tracing *t, bool goes_on)
{
    for (uint32_t p = 0; p < t->c->ps.n; p++) {
        ask_ps(t, p, goes_on);
    }
    coxi_lock(&t->lock);
    int r = know_workers(t);
    coxi_unlock(&t->lock);
    for (uint32_t i = 0; r == 0 && i < t->n_workers; i++) {
        ask_worker(t, t->c->workers->all[i], goes_on);
    }
}

void coxi_tracing_tick(struct cox_coordinator *c)
{
    struct coxi_tracing *t = c->tracing;
    uint64_t now_ms = coxi_now_ms();
    coxi_lock(&t->lock);
    bool ends = t->state == ENDING && !t->last_was_asked;
    bool asks = t->state == ON && now_ms - t->asked_ms >= ASK_MS;
    coxi_unlock(&t->lock);
    if (!ends && !asks) {
        return;
    }
    t->asked_ms = now_ms;
    ask_all(t, !ends);
    coxi_lock(&t->lock);
    t->was_asked = true;
    t->last_was_asked = ends;
    (void)pthread_cond_broadcast(&t->changed);
    coxi_unlock(&t->lock);
}

/* ---- the thread */

/* Without memory, or when the file is full, spans are lost. */
static void write_spans(struct coxi_tracing *t, uint32_t process, int64_t ahead_us,
                        const struct coxi_trace_span *spans, size_t n,
                        const struct coxi_trace_thread *threads, size_t n_threads)
{
    uint64_t lost = 0;
    bool is_full = coxi_trace_out_has_failed(t->out);
    (void)coxi_trace_write_process(&t->writer, process);
    for (size_t i = 0; i < n_threads; i++) {
        (void)coxi_trace_write_thread(&t->writer, process, &threads[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (is_full || t->writer.n_entries >= ENTRIES_MAX ||
            coxi_trace_write_span(&t->writer, process, ahead_us, &spans[i]) != 0) {
            lost++;
        }
        if (t->writer.out.len >= FILE_BUFFER) {
            coxi_trace_out_add(t->out, &t->writer.out);
        }
    }
    coxi_trace_out_add(t->out, &t->writer.out);
    coxi_lock(&t->lock);
    t->n_lost += lost;
    coxi_unlock(&t->lock);
}

static void write_own(struct coxi_tracing *t)
{
    struct coxi_trace_thread threads[COXI_TRACE_RINGS];
    bool more = true;
    while (more) {
        size_t n = 0;
        uint64_t dropped = 0;
        if (coxi_trace_drain(t->c->session.run, t->own, OWN_MAX, &n, &dropped, &more) !=
            0) {
            return; /* it belongs to another trace by now */
        }
        size_t n_threads = coxi_trace_threads(threads);
        write_spans(t, COXI_TRACE_CLIENT, 0, t->own, n, threads, n_threads);
        coxi_lock(&t->lock);
        t->n_lost += dropped;
        coxi_unlock(&t->lock);
    }
}

/* Takes the queue and writes all of it. */
static void write_queue(struct coxi_tracing *t)
{
    coxi_lock(&t->lock);
    struct coxi_buffer queue = t->queue;
    t->queue = (struct coxi_buffer){0};
    coxi_unlock(&t->lock);
    for (size_t at = 0; at < queue.len;) {
        const struct chunk *chunk = (const void *)(queue.data + at);
        const struct coxi_trace_span *spans = (const void *)(chunk + 1);
        const struct coxi_trace_thread *threads =
            (const void *)(spans + chunk->n_spans);
        write_spans(t, chunk->process, chunk->ahead_us, spans, chunk->n_spans, threads,
                    chunk->n_threads);
        at += (size_t)((const uint8_t *)(threads + chunk->n_threads) -
                       (const uint8_t *)chunk);
    }
    coxi_buffer_fini(&queue);
}

/* Waits until everybody was asked and has answered, or there was time enough for it.
 * Unlocks meanwhile. */
static void await_answers(struct coxi_tracing *t, const bool *was_asked)
    COXI_REQUIRES(t->lock)
{
    const struct timespec soon = coxi_deadline(CLOSE_MS);
    const struct timespec late = coxi_deadline(WAIT_MS);
    while ((!*was_asked || t->n_asked > 0) &&
           coxi_wait_until(&t->changed, &t->lock, t->hurries ? &soon : &late)) {
    }
}

static void *trace_thread(void *arg)
{
    struct coxi_tracing *t = arg;
    bool ends = false;
    while (!ends) {
        struct timespec until = coxi_deadline(ASK_MS);
        coxi_lock(&t->lock);
        while (t->state == ON && coxi_wait_until(&t->changed, &t->lock, &until)) {
        }
        ends = t->state == ENDING;
        if (ends) {
            await_answers(t, &t->last_was_asked);
        }
        coxi_unlock(&t->lock);
        if (ends || !coxi_trace_out_is_behind(t->out)) {
            write_own(t);
            write_queue(t);
        }
    }
    coxi_trace_stop(t->c->session.run);
    return NULL;
}

/* ---- starting and stopping */

int coxi_tracing_new(struct cox_coordinator *c)
{
    struct coxi_tracing *t = calloc(1, sizeof(*t));
    uint32_t n_ps = c->site.cluster->n_ps;
    struct asked *ps = calloc(n_ps, sizeof(*ps));
    if (t == NULL || ps == NULL) {
        free(t);
        free(ps);
        return coxi_error_memory("traces");
    }
    for (uint32_t p = 0; p < n_ps; p++) {
        ps[p].tracing = t;
        ps[p].process = COXI_TRACE_PS + p;
    }
    t->c = c;
    t->ps = ps;
    t->writer.c = c;
    coxi_mutex_init(&t->starting);
    coxi_mutex_init(&t->lock);
    coxi_cond_init(&t->changed);
    c->tracing = t;
    c->workers->traced = on_worker;
    return 0;
}

void coxi_tracing_free(struct cox_coordinator *c)
{
    struct coxi_tracing *t = c->tracing;
    if (t != NULL) {
        coxi_unshared(&t->lock);
        coxi_buffer_fini(&t->queue);
        coxi_trace_writer_fini(&t->writer);
        (void)pthread_cond_destroy(&t->changed);
        coxi_mutex_fini(&t->lock);
        coxi_mutex_fini(&t->starting);
        free(t->workers);
        free(t->own);
        free(t->ps);
        free(t);
    }
    c->tracing = NULL;
}

/* Takes this process's spans for the run, and `fd`, or makes the file `path`. */
static int prepare(struct coxi_tracing *t, const char *path, int fd)
{
    size_t n;
    uint64_t dropped;
    bool more;
    t->own = t->own != NULL ? t->own : calloc(OWN_MAX, sizeof(*t->own));
    int r = t->own == NULL
                ? coxi_error_memory("a trace")
                : coxi_trace_drain(t->c->session.run, t->own, 0, &n, &dropped, &more);
    bool has_spans = r == 0;
    if (r == 0) {
        r = coxi_trace_out_new(path, fd, &t->out);
    } else {
        (void)(fd >= 0 && close(fd));
    }
    if (r != 0 && has_spans) {
        coxi_trace_stop(t->c->session.run);
    }
    t->is_asked = path == NULL;
    return r;
}

/* Waits for the disk for as long as it takes the text, but in cox_close not much beyond
 * its deadline `until` (NULL: it has none, or this is cox_trace_stop). */
static int close_file(struct coxi_tracing *t, const struct timespec *until)
{
    struct coxi_trace_out *out = t->out;
    struct timespec least = coxi_deadline(CLOSE_LEAST_MS);
    const struct timespec *end =
        until != NULL && coxi_before(until, &least) ? &least : until;
    bool goes_on = true;
    uint64_t silent_ms;
    while (goes_on && !coxi_trace_out_end(out, ASK_MS, &silent_ms)) {
        struct timespec now = coxi_deadline(0);
        coxi_lock(&t->lock);
        /* somebody else's trace must not keep cox_close */
        bool hurries = t->hurries && t->is_asked;
        coxi_unlock(&t->lock);
        goes_on =
            silent_ms < (hurries ? CLOSE_MS : atomic_load(&coxi_tracing_silent_ms)) &&
            (end == NULL || coxi_before(&now, end));
    }
    t->out = NULL;
    return coxi_trace_out_close(out);
}

static void set_state(struct coxi_tracing *t, enum state state)
{
    coxi_lock(&t->lock);
    t->state = state;
    (void)pthread_cond_broadcast(&t->changed);
    coxi_unlock(&t->lock);
}

/* To the file `path`, or if that is NULL, to `fd`, which this takes. */
static int start(struct coxi_tracing *t, const char *path, int fd)
    COXI_REQUIRES(t->starting)
{
    if (t->out != NULL) {
        (void)(fd >= 0 && close(fd));
        return coxi_error(COX_EBUSY, t->is_asked
                                         ? "somebody takes a trace of this run: wait "
                                           "for its end"
                                         : "there is a trace already: end it first");
    }
    t->writer.base_ns = coxi_now_ns();
    int r = prepare(t, path, fd);
    if (r != 0) {
        return r;
    }
    t->writer.n_entries = 0;
    t->writer.named.len = 0;
    coxi_lock(&t->lock);
    t->n_lost = 0;
    t->n_asked = 0;
    t->was_asked = false;
    t->last_was_asked = false;
    t->queue.len = 0;
    coxi_unlock(&t->lock);
    set_state(t, ON);
    r = coxi_thread_start(&t->thread, "cox:trace", trace_thread, t);
    if (r != 0) {
        set_state(t, OFF);
        coxi_trace_stop(t->c->session.run);
        (void)close_file(t, NULL);
        return r;
    }
    coxi_lock(&t->lock);
    await_answers(t, &t->was_asked); /* what comes from now on is traced */
    coxi_unlock(&t->lock);
    return 0;
}

static int stop(struct coxi_tracing *t, const struct timespec *until)
    COXI_REQUIRES(t->starting)
{
    set_state(t, ENDING);
    (void)pthread_join(t->thread, NULL);
    coxi_lock(&t->lock);
    t->state = OFF;
    uint64_t lost = t->n_lost;
    coxi_unlock(&t->lock);
    int r = coxi_trace_write_end(&t->writer, lost);
    coxi_trace_out_add(t->out, &t->writer.out);
    int written = close_file(t, until);
    return written != 0 ? written : r;
}

/* Ends the trace if it is one that was asked for, or one of the program. */
static int stop_one(struct coxi_tracing *t, bool is_asked)
{
    coxi_lock(&t->starting);
    int r = t->out != NULL && t->is_asked == is_asked
                ? stop(t, NULL)
                : coxi_error(COX_ENOENT, "there is no trace to end");
    coxi_unlock(&t->starting);
    return r;
}

int coxi_tracing_open(struct cox_coordinator *c)
{
    const char *path = c->options.trace;
    const char *wanted = getenv("COX_TRACE"); /* NOLINT(concurrency-mt-unsafe) */
    bool by_user = path == NULL && wanted != NULL && *wanted != '\0';
    int r = 0;
    coxi_lock(&c->tracing->starting);
    if (path != NULL || by_user) {
        r = start(c->tracing, by_user ? wanted : path, -1);
    }
    coxi_unlock(&c->tracing->starting);
    /* of a program with several clients the first is traced */
    return by_user && r == COX_EBUSY ? 0 : r;
}

void coxi_tracing_close(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_tracing *t = c->tracing;
    if (t == NULL) {
        return;
    }
    coxi_tracing_hurry(c);
    coxi_lock(&t->starting);
    int r = t->out != NULL ? stop(t, until) : 0;
    if (r != 0) {
        coxi_event(c, COX_EVENT_TRACE_FAILED, COXI_OF(.error = r), "%s",
                   coxi_error_text());
    }
    coxi_unlock(&t->starting);
}

int cox_trace_start(struct cox_coordinator *c, const char *path)
{
    if (c == NULL || path == NULL) {
        return coxi_error(COX_EINVAL, "cox_trace_start needs a coordinator and a file");
    }
    COXI_CALL(c);
    coxi_lock(&c->tracing->starting);
    int r = start(c->tracing, path, -1);
    coxi_unlock(&c->tracing->starting);
    return r;
}

int cox_trace_stop(struct cox_coordinator *c)
{
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_trace_stop needs a coordinator");
    }
    COXI_CALL(c);
    return stop_one(c->tracing, false);
}

int coxi_tracing_begin(struct cox_coordinator *c, int fd)
{
    coxi_lock(&c->tracing->starting);
    int r = start(c->tracing, NULL, fd);
    coxi_unlock(&c->tracing->starting);
    return r;
}

int coxi_tracing_end(struct cox_coordinator *c)
{
    return stop_one(c->tracing, true);
}

void coxi_tracing_hurry(struct cox_coordinator *c)
{
    coxi_lock(&c->tracing->lock);
    c->tracing->hurries = true;
    (void)pthread_cond_broadcast(&c->tracing->changed);
    coxi_unlock(&c->tracing->lock);
}

bool coxi_tracing_is_on(struct cox_coordinator *c)
{
    coxi_lock(&c->tracing->lock);
    bool is_on = c->tracing->state != OFF;
    coxi_unlock(&c->tracing->lock);
    return is_on;
}
