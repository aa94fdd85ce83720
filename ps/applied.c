/*
 * See applied.h. Under one lock that is held for a few instructions. Commits under way
 * are a short list (as many as threads): their bits are not set before they have been
 * applied.
 *
 * Cost: begin and end O(1); advance O(ids passed); memory 8 bytes an id between the
 * watermark and the highest closure seen.
 */
#include "ps/applied.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"

enum { OPEN_MAX = 1024, RING_FIRST = 1024 };

struct open_commit {
    uint64_t closure;
    uint32_t segment;
};

struct coxi_applied {
    pthread_mutex_t lock; /* guards all below; leaf */
    pthread_cond_t ended;
    uint64_t watermark;
    uint64_t highest;
    uint64_t *ring; /* ring[closure & (capacity - 1)], for watermark < closure <= +
                       capacity */
    size_t capacity;
    struct open_commit open[OPEN_MAX];
    size_t n_open;
};

int coxi_applied_new(struct coxi_applied **ret)
{
    struct coxi_applied *applied = calloc(1, sizeof(*applied));
    uint64_t *ring = calloc(RING_FIRST, sizeof(*ring));
    if (applied == NULL || ring == NULL) {
        free(applied);
        free(ring);
        return coxi_error_memory("the applied set");
    }
    applied->ring = ring;
    applied->capacity = RING_FIRST;
    (void)pthread_mutex_init(&applied->lock, NULL);
    coxi_cond_init(&applied->ended);
    *ret = applied;
    return 0;
}

void coxi_applied_free(struct coxi_applied *applied)
{
    if (applied != NULL) {
        (void)pthread_cond_destroy(&applied->ended);
        (void)pthread_mutex_destroy(&applied->lock);
        free(applied->ring);
        free(applied);
    }
}

static uint64_t *word(struct coxi_applied *applied, uint64_t closure)
{
    return &applied->ring[closure & (applied->capacity - 1)];
}

/* Makes the ring cover `closure`. Locked. */
static int cover(struct coxi_applied *applied, uint64_t closure)
{
    size_t span = (size_t)(closure - applied->watermark);
    if (span <= applied->capacity) {
        return 0;
    }
    size_t capacity = applied->capacity;
    while (capacity < span) {
        capacity *= 2;
    }
    uint64_t *ring = calloc(capacity, sizeof(*ring));
    if (ring == NULL) {
        return coxi_error_memory("the applied set");
    }
    for (uint64_t id = applied->watermark + 1; id <= applied->highest; id++) {
        ring[id & (capacity - 1)] = *word(applied, id);
    }
    free(applied->ring);
    applied->ring = ring;
    applied->capacity = capacity;
    return 0;
}

static size_t find_open(const struct coxi_applied *applied, uint64_t closure,
                        uint32_t segment)
{
    size_t i = 0;
    while (i < applied->n_open && (applied->open[i].closure != closure ||
                                   applied->open[i].segment != segment)) {
        i++;
    }
    return i;
}

static bool is_applied(struct coxi_applied *applied, uint64_t closure, uint32_t segment)
{
    return closure <= applied->watermark ||
           (closure <= applied->highest &&
            (*word(applied, closure) >> segment & 1) != 0);
}

/* 0: free to apply; COX_EAGAIN: it is being applied; else as coxi_applied_begin.
 * Locked. */
static int look(struct coxi_applied *applied, uint64_t closure, uint32_t segment)
{
    if (segment >= COXI_SEGMENTS_MAX) {
        return coxi_error(COX_ELIMIT, "segment %u is beyond the last, %d", segment,
                          COXI_SEGMENTS_MAX - 1);
    }
    if (is_applied(applied, closure, segment)) {
        return COX_EEXIST;
    }
    if (closure - applied->watermark > COXI_APPLIED_WINDOW) {
        return coxi_error(
            COX_ELIMIT, "closure %llu is too far above the watermark %llu",
            (unsigned long long)closure, (unsigned long long)applied->watermark);
    }
    if (applied->n_open == OPEN_MAX ||
        find_open(applied, closure, segment) < applied->n_open) {
        return COX_EAGAIN;
    }
    return cover(applied, closure);
}

int coxi_applied_begin(struct coxi_applied *applied, uint64_t closure, uint32_t segment)
{
    coxi_lock(&applied->lock);
    int r;
    /* What is open is being applied right now: it ends without waiting for anything. */
    while ((r = look(applied, closure, segment)) == COX_EAGAIN) {
        (void)pthread_cond_wait(&applied->ended, &applied->lock);
    }
    if (r == 0) {
        applied->open[applied->n_open++] = (struct open_commit){closure, segment};
    }
    coxi_unlock(&applied->lock);
    return r;
}

void coxi_applied_end(struct coxi_applied *applied, uint64_t closure, uint32_t segment,
                      int failed)
{
    coxi_lock(&applied->lock);
    applied->open[find_open(applied, closure, segment)] =
        applied->open[applied->n_open - 1];
    applied->n_open--;
    if (failed == 0 && closure > applied->watermark) {
        *word(applied, closure) |= (uint64_t)1 << segment;
        if (closure > applied->highest) {
            applied->highest = closure;
        }
    }
    (void)pthread_cond_broadcast(&applied->ended);
    coxi_unlock(&applied->lock);
}

void coxi_applied_advance(struct coxi_applied *applied, uint64_t watermark)
{
    coxi_lock(&applied->lock);
    uint64_t last = watermark < applied->highest ? watermark : applied->highest;
    for (uint64_t id = applied->watermark + 1; id <= last; id++) {
        *word(applied, id) = 0;
    }
    if (watermark > applied->watermark) {
        applied->watermark = watermark;
    }
    coxi_unlock(&applied->lock);
}

/* Appends the intervals of one segment. */
static int list_segment(struct coxi_applied *applied, uint32_t segment,
                        struct coxi_interval **intervals, size_t *n, size_t *capacity)
{
    uint64_t id = applied->watermark + 1;
    while (id <= applied->highest) {
        if (!is_applied(applied, id, segment)) {
            id++;
            continue;
        }
        uint64_t first = id;
        while (id <= applied->highest && is_applied(applied, id, segment)) {
            id++;
        }
        if (*n == *capacity) {
            size_t more = *capacity == 0 ? 16 : *capacity * 2;
            struct coxi_interval *longer = realloc(*intervals, more * sizeof(*longer));
            if (longer == NULL) {
                return coxi_error_memory("a list of the applied set");
            }
            *intervals = longer;
            *capacity = more;
        }
        (*intervals)[(*n)++] = (struct coxi_interval){first, id - 1, segment};
    }
    return 0;
}

int coxi_applied_list(struct coxi_applied *applied, uint64_t *ret_watermark,
                      struct coxi_interval **ret, size_t *ret_n)
{
    struct coxi_interval *intervals = NULL;
    size_t n = 0;
    size_t capacity = 0;
    uint64_t used = 0;
    int r = 0;
    coxi_lock(&applied->lock);
    for (uint64_t id = applied->watermark + 1; id <= applied->highest; id++) {
        used |= *word(applied, id);
    }
    for (uint32_t segment = 0; r == 0 && segment < COXI_SEGMENTS_MAX; segment++) {
        if ((used >> segment & 1) != 0) {
            r = list_segment(applied, segment, &intervals, &n, &capacity);
        }
    }
    uint64_t watermark = applied->watermark;
    coxi_unlock(&applied->lock);
    if (r != 0) {
        free(intervals);
        return r;
    }
    *ret_watermark = watermark;
    *ret = intervals;
    *ret_n = n;
    return 0;
}
