/*
 * A window of consecutive ids: pointers by id. Ids come in rising order and leave in
 * almost any order. `first` is the lowest id that has not left; if all have left, it
 * equals `next`. A zeroed window with a `max` is valid and empty. Not thread-safe; all
 * functions are O(1) amortized.
 */
#ifndef COXI_COMMON_WINDOW_H
#define COXI_COMMON_WINDOW_H

#include <stddef.h>
#include <stdint.h>

struct coxi_window {
    void **slots;    /* slots[id & (capacity - 1)] */
    size_t capacity; /* a power of two, or 0 */
    uint64_t first;
    uint64_t next; /* one past the highest id ever put */
    size_t count;
    size_t max; /* ids first..first + max - 1 fit */
};

/* Starts at id `first`, with room for a span of `max` ids. */
void coxi_window_init(struct coxi_window *window, uint64_t first, size_t max);
void coxi_window_fini(struct coxi_window *window);

/* Puts `item` (not NULL) at `id`, which is at least `next`; skipped ids count as having
 * left. COX_EAGAIN: the id is beyond the window. COX_ENOMEM. */
int coxi_window_put(struct coxi_window *window, uint64_t id, void *item);

/* The item at `id`, or NULL. */
static inline void *coxi_window_get(const struct coxi_window *window, uint64_t id)
{
    return id >= window->first && id < window->next
               ? window->slots[id & (window->capacity - 1)]
               : NULL;
}

/* Takes the item at `id` out, or returns NULL; moves `first` past ids that have
 * left. */
void *coxi_window_take(struct coxi_window *window, uint64_t id);

#endif
