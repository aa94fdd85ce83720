/*
 * Scheduling and join: what users' threads call. A closure goes through the
 * intake to the loop (dispatch.c) and comes back settled; both under c->lock.
 *
 * An error is reported once: the first thread that comes by has everything cancelled,
 * waits until nothing runs, and takes the error along.
 */
#include "coordinator/closures/closure.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/packing.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/checkpoints/resume.h"
#include "coordinator/closures/callback.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/future.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/workers/module.h"

enum {
    ROOM_SLICE_MS = 1000
}; /* of waiting for room, between two looks at what it waits for */

/* ---- errors of the whole */

/*
 * If there is an error to report: cancels everything but what an older client has left, waits
 * until nothing else runs, clears and returns it; COX_ETIMEDOUT (`until` has passed) leaves it for the next one.
 * Locked; unlocks while it waits. Whoever comes meanwhile waits for that.
 */
static int report_error(struct cox_coordinator *c, const struct timespec *until)
{
    while (c->reporting && !c->closing) {
        if (pthread_cond_timedwait(&c->idle, &c->lock, until) != 0) {
            return coxi_error(COX_ETIMEDOUT, "an error is still being reported");
        }
    }
    if (c->error == 0 || c->closing) {
        return 0;
    }
    int r = 0;
    c->reporting = true;
    coxi_loop_wake(c->loop);
    while (r == 0 && c->n_unsettled > c->n_inherited && !c->closing) {
        if (pthread_cond_timedwait(&c->idle, &c->lock, until) != 0) {
            r = coxi_error(COX_ETIMEDOUT, "steps still run after an error: %.400s",
                           c->error_text);
        }
    }
    if (r == 0) {
        r = coxi_error(c->error, "%s", c->error_text);
        c->error = 0;
        c->untold.failed = c->untold.cancelled = 0;
    }
    c->reporting = false;
    (void)pthread_cond_broadcast(&c->idle);
    (void)pthread_cond_broadcast(&c->room);
    return r;
}

/* ---- scheduling */

/* A closure with room for as many bytes of packed arguments. */
static int future_new(struct cox_coordinator *c, struct cox_function *function,
                      size_t args_len, struct cox_future **ret)
{
    struct cox_future *f = malloc(sizeof(*f) + args_len);
    if (f == NULL) {
        return coxi_error_memory("a closure");
    }
    *f = (struct cox_future){.c = c, .function = function};
    atomic_init(&f->refs, 1);
    f->args_len = (uint32_t)args_len;
    *ret = f;
    return 0;
}

static void put_in(struct cox_coordinator *c, struct cox_future *f)
{
    f->id = c->next_id++;
    if (f->function != NULL && atomic_load(&c->first_closure) == 0) {
        atomic_store(&c->first_closure, f->id);
    }
    if (c->intake.last != NULL) {
        c->intake.last->next = f;
    } else {
        c->intake.first = f;
    }
    c->intake.last = f;
    c->intake.n++;
}

/* True while no id may be given out: the replay log takes nothing more until a checkpoint
 * lets it forget, or the ids would run too far ahead. Locked. */
static bool is_full_of_ids(const struct cox_coordinator *c)
{
    return c->next_id - c->first_unsettled >= COXI_AHEAD_MAX ||
           coxi_replay_log_is_full(c->replay_log, c->next_id);
}

/* True while a closure more would be too many. Locked. */
static bool is_full(const struct cox_coordinator *c)
{
    return c->n_waiting >= c->options.queue_max || is_full_of_ids(c);
}

/* A while of waiting for room, in a call (call.h). Locked. */
static void wait_for_room(struct cox_coordinator *c)
{
    struct timespec slice = coxi_deadline(ROOM_SLICE_MS);
    if (coxi_replay_log_is_full(c->replay_log, c->next_id)) {
        bool failed = c->checkpoint_code != 0;
        coxi_call_why_locked(
            c, "the replay log is full, until a checkpoint is saved%s%.300s",
            failed ? "; the last one failed: " : "", failed ? c->checkpoint_text : "");
    } else if (is_full_of_ids(c)) {
        coxi_call_why_locked(c, "closure %llu is to be settled first",
                             (unsigned long long)c->first_unsettled);
    } else {
        coxi_call_why_locked(c, "the queue is full, with %zu closure%s", c->n_waiting,
                             coxi_s(c->n_waiting));
    }
    (void)pthread_cond_timedwait(&c->room, &c->lock, &slice);
}

/* Why nothing may be scheduled now, or 0. Locked; unlocks while it waits. */
static int check_schedule(struct cox_coordinator *c, const struct cox_function *missing)
{
    struct timespec never = coxi_deadline(-1);
    int r = report_error(c, &never);
    if (r == 0) {
        r = coxi_resume_check_resets(c, missing);
    }
    return r == 0 ? coxi_check_alive_locked(c) : r;
}

/* Waits until there is room for a closure. Locked; unlocks while it waits. */
static int await_queue(struct cox_coordinator *c, const struct cox_function *missing)
{
    struct coxi_call call;
    call.c = c;
    call.what = "cox_schedule";
    call.counted = false; /* who schedules has been counted */
    coxi_call_begin_locked(&call);
    int r = 0;
    while (r == 0 && is_full(c)) {
        r = coxi_resume_check(c); /* what waits may do so for a module */
        if (r == 0) {
            wait_for_room(c);
            r = check_schedule(c, missing);
        }
    }
    coxi_call_end_locked(&call);
    return r;
}

/* Takes the closure in when (or, not `wait`, if) there is room for it. Locked. */
static int enqueue(struct cox_coordinator *c, struct cox_future *f, bool wait)
{
    const struct cox_function *missing = coxi_resume_go_on(c);
    int r = check_schedule(c, missing);
    if (r == 0 && is_full(c)) {
        r = wait ? await_queue(c, missing)
                 : coxi_error(COX_EAGAIN, "the queue is full, with %zu closure%s",
                              c->n_waiting, coxi_s(c->n_waiting));
    }
    if (r != 0) {
        return r;
    }
    put_in(c, f);
    c->failed = false;
    c->n_waiting++;
    c->n_unsettled++;
    return 0;
}

/* The closure of a call, with its arguments, in nobody's hands; `held`: its user will have
 * the future, and so what it keeps. */
static int closure_new(struct cox_coordinator *c, struct cox_function *function,
                       const struct cox_call *call, bool held, struct cox_future **ret)
{
    size_t size = 0;
    struct cox_future *f = NULL;
    struct coxi_inputs *inputs = NULL;
    struct cox_call known;
    int r = coxi_packing_check(c, call, &known, &size);
    if (r == 0 && known.n_inputs > 0) {
        r = coxi_inputs_new(c, known.inputs, known.n_inputs, &inputs);
    }
    if (r == 0) {
        r = future_new(c, function, size, &f);
    }
    if (r == 0 && known.keep && held) {
        r = coxi_kept_new(f);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(inputs));
        free(f);
        return r;
    }
    struct coxi_buffer args = {.data = (uint8_t *)f->args, .capacity = size};
    r = coxi_packing_args(&known, &args);
    assert(r == 0 && args.len == size && args.capacity == size); /* it has not moved */
    f->priority = (int8_t)known.priority;
    f->only_worker = known.only_worker;
    f->timeout_ms = coxi_packing_timeout(c, &known);
    f->cursor = known.cursor;
    f->inputs = inputs;
    f->state = inputs != NULL ? COXI_WAITING : COXI_QUEUED;
    *ret = f;
    return r;
}

static int schedule(struct cox_coordinator *c, struct cox_function *function,
                    const struct cox_call *call, bool wait, struct cox_future **ret)
{
    if (c == NULL || function == NULL || function->module->c != c) {
        return coxi_error(COX_EINVAL, "cox_schedule needs a coordinator and a function "
                                      "of a module of it");
    }
    struct cox_future *f = NULL;
    int r = closure_new(c, function, call, ret != NULL, &f);
    if (r != 0) {
        return r;
    }
    if (ret != NULL) {
        atomic_store_explicit(&f->refs, 2, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    }
    coxi_lock(&c->lock);
    c->n_calls++;
    r = enqueue(c, f, wait);
    coxi_call_ended(c);
    bool alone = c->n_unsettled == 1;
    coxi_unlock(&c->lock);
    if (r != 0) {
        if (ret != NULL) {
            coxi_coordinator_unref(c);
        }
        f->next = NULL;
        coxi_futures_free(f);
        return r;
    }
    if (ret != NULL) {
        *ret = f;
    }
    if (alone) {
        coxi_loop_wake_here(c->loop); /* nothing to wait for so that it goes along */
    } else {
        coxi_loop_wake(c->loop);
    }
    return 0;
}

int cox_schedule(struct cox_coordinator *c, struct cox_function *function,
                 const struct cox_call *call, struct cox_future **ret)
{
    return schedule(c, function, call, true, ret);
}

int cox_try_schedule(struct cox_coordinator *c, struct cox_function *function,
                     const struct cox_call *call, struct cox_future **ret)
{
    return schedule(c, function, call, false, ret);
}

/* What an older client has left to be run is waited for like the rest. Locked. */
static int go_on(struct cox_coordinator *c)
{
    const struct cox_function *missing = coxi_resume_go_on(c);
    return missing == NULL
               ? 0
               : coxi_error(COX_ENOENT,
                            "what the checkpoint says is to be run again needs '%s' of "
                            "module %s: load it first",
                            missing->name, missing->module->name);
}

/*
 * True where every closure is settled and no ps is owed anything. A ps without a connection
 * may be lost, with all that it has had since the last checkpoint: that is not done before it
 * is known. Locked.
 */
static bool is_all_done(const struct cox_coordinator *c)
{
    bool over = c->closing || c->fatal != 0;
    bool done = c->n_unsettled == 0 &&
                (over || (!coxi_ps_recovering(c) && !coxi_resume_is_writing(c)));
    for (uint32_t p = 0; done && !over && p < c->n_ps; p++) {
        done = coxi_psc_is_up(c->ps[p]);
    }
    return done;
}

/* Waits for a change. That a connection is back wakes nobody: what waits for nothing else
 * looks again and again. Locked. */
static int await_idle(struct cox_coordinator *c, const struct timespec *until,
                      int timeout_ms)
{
    struct timespec slice = coxi_deadline(COXI_TICK_MS);
    bool looks = c->n_unsettled == 0 && coxi_before(&slice, until);
    if (pthread_cond_timedwait(&c->idle, &c->lock, looks ? &slice : until) == 0 ||
        looks) {
        return 0;
    }
    return c->n_unsettled > 0
               ? coxi_error(COX_ETIMEDOUT, "%zu closure%s not settled after %d ms",
                            c->n_unsettled, c->n_unsettled == 1 ? " is" : "s are",
                            timeout_ms)
               : coxi_error(
                     COX_ETIMEDOUT,
                     "a ps is lost, and after %d ms what it had has not been done "
                     "again",
                     timeout_ms);
}

int cox_join(struct cox_coordinator *c, int timeout_ms)
{
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_join needs a coordinator");
    }
    struct timespec until = coxi_deadline(timeout_ms);
    int r = coxi_callbacks_check(c, "cox_join");
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->lock);
    c->n_calls++;
    r = go_on(c);
    while (r == 0) {
        r = report_error(c, &until);
        if (r != 0 || c->closing || is_all_done(c)) {
            break;
        }
        r = await_idle(c, &until, timeout_ms);
    }
    if (r == 0) {
        r = coxi_check_alive_locked(c);
    }
    coxi_call_ended(c);
    coxi_unlock(&c->lock);
    return r;
}

int cox_done(struct cox_coordinator *c)
{
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_done needs a coordinator");
    }
    struct timespec never = coxi_deadline(-1);
    coxi_lock(&c->lock);
    c->n_calls++;
    int r = go_on(c);
    if (r == 0) {
        r = report_error(c, &never);
    }
    if (r == 0) {
        r = coxi_check_alive_locked(c);
    }
    bool done = is_all_done(c);
    coxi_call_ended(c);
    coxi_unlock(&c->lock);
    return r != 0 ? r : done;
}

int coxi_fetch_begin(struct cox_future *source, struct cox_future **ret)
{
    struct cox_coordinator *c = source->c;
    COXI_CALL_AS(c, "cox_future_fetch");
    struct cox_input input = {NULL, source, NULL};
    struct coxi_inputs *inputs = NULL;
    struct cox_future *f = NULL;
    int r = coxi_inputs_new(c, &input, 1, &inputs);
    if (r == 0) {
        r = future_new(c, source->function, 0, &f);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(inputs));
        return r;
    }
    f->inputs = inputs;
    f->state = COXI_WAITING;
    f->fetches = true;
    coxi_lock(&c->lock);
    r = coxi_check_alive_locked(c);
    if (r == 0) {
        atomic_store_explicit(&f->refs, 2, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
        put_in(c, f);
        c->n_waiting++;
        c->n_unsettled++;
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        coxi_futures_free(f);
        return r;
    }
    coxi_loop_wake(c->loop);
    *ret = f;
    return 0;
}

/* ---- operations of the client's own */

/* Locked. */
static int await_room(struct cox_coordinator *c)
{
    int r = coxi_check_alive_locked(c);
    while (r == 0 && is_full_of_ids(c)) {
        wait_for_room(c);
        r = coxi_check_alive_locked(c);
    }
    return r;
}

int coxi_operation_room(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    int r = await_room(c);
    coxi_unlock(&c->lock);
    return r;
}

/* `state`: OPEN, at its place among what is written now; or HELD, at that of its id, and then
 * `listed` is called with it. */
static int begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                 enum coxi_replay_state state, bool wait,
                 void (*listed)(void *arg, struct cox_future *operation), void *arg,
                 struct cox_future **ret)
{
    struct cox_future *f = NULL;
    int r = future_new(c, NULL, 0, &f);
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->lock);
    r = wait ? await_room(c) : coxi_check_alive_locked(c);
    if (r == 0) {
        what->id = c->next_id;
        what->position = state == COXI_REPLAY_HELD ? what->id : coxi_resume_position(c);
        what->state = state;
        r = coxi_replay_log_operation(c->replay_log, what);
    }
    if (r == 0) {
        put_in(c, f);
        if (listed != NULL) {
            listed(arg, f);
        }
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        free(f);
        return r;
    }
    *ret = f; /* the loop takes it in with what comes next, at the latest its end */
    return 0;
}

int coxi_operation_begin(struct cox_coordinator *c, struct coxi_replay_entry *what,
                         bool wait, struct cox_future **ret)
{
    return begin(c, what, COXI_REPLAY_OPEN, wait, NULL, NULL, ret);
}

int coxi_operation_hold(struct cox_coordinator *c, struct coxi_replay_entry *what,
                        void (*listed)(void *arg, struct cox_future *operation),
                        void *arg)
{
    struct cox_future *f;
    return begin(c, what, COXI_REPLAY_HELD, true, listed, arg, &f);
}

struct operation_end {
    struct coxi_mail mail;
    struct cox_future *operation;
};

/* On the loop: the id counts as settled. */
static void end_operation(struct coxi_mail *mail)
{
    struct operation_end *end = (struct operation_end *)mail;
    struct cox_future *f = end->operation;
    struct cox_coordinator *c = f->c;
    coxi_dispatch(c); /* so that it has been taken in */
    (void)coxi_window_take(&c->closures, f->id);
    coxi_lock(&c->lock);
    c->first_unsettled = c->closures.count > 0 ? c->closures.first : c->closures.next;
    (void)pthread_cond_broadcast(&c->room);
    coxi_unlock(&c->lock);
    free(f);
    free(end);
    coxi_loop_wake_after_mail(c->loop);
}

void coxi_operation_end(struct cox_future *operation, enum coxi_operation_end how)
{
    struct cox_coordinator *c = operation->c;
    struct operation_end *end = malloc(sizeof(*end));
    switch (how) {
    case COXI_OPERATION_DONE:
        coxi_replay_log_set(c->replay_log, operation->id, COXI_REPLAY_DONE);
        break;
    case COXI_OPERATION_NOWHERE:
        coxi_replay_log_retract(c->replay_log, operation->id);
        break;
    case COXI_OPERATION_LOGGED:
        break;
    }
    if (end == NULL) {
        return; /* the watermark stops here: safe, and there is no memory for more
                   anyway */
    }
    end->mail.run = end_operation;
    end->operation = operation;
    coxi_loop_run_here(c->loop, &end->mail);
}
