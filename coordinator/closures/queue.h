/* Lists of closures, and queues of them by priority. Loop; all O(1). */
#ifndef COXI_COORDINATOR_CLOSURES_QUEUE_H
#define COXI_COORDINATOR_CLOSURES_QUEUE_H

#include "coordinator/closures/closure.h"

struct coxi_list {
    struct coxi_closure *first;
    struct coxi_closure *last;
    size_t n;
};

/* Sorted by priority; within a priority the oldest first. */
enum { COXI_LEVELS = COX_PRIORITY_MAX - COX_PRIORITY_MIN + 1 };

struct coxi_queue {
    struct coxi_list levels[COXI_LEVELS];
    size_t n;
};

void coxi_list_append(struct coxi_list *list, struct coxi_closure *closure);
void coxi_list_remove(struct coxi_list *list, struct coxi_closure *closure);

/* Puts a closure after (_prepend: before) all others of its priority. */
void coxi_queue_append(struct coxi_queue *queue, struct coxi_closure *closure);
void coxi_queue_prepend(struct coxi_queue *queue, struct coxi_closure *closure);
void coxi_queue_remove(struct coxi_queue *queue, struct coxi_closure *closure);

/* The oldest closure of the highest priority, or NULL. */
struct coxi_closure *coxi_queue_first(const struct coxi_queue *queue);

#endif
