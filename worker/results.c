/* See results.h. */
#include "worker/results.h"

#include <stdlib.h>

#include "common/sync.h"

enum { SLACK = 4096 };

static atomic_size_t
    held_bytes; /* of results in all tables, and of those that steps use */

size_t coxi_results_held(void)
{
    return atomic_load_explicit(&held_bytes, memory_order_relaxed);
}

void coxi_results_init(struct coxi_results *results, size_t bytes_max)
{
    *results = (struct coxi_results){.bytes_max = bytes_max};
    coxi_mutex_init(&results->lock);
}

void coxi_results_fini(struct coxi_results *results)
{
    coxi_unshared(&results->lock);
    for (size_t i = 0; i < COXI_RESULTS_BUCKETS; i++) {
        while (results->buckets[i] != NULL) {
            struct coxi_held *held = results->buckets[i];
            results->buckets[i] = held->next;
            coxi_held_unref(held);
        }
    }
    coxi_mutex_fini(&results->lock);
}

void coxi_held_unref(void *arg)
{
    struct coxi_held *held = arg;
    if (atomic_fetch_sub_explicit(&held->refs, 1, memory_order_acq_rel) == 1) {
        atomic_fetch_sub(&held_bytes, held->values.len);
        coxi_buffer_fini(&held->values);
        free(held);
    }
}

/* The pointer to the closure's entry, or to the end of its bucket. */
static struct coxi_held **find(struct coxi_results *results, uint64_t closure)
    COXI_REQUIRES(results->lock)
{
    struct coxi_held **at = &results->buckets[closure % COXI_RESULTS_BUCKETS];
    while (*at != NULL && (*at)->closure != closure) {
        at = &(*at)->next;
    }
    return at;
}

/*
 * Takes an entry out of the table; the table's reference passes to the caller.
 */
static struct coxi_held *unlink_held(struct coxi_results *results,
                                     struct coxi_held **at) COXI_REQUIRES(results->lock)
{
    struct coxi_held *held = *at;
    if (held != NULL) {
        *at = held->next;
        results->bytes -= held->values.capacity;
    }
    return held;
}

/* Copies short results out of a much larger buffer: a step's buffer still has the
 * memory of earlier, longer results, which short ones should not keep occupied. */
static bool fit(struct coxi_buffer *values)
{
    struct coxi_buffer exact = {0};
    if (values->capacity / 2 <= values->len + SLACK) {
        return true;
    }
    if (coxi_buffer_append(&exact, values->data, values->len) != 0) {
        return false;
    }
    coxi_buffer_fini(values);
    *values = exact;
    return true;
}

bool coxi_results_keep(struct coxi_results *results, uint64_t closure, uint32_t attempt,
                       struct coxi_buffer *values)
{
    struct coxi_held *held = malloc(sizeof(*held));
    if (held == NULL || !fit(values)) {
        free(held);
        return false;
    }
    coxi_lock(&results->lock);
    struct coxi_held *old = unlink_held(results, find(results, closure));
    bool fits = values->capacity <= results->bytes_max &&
                results->bytes <= results->bytes_max - values->capacity;
    if (fits) {
        struct coxi_held **at = find(results, closure);
        *held = (struct coxi_held){
            .closure = closure, .attempt = attempt, .values = *values, .next = *at};
        atomic_init(&held->refs, 1);
        *at = held;
        results->bytes += values->capacity;
        atomic_fetch_add(&held_bytes, values->len);
        *values = (struct coxi_buffer){0};
    }
    coxi_unlock(&results->lock);
    if (!fits) {
        free(held);
    }
    if (old != NULL) {
        coxi_held_unref(old);
    }
    return fits;
}

struct coxi_held *coxi_results_get(struct coxi_results *results, uint64_t closure)
{
    coxi_lock(&results->lock);
    struct coxi_held *held = *find(results, closure);
    if (held != NULL) {
        atomic_fetch_add_explicit(&held->refs, 1, memory_order_relaxed);
    }
    coxi_unlock(&results->lock);
    return held;
}

void coxi_results_drop(struct coxi_results *results, uint64_t closure, uint32_t attempt)
{
    struct coxi_held *held = NULL;
    coxi_lock(&results->lock);
    struct coxi_held **at = find(results, closure);
    if (*at != NULL && (*at)->attempt == attempt) {
        held = unlink_held(results, at);
    }
    coxi_unlock(&results->lock);
    if (held != NULL) {
        coxi_held_unref(held);
    }
}

void coxi_results_drop_all(struct coxi_results *results,
                           const struct coxi_recall *dropped)
{
    for (size_t i = 0; i < dropped->n_closures; i++) {
        coxi_results_drop(results, dropped->closures[i].closure,
                          dropped->closures[i].attempt);
    }
}
