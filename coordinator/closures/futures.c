/*
 * Futures: the user's side of closures. These functions read what the loop has settled;
 * a result's tensors live as long as the future. Any thread, but coxi_future_keep and
 * coxi_future_settled: loop.
 *
 * A wait has one condition variable, and one waiter in the list of each future that it
 * waits for; the first future to be settled signals it, once. All of this is guarded by
 * c->lock. Whether a future is settled can be read without the lock.
 *
 * Cost: cox_wait_any looks at futures until it finds a settled one. It begins after the
 * one that it found last, so draining n settled futures takes O(n) in all. A call that
 * must wait is O(n): it adds a waiter to each future and removes it again.
 */
#include "coordinator/closures/futures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/packing.h"
#include "coordinator/closures/callback.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/round.h"
#include "coordinator/workers/module.h"

enum { WAITERS_AT_ONCE = 1024 }; /* added to futures, or removed, in one go */

void coxi_coordinator_unref(struct cox_coordinator *c)
{
    if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) {
        coxi_callbacks_free(c);
        coxi_closures_free(c);
        coxi_modules_free(c); /* futures name their functions */
        (void)pthread_cond_destroy(&c->life.room);
        (void)pthread_cond_destroy(&c->life.idle);
        (void)pthread_cond_destroy(&c->life.changed);
        coxi_mutex_fini(&c->lock);
        free(c);
    }
}

/* Frees one closure. Returns a list of the closures to which it held the last
 * reference, followed by `next`. */
static struct coxi_closure *free_one(struct coxi_closure *closure,
                                     struct coxi_closure *next)
{
    struct coxi_closure *orphans =
        closure->inputs != NULL ? coxi_inputs_free(closure->inputs) : NULL;
    if (closure->rerun != NULL) {
        struct coxi_closure *of = closure->rerun->of;
        if (coxi_future_release(&of->future)) {
            of->next = orphans;
            orphans = of;
        }
        free(closure->rerun);
    }
    if (closure->round != NULL) {
        struct coxi_closure *end = coxi_round_leave(closure);
        if (end != NULL) {
            end->next = orphans;
            orphans = end;
        }
    }
    if (closure->kept != NULL) {
        coxi_kept_free(closure->kept);
    }
    if (closure->task != NULL) {
        free(closure->task);
    }
    free(closure->logged_scalars);
    free(closure->mishaps.crash_text);
    free(closure->future.text);
    free(closure->future.result);
    free(closure->future.values);
    free(closure);
    while (orphans != NULL) {
        struct coxi_closure *orphan = orphans;
        orphans = orphan->next;
        orphan->next = next;
        next = orphan;
    }
    return next;
}

void coxi_futures_free(struct coxi_closure *list)
{
    while (list != NULL) {
        list = free_one(list, list->next);
    }
}

void coxi_future_unref(struct cox_future *future)
{
    if (coxi_future_release(future)) {
        struct coxi_closure *closure = coxi_closure_of(future);
        closure->next = NULL;
        coxi_futures_free(closure);
    }
}

void cox_future_free(struct cox_future *future)
{
    if (future != NULL) {
        struct cox_coordinator *c = future->c;
        if (coxi_closure_of(future)->kept != NULL) {
            coxi_kept_unwant(coxi_closure_of(future));
        }
        coxi_future_unref(future);
        coxi_coordinator_unref(c);
    }
}

/* ---- called by the loop */

int coxi_future_keep(struct cox_future *future, const uint8_t *result, size_t len)
{
    /* Only the loop's own reference is left: the user has freed the future. */
    if (len == 0 || atomic_load_explicit(&future->refs, memory_order_relaxed) == 1) {
        return 0;
    }
    future->result = malloc(len);
    if (future->result == NULL) {
        return COX_ENOMEM;
    }
    memcpy(future->result, result, len);
    future->result_len = len;
    return 0;
}

struct coxi_waiter {
    struct coxi_waiter *next;
    /* the pointer that points to this waiter; NULL: it is in no list */
    struct coxi_waiter **link;
    struct wait *wait;
    size_t index; /* of its future, among those waited for */
};

struct wait {
    pthread_cond_t settled;
    struct coxi_waiter *first; /* the first that was settled; NULL: none yet */
};

void coxi_future_settled(struct cox_future *future)
{
    atomic_store_explicit(&future->settled, true, memory_order_release);
    for (struct coxi_waiter *w = future->waiters; w != NULL; w = w->next) {
        w->link = NULL;
        if (w->wait->first == NULL) {
            w->wait->first = w;
            (void)pthread_cond_signal(&w->wait->settled);
        }
    }
    future->waiters = NULL;
    if (future->callbacks != NULL) {
        coxi_callbacks_pass(future);
    }
}

static bool is_settled(const struct cox_future *future)
{
    return atomic_load_explicit(&future->settled, memory_order_acquire);
}

/* ---- waiting */

static void waiter_add(struct coxi_waiter *w, struct wait *wait,
                       struct cox_future *future) COXI_REQUIRES_C_LOCK
{
    *w = (struct coxi_waiter){.wait = wait, .index = w->index};
    if (is_settled(future)) {
        wait->first = wait->first != NULL ? wait->first : w;
        return;
    }
    w->next = future->waiters;
    w->link = &future->waiters;
    if (w->next != NULL) {
        w->next->link = &w->next;
    }
    future->waiters = w;
}

static void waiter_remove(struct coxi_waiter *w) COXI_REQUIRES_C_LOCK
{
    if (w->link != NULL) {
        *w->link = w->next;
        if (w->next != NULL) {
            w->next->link = w->link;
        }
    }
}

/* Waits until one is settled, or the deadline has passed. */
static void wait_until(struct wait *wait, struct coxi_mutex *lock,
                       const struct timespec *until) COXI_REQUIRES(lock)
{
    bool late = false;
    while (wait->first == NULL && !late) {
        late = !coxi_wait_until(&wait->settled, lock, until);
    }
}

const char *coxi_future_text(const struct cox_future *future)
{
    return future->text != NULL ? future->text : coxi_strerror(future->code);
}

/* The name of the closure's function. */
static const char *name_of(struct cox_future *future)
{
    return coxi_closure_of(future)->function->name;
}

/* Returns 0, or sets the closure's error as the caller's and returns its code.
 * Settled. */
static int settled_code(struct cox_future *future)
{
    if (future->code == 0) {
        return 0;
    }
    return coxi_error(future->code, "closure %llu (%s): %.400s",
                      (unsigned long long)future->id.n, name_of(future),
                      coxi_future_text(future));
}

int cox_future_wait(struct cox_future *future, int timeout_ms)
{
    if (future == NULL) {
        return coxi_error(COX_EINVAL, "cox_future_wait needs a future");
    }
    if (!is_settled(future) && timeout_ms != 0) {
        struct cox_coordinator *c = future->c;
        struct coxi_waiter waiter = {0};
        struct wait wait = {0};
        struct timespec until = coxi_deadline(timeout_ms);
        coxi_cond_init(&wait.settled);
        coxi_lock(&c->lock);
        waiter_add(&waiter, &wait, future);
        wait_until(&wait, &c->lock, &until);
        waiter_remove(&waiter);
        coxi_unlock(&c->lock);
        (void)pthread_cond_destroy(&wait.settled);
    }
    return is_settled(future)
               ? settled_code(future)
               : coxi_error(COX_ETIMEDOUT, "closure %llu is not settled yet",
                            (unsigned long long)future->id.n);
}

/* The result of a look at a list of futures. */
struct look {
    struct cox_coordinator *c; /* of the futures; NULL: there are none */
    /* how many of them are not settled, among those looked at */
    size_t n;
    bool found;
    size_t index; /* of a settled one, if found */
};

/* Looks for a settled future: first from `start` to the end of the list, then from the
 * list's beginning to `start`. */
static int look_for(struct cox_future *const *futures, size_t n, size_t start,
                    struct look *ret)
{
    struct look look = {0};
    for (size_t k = 0; !look.found && k < n; k++) {
        size_t i = k < n - start ? start + k : k - (n - start);
        if (futures[i] == NULL) {
            continue;
        }
        if (look.c != NULL && futures[i]->c != look.c) {
            return coxi_error(COX_EINVAL, "cox_wait_any was given futures of different "
                                          "coordinators");
        }
        look.c = futures[i]->c;
        look.found = is_settled(futures[i]);
        look.index = i;
        look.n += !look.found;
    }
    *ret = look;
    return look.c != NULL ? 0
                          : coxi_error(COX_EINVAL, "cox_wait_any needs a future: all "
                                                   "are NULL");
}

/* Releases the lock between groups: thousands of waiters must not stop the loop. */
static void let_others_in(struct cox_coordinator *c, size_t n) COXI_REQUIRES(c->lock)
{
    if (n % WAITERS_AT_ONCE == WAITERS_AT_ONCE - 1) {
        coxi_unlock(&c->lock);
        coxi_lock(&c->lock);
    }
}

/* Waits for the futures that a look has found unsettled; puts the outcome in `look`. */
static int wait_for(struct cox_future *const *futures, int timeout_ms,
                    struct look *look)
{
    struct cox_coordinator *c = look->c;
    struct timespec until = coxi_deadline(timeout_ms);
    struct wait wait = {0};
    size_t n_added = 0;
    struct coxi_waiter *waiters = malloc(look->n * sizeof(*waiters));
    if (waiters == NULL) {
        return coxi_error_memory("waiting for futures");
    }
    coxi_cond_init(&wait.settled);
    coxi_lock(&c->lock);
    for (size_t i = 0; n_added < look->n && wait.first == NULL; i++) {
        if (futures[i] != NULL) {
            waiters[n_added].index = i;
            waiter_add(&waiters[n_added], &wait, futures[i]);
            let_others_in(c, n_added);
            n_added++;
        }
    }
    wait_until(&wait, &c->lock, &until);
    for (size_t i = 0; i < n_added; i++) {
        waiter_remove(&waiters[i]);
        let_others_in(c, i);
    }
    coxi_unlock(&c->lock);
    look->found = wait.first != NULL;
    look->index = look->found ? wait.first->index : 0;
    (void)pthread_cond_destroy(&wait.settled);
    free(waiters);
    return 0;
}

int cox_wait_any(struct cox_future *const *futures, size_t n, int timeout_ms,
                 size_t *ret_index)
{
    /* Where this thread's next look starts. Any place is correct, even for another
     * array. */
    static _Thread_local size_t next;
    struct look look = {0};
    if (futures == NULL || n == 0 || ret_index == NULL) {
        return coxi_error(COX_EINVAL, "cox_wait_any needs futures and an index");
    }
    int r = look_for(futures, n, next < n ? next : 0, &look);
    if (r == 0 && !look.found && timeout_ms != 0) {
        r = wait_for(futures, timeout_ms, &look);
    }
    if (r != 0) {
        return r;
    }
    if (!look.found) {
        return coxi_error(COX_ETIMEDOUT, "none of %zu closure%s is settled after %d ms",
                          look.n, coxi_s(look.n), timeout_ms);
    }
    next = look.index + 1;
    *ret_index = look.index;
    return 0;
}

/* ---- results */

bool coxi_future_is_away(struct cox_future *future)
{
    const struct coxi_kept *kept = coxi_closure_of(future)->kept;
    return future->code == 0 && kept != NULL && !kept->here;
}

/* Unpacks the result on first use, of a future that is settled and done. */
static int unpack(struct cox_future *future) COXI_REQUIRES(future->c->lock)
{
    if (future->values != NULL || future->result_len == 0) {
        return 0;
    }
    struct cox_value *values = malloc(COXI_VALUES_MAX * sizeof(*values));
    if (values == NULL) {
        return coxi_error_memory("results");
    }
    int r = coxi_values_unpack(future->result, future->result_len, values,
                               &future->n_values);
    if (r != 0) {
        free(values);
        return r;
    }
    future->values = values;
    /* those that a worker adds come last */
    while (future->n_values > 0 &&
           coxi_is_reserved(values[future->n_values - 1].name)) {
        future->n_values--;
    }
    return 0;
}

int coxi_future_find(struct cox_future *future, const char *name, struct cox_value *ret)
{
    int r = unpack(future);
    size_t i = 0;
    while (r == 0 && i < future->n_values &&
           strcmp(future->values[i].name, name) != 0) {
        i++;
    }
    if (r == 0 && i == future->n_values) {
        char names[COXI_NAMES_TEXT];
        coxi_values_names(future->values, future->n_values, names);
        r = coxi_error(COX_ENOENT,
                       "closure %llu (%s) returned no '%s'; it returned: %s",
                       (unsigned long long)future->id.n, name_of(future), name, names);
    }
    if (r == 0) {
        *ret = future->values[i];
    }
    return r;
}

int cox_future_result(struct cox_future *future, const char *name,
                      struct cox_value *ret)
{
    if (future == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_future_result needs a future and a name");
    }
    struct cox_coordinator *c = future->c;
    coxi_lock(&c->lock);
    int r = !is_settled(future)
                ? coxi_error(COX_ENOTREADY, "closure %llu is not settled yet",
                             (unsigned long long)future->id.n)
                : settled_code(future);
    if (r == 0 && coxi_future_is_away(future)) {
        r = coxi_error(COX_ENOTREADY,
                       "the results of closure %llu (%s) are kept on a worker: call "
                       "cox_future_fetch first",
                       (unsigned long long)future->id.n, name_of(future));
    }
    if (r == 0) {
        r = coxi_future_find(future, name, ret);
    }
    coxi_unlock(&c->lock);
    return r;
}

int cox_future_error(struct cox_future *future, struct cox_error *ret)
{
    struct cox_error error = COX_ERROR_INIT;
    if (future == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_future_error needs a future");
    }
    int r = 0;
    struct cox_coordinator *c = future->c;
    coxi_lock(&c->lock);
    if (!is_settled(future)) {
        r = coxi_error(COX_ENOTREADY, "closure %llu is not settled yet",
                       (unsigned long long)future->id.n);
    } else {
        error.code = future->code;
        error.step_code = future->step_code;
        error.closure = future->id.n;
        (void)snprintf(error.function, sizeof(error.function), "%s", name_of(future));
        (void)snprintf(error.message, sizeof(error.message), "%s",
                       future->code == 0 ? "" : coxi_future_text(future));
    }
    coxi_unlock(&c->lock);
    return r != 0 ? r : coxi_struct_return(ret, COXI_STRUCT_ERROR, &error);
}
