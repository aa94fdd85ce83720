/* See window.h. */
#include "common/window.h"

#include <stdlib.h>

#include "common/error.h"

void coxi_window_init(struct coxi_window *window, uint64_t first, size_t max)
{
    *window = (struct coxi_window){.first = first, .next = first, .max = max};
}

void coxi_window_fini(struct coxi_window *window)
{
    free(window->slots);
    *window = (struct coxi_window){.max = window->max};
}

static int grow(struct coxi_window *window, size_t span)
{
    size_t capacity = window->capacity == 0 ? 64 : window->capacity;
    while (capacity < span) {
        capacity *= 2;
    }
    if (capacity == window->capacity) {
        return 0;
    }
    void **slots = calloc(capacity, sizeof(*slots));
    if (slots == NULL) {
        return coxi_error_memory("a window of ids");
    }
    for (uint64_t id = window->first; id < window->next; id++) {
        slots[id & (capacity - 1)] = window->slots[id & (window->capacity - 1)];
    }
    free(window->slots);
    window->slots = slots;
    window->capacity = capacity;
    return 0;
}

int coxi_window_put(struct coxi_window *window, uint64_t id, void *item)
{
    if (window->count == 0) {
        window->first = window->next = id > window->next ? id : window->next;
    }
    if (id - window->first >= window->max) {
        return COX_EAGAIN;
    }
    int r = grow(window, (size_t)(id - window->first) + 1);
    if (r != 0) {
        return r;
    }
    for (; window->next < id; window->next++) {
        window->slots[window->next & (window->capacity - 1)] = NULL;
    }
    window->slots[id & (window->capacity - 1)] = item;
    window->next = id + 1;
    window->count++;
    return 0;
}

void *coxi_window_take(struct coxi_window *window, uint64_t id)
{
    void *item = coxi_window_get(window, id);
    if (item == NULL) {
        return NULL;
    }
    window->slots[id & (window->capacity - 1)] = NULL;
    window->count--;
    while (window->first < window->next &&
           window->slots[window->first & (window->capacity - 1)] == NULL) {
        window->first++;
    }
    return item;
}
