/*
 * Futures as arguments. A call that takes the result of another is WAITING until the
 * other is done; then the value is copied among its arguments, so that it travels with
 * every attempt of the call. If an input fails or is cancelled, so does the call that
 * waits for it.
 *
 * A result that is kept on a worker (kept.h) does not travel if the call can run on
 * that worker: that worker is the call's home, and the call is queued for it alone. If
 * the call cannot run there after all, it is WAITING again until the results are at the
 * client.
 *
 * Each input holds a reference to its future, and counts as a user of the future's
 * results: until the values were taken if the call has no kept inputs, otherwise until
 * the call is settled. After that it keeps the reference only as long as the call may
 * have to run again. While the input hangs on the future it also holds a reference to
 * the waiting closure, because the future may outlive that closure.
 *
 * Bounds: waiting closures count as queued ones (queue_max), inputs as arguments.
 *
 * Threads: user threads make the inputs; all else runs on the loop. Chains may have any
 * length: nothing here is recursive.
 */
#include "coordinator/closures/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs_internal.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/module.h"

/* ---- life */

static int check_input(const struct cox_coordinator *c, const struct cox_input *input)
{
    const char *name = input->name != NULL ? input->name : "";
    const char *result = input->result != NULL ? input->result : "";
    if (input->future == NULL || input->future->c != c) {
        return coxi_error(COX_EINVAL, "input '%.*s' needs a future of this coordinator",
                          COX_NAME_MAX, name);
    }
    if (strlen(name) > COX_NAME_MAX || strlen(result) > COX_NAME_MAX) {
        return coxi_error(COX_EINVAL, "an input's names have at most %d bytes",
                          COX_NAME_MAX);
    }
    return 0;
}

static void hold(struct coxi_input *item, struct coxi_closure *source)
{
    item->source = source;
    item->wants = true;
    coxi_future_ref(&source->future);
    coxi_kept_want(source);
}

/* The inputs no longer need their sources' results. */
static void unwant(struct coxi_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_input *item = &inputs->items[i];
        if (item->wants) {
            item->wants = false;
            coxi_kept_unwant(item->source);
        }
    }
}

int coxi_inputs_new(struct cox_coordinator *c, const struct cox_input *inputs, size_t n,
                    struct coxi_inputs **ret)
{
    for (size_t i = 0; i < n; i++) {
        int r = check_input(c, &inputs[i]);
        if (r != 0) {
            return r;
        }
    }
    struct coxi_inputs *made = calloc(1, sizeof(*made) + n * sizeof(*made->items));
    if (made == NULL) {
        return coxi_error_memory("a call's inputs");
    }
    made->n = n;
    for (size_t i = 0; i < n; i++) {
        struct coxi_input *item = &made->items[i];
        const char *name = inputs[i].name != NULL ? inputs[i].name : "";
        const char *result = inputs[i].result != NULL ? inputs[i].result : "";
        hold(item, coxi_closure_of(inputs[i].future));
        memcpy(item->name, name, strlen(name) + 1);
        memcpy(item->result, result, strlen(result) + 1);
    }
    *ret = made;
    return 0;
}

/* Releases the sources; returns those to which no reference is left. */
static struct coxi_closure *release_sources(struct coxi_inputs *inputs)
{
    struct coxi_closure *orphans = NULL;
    unwant(inputs);
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_closure *source = inputs->items[i].source;
        inputs->items[i].source = NULL;
        if (source != NULL && coxi_future_release(&source->future)) {
            source->next = orphans;
            orphans = source;
        }
    }
    return orphans;
}

struct coxi_closure *coxi_inputs_free(struct coxi_inputs *inputs)
{
    if (inputs == NULL) {
        return NULL;
    }
    struct coxi_closure *orphans = release_sources(inputs);
    coxi_buffer_fini(&inputs->packed);
    free(inputs);
    return orphans;
}

/* ---- the values */

int coxi_input_pack(const struct coxi_input *input, struct coxi_buffer *ret)
{
    struct cox_value value;
    struct cox_coordinator *c = input->source->future.c;
    coxi_lock(&c->lock);
    int r = coxi_future_find(&input->source->future, input->result, &value);
    coxi_unlock(&c->lock);
    if (r == 0) {
        value.name = input->name;
        r = coxi_values_add(ret, &value);
    }
    return r;
}

/* True if the value is kept where the closure will run. */
static bool is_at_home(const struct coxi_closure *closure,
                       const struct coxi_input *input)
{
    const struct coxi_seat *seat =
        input->source != NULL ? coxi_kept_seat(input->source) : NULL;
    return seat != NULL && seat == closure->home;
}

static int pack(struct coxi_closure *closure)
{
    struct coxi_inputs *inputs = closure->inputs;
    inputs->packed.len = 0;
    int r = coxi_buffer_append(&inputs->packed, closure->args, closure->args_len);
    for (size_t i = 0; r == 0 && i < inputs->n; i++) {
        if (is_at_home(closure, &inputs->items[i])) {
            continue;
        }
        r = coxi_input_pack(&inputs->items[i], &inputs->packed);
        if (r == 0 && inputs->packed.len > COXI_CALL_ARGS_MAX) {
            r = coxi_error(COX_ELIMIT,
                           "the arguments have more than %d bytes with input '%s'",
                           COXI_CALL_ARGS_MAX, inputs->items[i].name);
        }
    }
    return r;
}

const void *coxi_inputs_args(const struct coxi_closure *closure, size_t *ret_len)
{
    if (closure->inputs == NULL) {
        *ret_len = closure->args_len;
        return closure->args;
    }
    *ret_len = closure->inputs->packed.len;
    return closure->inputs->packed.data;
}

bool coxi_inputs_take_kept(const struct coxi_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        const struct coxi_closure *source = inputs->items[i].source;
        if (source != NULL && source->kept != NULL) {
            return true;
        }
    }
    return false;
}

int coxi_inputs_collect(const struct coxi_closure *closure, uint32_t at,
                        struct coxi_buffer *inputs)
{
    size_t len_before = inputs->len;
    int r = 0;
    for (size_t i = 0; closure->home != NULL && r == 0 && i < closure->inputs->n; i++) {
        const struct coxi_input *item = &closure->inputs->items[i];
        if (is_at_home(closure, item)) {
            const struct coxi_kept_input input = {
                .at = at,
                .position =
                    (uint32_t)(coxi_values_count(closure->args, closure->args_len) + i),
                .closure = item->source->future.id.n,
                .name = item->name,
                .result = item->result,
            };
            r = coxi_buffer_append_raw(inputs, &input, sizeof(input));
        }
    }
    if (r != 0) {
        inputs->len = len_before;
    }
    return r;
}

/* ---- where a closure runs */

/* How many bytes of the inputs' values the worker keeps. */
static uint64_t bytes_at(const struct coxi_inputs *inputs, const struct coxi_seat *seat)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < inputs->n; i++) {
        const struct coxi_closure *source = inputs->items[i].source;
        bytes += coxi_kept_seat(source) == seat ? source->kept->bytes : 0;
    }
    return bytes;
}

/*
 * The worker that keeps most of the closure's inputs, if the closure may run there; or
 * NULL. A closure that runs again may have to run while others must not, so it does not
 * wait for one worker.
 */
static struct coxi_seat *choose_home(const struct coxi_closure *closure)
{
    struct coxi_seat *home = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < closure->inputs->n; i++) {
        struct coxi_seat *seat = coxi_kept_seat(closure->inputs->items[i].source);
        bool may = seat != NULL && coxi_worker_takes_work(seat->worker) &&
                   (closure->asked.only == NULL || closure->asked.only == seat);
        uint64_t bytes = may ? bytes_at(closure->inputs, seat) : 0;
        if (bytes > most) {
            most = bytes;
            home = seat;
        }
    }
    return closure->roams || closure->fetches || closure->rerun != NULL ? NULL : home;
}

/* ---- waiting. The closure is WAITING, in no list */

/* All inputs are here or at the closure's home: queues it. */
static void be_ready(struct coxi_closure *closure)
{
    if (closure->fetches) {
        coxi_closure_end(closure, &(struct coxi_ending){.state = COXI_DONE_OK});
        return;
    }
    int r = pack(closure);
    if (r != 0) {
        coxi_closure_fail(closure, r, coxi_error_text());
        return;
    }
    if (!coxi_inputs_take_kept(closure->inputs)) {
        coxi_futures_free(release_sources(closure->inputs));
    }
    coxi_closure_set(closure, COXI_QUEUED);
    coxi_closure_enqueue(closure, closure->attempts.last > 0 && closure->rerun == NULL);
}

/* Waits for news of an input's future. */
static void hang_on(struct coxi_closure *closure, struct coxi_input *input)
{
    closure->inputs->n_pending++;
    coxi_future_ref(&closure->future);
    input->next = input->source->dependents;
    input->source->dependents = input;
}

/* All futures that the call takes are done: chooses where it runs, and waits for the
 * values that must travel. */
static void place(struct coxi_closure *closure)
{
    struct coxi_inputs *inputs = closure->inputs;
    closure->home = choose_home(closure);
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_input *input = &inputs->items[i];
        if (!coxi_kept_is_here(input->source) && !is_at_home(closure, input)) {
            hang_on(closure, input);
            coxi_kept_bring(input->source);
        }
    }
    if (closure->rerun != NULL && closure->rerun->urgent) {
        coxi_inputs_hurry(closure);
    }
    if (inputs->n_pending == 0) {
        be_ready(closure);
    } else {
        coxi_list_append(&closure->future.c->closures->waiting, closure);
    }
}

void coxi_inputs_hurry(struct coxi_closure *closure)
{
    for (size_t i = 0; closure->inputs != NULL && i < closure->inputs->n; i++) {
        struct coxi_closure *source = closure->inputs->items[i].source;
        if (source != NULL && source->kept != NULL && source->kept->remake != NULL) {
            coxi_closure_set_urgent(source->kept->remake, true);
        }
    }
}

bool coxi_inputs_are_urgent(const struct coxi_closure *closure)
{
    for (const struct coxi_input *input = closure->dependents; input != NULL;
         input = input->next) {
        const struct coxi_rerun *rerun = input->owner->rerun;
        if (rerun != NULL && rerun->urgent && !rerun->abandoned) {
            return true;
        }
    }
    return false;
}

/* An input will not come: ends the closure. */
static void give_up(struct coxi_closure *closure, const struct coxi_input *input)
{
    const struct coxi_closure *source = input->source;
    bool done = source->state == COXI_DONE_OK; /* it is done, but its result is lost */
    int code = done ? source->kept->code : source->future.code;
    const char *why = done ? source->kept->text : source->future.text;
    char text[COXI_TEXT_MAX];
    why = why != NULL ? why : coxi_strerror(code);
    if (closure->fetches) {
        (void)snprintf(text, sizeof(text), "%s", why);
    } else if (done) {
        (void)snprintf(text, sizeof(text), "its input '%s': %.360s", input->name, why);
    } else {
        (void)snprintf(text, sizeof(text), "its input '%s', closure %llu (%s): %.300s",
                       input->name, (unsigned long long)source->future.id.n,
                       source->function->name, why);
    }
    if (code == COX_ECANCELLED) {
        coxi_closure_cancel(closure, text);
    } else {
        coxi_closure_fail(closure, code, text);
    }
}

void coxi_inputs_wait(struct coxi_closure *closure)
{
    struct coxi_inputs *inputs = closure->inputs;
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_input *input = &inputs->items[i];
        input->owner = closure;
        if (coxi_closure_is_over(input->source) &&
            input->source->state != COXI_DONE_OK) {
            give_up(closure, input);
            return;
        }
    }
    for (size_t i = 0; i < inputs->n; i++) {
        if (!coxi_closure_is_over(inputs->items[i].source)) {
            hang_on(closure, &inputs->items[i]);
        }
    }
    if (inputs->n_pending == 0) {
        place(closure);
    } else {
        coxi_list_append(&closure->future.c->closures->waiting, closure);
    }
}

void coxi_inputs_put_back(struct coxi_closure *closure)
{
    if (closure->home != NULL) {
        coxi_closure_set(closure, COXI_WAITING);
        place(closure);
    } else {
        coxi_closure_set(closure, COXI_QUEUED);
        coxi_closure_enqueue(closure, true);
    }
}

void coxi_inputs_go_again(struct coxi_closure *closure)
{
    if (closure->inputs == NULL || !coxi_inputs_take_kept(closure->inputs)) {
        coxi_closure_set(closure, COXI_QUEUED);
        coxi_closure_enqueue(closure, true);
        return;
    }
    /* Values that its home kept may be gone now, or still be on their way here. */
    if (closure->state != COXI_WAITING) {
        coxi_closure_set(closure, COXI_WAITING);
    }
    if (closure->inputs->n_pending == 0) {
        place(closure);
    } else {
        coxi_list_append(&closure->future.c->closures->waiting, closure);
    }
}

void coxi_inputs_tell(struct coxi_closure *closure)
{
    struct cox_coordinator *c = closure->future.c;
    while (closure->dependents != NULL) {
        struct coxi_input *input = closure->dependents;
        closure->dependents = input->next;
        input->next = c->closures->inputs_settled;
        c->closures->inputs_settled = input;
    }
}

void coxi_inputs_drop(struct coxi_closure *closure)
{
    if (closure->state == COXI_DONE_OK && closure->inputs != NULL &&
        !atomic_load(&closure->logged)) {
        struct coxi_inputs *inputs = closure->inputs;
        closure->inputs = NULL;
        coxi_futures_free(coxi_inputs_free(inputs));
    }
}

/* True if it may have to run again: for a ps that comes back, or for its results. */
static bool may_run_again(const struct coxi_closure *closure)
{
    return (closure->state == COXI_DONE_OK || closure->effect.applied) &&
           closure->rerun == NULL &&
           (atomic_load(&closure->logged) || !coxi_kept_is_here(closure));
}

void coxi_inputs_settled(struct coxi_closure *closure)
{
    coxi_inputs_tell(closure);
    if (closure->inputs == NULL) {
        return;
    }
    unwant(closure->inputs);
    if (closure->inputs->n_pending == 0 && !may_run_again(closure)) {
        coxi_futures_free(coxi_inputs_free(closure->inputs));
        closure->inputs = NULL;
    }
}

/* Handles news of an input: its future is settled, or its value is here, or will not
 * come. */
static void hear(struct coxi_closure *closure, const struct coxi_input *input)
{
    const struct coxi_closure *source = input->source;
    bool lacks = source->state != COXI_DONE_OK ||
                 (!coxi_kept_is_here(source) && source->kept->code != 0);
    if (closure->state != COXI_WAITING) {
        return; /* it has ended already */
    }
    if (lacks) {
        coxi_list_remove(&closure->future.c->closures->waiting, closure);
        give_up(closure, input);
    } else if (closure->inputs->n_pending == 0) {
        coxi_list_remove(&closure->future.c->closures->waiting, closure);
        place(closure);
    }
}

void coxi_inputs_go_on(struct cox_coordinator *c)
{
    while (c->closures->inputs_settled != NULL || c->closures->begun != NULL) {
        struct coxi_input *input = c->closures->inputs_settled;
        if (input == NULL) {
            struct coxi_closure *begun = c->closures->begun;
            c->closures->begun = begun->next;
            coxi_inputs_wait(begun);
            continue;
        }
        struct coxi_closure *closure = input->owner;
        c->closures->inputs_settled = input->next;
        closure->inputs->n_pending--;
        hear(closure, input);
        coxi_future_unref(&closure->future);
    }
}

/* ---- running again */

/* Copies the inputs of a closure that is done. */
static int inputs_copy(const struct coxi_inputs *of, struct coxi_inputs **ret)
{
    struct coxi_inputs *made = calloc(1, sizeof(*made) + of->n * sizeof(*made->items));
    if (made == NULL) {
        return coxi_error_memory("a call's inputs");
    }
    made->n = of->n;
    for (size_t i = 0; i < of->n; i++) {
        memcpy(made->items[i].name, of->items[i].name, sizeof(of->items[i].name));
        memcpy(made->items[i].result, of->items[i].result, sizeof(of->items[i].result));
        hold(&made->items[i], of->items[i].source);
    }
    *ret = made;
    return 0;
}

int coxi_closure_again(struct coxi_closure *of, struct coxi_closure **ret)
{
    bool waits = of->inputs != NULL && coxi_inputs_take_kept(of->inputs);
    struct coxi_closure_spec spec = {.function = of->function,
                                     .args = of->args,
                                     .args_len = of->args_len,
                                     .asked.timeout_ms = of->asked.timeout_ms};
    struct coxi_closure *closure = NULL;
    struct coxi_rerun *rerun = calloc(1, sizeof(*rerun));
    int r = rerun != NULL ? 0 : coxi_error_memory("a closure that runs again");
    if (r == 0 && waits) {
        r = inputs_copy(of->inputs, &spec.inputs);
    } else if (r == 0) {
        spec.args = coxi_inputs_args(of, &spec.args_len);
    }
    if (r == 0) {
        r = coxi_closure_new(of->future.c, &spec, &closure);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(spec.inputs));
        free(rerun);
        return r;
    }
    rerun->of = of;
    coxi_future_ref(&of->future);
    closure->rerun = rerun;
    if (of->round != NULL) {
        coxi_round_join(of->round, closure);
    }
    closure->future.id = of->future.id;
    closure->attempts.last = of->attempts.last;
    closure->older.inherited = of->older.inherited;
    *ret = closure;
    return 0;
}

void coxi_closure_begin(struct coxi_closure *closure)
{
    if (closure->inputs == NULL) {
        coxi_closure_enqueue(closure, false);
        return;
    }
    closure->next = closure->future.c->closures->begun;
    closure->future.c->closures->begun = closure;
}

uint32_t coxi_inputs_lineage(const struct coxi_closure *closure)
{
    uint32_t longest = 0;
    for (size_t i = 0; closure->inputs != NULL && i < closure->inputs->n; i++) {
        const struct coxi_closure *source = closure->inputs->items[i].source;
        if (source != NULL && !coxi_kept_is_here(source) &&
            source->kept->lineage > longest) {
            longest = source->kept->lineage;
        }
    }
    return longest;
}
