/* See queue.h. */
#include "coordinator/closures/queue.h"
#include "coordinator/closures/closure.h"

void coxi_list_append(struct coxi_list *list, struct cox_future *f)
{
    f->next = NULL;
    f->prev = list->last;
    if (list->last != NULL) {
        list->last->next = f;
    } else {
        list->first = f;
    }
    list->last = f;
    list->n++;
}

static void list_prepend(struct coxi_list *list, struct cox_future *f)
{
    f->prev = NULL;
    f->next = list->first;
    if (list->first != NULL) {
        list->first->prev = f;
    } else {
        list->last = f;
    }
    list->first = f;
    list->n++;
}

void coxi_list_remove(struct coxi_list *list, struct cox_future *f)
{
    if (f->prev != NULL) {
        f->prev->next = f->next;
    } else {
        list->first = f->next;
    }
    if (f->next != NULL) {
        f->next->prev = f->prev;
    } else {
        list->last = f->prev;
    }
    list->n--;
}

static struct coxi_list *level_of(struct coxi_queue *queue, const struct cox_future *f)
{
    return &queue->levels[f->priority - COX_PRIORITY_MIN];
}

void coxi_queue_append(struct coxi_queue *queue, struct cox_future *f)
{
    coxi_list_append(level_of(queue, f), f);
    queue->n++;
}

void coxi_queue_prepend(struct coxi_queue *queue, struct cox_future *f)
{
    list_prepend(level_of(queue, f), f);
    queue->n++;
}

void coxi_queue_remove(struct coxi_queue *queue, struct cox_future *f)
{
    coxi_list_remove(level_of(queue, f), f);
    queue->n--;
}

struct cox_future *coxi_queue_first(const struct coxi_queue *queue)
{
    for (int i = COXI_LEVELS - 1; queue->n > 0 && i >= 0; i--) {
        if (queue->levels[i].first != NULL) {
            return queue->levels[i].first;
        }
    }
    return NULL;
}
