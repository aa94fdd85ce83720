/*
 * Scheduling and join, called by user threads. A closure goes through the intake, where
 * it gets its id, to the loop (dispatch.c) and comes back settled; both under c->lock.
 * Operations of the client (operation.c) go through the intake, too.
 *
 * An error is reported once: the first thread that notices it cancels everything, waits
 * until nothing runs, and returns the error.
 */
#include "coordinator/closures/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/run_place.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/packing.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/callback.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/handout.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/worker.h"
#include "coordinator/workers/workers.h"
#include "net/ps_client.h"

enum { ROOM_SLICE_MS = 1000 }; /* length of one wait; then the caller checks again */

/* ---- the intake */

void coxi_intake_put(struct cox_coordinator *c, struct coxi_closure *closure)
{
    closure->future.id = coxi_closure_id(c->ids.next++);
    if (atomic_load(&c->ids.first_closure) == 0) {
        atomic_store(&c->ids.first_closure, closure->future.id.n);
    }
    closure->scheduled_us = coxi_run_times_begin(&c->times, closure->future.id);
    coxi_list_append(&c->closures->intake.closures, closure);
}

void coxi_intake_put_operation(struct cox_coordinator *c,
                               struct coxi_operation *operation)
{
    struct coxi_intake *intake = &c->closures->intake;
    operation->id = coxi_closure_id(c->ids.next++);
    operation->next = NULL;
    if (intake->last_operation != NULL) {
        intake->last_operation->next = operation;
    } else {
        intake->operations = operation;
    }
    intake->last_operation = operation;
}

/* True while no id may be given out, because the replay log is full until the next
 * checkpoint, or because the ids would run too far ahead. */
static bool is_full_of_ids(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    return c->ids.next - c->ids.first_unsettled >= COXI_AHEAD_MAX ||
           (c->replay_log != NULL &&
            coxi_replay_log_is_full(c->replay_log, c->ids.next));
}

bool coxi_intake_is_full(const struct cox_coordinator *c)
{
    return c->life.n_waiting >= c->options.queue_max || is_full_of_ids(c);
}

void coxi_intake_wait(struct cox_coordinator *c)
{
    struct timespec slice = coxi_deadline(ROOM_SLICE_MS);
    if (coxi_replay_log_is_full(c->replay_log, c->ids.next)) {
        bool failed = c->saving.code != 0;
        coxi_call_why_locked(
            c, "the replay log is full, until a checkpoint is saved%s%.300s",
            failed ? "; the last one failed: " : "", failed ? c->saving.text : "");
    } else if (is_full_of_ids(c)) {
        coxi_call_why_locked(c, "closure %llu must be settled first",
                             (unsigned long long)c->ids.first_unsettled);
    } else {
        coxi_call_why_locked(c, "the queue is full, with %zu closure%s",
                             c->life.n_waiting, coxi_s(c->life.n_waiting));
    }
    (void)coxi_wait_until(&c->life.room, &c->lock, &slice);
}

int coxi_intake_await_id(struct cox_coordinator *c)
{
    int r = coxi_check_alive_locked(c);
    while (r == 0 && is_full_of_ids(c)) {
        coxi_intake_wait(c);
        r = coxi_check_alive_locked(c);
    }
    return r;
}

/* ---- errors of the whole run */

/*
 * If there is an error to report: cancels everything except the work that an older
 * client has left, waits until nothing else runs, clears the error and returns it;
 * COX_ETIMEDOUT (`until` has passed) leaves it for the next caller. Unlocks while it
 * waits. Other callers wait meanwhile.
 */
static int report_error(struct cox_coordinator *c, const struct timespec *until)
    COXI_REQUIRES(c->lock)
{
    while (c->life.reporting && !c->life.closing) {
        if (!coxi_wait_until(&c->life.idle, &c->lock, until)) {
            return coxi_error(COX_ETIMEDOUT, "an error is still being reported");
        }
    }
    if (c->life.error == 0 || c->life.closing) {
        return 0;
    }
    int r = 0;
    c->life.reporting = true;
    coxi_loop_wake(c->loop);
    while (r == 0 && c->life.n_unsettled > c->life.n_inherited && !c->life.closing) {
        if (!coxi_wait_until(&c->life.idle, &c->lock, until)) {
            r = coxi_error(COX_ETIMEDOUT, "steps still run after an error: %.400s",
                           c->life.error_text);
        }
    }
    if (r == 0) {
        r = coxi_error(c->life.error, "%s", c->life.error_text);
        c->life.error = 0;
        c->life.untold.failed = c->life.untold.cancelled = 0;
    }
    c->life.reporting = false;
    (void)pthread_cond_broadcast(&c->life.idle);
    (void)pthread_cond_broadcast(&c->life.room);
    return r;
}

/* ---- scheduling */

/* Why nothing may be scheduled now, or 0. Unlocks while it waits; not if the run is over,
 * because nothing that still runs can count. */
static int check_schedule(struct cox_coordinator *c, const struct cox_function *missing)
    COXI_REQUIRES(c->lock)
{
    struct timespec never = coxi_deadline(-1);
    int r = coxi_check_alive_locked(c);
    r = r == 0 ? report_error(c, &never) : r;
    r = r == 0 ? coxi_gate_check_resets(c, missing) : r;
    return r == 0 ? coxi_check_alive_locked(c) : r;
}

/* True if a closure may be taken in at once: nothing has gone wrong, no work of an
 * older client is left, and there is room. */
static bool is_open(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct coxi_life *life = &c->life;
    return life->error == 0 && life->fatal == 0 && !life->reporting && !life->closing &&
           atomic_load(&c->closures->gate) == NULL && !coxi_intake_is_full(c);
}

/* The program schedules a call, so it knows what an error has cancelled. */
static void forget_cancelled(struct cox_coordinator *c,
                             const struct coxi_closure *closure) COXI_REQUIRES(c->lock)
{
    if (closure->asked.cursor != 0) {
        c->closures->first_cancelled = 0;
    }
}

/* Waits until there is room for a closure. Unlocks while it waits. */
static int await_queue(struct cox_coordinator *c, const struct cox_function *missing)
    COXI_REQUIRES(c->lock)
{
    struct coxi_call call;
    call.c = c;
    call.what = "cox_schedule";
    call.counted = false; /* await_turn has counted the caller already */
    coxi_call_begin_locked(&call);
    int r = 0;
    while (r == 0 && coxi_intake_is_full(c)) {
        r = coxi_gate_check(c); /* a waiting closure may need a module */
        if (r == 0) {
            coxi_intake_wait(c);
            r = check_schedule(c, missing);
        }
    }
    coxi_call_end_locked(&call);
    return r;
}

/* Waits until the closure may be taken in; without `wait` only for the report of an
 * error. Returns why it may not be, or 0. Unlocks while it waits. */
static int await_turn(struct cox_coordinator *c, const struct coxi_closure *closure,
                      bool wait) COXI_REQUIRES(c->lock)
{
    c->life.n_calls++;
    const struct cox_function *missing = coxi_gate_go_on(c);
    int r = check_schedule(c, missing);
    if (r == 0) {
        /* Before the wait for room, because a full replay log needs a checkpoint, which
         * this allows. */
        forget_cancelled(c, closure);
    }
    if (r == 0 && coxi_intake_is_full(c)) {
        r = wait ? await_queue(c, missing)
                 : coxi_error(COX_EAGAIN, "the queue is full, with %zu closure%s",
                              c->life.n_waiting, coxi_s(c->life.n_waiting));
    }
    coxi_call_ended(c);
    return r;
}

int coxi_schedule_await(struct cox_coordinator *c, const struct coxi_closure *closure,
                        bool wait)
{
    if (!is_open(c)) {
        return await_turn(c, closure, wait);
    }
    forget_cancelled(c, closure);
    return 0;
}

void coxi_schedule_give_task(struct coxi_closure *closure, struct coxi_handout *handout)
{
    handout->closure = closure;
    closure->task = handout;
    closure->quiet = true;
}

bool coxi_schedule_enter(struct cox_coordinator *c,
                         struct coxi_closure *const *closures, size_t n)
{
    bool alone = c->life.n_unsettled == 0;
    for (size_t i = 0; i < n; i++) {
        coxi_intake_put(c, closures[i]);
    }
    c->life.failed = false;
    c->life.n_waiting += n;
    c->life.n_unsettled += n;
    c->life.n_waking++;
    return alone;
}

void coxi_schedule_wake(struct cox_coordinator *c, bool alone)
{
    if (alone) {
        /* nothing else is under way that could be sent with it */
        coxi_loop_wake_here(c->loop);
    } else {
        coxi_loop_wake(c->loop);
    }
    /* cox_close may free the coordinator from here on */
    (void)atomic_fetch_add_explicit(&c->closures->n_woken, 1, memory_order_release);
}

void coxi_schedule_hold(struct coxi_closure *closure)
{
    coxi_future_ref(&closure->future);
    atomic_fetch_add_explicit(&closure->future.c->refs, 1, memory_order_relaxed);
}

/* Finds the only worker that may run a call, by `only_worker` of the call. Locks,
 * because workers may be joining. */
static int find_worker(struct cox_coordinator *c, uint32_t only_worker,
                       struct coxi_seat **ret)
{
    struct coxi_maybe worker = coxi_maybe_of_number(only_worker);
    coxi_lock(&c->lock);
    uint32_t n = c->workers->n;
    if (only_worker <= n) {
        *ret = c->workers->all[coxi_maybe_index(worker)]->seat;
    }
    coxi_unlock(&c->lock);
    return only_worker <= n
               ? 0
               : coxi_error(
                     COX_EINVAL,
                     "only_worker is %u, but there is no worker %u: there are %u",
                     only_worker, only_worker - 1, n);
}

/* A call that is to be scheduled. */
struct scheduled {
    struct cox_function *function;
    struct cox_call known; /* checked, in this version's form */
    size_t args_len;       /* bytes of its packed arguments */
    uint32_t timeout_ms;
    const struct coxi_schedule_task *task; /* of a data set; NULL: none */
    bool held; /* the user will hold the future, and so needs what it keeps */
};

/* Makes the closure of a call, with its arguments, in no list. */
static int closure_new(struct cox_coordinator *c, const struct scheduled *what,
                       struct coxi_closure **ret)
{
    const struct cox_call *known = &what->known;
    struct coxi_closure_spec spec = {.function = what->function,
                                     .args_len = what->args_len};
    struct coxi_closure *closure = NULL;
    struct coxi_seat *only = NULL;
    int r = 0;
    if (known->only_worker != 0) {
        r = find_worker(c, known->only_worker, &only);
    }
    if (r == 0 && known->n_inputs > 0) {
        r = coxi_inputs_new(c, known->inputs, known->n_inputs, &spec.inputs);
    }
    if (r == 0) {
        spec.asked = (struct coxi_asked){known->cursor, what->timeout_ms, only,
                                         (int8_t)known->priority};
        r = coxi_closure_new(c, &spec, &closure);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(spec.inputs));
        return r;
    }
    if (known->keep && what->held) {
        r = coxi_kept_new(closure);
    }
    if (r != 0) {
        coxi_futures_free(closure);
        return r;
    }
    size_t size = spec.args_len;
    struct coxi_buffer args = {.data = (uint8_t *)closure->args, .capacity = size};
    r = coxi_packing_args(known, &args);
    /* the buffer was large enough */
    assert(r == 0 && args.len == size && args.capacity == size);
    *ret = closure;
    return r;
}

static int check_function(const struct cox_coordinator *c,
                          const struct cox_function *function)
{
    return c != NULL && function != NULL && function->module->c == c
               ? 0
               : coxi_error(COX_EINVAL, "cox_schedule needs a coordinator and a "
                                        "function of a module of it");
}

static int schedule(struct cox_coordinator *c, const struct scheduled *what, bool wait,
                    struct cox_future **ret)
{
    struct coxi_closure *closure = NULL;
    int r = closure_new(c, what, &closure);
    if (r != 0) {
        return r;
    }
    if (ret != NULL) {
        coxi_schedule_hold(closure);
    }
    coxi_lock(&c->lock);
    bool alone = false;
    r = coxi_schedule_await(c, closure, wait);
    if (r == 0 && what->task != NULL) {
        coxi_schedule_give_task(closure, what->task->handout);
    }
    if (r == 0) {
        alone = coxi_schedule_enter(c, &closure, 1);
    }
    coxi_unlock(&c->lock);
    if (r != 0) {
        if (ret != NULL) {
            coxi_coordinator_unref(c);
        }
        closure->next = NULL;
        coxi_futures_free(closure);
        return r;
    }
    if (ret != NULL) {
        *ret = &closure->future;
    }
    coxi_schedule_wake(c, alone);
    return 0;
}

/* Checks a call, and describes it. */
static int describe(struct cox_coordinator *c, struct cox_function *function,
                    const struct cox_call *call, bool held, struct scheduled *ret)
{
    int r = check_function(c, function);
    if (r == 0) {
        r = coxi_packing_check(call, &ret->known, &ret->args_len);
    }
    if (r != 0) {
        return r;
    }
    ret->function = function;
    ret->timeout_ms = coxi_packing_timeout(c, &ret->known);
    ret->task = NULL;
    ret->held = held;
    return 0;
}

static int schedule_call(struct cox_coordinator *c, struct cox_function *function,
                         const struct cox_call *call, bool wait,
                         struct cox_future **ret)
{
    struct scheduled what;
    int r = describe(c, function, call, ret != NULL, &what);
    return r == 0 ? schedule(c, &what, wait, ret) : r;
}

int coxi_schedule_make(struct cox_coordinator *c, struct cox_function *function,
                       const struct cox_call *call, bool held,
                       struct coxi_closure **ret)
{
    struct scheduled what;
    int r = describe(c, function, call, held, &what);
    return r == 0 ? closure_new(c, &what, ret) : r;
}

/* Checks a call of a deterministic round. */
static int check_placed(const struct cox_call *known)
{
    if (known->keep) {
        return coxi_error(COX_EINVAL,
                          "a closure of a deterministic round cannot keep its results: "
                          "if they are lost, they are made again from newer values");
    }
    return known->n_args + known->n_inputs < COXI_VALUES_MAX
               ? 0
               : coxi_error(COX_ELIMIT,
                            "a closure of a deterministic round has at most %d "
                            "arguments and inputs",
                            COXI_VALUES_MAX - 1);
}

int coxi_schedule_make_placed(struct cox_coordinator *c, struct cox_function *function,
                              const struct cox_call *call, bool held,
                              struct coxi_closure **ret)
{
    static const struct coxi_run_place none;
    struct cox_value values[COXI_VALUES_MAX];
    struct scheduled what;
    int r = describe(c, function, call, held, &what);
    r = r == 0 ? check_placed(&what.known) : r;
    if (r != 0) {
        return r;
    }
    values[0] = coxi_run_place_value(&none);
    if (what.known.n_args > 0) {
        memcpy(&values[1], what.known.args, what.known.n_args * sizeof(*values));
    }
    what.known.args = values;
    what.known.n_args++;
    r = coxi_values_size(values, what.known.n_args, &what.args_len);
    return r == 0 ? closure_new(c, &what, ret) : r;
}

int cox_schedule(struct cox_coordinator *c, struct cox_function *function,
                 const struct cox_call *call, struct cox_future **ret)
{
    return schedule_call(c, function, call, true, ret);
}

int cox_try_schedule(struct cox_coordinator *c, struct cox_function *function,
                     const struct cox_call *call, struct cox_future **ret)
{
    return schedule_call(c, function, call, false, ret);
}

/* The same for a call with a task, which is checked. */
static int describe_task(struct cox_coordinator *c, struct cox_function *function,
                         const struct cox_call *call,
                         const struct coxi_schedule_task *task, bool held,
                         struct scheduled *ret)
{
    *ret = (struct scheduled){function, *call, 0, task->timeout_ms, task, held};
    int r = check_function(c, function);
    r = r == 0 ? coxi_values_size(call->args, call->n_args, &ret->args_len) : r;
    return r == 0 && ret->args_len > COXI_CALL_ARGS_MAX
               ? coxi_error(COX_ELIMIT, "a call's arguments have more than %d bytes",
                            COXI_CALL_ARGS_MAX)
               : r;
}

int coxi_schedule_make_task(struct cox_coordinator *c, struct cox_function *function,
                            const struct cox_call *call,
                            const struct coxi_schedule_task *task, bool held,
                            struct coxi_closure **ret)
{
    struct scheduled what;
    int r = describe_task(c, function, call, task, held, &what);
    return r == 0 ? closure_new(c, &what, ret) : r;
}

int coxi_schedule_task(struct cox_coordinator *c, struct cox_function *function,
                       const struct cox_call *call,
                       const struct coxi_schedule_task *task, struct cox_future **ret)
{
    struct scheduled what;
    int r = describe_task(c, function, call, task, ret != NULL, &what);
    return r == 0 ? schedule(c, &what, true, ret) : r;
}

/* Lets the work that an older client has left run, because a join waits for it, too. */
static int go_on(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct cox_function *missing = coxi_gate_go_on(c);
    return missing == NULL ? 0
                           : coxi_error(COX_ENOENT,
                                        "closures of the checkpoint must run again, "
                                        "and need '%s' of module %s: load it first",
                                        missing->name, missing->module->name);
}

/*
 * True if every closure is settled and no ps lacks anything. A ps without a connection
 * may be lost, and with it everything since the last checkpoint; until that is known,
 * the work is not done.
 */
static bool is_all_done(const struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    bool over = c->life.closing || c->life.fatal != 0;
    bool done = c->life.n_unsettled == 0 &&
                (over || (!coxi_ps_recovering(c) && !coxi_gate_is_writing(c)));
    for (uint32_t p = 0; done && !over && p < c->ps.n; p++) {
        done = coxi_psc_is_up(c->ps.clients[p]);
    }
    return done;
}

/* Waits for a change. Nothing wakes the thread when a connection is back: if it waits
 * only for that, it looks again and again. */
static int await_idle(struct cox_coordinator *c, const struct timespec *until,
                      int timeout_ms) COXI_REQUIRES(c->lock)
{
    struct timespec slice = coxi_deadline(COXI_TICK_MS);
    bool looks = c->life.n_unsettled == 0 && coxi_before(&slice, until);
    if (coxi_wait_until(&c->life.idle, &c->lock, looks ? &slice : until) || looks) {
        return 0;
    }
    return c->life.n_unsettled > 0
               ? coxi_error(COX_ETIMEDOUT, "%zu closure%s not settled after %d ms",
                            c->life.n_unsettled,
                            c->life.n_unsettled == 1 ? " is" : "s are", timeout_ms)
               : coxi_error(COX_ETIMEDOUT,
                            "a ps is lost, and was not restored within %d ms",
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
    c->life.n_calls++;
    r = go_on(c);
    while (r == 0) {
        r = report_error(c, &until);
        if (r != 0 || c->life.closing || is_all_done(c)) {
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

int coxi_schedule_check(struct cox_coordinator *c)
{
    struct timespec never = coxi_deadline(-1);
    int r = go_on(c);
    if (r == 0) {
        r = report_error(c, &never);
    }
    return r == 0 ? coxi_check_alive_locked(c) : r;
}

int cox_done(struct cox_coordinator *c)
{
    if (c == NULL) {
        return coxi_error(COX_EINVAL, "cox_done needs a coordinator");
    }
    coxi_lock(&c->lock);
    c->life.n_calls++;
    int r = coxi_schedule_check(c);
    bool done = is_all_done(c);
    coxi_call_ended(c);
    coxi_unlock(&c->lock);
    return r != 0 ? r : done;
}
