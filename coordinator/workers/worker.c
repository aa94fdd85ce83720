/*
 * The state of each worker, and the messages that set it up (worker.h has the states;
 * contact.c has the connections). Everything on the loop. c->workers->events tells the
 * closures of changes.
 *
 * A worker that joins gets the layout, then every module and, when it has answered for
 * each module, one resource after the other; only then it is ready for closures. The
 * bytes of a module travel over the data connection, which is opened for the first of
 * them; a worker that has a module cached does not need its bytes.
 */
#include "coordinator/workers/worker.h"

#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/contact.h"
#include "coordinator/workers/door.h"
#include "coordinator/workers/layout.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/reach.h"
#include "coordinator/workers/resource.h"
#include "schema/check.h"

enum {
    REST_FIRST_MS = 10,
    REST_MAX_MS = 1000,
    REST_LEFT_MS = 100, /* a worker that has left may be ending right now */
};

/* ---- states that users wait for */

void coxi_worker_set_state(struct coxi_worker *worker, enum coxi_worker_state state)
{
    enum {
        AWAY = COXI_WORKER_AWAY,
        DIALLING = COXI_WORKER_DIALLING,
        GREETING = COXI_WORKER_GREETING,
        SETUP = COXI_WORKER_SETUP,
        READY = COXI_WORKER_READY,
        DRAINING = COXI_WORKER_DRAINING,
        GONE = COXI_WORKER_GONE,
    };
    static const bool allowed[7][7] = {
        [AWAY] = {[DIALLING] = true, [SETUP] = true},
        [DIALLING] = {[GREETING] = true, [AWAY] = true},
        [GREETING] = {[SETUP] = true, [AWAY] = true},
        [SETUP] = {[SETUP] = true, [READY] = true, [DRAINING] = true, [AWAY] = true},
        [READY] = {[SETUP] = true, [READY] = true, [DRAINING] = true, [AWAY] = true},
        [DRAINING] = {[DRAINING] = true, [GONE] = true},
        [GONE] = {[DIALLING] = true, [SETUP] = true},
    };
    COXI_CHECK(allowed[worker->state][state]);
    struct cox_coordinator *c = worker->c;
    bool was_ready = worker->state == COXI_WORKER_READY;
    bool is_ready = state == COXI_WORKER_READY;
    worker->state = state;
    if (is_ready) {
        worker->rest_ms = REST_FIRST_MS;
    }
    c->workers->events->changed(worker);
    if (was_ready != is_ready) {
        coxi_lock(&c->lock);
        c->workers->n_ready += is_ready ? 1 : (uint32_t)-1;
        (void)pthread_cond_broadcast(&c->life.changed);
        coxi_unlock(&c->lock);
    }
}

void coxi_worker_tried(struct coxi_worker *worker)
{
    struct cox_coordinator *c = worker->c;
    if (!worker->tried) {
        worker->tried = true;
        coxi_lock(&c->lock);
        c->workers->n_untried -= worker->name == NULL;
        (void)pthread_cond_broadcast(&c->life.changed);
        coxi_unlock(&c->lock);
    }
}

/* True if a failure with `code` shows that the worker has another key. */
static bool has_another_key(struct coxi_worker *worker, int code)
{
    uint64_t now = coxi_now_ms();
    if (code != COX_EDENIED) {
        worker->denied_ms = 0;
    } else if (worker->denied_ms == 0) {
        worker->denied_ms = now;
    }
    return worker->denied_ms != 0 && now - worker->denied_ms >= COXI_DENIED_MS;
}

/* Keeps the reason why a worker is not connected, for threads that wait for it. */
static void note_failure(struct coxi_worker *worker, int code, const char *text)
{
    struct cox_coordinator *c = worker->c;
    bool was_hopeless = worker->hopeless;
    worker->hopeless =
        worker->name == NULL &&
        (code == COX_EVERSION || code == COX_EBUSY || code == COX_EFENCED ||
         code == COX_ECONFLICT || has_another_key(worker, code));
    coxi_lock(&c->lock);
    c->workers->n_hopeless += (uint32_t)worker->hopeless - (uint32_t)was_hopeless;
    c->workers->code = code;
    (void)snprintf(c->workers->text, sizeof(c->workers->text),
                   "worker %u at %s: %.300s", worker->index, worker->url, text);
    if (worker->name == NULL && (code == COX_ECONFLICT || code == COX_EADDRESS)) {
        c->workers->misplaced_code = code;
        memcpy(c->workers->misplaced_text, c->workers->text,
               sizeof(c->workers->misplaced_text));
    }
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_unlock(&c->lock);
    coxi_worker_tried(worker);
}

/* ---- setting up */

void coxi_worker_go_on(struct coxi_worker *worker)
{
    bool lacks =
        worker->n_asked > 0 || coxi_resource_tell(worker) || worker->n_unreached > 0;
    coxi_worker_set_state(worker, lacks ? COXI_WORKER_SETUP : COXI_WORKER_READY);
}

/* ---- modules */

/* No answer of the worker for module `id` is awaited any more. */
static void module_settled(struct coxi_worker *worker, uint32_t id, int code,
                           const char *text)
{
    struct cox_coordinator *c = worker->c;
    bool refused = code != 0 && code != COX_ECLOSED && code != COX_ELOST;
    worker->asked[id] = 0;
    worker->wanted[id] = 0;
    worker->n_asked--;
    coxi_lock(&c->lock);
    struct cox_module *module = c->modules->all[id];
    bool accepted = module->accepted;
    module->n_pending--;
    module->has_been_loaded = module->has_been_loaded || code == 0;
    module->has_lost = module->has_lost || code == COX_ELOST;
    if (refused && !accepted && module->code == 0) {
        module->code = code; /* no worker may use the module: cox_module_load fails */
        (void)snprintf(module->text, sizeof(module->text), "worker %u: %.400s",
                       worker->index, text);
    }
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_unlock(&c->lock);
    if (refused && accepted) {
        /* The others have loaded it. This worker cannot work, but may be repaired. */
        coxi_conn_close(worker->control, code, text);
    } else if (worker->state == COXI_WORKER_SETUP) {
        coxi_worker_go_on(worker);
    }
}

static void send_module(struct coxi_worker *worker, uint32_t id, struct coxi_link *link,
                        bool with_bytes)
{
    struct cox_coordinator *c = worker->c;
    coxi_lock(&c->lock);
    const struct cox_module *module = c->modules->all[id];
    coxi_unlock(&c->lock);
    struct coxi_message message = {.kind = COXI_MODULE};
    message.module =
        (struct coxi_module){id, module->name, module->digest, module->signature};
    /* The message borrows the bytes, because a module lives as long as the
     * coordinator. */
    struct iovec segment = {module->bytes, module->len};
    struct coxi_payload payload = {.segments = &segment, .n_segments = 1};
    (void)coxi_message_send(link, &message, with_bytes ? &payload : NULL, false);
}

/* The worker does not have the module cached: sends its bytes. */
static void ship_bytes(struct coxi_worker *worker, uint32_t id)
{
    if (worker->data_up) {
        send_module(worker, id, coxi_conn_link(worker->data), true);
        return;
    }
    worker->wanted[id] = 1;
    coxi_worker_open_data(worker);
}

static void tell_modules(struct coxi_worker *worker, uint32_t n_modules)
{
    struct cox_coordinator *c = worker->c;
    for (; worker->n_told < n_modules; worker->n_told++) {
        uint32_t id = worker->n_told;
        coxi_lock(&c->lock);
        bool refused = c->modules->all[id]->code != 0;
        c->modules->all[id]->n_pending += !refused;
        coxi_unlock(&c->lock);
        if (refused) {
            continue;
        }
        worker->asked[id] = 1;
        worker->n_asked++;
        send_module(worker, id, coxi_conn_link(worker->control), false);
    }
    coxi_worker_go_on(worker);
}

void coxi_workers_modules(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint32_t n = c->modules->n;
    coxi_unlock(&c->lock);
    for (uint32_t i = 0; c->workers->n_shipped < n && i < c->workers->n; i++) {
        if (coxi_worker_takes_work(c->workers->all[i])) {
            tell_modules(c->workers->all[i], n);
        }
    }
    c->workers->n_shipped = n;
    coxi_lock(&c->lock);
    for (uint32_t i = 0; i < n; i++) {
        c->modules->all[i]->shipped = true;
    }
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_unlock(&c->lock);
}

int coxi_worker_module_loaded(struct coxi_worker *worker,
                              const struct coxi_status *answer)
{
    if (worker->state == COXI_WORKER_DRAINING) {
        return 0;
    }
    if (answer->id >= COXI_MODULES_MAX || !worker->asked[answer->id]) {
        return coxi_error(COX_EPROTO, "an answer for a module that was not sent");
    }
    if (answer->code == COX_ENOENT) {
        ship_bytes(worker, answer->id);
        return 0;
    }
    module_settled(worker, answer->id, answer->code, answer->message);
    return 0;
}

void coxi_worker_send_wanted(struct coxi_worker *worker)
{
    for (uint32_t id = 0; id < COXI_MODULES_MAX; id++) {
        if (worker->wanted[id]) {
            worker->wanted[id] = 0;
            send_module(worker, id, coxi_conn_link(worker->data), true);
        }
    }
}

/* ---- resources */

void coxi_workers_resources(struct cox_coordinator *c)
{
    coxi_resources_tell_released(c);
    for (uint32_t i = 0; i < c->workers->n; i++) {
        if (coxi_worker_takes_work(c->workers->all[i])) {
            coxi_worker_go_on(c->workers->all[i]);
        }
    }
}

int coxi_worker_resource_made(struct coxi_worker *worker,
                              const struct coxi_status *answer)
{
    int r = coxi_resource_made(worker, answer);
    if (r == 0 && coxi_worker_takes_work(worker)) {
        coxi_worker_go_on(worker);
    }
    return r;
}

/* ---- connecting and losing */

bool coxi_worker_is_there(const struct coxi_worker *worker)
{
    switch (worker->state) {
    case COXI_WORKER_AWAY:
    case COXI_WORKER_DIALLING:
    case COXI_WORKER_GREETING:
    case COXI_WORKER_GONE:
        return false;
    case COXI_WORKER_SETUP:
    case COXI_WORKER_READY:
    case COXI_WORKER_DRAINING:
        break;
    }
    return true;
}

bool coxi_worker_takes_work(const struct coxi_worker *worker)
{
    return worker->state == COXI_WORKER_SETUP || worker->state == COXI_WORKER_READY;
}

bool coxi_worker_will_be_ready(const struct coxi_worker *worker)
{
    return worker->state == COXI_WORKER_READY ||
           (worker->state == COXI_WORKER_SETUP && worker->making != 0);
}

void coxi_worker_set_up(struct coxi_worker *worker)
{
    worker->n_told = 0;
    worker->n_layout = 0;
    coxi_worker_set_state(worker, COXI_WORKER_SETUP);
    coxi_layout_send(worker);
    tell_modules(worker, worker->c->workers->n_shipped);
}

/* Threads that wait until all workers have loaded a module do not wait for this one any
 * more: it leaves (COX_ECLOSED), or is lost (COX_ELOST). */
static void await_no_module(struct coxi_worker *worker, int code)
{
    for (uint32_t id = 0; id < COXI_MODULES_MAX; id++) {
        if (worker->asked[id]) {
            module_settled(worker, id, code, "");
        }
    }
}

void coxi_worker_leave(struct coxi_worker *worker)
{
    coxi_worker_set_state(worker, COXI_WORKER_DRAINING);
    await_no_module(worker, COX_ECLOSED);
    worker->c->workers->events->leaving(worker);
}

void coxi_worker_lose(struct coxi_worker *worker, int code, const char *text)
{
    struct cox_coordinator *c = worker->c;
    bool has_left = worker->state == COXI_WORKER_DRAINING;
    const struct coxi_worker_loss loss = {coxi_worker_is_there(worker), has_left, text};
    coxi_worker_set_state(worker, has_left ? COXI_WORKER_GONE : COXI_WORKER_AWAY);
    /* its next process starts from nothing */
    worker->making = worker->resource_told = 0;
    worker->resident = 0;
    await_no_module(worker, COX_ELOST);
    coxi_reach_forget(worker);
    worker->dial_at_ms = coxi_now_ms() + (has_left ? REST_LEFT_MS : worker->rest_ms);
    worker->rest_ms =
        worker->rest_ms * 2 < REST_MAX_MS ? worker->rest_ms * 2 : REST_MAX_MS;
    note_failure(worker, code, has_left ? "it has left" : text);
    if (loss.was_there && !c->phase.shutting_down) {
        coxi_lock(&c->lock);
        c->counts.stats.workers_lost += !has_left;
        coxi_unlock(&c->lock);
    }
    c->workers->events->lost(worker, &loss);
}

/* ---- all of them */

/* Makes room in the table for another worker. */
static int grow(struct cox_coordinator *c)
{
    struct coxi_workers *workers = c->workers;
    uint32_t n = workers->capacity > 0 ? 2 * workers->capacity : 16;
    if (workers->n < workers->capacity) {
        return 0;
    }
    coxi_lock(&c->lock); /* other threads read it */
    struct coxi_worker **all = realloc(workers->all, n * sizeof(*all));
    workers->all = all != NULL ? all : workers->all;
    coxi_unlock(&c->lock);
    if (all == NULL) {
        return coxi_error_memory("workers");
    }
    workers->capacity = n;
    return 0;
}

int coxi_worker_add(struct cox_coordinator *c, const char *url, const char *name,
                    struct coxi_worker **ret)
{
    struct coxi_worker *worker = calloc(1, sizeof(*worker));
    int r = worker == NULL ? coxi_error_memory("a worker") : grow(c);
    if (r == 0 && name != NULL && (worker->name = strdup(name)) == NULL) {
        r = coxi_error_memory("a worker");
    }
    if (r == 0) {
        worker->c = c;
        worker->index = c->workers->n;
        worker->url = name != NULL ? worker->name : url;
        worker->rest_ms = REST_FIRST_MS;
        r = c->workers->events->added(worker);
    }
    if (r != 0) {
        free(worker != NULL ? worker->name : NULL);
        free(worker);
        return r;
    }
    coxi_lock(&c->lock);
    c->workers->all[c->workers->n] = worker;
    c->workers->n++;
    c->workers->n_untried += name == NULL;
    coxi_unlock(&c->lock);
    *ret = worker;
    return 0;
}

int coxi_workers_new(struct cox_coordinator *c, const struct coxi_worker_events *events)
{
    struct coxi_workers *workers = calloc(1, sizeof(*workers));
    if (workers == NULL) {
        return coxi_error_memory("a coordinator");
    }
    workers->events = events;
    (void)snprintf(workers->text, sizeof(workers->text), "none has been reached");
    c->workers = workers;
    return 0;
}

int coxi_workers_list(struct cox_coordinator *c)
{
    struct coxi_worker *worker;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < c->site.cluster->n_workers; i++) {
        r = coxi_worker_add(c, c->site.cluster->workers[i], NULL, &worker);
    }
    return r;
}

void coxi_workers_free(struct cox_coordinator *c)
{
    struct coxi_workers *workers = c->workers;
    if (workers == NULL) {
        return;
    }
    for (uint32_t i = 0; i < workers->n; i++) {
        workers->events->freed(workers->all[i]);
        free(workers->all[i]->name);
        free(workers->all[i]);
    }
    free(workers->all);
    free(workers);
    c->workers = NULL;
}

static bool is_to_be_dialled(const struct coxi_worker *worker, uint64_t now)
{
    bool is_away =
        worker->state == COXI_WORKER_AWAY || worker->state == COXI_WORKER_GONE;
    return worker->name == NULL && is_away && now >= worker->dial_at_ms &&
           !worker->c->phase.shutting_down && atomic_load(&worker->c->ps.ready);
}

void coxi_workers_tick(struct cox_coordinator *c)
{
    uint64_t now = coxi_now_ms();
    coxi_door_tick(c->workers->door, now);
    for (uint32_t i = 0; i < c->workers->n; i++) {
        struct coxi_worker *worker = c->workers->all[i];
        if (is_to_be_dialled(worker, now)) {
            coxi_worker_dial(worker);
        }
        coxi_worker_let_leave(worker);
    }
    coxi_reach_tick(c, now);
}

void coxi_workers_shutdown(struct cox_coordinator *c)
{
    coxi_door_shut(c->workers->door);
    for (uint32_t i = 0; i < c->workers->n; i++) {
        coxi_conn_close(c->workers->all[i]->control, COX_ECANCELLED, "closing");
        coxi_conn_close(c->workers->all[i]->data, COX_ECANCELLED, "closing");
    }
}
