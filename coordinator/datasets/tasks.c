/* See tasks.h. */
#include "coordinator/datasets/tasks.h"

#include <stdlib.h>

#include "common/error.h"
#include "coordinator/closures/closure.h"

/* ---- lists by rising position */

static void put(struct coxi_handouts *list, struct coxi_handout *handout)
{
    struct coxi_handout *before = list->last;
    while (before != NULL && before->position > handout->position) {
        before = before->prev;
    }
    handout->prev = before;
    handout->next = before != NULL ? before->next : list->first;
    *(before != NULL ? &before->next : &list->first) = handout;
    *(handout->next != NULL ? &handout->next->prev : &list->last) = handout;
    list->n++;
}

static void drop(struct coxi_handouts *list, struct coxi_handout *handout)
{
    *(handout->prev != NULL ? &handout->prev->next : &list->first) = handout->next;
    *(handout->next != NULL ? &handout->next->prev : &list->last) = handout->prev;
    handout->next = handout->prev = NULL;
    list->n--;
}

/* The list of tasks under way that has it. */
static struct coxi_handouts *list_of(struct coxi_tasks *tasks,
                                     const struct coxi_handout *handout)
{
    return handout->again ? &tasks->again : &tasks->fresh;
}

/* ---- giving out */

int coxi_tasks_init(struct coxi_tasks *tasks, uint64_t n, uint64_t epochs)
{
    bool ends = epochs != UINT64_MAX;
    *tasks = (struct coxi_tasks){.n = n};
    if (ends && n > 0 && epochs > (uint64_t)INT64_MAX / n) {
        return coxi_error(COX_EINVAL,
                          "%llu epochs of %llu tasks are more than can be counted: use "
                          "COX_EPOCHS_FOREVER",
                          (unsigned long long)epochs, (unsigned long long)n);
    }
    tasks->end = n == 0 ? 0 : ends ? n * epochs : UINT64_MAX;
    return 0;
}

void coxi_tasks_fini(struct coxi_tasks *tasks)
{
    struct coxi_handout *handout = tasks->waiting.first;
    tasks->waiting = (struct coxi_handouts){0};
    while (handout != NULL) {
        struct coxi_handout *next = handout->next;
        free(handout);
        handout = next;
    }
}

struct coxi_handout *coxi_tasks_take(struct coxi_tasks *tasks, uint64_t limit,
                                     struct coxi_handout *spare)
{
    struct coxi_handout *handout = tasks->waiting.first;
    if (handout != NULL && handout->position < limit) {
        drop(&tasks->waiting, handout);
        handout->again = true;
    } else if (tasks->next < tasks->end && tasks->next < limit) {
        handout = spare;
        handout->position = tasks->next++;
        handout->again = false;
    } else {
        return NULL;
    }
    put(list_of(tasks, handout), handout);
    return handout;
}

struct coxi_handout *coxi_tasks_untake(struct coxi_tasks *tasks,
                                       struct coxi_handout *handout)
{
    handout->closure = NULL;
    drop(list_of(tasks, handout), handout);
    if (handout->again) {
        put(&tasks->waiting, handout);
        return NULL;
    }
    tasks->next--;
    return handout;
}

void coxi_tasks_over(struct coxi_tasks *tasks, struct coxi_handout *handout)
{
    drop(list_of(tasks, handout), handout);
}

void coxi_tasks_return(struct coxi_tasks *tasks, struct coxi_handout *handout)
{
    drop(list_of(tasks, handout), handout);
    handout->closure = NULL;
    put(&tasks->waiting, handout);
}

void coxi_tasks_adopt(struct coxi_tasks *tasks, struct coxi_handout *handout)
{
    handout->again = true;
    put(&tasks->again, handout);
}

uint64_t coxi_tasks_floor(const struct coxi_tasks *tasks)
{
    const struct coxi_handouts *lists[] = {&tasks->fresh, &tasks->again,
                                           &tasks->waiting};
    uint64_t floor = tasks->next;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        if (lists[i]->first != NULL && lists[i]->first->position < floor) {
            floor = lists[i]->first->position;
        }
    }
    return floor;
}

/* ---- checkpoints */

/* True if a checkpoint that covers the closures up to `covered` has the closure of this
 * task: it is settled there, or runs again. */
static bool is_covered(const struct coxi_handout *handout, uint64_t covered)
{
    uint64_t id = handout->closure != NULL ? handout->closure->future.id.n : 0;
    return id != 0 && id <= covered;
}

/* The positions of tasks that are given out for the first time rise with their
 * closures' ids, so those from the first one that is not covered are not, either. */
static uint64_t find_next(const struct coxi_tasks *tasks, uint64_t covered)
{
    const struct coxi_handout *handout = tasks->fresh.first;
    while (handout != NULL && is_covered(handout, covered)) {
        handout = handout->next;
    }
    return handout != NULL ? handout->position : tasks->next;
}

/* The task of the two lists with the lower position; both may be NULL. Moves it on. */
static const struct coxi_handout *take_lower(const struct coxi_handout **a,
                                             const struct coxi_handout **b)
{
    bool is_a = *b == NULL || (*a != NULL && (*a)->position < (*b)->position);
    const struct coxi_handout **lower = is_a ? a : b;
    const struct coxi_handout *handout = *lower;
    *lower = handout != NULL ? handout->next : NULL;
    return handout;
}

int coxi_tasks_save(const struct coxi_tasks *tasks, uint64_t covered,
                    uint64_t *ret_next, struct coxi_manifest_ranges *ret)
{
    struct coxi_manifest_ranges ranges = {0};
    const struct coxi_handout *waiting = tasks->waiting.first;
    const struct coxi_handout *again = tasks->again.first;
    const struct coxi_handout *handout;
    int r = 0;
    while (r == 0 && (handout = take_lower(&waiting, &again)) != NULL) {
        if (!is_covered(handout, covered)) {
            r = coxi_manifest_ranges_add(&ranges, handout->position, handout->failures);
        }
    }
    if (r != 0) {
        coxi_manifest_ranges_fini(&ranges);
        return r;
    }
    *ret_next = find_next(tasks, covered);
    *ret = ranges;
    return 0;
}

int coxi_tasks_load(struct coxi_tasks *tasks, uint64_t next,
                    const struct coxi_manifest_ranges *waiting)
{
    size_t n = 0;
    tasks->next = next;
    for (size_t i = 0; i < waiting->n; i++) {
        const struct coxi_manifest_range *range = &waiting->all[i];
        for (uint64_t k = range->first; k <= range->last; k++) {
            struct coxi_handout *handout = calloc(1, sizeof(*handout));
            if (handout == NULL || k >= next || n++ >= COXI_WINDOW) {
                free(handout);
                coxi_tasks_fini(tasks);
                return handout == NULL ? coxi_error_memory("tasks of a data set")
                                       : coxi_error(COX_EFORMAT,
                                                    "the checkpoint has a task %llu "
                                                    "that was not given out",
                                                    (unsigned long long)k);
            }
            handout->position = k;
            handout->failures = range->failures;
            put(&tasks->waiting, handout);
        }
    }
    return 0;
}
