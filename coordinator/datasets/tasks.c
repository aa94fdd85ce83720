/* See tasks.h. */
#include "coordinator/datasets/tasks.h"

#include <stdlib.h>

#include "common/error.h"
#include "coordinator/closures/closure.h"

/* ---- under way for the first time, by rising position */

/* Its position is above those of the list. */
static void append(struct coxi_handouts *list, struct coxi_handout *handout)
{
    handout->prev = list->last;
    handout->next = NULL;
    *(list->last != NULL ? &list->last->next : &list->first) = handout;
    list->last = handout;
    list->n++;
}

static void drop(struct coxi_handouts *list, struct coxi_handout *handout)
{
    *(handout->prev != NULL ? &handout->prev->next : &list->first) = handout->next;
    *(handout->next != NULL ? &handout->next->prev : &list->last) = handout->prev;
    handout->next = handout->prev = NULL;
    list->n--;
}

/* ---- giving out */

int coxi_tasks_init(struct coxi_tasks *tasks, uint64_t n, uint64_t epochs)
{
    bool ends = epochs != UINT64_MAX;
    *tasks = (struct coxi_tasks){.n = n};
    if (ends && epochs > (uint64_t)INT64_MAX / (n > 0 ? n : 1)) {
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
    while (tasks->waiting.root != NULL) {
        struct coxi_handout *handout = tasks->waiting.root;
        coxi_positions_drop(&tasks->waiting, handout);
        free(handout);
    }
}

size_t coxi_tasks_under_way(const struct coxi_tasks *tasks)
{
    return tasks->fresh.n + tasks->again.n;
}

/* True if a task may be given out for the first time. */
static bool may_begin(const struct coxi_tasks *tasks, uint64_t limit)
{
    return tasks->next < tasks->end && tasks->next < limit &&
           coxi_tasks_under_way(tasks) + tasks->waiting.n < COXI_AHEAD_MAX;
}

/* The lowest one that waits because it came late, and is below the limit. */
static struct coxi_handout *first_late(const struct coxi_tasks *tasks, uint64_t limit)
{
    struct coxi_handout *handout = coxi_positions_from(&tasks->waiting, 0);
    while (handout != NULL && !handout->late) {
        handout = coxi_positions_from(&tasks->waiting, handout->position + 1);
    }
    return handout != NULL && handout->position < limit ? handout : NULL;
}

static struct coxi_handout *take_again(struct coxi_tasks *tasks,
                                       struct coxi_handout *handout)
{
    coxi_positions_drop(&tasks->waiting, handout);
    handout->bytes = handout->records = 0;
    handout->late = false;
    coxi_tasks_adopt(tasks, handout);
    return handout;
}

struct coxi_handout *coxi_tasks_take(struct coxi_tasks *tasks, uint64_t limit,
                                     uint64_t now_ms, struct coxi_handout *spare)
{
    struct coxi_handout *due = coxi_positions_first_due(&tasks->waiting, now_ms);
    if (due != NULL && due->position < limit) {
        return take_again(tasks, due);
    }
    if (may_begin(tasks, limit)) {
        spare->position = tasks->next++;
        append(&tasks->fresh, spare);
        return spare;
    }
    struct coxi_handout *late = first_late(tasks, limit);
    return late != NULL ? take_again(tasks, late) : NULL;
}

/* It is in no list. */
static void let_wait(struct coxi_tasks *tasks, struct coxi_handout *handout,
                     uint64_t due_ms)
{
    handout->again = true;
    handout->waits = true;
    handout->waiting.due_ms = due_ms;
    coxi_positions_put(&tasks->waiting, handout);
}

void coxi_tasks_adopt(struct coxi_tasks *tasks, struct coxi_handout *handout)
{
    handout->again = true;
    handout->waits = false;
    coxi_positions_put(&tasks->again, handout);
}

void coxi_tasks_over(struct coxi_tasks *tasks, struct coxi_handout *handout)
{
    if (handout->again) {
        coxi_positions_drop(&tasks->again, handout);
    } else {
        drop(&tasks->fresh, handout);
    }
}

void coxi_tasks_return(struct coxi_tasks *tasks, struct coxi_handout *handout,
                       uint64_t due_ms)
{
    coxi_tasks_over(tasks, handout);
    handout->closure = NULL;
    let_wait(tasks, handout, due_ms);
}

struct coxi_handout *coxi_tasks_untake(struct coxi_tasks *tasks,
                                       struct coxi_handout *handout)
{
    if (handout->again) {
        coxi_tasks_return(tasks, handout, 0);
        return NULL;
    }
    handout->closure = NULL;
    drop(&tasks->fresh, handout);
    tasks->next--;
    return handout;
}

bool coxi_tasks_has_again(const struct coxi_tasks *tasks, uint64_t position)
{
    const struct coxi_handout *again = coxi_positions_from(&tasks->again, position);
    const struct coxi_handout *waits = coxi_positions_from(&tasks->waiting, position);
    return (again != NULL && again->position == position) ||
           (waits != NULL && waits->position == position);
}

bool coxi_tasks_may_come(const struct coxi_tasks *tasks, uint64_t limit)
{
    const struct coxi_handout *waits = coxi_positions_from(&tasks->waiting, 0);
    const struct coxi_handout *fresh = tasks->fresh.first;
    const struct coxi_handout *again = coxi_positions_from(&tasks->again, 0);
    if ((tasks->next < limit && tasks->next < tasks->end) ||
        (waits != NULL && waits->position < limit)) {
        return true;
    }
    while (fresh != NULL && fresh->closure == NULL) {
        fresh = fresh->next;
    }
    while (again != NULL && again->closure == NULL) {
        again = coxi_positions_from(&tasks->again, again->position + 1);
    }
    return (fresh != NULL && fresh->position < limit) ||
           (again != NULL && again->position < limit);
}

uint64_t coxi_tasks_floor(const struct coxi_tasks *tasks)
{
    const struct coxi_handout *first[] = {tasks->fresh.first,
                                          coxi_positions_from(&tasks->again, 0),
                                          coxi_positions_from(&tasks->waiting, 0)};
    uint64_t floor = tasks->next;
    for (size_t i = 0; i < sizeof(first) / sizeof(*first); i++) {
        if (first[i] != NULL && first[i]->position < floor) {
            floor = first[i]->position;
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

/* The task from `position` on that waits or is under way again; NULL: none is. */
static const struct coxi_handout *find_again(const struct coxi_tasks *tasks,
                                             uint64_t position)
{
    const struct coxi_handout *again = coxi_positions_from(&tasks->again, position);
    const struct coxi_handout *waits = coxi_positions_from(&tasks->waiting, position);
    bool is_again =
        waits == NULL || (again != NULL && again->position < waits->position);
    return is_again ? again : waits;
}

int coxi_tasks_save(const struct coxi_tasks *tasks, uint64_t covered,
                    uint64_t *ret_next, struct coxi_manifest_ranges *ret)
{
    struct coxi_manifest_ranges ranges = {0};
    const struct coxi_handout *handout = find_again(tasks, 0);
    int r = 0;
    while (r == 0 && handout != NULL) {
        if (!is_covered(handout, covered)) {
            r = coxi_manifest_ranges_add(&ranges, handout->position, handout->failures);
        }
        handout = find_again(tasks, handout->position + 1);
    }
    if (r != 0) {
        coxi_manifest_ranges_fini(&ranges);
        return r;
    }
    *ret_next = find_next(tasks, covered);
    *ret = ranges;
    return 0;
}

/* Adds a task that waits. */
static int load_one(struct coxi_tasks *tasks, uint64_t position, uint32_t failures)
{
    if (position >= tasks->next) {
        return coxi_error(COX_EFORMAT,
                          "the checkpoint has a task %llu that was not given out",
                          (unsigned long long)position);
    }
    if (tasks->waiting.n >= COXI_AHEAD_MAX) {
        return coxi_error(COX_EFORMAT,
                          "the checkpoint has more than %d tasks to be given out again",
                          (int)COXI_AHEAD_MAX);
    }
    struct coxi_handout *handout = calloc(1, sizeof(*handout));
    if (handout == NULL) {
        return coxi_error_memory("tasks of a data set");
    }
    handout->position = position;
    handout->failures = failures;
    let_wait(tasks, handout, 0);
    return 0;
}

int coxi_tasks_load(struct coxi_tasks *tasks, uint64_t next,
                    const struct coxi_manifest_ranges *waiting)
{
    int r = 0;
    tasks->next = next;
    for (size_t i = 0; r == 0 && i < waiting->n; i++) {
        const struct coxi_manifest_range *range = &waiting->all[i];
        for (uint64_t k = range->first; r == 0 && k <= range->last; k++) {
            r = load_one(tasks, k, range->failures);
        }
    }
    if (r != 0) {
        coxi_tasks_fini(tasks);
    }
    return r;
}
