/* See resume_internal.h: runs the older client's calls and writes in their order. */
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/metric.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/checkpoints/resume_internal.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/operation.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/module.h"

/* length of one wait; then it logs if the caller has waited for long */
enum { SLICE_MS = 1000 };

/* ---- the thread that writes */

static void write_done(struct coxi_mail *mail);

/* True if no write is left, and none can be added. */
static bool is_written(const struct coxi_resumed *resumed) COXI_REQUIRES_C_LOCK
{
    return resumed->n_writes == 0 && resumed->resets == NULL &&
           resumed->n_resetting == 0 && !resumed->c->ids.before_unsettled;
}

static int write_one(struct coxi_resumed *resumed, size_t place,
                     struct coxi_operation *operation)
{
    bool is_reset = place == coxi_backlog_of(resumed->file)->n;
    return is_reset ? coxi_resume_redo_reset(resumed->c, resumed->resets->variable,
                                             operation)
                    : coxi_resume_redo(resumed->c, resumed, place, operation);
}

static void *writing_thread(void *arg)
{
    struct coxi_resumed *resumed = arg;
    struct cox_coordinator *c = resumed->c;
    coxi_lock(&c->lock);
    while (!resumed->end && !is_written(resumed)) {
        struct coxi_operation *operation = resumed->operation;
        size_t place = resumed->place;
        if (operation == NULL) {
            coxi_wait_for_work(&c->life.changed, &c->lock);
            continue;
        }
        resumed->operation = NULL;
        coxi_unlock(&c->lock);
        int r = write_one(resumed, place, operation);
        if (r == 0) {
            resumed->written.run = write_done;
            coxi_loop_post(c->loop, &resumed->written);
        } else if (coxi_check_alive(c) == 0) {
            coxi_fatal(c, r, coxi_error_text());
        }
        coxi_lock(&c->lock);
        resumed->end = resumed->end || r != 0;
    }
    resumed->ended = true;
    (void)pthread_cond_broadcast(&c->life.changed);
    coxi_unlock(&c->lock);
    return NULL;
}

int coxi_resume_start(struct coxi_resumed *resumed)
{
    coxi_unshared(&resumed->c->lock);
    if (is_written(resumed)) {
        return 0;
    }
    int r = coxi_thread_start(&resumed->thread, "cox:resume", writing_thread, resumed);
    resumed->runs = r == 0;
    return r;
}

bool coxi_resume_end(struct cox_coordinator *c, const struct timespec *until)
{
    struct coxi_resumed *resumed = c->saving.resumed;
    if (resumed == NULL || !resumed->runs) {
        return true;
    }
    coxi_lock(&c->lock);
    resumed->end = true;
    (void)pthread_cond_broadcast(&c->life.changed);
    while (!resumed->ended && coxi_wait_until(&c->life.changed, &c->lock, until)) {
    }
    bool ended = resumed->ended;
    coxi_unlock(&c->lock);
    return ended;
}

void coxi_resume_stop(struct cox_coordinator *c)
{
    if (c->saving.resumed != NULL && c->saving.resumed->runs) {
        (void)pthread_join(c->saving.resumed->thread, NULL);
        c->saving.resumed->runs = false;
    }
}

/* ---- letting calls run */

static void enter(struct coxi_closure *closure)
{
    coxi_list_remove(&closure->future.c->closures->waiting, closure);
    if (closure->round != NULL && coxi_round_holds(closure)) {
        return;
    }
    if (closure->inputs != NULL) {
        coxi_inputs_wait(closure);
    } else {
        coxi_closure_set(closure, COXI_QUEUED);
        coxi_closure_enqueue(closure, false);
    }
}

/* Lets the held call of head i run if its function is loaded. */
static void let_go_one(struct coxi_resumed *resumed, size_t i)
{
    struct cox_coordinator *c = resumed->c;
    const struct coxi_backlog_head *head = &coxi_backlog_of(resumed->file)->heads[i];
    struct coxi_closure *closure = resumed->held[i].closure;
    coxi_lock(&c->lock);
    struct cox_function *loaded = resumed->names[head->function].loaded;
    coxi_unlock(&c->lock);
    if (loaded == NULL) {
        return;
    }
    resumed->held[i].closure = NULL;
    if (head->done) {
        closure->function = loaded;
        coxi_closure_be_done(closure);
    } else if (coxi_closures_get(c, coxi_closure_id(head->closure)) == closure) {
        closure->function = loaded;
        enter(closure);
    } /* otherwise it was cancelled */
}

/* Lets every call run whose function is loaded and that no pending write precedes; it
 * may still wait for its inputs. */
static void let_go(struct coxi_resumed *resumed)
{
    for (size_t i = 0; i < resumed->barrier; i++) {
        if (resumed->held[i].closure != NULL) {
            let_go_one(resumed, i);
        }
    }
}

/* On the loop. */
static void functions_loaded(struct coxi_mail *mail)
{
    struct coxi_resumed *resumed =
        (struct coxi_resumed *)((uint8_t *)mail - offsetof(struct coxi_resumed, mail));
    struct cox_coordinator *c = resumed->c;
    coxi_lock(&c->lock);
    resumed->posted = false;
    coxi_unlock(&c->lock);
    let_go(resumed);
    coxi_loop_wake_after_mail(c->loop);
}

/* ---- whose turn it is. Loop */

/* True if all writes of the older client and all listed resets are done. */
static bool is_passed(const struct coxi_resumed *resumed)
{
    return resumed->barrier == coxi_backlog_of(resumed->file)->n &&
           atomic_load(&resumed->next_reset) == 0;
}

/* A closure of this program waits for the older client's writes, and for each reset
 * whose id is lower. A reset waits for every closure whose id is lower than its own:
 * such a closure must not wait for that reset. */
static bool is_behind_write(const struct coxi_resumed *resumed,
                            const struct coxi_closure *closure)
{
    uint64_t reset = atomic_load(&resumed->next_reset);
    return resumed->barrier < coxi_backlog_of(resumed->file)->n ||
           (reset != 0 && reset < closure->future.id.n);
}

static bool holds(struct coxi_closure *closure)
{
    if (closure->fetches ||
        !is_behind_write(closure->future.c->saving.resumed, closure)) {
        return false;
    }
    if (closure->state != COXI_WAITING) {
        coxi_closure_set(closure, COXI_WAITING);
    }
    closure->older.held = true;
    coxi_list_append(&closure->future.c->closures->waiting, closure);
    return true;
}

/* Lets the closures of this program run that no pending write precedes any more. */
static void let_go_later(struct cox_coordinator *c)
{
    for (struct coxi_closure *closure = c->closures->waiting.first; closure != NULL;) {
        struct coxi_closure *next = closure->next;
        if (closure->older.held && !is_behind_write(c->saving.resumed, closure)) {
            closure->older.held = false;
            enter(closure);
        }
        closure = next;
    }
}

/* The first reset is written. */
static void drop_reset(struct coxi_resumed *resumed) COXI_REQUIRES_C_LOCK
{
    struct coxi_resumed_reset *reset = resumed->resets;
    resumed->resets = reset->next;
    atomic_store(&resumed->next_reset,
                 resumed->resets != NULL ? resumed->resets->id.n : 0);
    free(reset);
}

static void write_done(struct coxi_mail *mail)
{
    struct coxi_resumed *resumed =
        (struct coxi_resumed *)((uint8_t *)mail -
                                offsetof(struct coxi_resumed, written));
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    struct cox_coordinator *c = resumed->c;
    bool was_reset = resumed->barrier == backlog->n;
    resumed->has_turn = false;
    if (!was_reset) {
        resumed->barrier = coxi_backlog_next_write(backlog, resumed->barrier + 1);
        let_go(resumed);
    }
    coxi_lock(&c->lock);
    if (was_reset) {
        drop_reset(resumed);
    } else {
        resumed->n_writes--;
    }
    coxi_unlock(&c->lock);
    let_go_later(c);
    coxi_lock(&c->lock);
    (void)pthread_cond_broadcast(&c->life.changed);
    (void)pthread_cond_broadcast(&c->life.idle);
    coxi_unlock(&c->lock);
    coxi_loop_wake_after_mail(c->loop);
}

/* Takes the operation of the next write if all earlier closures are settled; otherwise
 * returns NULL. */
static struct coxi_operation *
take_turn(struct coxi_resumed *resumed) COXI_REQUIRES_C_LOCK
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    size_t at = resumed->barrier;
    struct coxi_resumed_reset *reset = at == backlog->n ? resumed->resets : NULL;
    struct coxi_operation **operation = reset != NULL     ? &reset->operation
                                        : at < backlog->n ? &resumed->held[at].operation
                                                          : NULL;
    uint64_t id = reset != NULL     ? reset->id.n
                  : at < backlog->n ? backlog->heads[at].closure
                                    : 0;
    struct coxi_operation *taken = NULL;
    if (operation != NULL && resumed->c->closures->unsettled.first == id) {
        taken = *operation;
        *operation = NULL;
    }
    return taken;
}

/* True when all calls of the backlog have been let run and nothing is left to write:
 * nothing must be held any more, and no metric need be reset twice. */
static bool is_over(const struct coxi_resumed *resumed) COXI_REQUIRES_C_LOCK
{
    return resumed->begun && resumed->over && !resumed->posted && is_passed(resumed) &&
           is_written(resumed);
}

static void turn(struct cox_coordinator *c)
{
    struct coxi_resumed *resumed = c->saving.resumed;
    coxi_lock(&c->lock);
    bool waits = resumed->has_turn || is_passed(resumed);
    struct coxi_operation *operation = waits ? NULL : take_turn(resumed);
    if (operation != NULL) {
        resumed->has_turn = true;
        resumed->operation = operation;
        resumed->place = resumed->barrier;
        (void)pthread_cond_broadcast(&c->life.changed);
    }
    if (is_over(resumed)) {
        atomic_store(&c->closures->gate, NULL);
    }
    coxi_unlock(&c->lock);
}

/* ---- any thread */

/* Finds the function that `named` names, in any loaded module of the name given there;
 * or NULL. */
static struct cox_function *find_function(const struct cox_coordinator *c,
                                          const struct coxi_resumed_name *named)
    COXI_REQUIRES(c->lock)
{
    for (uint32_t i = 0; i < c->modules->n; i++) {
        const struct cox_module *module = c->modules->all[i];
        bool is_it = module->accepted && strcmp(module->name, named->module.name) == 0;
        for (uint32_t k = 0; is_it && k < module->info.n_steps; k++) {
            if (strcmp(module->functions[k].name, named->function.name) == 0) {
                return &module->functions[k];
            }
        }
    }
    return NULL;
}

/* Lets the calls run whose functions are loaded by now. Returns a function that is
 * still missing, or NULL. */
static const struct cox_function *look_for_functions(struct cox_coordinator *c)
    COXI_REQUIRES(c->lock)
{
    struct coxi_resumed *resumed = c->saving.resumed;
    const struct cox_function *missing = NULL;
    bool found = false;
    if (resumed->over) {
        return NULL;
    }
    for (size_t i = 0; i < resumed->n_names; i++) {
        struct coxi_resumed_name *named = &resumed->names[i];
        if (named->loaded == NULL) {
            named->loaded = find_function(c, named);
            found = found || named->loaded != NULL;
            missing = named->loaded == NULL ? &named->function : missing;
        }
    }
    resumed->over = missing == NULL;
    if (found && !resumed->posted) {
        resumed->posted = true;
        resumed->mail.run = functions_loaded;
        coxi_loop_post(c->loop, &resumed->mail);
    }
    return missing;
}

static const struct cox_function *go_on(struct cox_coordinator *c)
    COXI_REQUIRES(c->lock)
{
    const struct cox_function *missing = look_for_functions(c);
    if (!c->saving.resumed->begun) {
        c->saving.resumed->begun = true;
        c->ids.before_unsettled = false;
        /* the thread that writes may end */
        (void)pthread_cond_broadcast(&c->life.changed);
        if (missing != NULL) {
            coxi_event(c, COX_EVENT_MODULE_MISSING, COXI_OF(.error = COX_ENOENT),
                       "closures of the checkpoint that run again need '%s' of module "
                       "%s, which is not loaded",
                       missing->name, missing->module->name);
        }
    }
    return missing;
}

static const struct cox_function *find_missing(struct cox_coordinator *c)
    COXI_REQUIRES(c->lock)
{
    return c->saving.resumed->begun ? look_for_functions(c) : NULL;
}

static bool is_writing(const struct cox_coordinator *c)
{
    const struct coxi_resumed *resumed = c->saving.resumed;
    return resumed->n_writes > 0 || (resumed->begun && resumed->resets != NULL);
}

static int check_resets(const struct cox_coordinator *c,
                        const struct cox_function *missing)
{
    return missing == NULL || c->saving.resumed->resets == NULL
               ? 0
               : coxi_error(COX_ENOENT,
                            "metric '%s' was reset, but closures of the client before "
                            "this one must run again before that, and need '%s' of "
                            "module %s: load it first",
                            c->saving.resumed->resets->variable->name, missing->name,
                            missing->module->name);
}

static int check(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    const struct coxi_resumed *resumed = c->saving.resumed;
    const struct cox_function *missing = look_for_functions(c);
    if (resumed->begun) {
        int r = check_resets(c, missing);
        if (r != 0) {
            return r;
        }
    }
    for (size_t i = 0; is_writing(c) && i < resumed->n_names; i++) {
        const struct coxi_resumed_name *named = &resumed->names[i];
        if (named->needed && named->loaded == NULL) {
            return coxi_error(
                COX_ENOENT,
                "the client before this one was writing a variable, and a closure that "
                "must run again before that needs '%s' of module %s: load it first",
                named->function.name, named->module.name);
        }
    }
    return 0;
}

/* Waits for a slice. */
static void wait_for_writes(struct cox_coordinator *c) COXI_REQUIRES(c->lock)
{
    struct timespec slice = coxi_deadline(SLICE_MS);
    coxi_call_why_locked(c,
                         "%zu write%s of the client before this one, and the closures "
                         "before them, come first",
                         c->saving.resumed->n_writes,
                         coxi_s(c->saving.resumed->n_writes));
    (void)coxi_wait_until(&c->life.changed, &c->lock, &slice);
}

static int wait_until_written(struct cox_coordinator *c)
{
    bool waits = true;
    int r = 0;
    while (r == 0 && waits) {
        coxi_lock(&c->lock);
        waits = is_writing(c);
        r = waits && c->life.fatal == 0 && !c->life.closing ? check(c) : 0;
        if (r == 0 && waits) {
            wait_for_writes(c);
        }
        coxi_unlock(&c->lock);
        r = r == 0 && waits ? coxi_check_alive(c) : r;
    }
    return r;
}

/* True if a reset of the metric after the backlog is listed. */
static bool is_listed(const struct coxi_resumed *resumed,
                      const struct coxi_variable *v) COXI_REQUIRES_C_LOCK
{
    const struct coxi_resumed_reset *reset = resumed->resets;
    while (reset != NULL && reset->variable != v) {
        reset = reset->next;
    }
    return reset != NULL;
}

/* Call it when the reset is listed, or when that has failed. */
static void end_resetting(struct coxi_resumed *resumed) COXI_REQUIRES_C_LOCK
{
    resumed->n_resetting--;
    /* the thread that writes may end */
    (void)pthread_cond_broadcast(&resumed->c->life.changed);
}

/* Puts the reset at the end of the list, as soon as its operation has an id. */
static void list_reset(void *arg, struct coxi_operation *operation) COXI_REQUIRES_C_LOCK
{
    struct coxi_resumed_reset *reset = arg;
    struct coxi_resumed *resumed = operation->c->saving.resumed;
    struct coxi_resumed_reset **end = &resumed->resets;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    reset->operation = operation;
    reset->id = operation->id;
    *end = reset;
    atomic_store(&resumed->next_reset, resumed->resets->id.n);
    end_resetting(resumed);
}

static int hold_reset(struct cox_coordinator *c, const struct coxi_variable *metric)
{
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_UPDATE};
    struct coxi_resumed_reset *reset = calloc(1, sizeof(*reset));
    what.update = coxi_replay_update_new(metric, COXI_OP_ASSIGN, 0, metric->shape[0],
                                         coxi_metric_zeros);
    int r = reset == NULL || what.update == NULL
                ? coxi_error_memory("a metric that is reset")
                : 0;
    if (r == 0) {
        reset->variable = metric;
        r = coxi_operation_hold(c, &what, list_reset, reset);
    }
    if (r != 0) {
        free(reset);
        free(what.update);
    }
    return r;
}

/*
 * Another thread may schedule or join after this one has looked at before_unsettled and
 * before it has listed the reset. Until then n_resetting keeps the gate closed and the
 * writing thread alive.
 */
static int reset_behind(struct cox_coordinator *c, const struct coxi_variable *metric)
{
    struct coxi_resumed *resumed = c->saving.resumed;
    coxi_lock(&c->lock);
    bool held = c->ids.before_unsettled && !is_listed(resumed, metric);
    resumed->n_resetting += held;
    coxi_unlock(&c->lock);
    if (!held) {
        return 0;
    }
    int r = hold_reset(c, metric);
    if (r != 0) {
        coxi_lock(&c->lock);
        end_resetting(resumed);
        coxi_unlock(&c->lock);
    }
    coxi_loop_wake(c->loop); /* its turn may have come, or all is over */
    return r;
}

const struct coxi_gate coxi_resume_gate = {
    .go_on = go_on,
    .missing = find_missing,
    .check = check,
    .check_resets = check_resets,
    .is_writing = is_writing,
    .wait = wait_until_written,
    .reset = reset_behind,
    .holds = holds,
    .turn = turn,
};

/* ---- the end */

static void free_resets(struct coxi_resumed *resumed)
{
    coxi_unshared(&resumed->c->lock);
    while (resumed->resets != NULL) {
        free(resumed->resets->operation);
        drop_reset(resumed);
    }
}

void coxi_resume_free(struct cox_coordinator *c)
{
    struct coxi_resumed *resumed = c->saving.resumed;
    if (resumed == NULL) {
        return;
    }
    coxi_lock(&c->lock);
    atomic_store(&c->closures->gate, NULL);
    c->saving.resumed = NULL;
    coxi_unlock(&c->lock);
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    for (size_t i = 0; i < backlog->n; i++) {
        struct coxi_closure *closure = resumed->held[i].closure;
        /* the calls that took its results have ended by now */
        if (closure != NULL && backlog->heads[i].done) {
            coxi_closure_be_done(closure);
        }
        free(resumed->held[i].operation);
    }
    free(resumed->operation); /* of a write whose turn came too late */
    free_resets(resumed);
    coxi_inputs_go_on(c); /* ends closures that waited for the released ones */
    coxi_backlog_close(resumed->file);
    free(resumed->names);
    free(resumed->held);
    free(resumed);
}
