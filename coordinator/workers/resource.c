/*
 * Per-worker resources on the client. Users' threads register them; the loop tells each
 * worker of them, one after the other in the order of their ids. So a worker has at
 * most one to make, and one number says which it was told of (resource_told). Arguments
 * are kept for workers that come later.
 *
 * The resources that a step used must exist when the step is replayed, or runs again.
 * So, if ps are recovered, a released resource stays while a closure with an id below
 * that of the release (`until`) is in the replay log or not settled. Workers hide it
 * from closures after the release (worker/resources.h), and its name is free. It counts
 * towards COXI_RESOURCES_MAX. At half of that a checkpoint is due, with which the log
 * drops closures; at the limit cox_resource_create waits for that.
 *
 * Only the worker knows whether it could make a resource, and tells that to the steps
 * that ask. The client only needs to know that the worker has answered. It also counts
 * how often a resource has crashed a worker's process, because the worker's next
 * process does not know.
 *
 * Threads: any for public functions; otherwise the loop. Cost: a worker that sets up
 * asks for each resource in a round trip.
 */
#include "coordinator/workers/resource.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/cause.h"
#include "coordinator/base/event.h"
#include "coordinator/base/packing.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/layout.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/worker.h"

/* length of one wait for room; then the caller checks again */
enum { WAIT_SLICE_MS = 1000 };

/* What has happened to the resource on a worker. */
struct mishap {
    struct mishap *next;
    uint32_t worker;
    uint32_t crashes;
    bool overran;             /* the worker was not told yet */
    char text[COXI_TEXT_MAX]; /* the cause */
};

struct cox_resource {
    /*
     * One reference is the coordinator's, and one is for each message with the
     * arguments. Such a message may still be queued at a link after the resource was
     * given up; then the link's thread drops the last reference.
     */
    atomic_int refs;
    struct cox_coordinator *c;
    uint32_t id;
    /* the next closure's id when it was created; 1 if the closures of an older client
     * must find it */
    uint64_t position;
    char *name;
    struct cox_function *function;
    uint32_t timeout_ms;
    /* the next closure's id when it was released; 0: it was not. Set with c->lock */
    uint64_t until;
    struct coxi_buffer args; /* packed */
    /* used by the loop: */
    struct mishap *mishaps;
    bool made;   /* a worker has answered: steps may have used it */
    bool hidden; /* workers were told `until` */
    /* in a list of resources that workers are being told of */
    struct cox_resource *next;
};

static void resource_unref(void *arg)
{
    struct cox_resource *resource = arg;
    if (atomic_fetch_sub(&resource->refs, 1) != 1) {
        return;
    }
    while (resource->mishaps != NULL) {
        struct mishap *next = resource->mishaps->next;
        free(resource->mishaps);
        resource->mishaps = next;
    }
    coxi_buffer_fini(&resource->args);
    free(resource->name);
    free(resource);
}

int coxi_resources_new(struct cox_coordinator *c)
{
    c->resources = calloc(1, sizeof(*c->resources));
    return c->resources == NULL ? coxi_error_memory("a coordinator") : 0;
}

void coxi_resources_free(struct cox_coordinator *c)
{
    for (uint32_t i = 0; c->resources != NULL && i < c->resources->n; i++) {
        resource_unref(c->resources->all[i]);
    }
    free(c->resources);
    c->resources = NULL;
}

/* ---- users' threads */

static int resource_new(struct cox_coordinator *c, const char *name,
                        struct cox_function *function, const struct cox_call *call,
                        struct cox_resource **ret)
{
    struct cox_call known;
    size_t size;
    size_t len = strlen(name);
    if (len == 0 || len > COX_NAME_MAX) {
        return coxi_error(COX_EINVAL, "a resource's name has 1 to %d bytes, not %zu",
                          COX_NAME_MAX, len);
    }
    struct cox_resource *resource = calloc(1, sizeof(*resource));
    if (resource == NULL) {
        return coxi_error_memory("a resource");
    }
    atomic_init(&resource->refs, 1);
    resource->c = c;
    resource->function = function;
    resource->name = strdup(name);
    int r = resource->name == NULL ? coxi_error_memory("a resource") : 0;
    if (r == 0) {
        r = coxi_packing_check(call, &known, &size);
    }
    if (r == 0) {
        r = coxi_packing_args(&known, &resource->args);
    }
    if (r == 0 && (known.priority != 0 || known.only_worker != 0 ||
                   known.n_inputs != 0 || known.keep != 0)) {
        r = coxi_error(COX_EINVAL,
                       "resource '%s': its call may only set args and timeout_ms, "
                       "because it is made on every worker, before all closures",
                       name);
    }
    if (r != 0) {
        resource_unref(resource);
        return r;
    }
    resource->timeout_ms = coxi_packing_timeout(c, &known);
    *ret = resource;
    return 0;
}

/*
 * Waits while released resources take up all the room, until the loop or a checkpoint
 * lets them go. Does not wait while closures of an older client are left, because these
 * may wait for what this thread does next. Unlocks while it waits.
 */
static int await_place(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    int r = 0;
    while (r == 0 && c->resources->n == COXI_RESOURCES_MAX &&
           c->resources->n_released > 0 && c->life.n_inherited == 0) {
        struct timespec slice = coxi_deadline(WAIT_SLICE_MS);
        coxi_call_why_locked(c,
                             "%u resources are released, and dropped with the next "
                             "checkpoint%s%.200s",
                             c->resources->n_released,
                             c->saving.code != 0 ? "; the last one failed: " : "",
                             c->saving.text);
        (void)coxi_wait_until(&c->life.room, &c->lock, &slice);
        coxi_unlock(&c->lock);
        r = coxi_check_alive(c);
        coxi_lock(&c->lock);
    }
    return r;
}

/* Gives the resource an id, and registers its name. Unlocks while it waits. */
static int enlist(struct cox_coordinator *c, struct cox_resource *resource)
    COXI_REQUIRES(c->lock)
{
    int r = await_place(c);
    if (r != 0) {
        return r;
    }
    if (c->resources->n == COXI_RESOURCES_MAX) {
        return coxi_error(COX_ELIMIT, "more than %d resources: release some",
                          COXI_RESOURCES_MAX);
    }
    for (uint32_t i = 0; i < c->resources->n; i++) {
        if (c->resources->all[i]->until == 0 &&
            strcmp(c->resources->all[i]->name, resource->name) == 0) {
            return coxi_error(COX_EEXIST, "there is a resource '%s' already",
                              resource->name);
        }
    }
    resource->id = ++c->resources->last_id;
    resource->position = coxi_ids_position(&c->ids);
    c->resources->all[c->resources->n++] = resource;
    c->resources->changed = true;
    return 0;
}

int cox_resource_create(struct cox_coordinator *c, const char *name,
                        struct cox_function *function, const struct cox_call *call,
                        struct cox_resource **ret)
{
    struct cox_resource *resource = NULL;
    if (c == NULL || name == NULL || function == NULL || function->module->c != c) {
        return coxi_error(COX_EINVAL, "cox_resource_create needs a coordinator, a name "
                                      "and a function of a module of it");
    }
    COXI_CALL(c);
    int r = coxi_check_alive(c);
    if (r == 0) {
        r = resource_new(c, name, function, call, &resource);
    }
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->lock);
    r = enlist(c, resource);
    coxi_unlock(&c->lock);
    if (r != 0) {
        resource_unref(resource);
        return r;
    }
    coxi_loop_wake(c->loop);
    if (ret != NULL) {
        *ret = resource;
    }
    return 0;
}

void cox_resource_release(struct cox_resource *resource)
{
    if (resource == NULL) {
        return;
    }
    struct cox_coordinator *c = resource->c;
    coxi_lock(&c->lock);
    resource->until = c->ids.next;
    c->resources->n_released++;
    c->resources->changed = true;
    coxi_unlock(&c->lock);
    coxi_loop_wake(c->loop);
}

/* ---- telling workers */

/* The first resource with an id above `id`, or NULL. It stays until
 * coxi_resources_tell_released. */
static struct cox_resource *find_after(struct cox_coordinator *c, uint32_t id)
{
    coxi_lock(&c->lock);
    uint32_t from = 0;
    uint32_t to = c->resources->n;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (c->resources->all[middle]->id <= id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    struct cox_resource *found =
        from < c->resources->n ? c->resources->all[from] : NULL;
    coxi_unlock(&c->lock);
    return found;
}

static struct mishap *find_mishap(const struct cox_resource *resource, uint32_t worker)
{
    struct mishap *mishap = resource->mishaps;
    while (mishap != NULL && mishap->worker != worker) {
        mishap = mishap->next;
    }
    return mishap;
}

/* The reason why the worker must not make the resource, or 0. */
static int forbid(const struct coxi_worker *worker, const struct cox_resource *resource,
                  char ret_text[COXI_TEXT_MAX])
{
    struct mishap *mishap = find_mishap(resource, worker->index);
    if (mishap != NULL && mishap->crashes >= worker->c->options.max_crashes) {
        (void)snprintf(ret_text, COXI_TEXT_MAX,
                       "it crashed its process %u time%s: %.400s", mishap->crashes,
                       coxi_s(mishap->crashes), mishap->text);
        return COX_ECRASHED;
    }
    if (mishap != NULL && mishap->overran) {
        mishap->overran = false; /* the worker may try after its next absence */
        (void)snprintf(
            ret_text, COXI_TEXT_MAX,
            "it ran for more than %u ms, and did not end when it was cancelled",
            resource->timeout_ms);
        return COX_EOVERRUN;
    }
    return 0;
}

/* Tells a worker to drop a resource. `until` as in the message; 0: for good. */
static void tell_drop(struct coxi_worker *worker, uint32_t id, uint64_t until)
{
    struct coxi_message message = {.kind = COXI_RESOURCE_DROP};
    message.resource.id = id;
    message.resource.until = until;
    if (!coxi_worker_takes_work(worker) || id > worker->resource_told) {
        return;
    }
    (void)coxi_message_send(coxi_conn_link(worker->control), &message, NULL, false);
    if (worker->making == id && until == 0) {
        worker->making = 0;
    }
}

static void send_resource(struct coxi_worker *worker, struct cox_resource *resource)
{
    char text[COXI_TEXT_MAX] = "";
    struct coxi_message message = {.kind = COXI_RESOURCE};
    message.resource = (struct coxi_resource){
        .id = resource->id,
        .name = resource->name,
        .module = resource->function->module->id,
        .function = resource->function->index,
        .code = forbid(worker, resource, text),
        .message = text,
        .timeout_ms = resource->timeout_ms,
        .grace_ms = (uint32_t)worker->c->options.cancel_grace_ms,
        .position = resource->position,
    };
    struct iovec segment = {resource->args.data, resource->args.len};
    struct coxi_payload payload = {&segment, 1, resource_unref, resource};
    atomic_fetch_add(&resource->refs, 1);
    if (coxi_message_send(coxi_conn_link(worker->control), &message, &payload, false) !=
        0) {
        coxi_conn_close(worker->control, COX_ELIMIT, "a resource could not be sent");
    }
    if (resource->hidden) {
        tell_drop(worker, resource->id, resource->until);
    }
}

uint64_t coxi_resource_position_above(struct cox_coordinator *c, uint64_t id)
{
    uint64_t position = UINT64_MAX;
    coxi_lock(&c->lock);
    for (uint32_t i = 0; position == UINT64_MAX && i < c->resources->n; i++) {
        position = c->resources->all[i]->position > id ? c->resources->all[i]->position
                                                       : position;
    }
    coxi_unlock(&c->lock);
    return position;
}

/*
 * True if the resource may be made. While ps are recovered, a resource is made only
 * when the ps are again in the state in which it was created. Until then a worker that
 * lacks only this resource takes closures, because everything that is replayed was
 * scheduled before the resource was created.
 */
static bool may_be_made(const struct cox_resource *resource)
{
    return resource->position <= coxi_ps_reached(resource->c);
}

bool coxi_resource_tell(struct coxi_worker *worker)
{
    if (worker->making == 0) {
        struct cox_resource *next = find_after(worker->c, worker->resource_told);
        if (next != NULL && may_be_made(next)) {
            worker->making = worker->resource_told = next->id;
            worker->making_since_ms = coxi_now_ms();
            /* making it may use variables that were created before it */
            coxi_layout_update(worker->c);
            send_resource(worker, next);
        }
    }
    return worker->making != 0;
}

int coxi_resource_made(struct coxi_worker *worker, const struct coxi_status *answer)
{
    if (answer->id == 0 || answer->id > worker->resource_told) {
        return coxi_error(COX_EPROTO, "an answer for a resource that was not sent");
    }
    if (answer->id != worker->making) {
        return 0; /* the resource was given up meanwhile */
    }
    worker->making = 0;
    if (answer->code == COX_EPSLOST && coxi_ps_may_return(worker->c)) {
        /* A ps was lost during the making: it is repeated when the ps is back. */
        tell_drop(worker, answer->id, 0);
        worker->resource_told = answer->id - 1;
        return 0;
    }
    struct cox_resource *resource = find_after(worker->c, answer->id - 1);
    if (resource != NULL && resource->id == answer->id) {
        resource->made = true;
    }
    return 0;
}

/* ---- released resources */

/*
 * The lowest id of a closure that may still run, or run again. If no ps comes back,
 * resources are not kept for closures: a program waits for its steps before it releases
 * what they use.
 */
static uint64_t needed_from(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    uint64_t oldest = coxi_replay_log_oldest_call(c->replay_log);
    return c->ps.recovery == NULL            ? UINT64_MAX
           : oldest < c->ids.first_unsettled ? oldest
                                             : c->ids.first_unsettled;
}

static bool is_over(const struct cox_resource *resource, uint64_t from)
{
    return resource->until != 0 && (!resource->made || resource->until <= from);
}

bool coxi_resources_are_due(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    uint64_t oldest = coxi_replay_log_oldest_call(c->replay_log);
    uint32_t n = 0;
    for (uint32_t i = 0;
         c->resources->n_released >= COXI_RESOURCES_MAX / 2 && i < c->resources->n;
         i++) {
        uint64_t until = c->resources->all[i]->until;
        n += until > oldest && until <= c->ids.first_unsettled;
    }
    return n >= COXI_RESOURCES_MAX / 2;
}

void coxi_resources_tick(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    uint64_t from = needed_from(c);
    for (uint32_t i = 0; c->resources->n_released > 0 && i < c->resources->n; i++) {
        c->resources->changed =
            c->resources->changed || is_over(c->resources->all[i], from);
    }
    coxi_unlock(&c->lock);
}

/* Takes out the resources that no closure needs any more. Returns a list of these, and
 * of the resources that are now to be hidden. */
static struct cox_resource *take_released(struct cox_coordinator *c)
    COXI_REQUIRES(c->lock)
{
    struct cox_resource *taken = NULL;
    uint64_t from = needed_from(c);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->resources->n; i++) {
        struct cox_resource *resource = c->resources->all[i];
        bool over = is_over(resource, from);
        if (over || (resource->until != 0 && !resource->hidden)) {
            resource->hidden = !over;
            resource->next = taken;
            taken = resource;
        }
        c->resources->n_released -= over;
        c->resources->all[n] = resource;
        n += !over;
    }
    if (n < c->resources->n) {
        (void)pthread_cond_broadcast(&c->life.room);
    }
    c->resources->n = n;
    return taken;
}

void coxi_resources_tell_released(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    struct cox_resource *resource =
        c->resources->n_released > 0 ? take_released(c) : NULL;
    coxi_unlock(&c->lock);
    while (resource != NULL) {
        struct cox_resource *next = resource->next;
        uint64_t until = resource->hidden ? resource->until : 0;
        for (uint32_t i = 0; i < c->workers->n; i++) {
            tell_drop(c->workers->all[i], resource->id, until);
        }
        if (until == 0) {
            resource_unref(resource);
        }
        resource = next;
    }
}

/* ---- failures */

static void tell_crash(const struct cox_resource *resource,
                       const struct coxi_worker *worker, int cause)
{
    struct coxi_maybe of = coxi_maybe_of(worker->index);
    if (cause == COXI_CAUSE_OVERRUN) {
        coxi_event(
            worker->c, COX_EVENT_STEP_OVERRUN,
            COXI_OF(.worker = of, .error = COX_EOVERRUN),
            "resource '%s' was made for more than %u ms on worker %u, and its step "
            "was cancelled there",
            resource->name, resource->timeout_ms, worker->index);
    } else {
        coxi_event(
            worker->c, COX_EVENT_STEP_CRASHED,
            COXI_OF(.worker = of, .error = COX_ECRASHED),
            "the step that makes resource '%s' crashed the process of worker %u: %s",
            resource->name, worker->index, coxi_cause_text(cause));
    }
}

void coxi_resource_crashed(struct coxi_worker *worker,
                           const struct coxi_crashed_head *crash)
{
    uint32_t id = crash->attempt;
    struct cox_resource *resource = id > 0 ? find_after(worker->c, id - 1) : NULL;
    if (resource == NULL || resource->id != id || crash->cause == SIGKILL) {
        /* the resource was given up, or the worker was lost with its host or memory */
        return;
    }
    struct mishap *mishap = find_mishap(resource, worker->index);
    if (mishap == NULL) {
        mishap = calloc(1, sizeof(*mishap));
        if (mishap == NULL) {
            return; /* the worker tries once more */
        }
        mishap->worker = worker->index;
        mishap->next = resource->mishaps;
        resource->mishaps = mishap;
    }
    tell_crash(resource, worker, crash->cause);
    if (crash->cause == COXI_CAUSE_OVERRUN) {
        mishap->overran = true;
        return;
    }
    size_t used = strlen(mishap->text);
    (void)snprintf(mishap->text + used, sizeof(mishap->text) - used, "%s%s",
                   used > 0 ? ", " : "", coxi_cause_text(crash->cause));
    mishap->crashes++;
}
