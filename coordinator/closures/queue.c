/* See queue.h. */
#include "coordinator/closures/queue.h"
#include "coordinator/closures/closure.h"

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
