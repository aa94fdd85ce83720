/*
 * Futures as arguments. A call that takes the result of another is WAITING until that is
 * done; then the value is copied among its arguments, so that it travels with the call
 * however often that is tried. Where an input fails or is cancelled, so does what waits
 * for it.
 *
 * A result that is kept on a worker (kept.h) does not travel if the call can run there: that
 * is its home, and it waits in line for that worker alone. Else, or when it does not run
 * there after all, it is WAITING again until its results are at the client.
 *
 * Each input holds a reference to its future, and wants what that keeps: for a call without
 * kept results until their values have been taken, else until the call is settled; and a
 * reference only for as long as the call may have to run again. While it hangs on that
 * future it holds one to the closure that waits, too: the future may outlive it.
 *
 * Bounds: waiting closures count as queued ones (queue_max), inputs as arguments.
 *
 * Threads: made by users' threads; all else on the loop. Chains of any length: nothing
 * here is recursive.
 */
#include "coordinator/closures/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/backlog.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/future.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/queue.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"
#include "coordinator/workers/module.h"

struct coxi_input {
    struct coxi_input *next; /* of those that wait for the same future */
    struct cox_future *owner;
    struct cox_future *source; /* a reference; NULL: taken */
    bool wants;                /* what that keeps */
    char name[COX_NAME_MAX + 1];
    char result[COX_NAME_MAX + 1];
};

struct coxi_inputs {
    struct coxi_buffer packed; /* all arguments that travel, once the last is there */
    size_t n_pending;
    size_t n;
    struct coxi_input items[];
};

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

static void hold(struct coxi_input *item, struct cox_future *source)
{
    item->source = source;
    item->wants = true;
    atomic_fetch_add_explicit(&source->refs, 1, memory_order_relaxed);
    coxi_kept_want(source);
}

/* Needs what they keep no more. */
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
        hold(item, inputs[i].future);
        memcpy(item->name, name, strlen(name) + 1);
        memcpy(item->result, result, strlen(result) + 1);
    }
    *ret = made;
    return 0;
}

/* Lets go of the sources; returns those that nobody holds any more. */
static struct cox_future *release_sources(struct coxi_inputs *inputs)
{
    struct cox_future *orphans = NULL;
    unwant(inputs);
    for (size_t i = 0; i < inputs->n; i++) {
        struct cox_future *source = inputs->items[i].source;
        inputs->items[i].source = NULL;
        if (source != NULL && coxi_future_release(source)) {
            source->next = orphans;
            orphans = source;
        }
    }
    return orphans;
}

struct cox_future *coxi_inputs_free(struct coxi_inputs *inputs)
{
    if (inputs == NULL) {
        return NULL;
    }
    struct cox_future *orphans = release_sources(inputs);
    coxi_buffer_fini(&inputs->packed);
    free(inputs);
    return orphans;
}

/* ---- the values */

/* Appends the result that an input names, under the input's name. */
static int pack_input(const struct coxi_input *input, struct coxi_buffer *ret)
{
    struct cox_value value;
    struct cox_coordinator *c = input->source->c;
    coxi_lock(&c->lock);
    int r = coxi_future_find(input->source, input->result, &value);
    coxi_unlock(&c->lock);
    if (r == 0) {
        value.name = input->name;
        r = coxi_values_add(ret, &value);
    }
    return r;
}

/* The value is kept where the closure is to run. */
static bool is_at_home(const struct cox_future *f, const struct coxi_input *input)
{
    const struct coxi_seat *seat =
        input->source != NULL ? coxi_kept_seat(input->source) : NULL;
    return seat != NULL && f->home == 1 + seat->worker->index;
}

static int pack(struct cox_future *f)
{
    struct coxi_inputs *inputs = f->inputs;
    inputs->packed.len = 0;
    int r = coxi_buffer_append(&inputs->packed, f->args, f->args_len);
    for (size_t i = 0; r == 0 && i < inputs->n; i++) {
        if (is_at_home(f, &inputs->items[i])) {
            continue;
        }
        r = pack_input(&inputs->items[i], &inputs->packed);
        if (r == 0 && inputs->packed.len > COXI_CALL_ARGS_MAX) {
            r = coxi_error(COX_ELIMIT,
                           "the arguments have more than %d bytes with input '%s'",
                           COXI_CALL_ARGS_MAX, inputs->items[i].name);
        }
    }
    return r;
}

const void *coxi_inputs_args(const struct cox_future *f, size_t *ret_len)
{
    if (f->inputs == NULL) {
        *ret_len = f->args_len;
        return f->args;
    }
    *ret_len = f->inputs->packed.len;
    return f->inputs->packed.data;
}

static bool is_over(const struct cox_future *f)
{
    return f->state == COXI_DONE_OK || f->state == COXI_FAILED ||
           f->state == COXI_CANCELLED;
}

static bool takes_kept(const struct coxi_inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++) {
        const struct cox_future *source = inputs->items[i].source;
        if (source != NULL && source->kept != NULL) {
            return true;
        }
    }
    return false;
}

/* The arguments that its packed ones do not have are still to be had from its inputs. */
static bool lacks_some(const struct cox_future *f)
{
    return f->inputs != NULL && (f->state == COXI_WAITING || takes_kept(f->inputs));
}

/* What the closure that it hangs on will bring. */
static int export_pending(const struct coxi_input *input, struct coxi_buffer *ret)
{
    struct coxi_backlog_input pending = {.closure = input->source->id};
    memcpy(pending.name, input->name, sizeof(pending.name));
    memcpy(pending.result, input->result, sizeof(pending.result));
    return coxi_buffer_append(ret, &pending, sizeof(pending));
}

static bool is_at_hand(const struct coxi_input *input)
{
    return is_over(input->source) && coxi_kept_is_here(input->source);
}

/* The arguments that are known, packed as those of one call. */
static int export_known(const struct cox_future *f, struct coxi_buffer *ret)
{
    int r = coxi_buffer_append(ret, f->args, f->args_len);
    for (size_t i = 0; r == 0 && i < f->inputs->n; i++) {
        if (is_at_hand(&f->inputs->items[i])) {
            r = pack_input(&f->inputs->items[i], ret);
        }
    }
    return r;
}

/* A packed form begins with how many it has, so it is made by itself, not behind others. */
static int export_lacking(const struct cox_future *f, struct coxi_buffer *args,
                          struct coxi_buffer *inputs, size_t *ret_n)
{
    struct coxi_buffer known = {0};
    int r = export_known(f, &known);
    r = r != 0 ? r : coxi_buffer_append(args, known.data, known.len);
    coxi_buffer_fini(&known);
    for (size_t i = 0; r == 0 && i < f->inputs->n; i++) {
        if (!is_at_hand(&f->inputs->items[i])) {
            r = export_pending(&f->inputs->items[i], inputs);
            ++*ret_n;
        }
    }
    return r;
}

int coxi_inputs_export(struct cox_future *f, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n)
{
    size_t len = 0;
    *ret_n = 0;
    if (lacks_some(f)) {
        return export_lacking(f, args, inputs, ret_n);
    }
    const void *packed = coxi_inputs_args(f, &len);
    return coxi_buffer_append(args, packed, len);
}

struct cox_future *coxi_inputs_pending(const struct cox_future *f, size_t i)
{
    return lacks_some(f) && i < f->inputs->n && !is_at_hand(&f->inputs->items[i])
               ? f->inputs->items[i].source
               : NULL;
}

size_t coxi_inputs_count(const struct cox_future *f)
{
    return f->inputs != NULL ? f->inputs->n : 0;
}

int coxi_inputs_collect(const struct cox_future *f, uint32_t at,
                        struct coxi_buffer *inputs)
{
    size_t len_before = inputs->len;
    int r = 0;
    for (size_t i = 0; f->home != 0 && r == 0 && i < f->inputs->n; i++) {
        const struct coxi_input *item = &f->inputs->items[i];
        if (is_at_home(f, item)) {
            const struct coxi_kept_input input = {
                .at = at,
                .position = (uint32_t)(coxi_values_count(f->args, f->args_len) + i),
                .closure = item->source->id,
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

/* ---- where a closure is to run */

/* The bytes that a worker keeps of what they take. */
static uint64_t bytes_at(const struct coxi_inputs *inputs, const struct coxi_seat *seat)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < inputs->n; i++) {
        const struct cox_future *source = inputs->items[i].source;
        bytes += coxi_kept_seat(source) == seat ? source->kept->bytes : 0;
    }
    return bytes;
}

/* The worker that keeps most of what it takes, if it may run there; or NULL. What runs
 * again may have to while nothing else may: it does not wait for one worker. */
static struct coxi_seat *choose_home(const struct cox_future *f)
{
    struct coxi_seat *home = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < f->inputs->n; i++) {
        struct coxi_seat *seat = coxi_kept_seat(f->inputs->items[i].source);
        bool may = seat != NULL && coxi_worker_takes_work(seat->worker) &&
                   (f->only_worker == 0 || f->only_worker == 1 + seat->worker->index);
        uint64_t bytes = may ? bytes_at(f->inputs, seat) : 0;
        if (bytes > most) {
            most = bytes;
            home = seat;
        }
    }
    return f->roams || f->fetches || f->replay != NULL ? NULL : home;
}

/* ---- waiting. `f` is WAITING, in no list */

/* All that does not stay at its home is here: it is in line from now on. */
static void be_ready(struct cox_future *f)
{
    if (f->fetches) {
        coxi_closure_end(f, &(struct coxi_ending){.state = COXI_DONE_OK});
        return;
    }
    int r = pack(f);
    if (r != 0) {
        coxi_closure_fail(f, r, coxi_error_text());
        return;
    }
    if (!takes_kept(f->inputs)) {
        coxi_futures_free(release_sources(f->inputs));
    }
    coxi_closure_set(f, COXI_QUEUED);
    coxi_closure_enqueue(f, f->attempt > 0 && f->replay == NULL);
}

/* Waits for news of an input's future. */
static void hang_on(struct cox_future *f, struct coxi_input *input)
{
    f->inputs->n_pending++;
    atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    input->next = input->source->dependents;
    input->source->dependents = input;
}

/* All futures that it takes are done: finds out where it is to run, and waits for what has
 * to come for that. */
static void place(struct cox_future *f)
{
    struct coxi_inputs *inputs = f->inputs;
    const struct coxi_seat *home = choose_home(f);
    f->home = home != NULL ? 1 + home->worker->index : 0;
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_input *input = &inputs->items[i];
        if (!coxi_kept_is_here(input->source) && !is_at_home(f, input)) {
            hang_on(f, input);
            coxi_kept_bring(input->source);
        }
    }
    if (f->urgent) {
        coxi_inputs_hurry(f);
    }
    if (inputs->n_pending == 0) {
        be_ready(f);
    } else {
        coxi_list_append(&f->c->closures->waiting, f);
    }
}

void coxi_inputs_hurry(struct cox_future *f)
{
    for (size_t i = 0; f->inputs != NULL && i < f->inputs->n; i++) {
        struct cox_future *source = f->inputs->items[i].source;
        if (source != NULL && source->kept != NULL && source->kept->remake != NULL) {
            coxi_closure_set_urgent(source->kept->remake, true);
        }
    }
}

bool coxi_inputs_are_urgent(const struct cox_future *f)
{
    const struct coxi_input *input = f->dependents;
    while (input != NULL && (!input->owner->urgent || input->owner->abandoned)) {
        input = input->next;
    }
    return input != NULL;
}

/* An input is not going to come. */
static void give_up(struct cox_future *f, const struct coxi_input *input)
{
    const struct cox_future *source = input->source;
    bool done = source->state == COXI_DONE_OK; /* but its result is lost */
    int code = done ? source->kept->code : source->code;
    const char *why = done ? source->kept->text : source->text;
    char text[COXI_TEXT_MAX];
    why = why != NULL ? why : coxi_strerror(code);
    if (f->fetches) {
        (void)snprintf(text, sizeof(text), "%s", why);
    } else if (done) {
        (void)snprintf(text, sizeof(text), "its input '%s': %.360s", input->name, why);
    } else {
        (void)snprintf(text, sizeof(text), "its input '%s', closure %llu (%s): %.300s",
                       input->name, (unsigned long long)source->id,
                       source->function->name, why);
    }
    if (code == COX_ECANCELLED) {
        coxi_closure_cancel(f, text);
    } else {
        coxi_closure_fail(f, code, text);
    }
}

void coxi_inputs_wait(struct cox_future *f)
{
    struct coxi_inputs *inputs = f->inputs;
    for (size_t i = 0; i < inputs->n; i++) {
        struct coxi_input *input = &inputs->items[i];
        input->owner = f;
        if (is_over(input->source) && input->source->state != COXI_DONE_OK) {
            give_up(f, input);
            return;
        }
    }
    for (size_t i = 0; i < inputs->n; i++) {
        if (!is_over(inputs->items[i].source)) {
            hang_on(f, &inputs->items[i]);
        }
    }
    if (inputs->n_pending == 0) {
        place(f);
    } else {
        coxi_list_append(&f->c->closures->waiting, f);
    }
}

void coxi_inputs_put_back(struct cox_future *f)
{
    if (f->home != 0) {
        coxi_closure_set(f, COXI_WAITING);
        place(f);
    } else {
        coxi_closure_set(f, COXI_QUEUED);
        coxi_closure_enqueue(f, true);
    }
}

void coxi_inputs_go_again(struct cox_future *f)
{
    if (f->inputs == NULL || !takes_kept(f->inputs)) {
        coxi_closure_set(f, COXI_QUEUED);
        coxi_closure_enqueue(f, true);
        return;
    }
    /* What its home kept may be gone since, or still be on its way here. */
    coxi_closure_set(f, COXI_WAITING);
    if (f->inputs->n_pending == 0) {
        place(f);
    } else {
        coxi_list_append(&f->c->closures->waiting, f);
    }
}

void coxi_inputs_tell(struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    while (f->dependents != NULL) {
        struct coxi_input *input = f->dependents;
        f->dependents = input->next;
        input->next = c->closures->inputs_settled;
        c->closures->inputs_settled = input;
    }
}

void coxi_inputs_drop(struct cox_future *f)
{
    if (f->state == COXI_DONE_OK && f->inputs != NULL && !atomic_load(&f->logged)) {
        struct coxi_inputs *inputs = f->inputs;
        f->inputs = NULL;
        coxi_futures_free(coxi_inputs_free(inputs));
    }
}

/* It may have to run again: for a ps that comes back, or for what it has returned. */
static bool may_run_again(const struct cox_future *f)
{
    return (f->state == COXI_DONE_OK || f->applied) && f->replay == NULL &&
           (atomic_load(&f->logged) || !coxi_kept_is_here(f));
}

void coxi_inputs_settled(struct cox_future *f)
{
    coxi_inputs_tell(f);
    if (f->inputs == NULL) {
        return;
    }
    unwant(f->inputs);
    if (f->inputs->n_pending == 0 && !may_run_again(f)) {
        coxi_futures_free(coxi_inputs_free(f->inputs));
        f->inputs = NULL;
    }
}

/* News of an input: its future is settled, or its value is here, or will not be. */
static void hear(struct cox_future *f, const struct coxi_input *input)
{
    const struct cox_future *source = input->source;
    bool lacks = source->state != COXI_DONE_OK ||
                 (!coxi_kept_is_here(source) && source->kept->code != 0);
    if (f->state != COXI_WAITING) {
        return; /* it has been given up before */
    }
    if (lacks) {
        coxi_list_remove(&f->c->closures->waiting, f);
        give_up(f, input);
    } else if (f->inputs->n_pending == 0) {
        coxi_list_remove(&f->c->closures->waiting, f);
        place(f);
    }
}

void coxi_inputs_go_on(struct cox_coordinator *c)
{
    while (c->closures->inputs_settled != NULL || c->closures->begun != NULL) {
        struct coxi_input *input = c->closures->inputs_settled;
        if (input == NULL) {
            struct cox_future *begun = c->closures->begun;
            c->closures->begun = begun->next;
            coxi_inputs_wait(begun);
            continue;
        }
        struct cox_future *f = input->owner;
        c->closures->inputs_settled = input->next;
        f->inputs->n_pending--;
        hear(f, input);
        coxi_future_unref(f);
    }
}

/* ---- running again */

/* Inputs like those of one that is done. */
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

int coxi_closure_again(struct cox_future *of, struct cox_future **ret)
{
    bool waits = of->inputs != NULL && takes_kept(of->inputs);
    struct coxi_inputs *inputs = NULL;
    size_t args_len = of->args_len;
    const void *args = waits ? of->args : coxi_inputs_args(of, &args_len);
    int r = waits ? inputs_copy(of->inputs, &inputs) : 0;
    struct cox_future *f = NULL;
    if (r == 0) {
        r = coxi_closure_new(of->c, of->function, args, args_len, &f);
    }
    if (r != 0) {
        coxi_futures_free(coxi_inputs_free(inputs));
        return r;
    }
    f->id = of->id;
    f->attempt = of->attempt;
    f->timeout_ms = of->timeout_ms;
    f->state = waits ? COXI_WAITING : COXI_QUEUED;
    f->inputs = inputs;
    f->inherited = of->inherited;
    f->replay = of;
    atomic_fetch_add_explicit(&of->refs, 1, memory_order_relaxed);
    *ret = f;
    return 0;
}

void coxi_closure_begin(struct cox_future *f)
{
    if (f->inputs == NULL) {
        coxi_closure_enqueue(f, false);
        return;
    }
    f->next = f->c->closures->begun;
    f->c->closures->begun = f;
}

uint32_t coxi_inputs_lineage(const struct cox_future *f)
{
    uint32_t longest = 0;
    for (size_t i = 0; f->inputs != NULL && i < f->inputs->n; i++) {
        const struct cox_future *source = f->inputs->items[i].source;
        if (source != NULL && !coxi_kept_is_here(source) &&
            source->kept->lineage > longest) {
            longest = source->kept->lineage;
        }
    }
    return longest;
}
