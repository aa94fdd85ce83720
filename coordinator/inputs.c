/*
 * Futures as arguments. A call that takes the result of another is WAITING until that is
 * done; then the value is copied among its arguments, so that it travels with the call
 * however often that is tried. Where an input fails or is cancelled, so does what waits
 * for it.
 *
 * Each input holds a reference to its future until its value has been taken, so that the
 * result is kept. While it hangs on that future it holds one to the closure that waits,
 * too: the future may outlive it.
 *
 * Bounds: waiting closures count as queued ones (queue_max), inputs as arguments.
 *
 * Threads: made by users' threads; all else on the loop. Chains of any length: nothing
 * here is recursive.
 */
#include "coordinator/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/backlog.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/queue.h"
#include "coordinator/settle.h"

struct coxi_input {
    struct coxi_input *next; /* of those that wait for the same future */
    struct cox_future *owner;
    struct cox_future *source; /* a reference; NULL: taken */
    char name[COX_NAME_MAX + 1];
    char result[COX_NAME_MAX + 1];
};

struct coxi_inputs {
    struct coxi_buffer packed; /* all arguments, once the last input is there */
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
        item->source = inputs[i].future;
        atomic_fetch_add_explicit(&item->source->refs, 1, memory_order_relaxed);
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
    struct cox_coordinator *c = input->owner->c;
    coxi_lock(&c->lock);
    int r = coxi_future_find(input->source, input->result, &value);
    coxi_unlock(&c->lock);
    if (r == 0) {
        value.name = input->name;
        r = coxi_values_add(ret, &value);
    }
    return r;
}

static int pack(struct cox_future *f)
{
    struct coxi_inputs *inputs = f->inputs;
    int r = coxi_buffer_append(&inputs->packed, f->args, f->args_len);
    for (size_t i = 0; r == 0 && i < inputs->n; i++) {
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

/* What the closure that it hangs on will bring. */
static int export_pending(const struct coxi_input *input, struct coxi_buffer *ret)
{
    struct coxi_backlog_input pending = {.closure = input->source->id};
    memcpy(pending.name, input->name, sizeof(pending.name));
    memcpy(pending.result, input->result, sizeof(pending.result));
    return coxi_buffer_append(ret, &pending, sizeof(pending));
}

int coxi_inputs_export(struct cox_future *f, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n)
{
    size_t len = 0;
    bool waits = f->inputs != NULL && f->state == COXI_WAITING;
    const void *packed = waits ? f->args : coxi_inputs_args(f, &len);
    int r = coxi_buffer_append(args, packed, waits ? f->args_len : len);
    size_t n = 0;
    for (size_t i = 0; r == 0 && waits && i < f->inputs->n; i++) {
        const struct coxi_input *input = &f->inputs->items[i];
        if (is_over(input->source)) {
            r = pack_input(input, args);
        } else {
            r = export_pending(input, inputs);
            n++;
        }
    }
    *ret_n = n;
    return r;
}

/* ---- waiting. `f` is WAITING, in no list */

/* Its last input is there: it is in line from now on. */
static void be_ready(struct cox_future *f)
{
    int r = pack(f);
    if (r != 0) {
        coxi_closure_fail(f, r, coxi_error_text());
        return;
    }
    coxi_futures_free(release_sources(f->inputs));
    coxi_closure_set(f, COXI_QUEUED);
    coxi_closure_enqueue(f, false);
}

/* An input is not going to come. */
static void give_up(struct cox_future *f, const struct coxi_input *input)
{
    const struct cox_future *source = input->source;
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text), "its input '%s', closure %llu (%s): %.300s",
                   input->name, (unsigned long long)source->id, source->function->name,
                   source->text != NULL ? source->text : coxi_strerror(source->code));
    if (source->state == COXI_CANCELLED) {
        coxi_closure_cancel(f, text);
    } else {
        coxi_closure_fail(f, source->code, text);
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
        struct coxi_input *input = &inputs->items[i];
        if (!is_over(input->source)) {
            inputs->n_pending++;
            atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
            input->next = input->source->dependents;
            input->source->dependents = input;
        }
    }
    if (inputs->n_pending == 0) {
        be_ready(f);
    } else {
        coxi_list_append(&f->c->waiting, f);
    }
}

void coxi_inputs_settled(struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    while (f->dependents != NULL) {
        struct coxi_input *input = f->dependents;
        f->dependents = input->next;
        input->next = c->inputs_settled;
        c->inputs_settled = input;
    }
    if (f->inputs != NULL && f->inputs->n_pending == 0) {
        coxi_futures_free(coxi_inputs_free(f->inputs));
        f->inputs = NULL;
    }
}

void coxi_inputs_go_on(struct cox_coordinator *c)
{
    while (c->inputs_settled != NULL) {
        struct coxi_input *input = c->inputs_settled;
        struct cox_future *f = input->owner;
        c->inputs_settled = input->next;
        f->inputs->n_pending--;
        if (f->state != COXI_WAITING) {
            /* It has been given up before. */
        } else if (input->source->state != COXI_DONE_OK) {
            coxi_list_remove(&c->waiting, f);
            give_up(f, input);
        } else if (f->inputs->n_pending == 0) {
            coxi_list_remove(&c->waiting, f);
            be_ready(f);
        }
        coxi_future_unref(f);
    }
}
