/*
 * Callbacks of settled futures. Each coordinator has one thread that calls them, with
 * no lock held; it starts with the first callback and ends in cox_close, when every
 * future is settled and all callbacks were called.
 *
 * A callback is in the list of its future until the future is settled, then in `called`
 * until its turn. Callbacks are called in the order in which their futures were
 * settled; those of one future in the order of the calls of cox_future_then. A callback
 * holds a reference to its future. Only memory bounds their number: each is an
 * allocation (COX_ENOMEM).
 *
 * Threads: cox_future_then, coxi_callbacks_check: any; coxi_callbacks_pass: loop;
 * coxi_callbacks_stop: the thread that closes.
 */
#include "coordinator/closures/callback.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/call.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/kept.h"

struct coxi_callback {
    struct coxi_callback *next;
    struct cox_future *future;
    void (*then)(void *arg, struct cox_future *future);
    void *arg;
};

/* c->closures->callbacks. Guarded by c->lock. */
struct coxi_callbacks {
    struct coxi_callback *called; /* waiting to be called: their futures are settled */
    struct coxi_callback **called_end;
    pthread_cond_t callable; /* a callback is waiting, or none will come */
    bool end;                /* no more will come */
    bool runs;               /* the thread exists */
    pthread_t thread;
};

int coxi_callbacks_new(struct cox_coordinator *c)
{
    struct coxi_callbacks *callbacks = calloc(1, sizeof(*callbacks));
    if (callbacks == NULL) {
        return coxi_error_memory("a coordinator");
    }
    coxi_cond_init(&callbacks->callable);
    callbacks->called_end = &callbacks->called;
    c->closures->callbacks = callbacks;
    return 0;
}

void coxi_callbacks_free(struct cox_coordinator *c)
{
    if (c->closures != NULL && c->closures->callbacks != NULL) {
        (void)pthread_cond_destroy(&c->closures->callbacks->callable);
        free(c->closures->callbacks);
        c->closures->callbacks = NULL;
    }
}

/* The coordinator whose callback thread this is. */
static _Thread_local const struct cox_coordinator *calls_for;

int coxi_callbacks_check(const struct cox_coordinator *c, const char *what)
{
    return coxi_call_check(c, calls_for, what, "a callback");
}

/* Takes all waiting callbacks, after waiting for one; NULL: none will come. */
static struct coxi_callback *take_all(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    while (c->closures->callbacks->called == NULL && !c->closures->callbacks->end) {
        coxi_wait_for_work(&c->closures->callbacks->callable, &c->lock);
    }
    struct coxi_callback *all = c->closures->callbacks->called;
    c->closures->callbacks->called = NULL;
    c->closures->callbacks->called_end = &c->closures->callbacks->called;
    coxi_unlock(&c->lock);
    return all;
}

static void *callback_thread(void *arg)
{
    struct cox_coordinator *c = arg;
    struct coxi_callback *callback;
    calls_for = c;
    while ((callback = take_all(c)) != NULL) {
        while (callback != NULL) {
            struct coxi_callback *next = callback->next;
            callback->then(callback->arg, callback->future);
            coxi_kept_unwant(coxi_closure_of(callback->future));
            coxi_future_unref(callback->future);
            free(callback);
            callback = next;
        }
    }
    return NULL;
}

static void pass(struct cox_coordinator *c, struct coxi_callback *callback)
    COXI_REQUIRES(c->lock)
{
    callback->next = NULL;
    *c->closures->callbacks->called_end = callback;
    c->closures->callbacks->called_end = &callback->next;
    (void)pthread_cond_signal(&c->closures->callbacks->callable);
}

void coxi_callbacks_pass(struct cox_future *future)
{
    struct coxi_callback *oldest_first = NULL;
    while (future->callbacks != NULL) {
        struct coxi_callback *callback = future->callbacks;
        future->callbacks = callback->next;
        callback->next = oldest_first;
        oldest_first = callback;
    }
    while (oldest_first != NULL) {
        struct coxi_callback *next = oldest_first->next;
        pass(future->c, oldest_first);
        oldest_first = next;
    }
}

/* Ensures that the thread exists and will call the callbacks that are passed now. */
static int ensure_thread(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    if (c->life.closing) {
        return coxi_error(COX_ECLOSED, "the coordinator is closed: nothing is called");
    }
    if (c->closures->callbacks->runs) {
        return 0;
    }
    int r = coxi_thread_start(&c->closures->callbacks->thread, "cox:callback",
                              callback_thread, c);
    c->closures->callbacks->runs = r == 0;
    return r;
}

int cox_future_then(struct cox_future *future,
                    void (*then)(void *arg, struct cox_future *future), void *arg)
{
    if (future == NULL || then == NULL) {
        return coxi_error(COX_EINVAL, "cox_future_then needs a future and a function");
    }
    struct cox_coordinator *c = future->c;
    struct coxi_callback *callback = malloc(sizeof(*callback));
    if (callback == NULL) {
        return coxi_error_memory("a callback");
    }
    *callback = (struct coxi_callback){.future = future, .then = then, .arg = arg};
    coxi_lock(&c->lock);
    int r = ensure_thread(c);
    if (r == 0) {
        coxi_future_ref(future);
        coxi_kept_want(coxi_closure_of(future));
        callback->next = future->callbacks;
        future->callbacks = callback;
        if (future->settled) {
            coxi_callbacks_pass(future);
        }
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        free(callback);
    }
    return r;
}

void coxi_callbacks_stop(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    c->closures->callbacks->end = true;
    bool runs = c->closures->callbacks->runs;
    (void)pthread_cond_signal(&c->closures->callbacks->callable);
    coxi_unlock(&c->lock);
    if (runs) {
        (void)pthread_join(c->closures->callbacks->thread, NULL);
    }
}
