/* See closure.h. */
#include "coordinator/closures/closure.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "coordinator/closures/round.h"
#include "schema/check.h"

int coxi_closure_new(struct cox_coordinator *c, const struct coxi_closure_spec *spec,
                     struct coxi_closure **ret)
{
    struct coxi_closure *closure = malloc(sizeof(*closure) + spec->args_len);
    bool waits = spec->waits || spec->inputs != NULL;
    if (closure == NULL) {
        return coxi_error_memory("a closure");
    }
    *closure = (struct coxi_closure){
        .future.c = c,
        .function = spec->function,
        .inputs = spec->inputs,
        .asked = spec->asked,
        .state = waits ? COXI_WAITING : COXI_QUEUED,
        .args_len = (uint32_t)spec->args_len,
    };
    atomic_init(&closure->future.refs, 1);
    if (spec->args != NULL && spec->args_len > 0) {
        memcpy(closure->args, spec->args, spec->args_len);
    }
    *ret = closure;
    return 0;
}

/* True if a closure in this state counts as waiting for a worker, against queue_max. */
static bool is_in_line(unsigned state)
{
    return state == COXI_WAITING || state == COXI_QUEUED;
}

void coxi_closure_set(struct coxi_closure *closure, enum coxi_closure_state state)
{
    enum { N = COXI_CANCELLED + 1 };
    static const bool allowed[N][N] = {
        [COXI_WAITING] = {[COXI_QUEUED] = true,
                          [COXI_VOIDING] = true,
                          [COXI_DONE_OK] = true,
                          [COXI_FAILED] = true,
                          [COXI_CANCELLED] = true},
        [COXI_QUEUED] = {[COXI_WAITING] = true,
                         [COXI_ASSIGNED] = true,
                         [COXI_VOIDING] = true,
                         [COXI_FAILED] = true,
                         [COXI_CANCELLED] = true},
        [COXI_ASSIGNED] = {[COXI_WAITING] = true,
                           [COXI_QUEUED] = true,
                           [COXI_STAGED] = true,
                           [COXI_VOIDING] = true,
                           [COXI_DONE_OK] = true,
                           [COXI_FAILED] = true,
                           [COXI_CANCELLED] = true},
        [COXI_STAGED] = {[COXI_WAITING] = true,
                         [COXI_QUEUED] = true,
                         [COXI_VOIDING] = true,
                         [COXI_DONE_OK] = true,
                         [COXI_FAILED] = true,
                         [COXI_CANCELLED] = true},
        [COXI_VOIDING] = {[COXI_WAITING] = true,
                          [COXI_QUEUED] = true,
                          [COXI_STAGED] = true,
                          [COXI_DONE_OK] = true,
                          [COXI_FAILED] = true,
                          [COXI_CANCELLED] = true},
    };
    COXI_CHECK(allowed[closure->state][state]);
    closure->future.c->closures->waiting_change +=
        is_in_line(state) - is_in_line(closure->state);
    closure->state = (uint8_t)state;
}

/* ---- lists and queues */

void coxi_list_append(struct coxi_list *list, struct coxi_closure *closure)
{
    closure->next = NULL;
    closure->prev = list->last;
    if (list->last != NULL) {
        list->last->next = closure;
    } else {
        list->first = closure;
    }
    list->last = closure;
    list->n++;
}

static void list_prepend(struct coxi_list *list, struct coxi_closure *closure)
{
    closure->prev = NULL;
    closure->next = list->first;
    if (list->first != NULL) {
        list->first->prev = closure;
    } else {
        list->last = closure;
    }
    list->first = closure;
    list->n++;
}

void coxi_list_remove(struct coxi_list *list, struct coxi_closure *closure)
{
    if (closure->prev != NULL) {
        closure->prev->next = closure->next;
    } else {
        list->first = closure->next;
    }
    if (closure->next != NULL) {
        closure->next->prev = closure->prev;
    } else {
        list->last = closure->prev;
    }
    list->n--;
}

static struct coxi_list *level_of(struct coxi_queue *queue,
                                  const struct coxi_closure *closure)
{
    return &queue->levels[closure->asked.priority - COX_PRIORITY_MIN];
}

void coxi_queue_append(struct coxi_queue *queue, struct coxi_closure *closure)
{
    coxi_list_append(level_of(queue, closure), closure);
    queue->n++;
}

void coxi_queue_prepend(struct coxi_queue *queue, struct coxi_closure *closure)
{
    list_prepend(level_of(queue, closure), closure);
    queue->n++;
}

void coxi_queue_remove(struct coxi_queue *queue, struct coxi_closure *closure)
{
    coxi_list_remove(level_of(queue, closure), closure);
    queue->n--;
}

struct coxi_closure *coxi_queue_first(const struct coxi_queue *queue)
{
    for (int i = COXI_LEVELS - 1; queue->n > 0 && i >= 0; i--) {
        if (queue->levels[i].first != NULL) {
            return queue->levels[i].first;
        }
    }
    return NULL;
}

/* ---- closures that are not settled */

int coxi_closures_new(struct cox_coordinator *c)
{
    struct coxi_closures *closures = calloc(1, sizeof(*closures));
    if (closures == NULL) {
        return coxi_error_memory("a coordinator");
    }
    coxi_window_init(&closures->unsettled, 1, COXI_WINDOW);
    coxi_window_init(&closures->replays, 1, COXI_WINDOW);
    c->closures = closures;
    return 0;
}

void coxi_closures_free(struct cox_coordinator *c)
{
    if (c->closures != NULL) {
        coxi_window_fini(&c->closures->unsettled);
        coxi_window_fini(&c->closures->replays);
        coxi_pool_fini(&c->closures->pool);
        coxi_rounds_free_all(&c->closures->rounds);
        free(c->closures);
        c->closures = NULL;
    }
}

/* The item in `unsettled` that stands for an operation. */
static char operation;

struct coxi_closure *coxi_closures_get(const struct cox_coordinator *c,
                                       struct coxi_closure_id id)
{
    void *item = coxi_window_get(&c->closures->unsettled, id.n);
    return item != &operation ? item : NULL;
}

int coxi_closures_put_operation(struct cox_coordinator *c, struct coxi_closure_id id)
{
    return coxi_window_put(&c->closures->unsettled, id.n, &operation);
}
