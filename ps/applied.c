/*
 * See applied.h. One lock, held for a few instructions. Commits that are being applied
 * are in a short list, at most one for each thread. A closure gets its new mark only
 * after its commit was applied.
 *
 * Similar closures have equal marks, so a commit first tries the most recent mark
 * (`recent`). This file counts the uses of that mark; ps/marks.c counts the uses of all
 * others.
 *
 * Cost: begin and end O(ps touched by all segments of the closure); advance O(ids
 * passed); a list O(ids and segments above the watermark); memory: 8 bytes for each id
 * between the watermark and the highest closure seen (at least 65,536 closures, once there
 * were so many), and the marks.
 */
#include "ps/applied.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/sync.h"
#include "ps/marks.h"
#include "schema/check.h"
#include "schema/maybe.h"

enum {
    OPEN_MAX = 1024,
    RING_FIRST = 1024,
    RING_KEPT = 65536, /* entries that an empty set keeps */
    MARKS_BYTES_MAX = 1 << 30,
};

struct open_commit {
    uint64_t closure;
    uint32_t mark; /* the closure's mark after this commit was applied */
};

/* A closure above the watermark. */
struct entry {
    uint32_t mark;  /* says what is applied of the closure */
    uint32_t fence; /* attempts up to this one are refused */
};

/* The last mark that was made from a closure's first segment. The next closure likely
 * has the same mark. The set holds one use of the mark in `marks`, and counts the other
 * uses here. */
struct recent {
    uint32_t mark;
    struct coxi_segment segment; /* the only one of the mark */
    int64_t n_uses;              /* uses begun since then, minus uses that ended */
};

struct coxi_applied {
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t ended;
    uint64_t watermark COXI_GUARDED_BY(lock);
    uint64_t highest COXI_GUARDED_BY(lock);
    /* ring[closure & (capacity - 1)], for watermark < closure <= watermark +
     * capacity */
    struct entry *ring COXI_GUARDED_BY(lock);
    size_t capacity COXI_GUARDED_BY(lock);
    struct coxi_marks *marks COXI_GUARDED_BY(lock);
    struct recent recent COXI_GUARDED_BY(lock);
    struct open_commit open[OPEN_MAX] COXI_GUARDED_BY(lock);
    size_t n_open COXI_GUARDED_BY(lock);
};

int coxi_applied_new(struct coxi_applied **ret)
{
    struct coxi_applied *applied = calloc(1, sizeof(*applied));
    struct entry *ring = calloc(RING_FIRST, sizeof(*ring));
    if (applied == NULL || ring == NULL ||
        coxi_marks_new(MARKS_BYTES_MAX, &applied->marks) != 0) {
        free(applied);
        free(ring);
        return coxi_error_memory("the applied set");
    }
    coxi_mutex_init(&applied->lock);
    coxi_unshared(&applied->lock);
    applied->ring = ring;
    applied->capacity = RING_FIRST;
    coxi_cond_init(&applied->ended);
    *ret = applied;
    return 0;
}

void coxi_applied_free(struct coxi_applied *applied)
{
    if (applied != NULL) {
        coxi_unshared(&applied->lock);
        (void)pthread_cond_destroy(&applied->ended);
        coxi_mutex_fini(&applied->lock);
        coxi_marks_free(applied->marks);
        free(applied->ring);
        free(applied);
    }
}

static struct entry *entry_of(struct coxi_applied *applied, uint64_t closure)
    COXI_REQUIRES(applied->lock)
{
    return &applied->ring[closure & (applied->capacity - 1)];
}

/* Makes the ring large enough for `closure`. */
static int cover(struct coxi_applied *applied, uint64_t closure)
    COXI_REQUIRES(applied->lock)
{
    size_t span = (size_t)(closure - applied->watermark);
    if (span <= applied->capacity) {
        return 0;
    }
    size_t capacity = applied->capacity;
    while (capacity < span) {
        capacity *= 2;
    }
    struct entry *ring = calloc(capacity, sizeof(*ring));
    if (ring == NULL) {
        return coxi_error_memory("the applied set");
    }
    for (uint64_t id = applied->watermark + 1; id <= applied->highest; id++) {
        ring[id & (capacity - 1)] = *entry_of(applied, id);
    }
    free(applied->ring);
    applied->ring = ring;
    applied->capacity = capacity;
    return 0;
}

static size_t find_open(const struct coxi_applied *applied, uint64_t closure)
    COXI_REQUIRES(applied->lock)
{
    size_t i = 0;
    while (i < applied->n_open && applied->open[i].closure != closure) {
        i++;
    }
    return i;
}

/* The closure's entry; NULL if it has none. */
static const struct entry *known(struct coxi_applied *applied, uint64_t closure)
    COXI_REQUIRES(applied->lock)
{
    return closure > applied->watermark && closure <= applied->highest
               ? entry_of(applied, closure)
               : NULL;
}

/* COX_ELIMIT if no closure may have this id. */
static int check_id(uint64_t closure)
{
    return closure <= COXI_CLOSURE_MAX
               ? 0
               : coxi_error(COX_ELIMIT, "%llu is no closure: it is too high",
                            (unsigned long long)closure);
}

int coxi_applied_check(const struct coxi_commit *commit)
{
    if (commit->segment >= COXI_SEGMENTS_MAX) {
        return coxi_error(COX_ELIMIT, "segment %u is beyond the last, %d",
                          commit->segment, COXI_SEGMENTS_MAX - 1);
    }
    if (commit->n_touched > COXI_PS_MAX) {
        return coxi_error(COX_ELIMIT, "a commit names %zu ps, and there are at most %d",
                          commit->n_touched, COXI_PS_MAX);
    }
    return check_id(commit->closure);
}

/* ---- uses of marks */

static bool is_same(const struct coxi_segment *a, const struct coxi_segment *b)
{
    return a->segment == b->segment && a->last == b->last &&
           a->n_touched == b->n_touched &&
           (a->n_touched == 0 ||
            memcmp(a->touched, b->touched, a->n_touched * sizeof(*a->touched)) == 0);
}

static void set_recent(struct coxi_applied *applied, uint32_t mark)
    COXI_REQUIRES(applied->lock)
{
    struct recent *recent = &applied->recent;
    uint32_t at = 0;
    if (recent->mark != COXI_MARK_NONE) {
        coxi_marks_use(applied->marks, recent->mark, recent->n_uses);
        coxi_marks_drop(applied->marks, recent->mark);
    }
    coxi_marks_use(applied->marks, mark, 1);
    *recent = (struct recent){.mark = mark};
    (void)coxi_marks_next(applied->marks, mark, &at, &recent->segment);
}

/* Finds or makes the mark that has the segments of `mark` and also `segment`, and
 * counts a use of it. COX_ENOMEM. */
static int use_mark(struct coxi_applied *applied, uint32_t mark,
                    const struct coxi_segment *segment, uint32_t *ret)
    COXI_REQUIRES(applied->lock)
{
    struct recent *recent = &applied->recent;
    bool first = mark == COXI_MARK_NONE;
    if (first && recent->mark != COXI_MARK_NONE && is_same(&recent->segment, segment)) {
        recent->n_uses++;
        *ret = recent->mark;
        return 0;
    }
    int r = coxi_marks_with(applied->marks, mark, segment, ret);
    if (r == 0 && first) {
        set_recent(applied, *ret);
    }
    return r;
}

static void drop_mark(struct coxi_applied *applied, uint32_t mark)
    COXI_REQUIRES(applied->lock)
{
    if (mark == applied->recent.mark) {
        applied->recent.n_uses -= mark != COXI_MARK_NONE;
    } else if (mark != COXI_MARK_NONE) {
        coxi_marks_drop(applied->marks, mark);
    }
}

/* ---- commits */

/* Compares a commit with the segment that was applied before: COX_EEXIST, or
 * COX_EDIVERGED if they differ. */
static int compare(const struct coxi_commit *commit, const struct coxi_segment *there)
{
    bool alike = there->last == commit->last && there->n_touched == commit->n_touched;
    for (size_t i = 0; alike && i < commit->n_touched; i++) {
        alike = there->touched[i] == commit->touched[i];
    }
    return alike ? COX_EEXIST
                 : coxi_error(COX_EDIVERGED,
                              "attempt %u of closure %llu touches other ps than an "
                              "earlier attempt: the choice may depend only on its "
                              "arguments and cox_step_seed",
                              commit->attempt, (unsigned long long)commit->closure);
}

/* COX_ELIMIT if the closure, which is above the watermark, is too far above it. */
static int check_window(const struct coxi_applied *applied, uint64_t closure)
    COXI_REQUIRES(applied->lock)
{
    return closure - applied->watermark <= COXI_APPLIED_WINDOW
               ? 0
               : coxi_error(COX_ELIMIT,
                            "closure %llu is too far above the watermark %llu",
                            (unsigned long long)closure,
                            (unsigned long long)applied->watermark);
}

/* 0: the commit may be applied. COX_EAGAIN: wait until an open commit has ended, and
 * look again. Otherwise: an error of coxi_applied_begin. */
static int look(struct coxi_applied *applied, const struct coxi_commit *commit)
    COXI_REQUIRES(applied->lock)
{
    uint64_t closure = commit->closure;
    struct coxi_segment there;
    if (closure <= applied->watermark) {
        return COX_EEXIST;
    }
    const struct entry *entry = known(applied, closure);
    if (entry != NULL &&
        coxi_marks_find(applied->marks, entry->mark, commit->segment, &there)) {
        return compare(commit, &there);
    }
    if (entry != NULL && entry->fence != 0 && commit->attempt <= entry->fence) {
        return coxi_error(COX_ECANCELLED, "attempt %u of closure %llu has been voided",
                          commit->attempt, (unsigned long long)closure);
    }
    int r = check_window(applied, closure);
    if (r != 0) {
        return r;
    }
    if (applied->n_open == OPEN_MAX || find_open(applied, closure) < applied->n_open) {
        return COX_EAGAIN;
    }
    return cover(applied, closure);
}

int coxi_applied_begin(struct coxi_applied *applied, const struct coxi_commit *commit)
{
    struct coxi_segment segment = {commit->segment, commit->last, commit->touched,
                                   commit->n_touched};
    struct open_commit open = {.closure = commit->closure};
    int r = coxi_applied_check(commit);
    if (r != 0) {
        return r;
    }
    coxi_lock(&applied->lock);
    /* Another commit is being applied right now, and ends without waiting for
     * anything. */
    while ((r = look(applied, commit)) == COX_EAGAIN) {
        coxi_wait_for_end(&applied->ended, &applied->lock);
    }
    if (r == 0) {
        /* Do all that can fail now, so that the end cannot fail. */
        const struct entry *entry = known(applied, commit->closure);
        r = use_mark(applied, entry != NULL ? entry->mark : COXI_MARK_NONE, &segment,
                     &open.mark);
    }
    if (r == 0) {
        applied->open[applied->n_open++] = open;
    }
    coxi_unlock(&applied->lock);
    return r;
}

void coxi_applied_end(struct coxi_applied *applied, uint64_t closure, int failed)
{
    coxi_lock(&applied->lock);
    size_t i = find_open(applied, closure);
    uint32_t mark = applied->open[i].mark;
    applied->open[i] = applied->open[--applied->n_open];
    if (failed == 0 && closure > applied->watermark) {
        struct entry *entry = entry_of(applied, closure);
        uint32_t old = entry->mark;
        entry->mark = mark;
        mark = old;
        if (closure > applied->highest) {
            applied->highest = closure;
        }
    }
    drop_mark(applied, mark);
    (void)pthread_cond_broadcast(&applied->ended);
    coxi_unlock(&applied->lock);
}

int coxi_applied_ask(struct coxi_applied *applied, uint64_t closure)
{
    coxi_lock(&applied->lock);
    const struct entry *entry = known(applied, closure);
    int r = closure <= applied->watermark ||
                    (entry != NULL && entry->mark != COXI_MARK_NONE)
                ? COX_EEXIST
                : check_window(applied, closure);
    coxi_unlock(&applied->lock);
    return r;
}

/* Gives back the memory of a ring that has grown because a watermark came late, if the
 * set is empty now. An open commit counts on its place in the ring. */
static void shrink(struct coxi_applied *applied) COXI_REQUIRES(applied->lock)
{
    if (applied->highest > applied->watermark || applied->n_open > 0 ||
        applied->capacity <= RING_KEPT) {
        return;
    }
    struct entry *ring = calloc(RING_FIRST, sizeof(*ring));
    if (ring != NULL) {
        free(applied->ring);
        applied->ring = ring;
        applied->capacity = RING_FIRST;
    }
}

int coxi_applied_advance(struct coxi_applied *applied, uint64_t watermark)
{
    int r = check_id(watermark);
    if (r != 0) {
        return r;
    }
    coxi_lock(&applied->lock);
    uint64_t last = watermark < applied->highest ? watermark : applied->highest;
    for (uint64_t id = applied->watermark + 1; id <= last; id++) {
        struct entry *entry = entry_of(applied, id);
        drop_mark(applied, entry->mark);
        *entry = (struct entry){0};
    }
    if (watermark > applied->watermark) {
        applied->watermark = watermark;
    }
    shrink(applied);
    coxi_unlock(&applied->lock);
    return 0;
}

/* Appends the segments of a mark. */
static int list_mark(const struct coxi_applied *applied, uint32_t mark,
                     struct coxi_buffer *segments, struct coxi_buffer *touched)
    COXI_REQUIRES(applied->lock)
{
    int r = 0;
    uint32_t at = 0;
    struct coxi_segment segment;
    while (r == 0 && coxi_marks_next(applied->marks, mark, &at, &segment)) {
        struct coxi_voided_segment told = {segment.segment, segment.last,
                                           (uint32_t)segment.n_touched};
        r = coxi_buffer_append_raw(segments, &told, sizeof(told));
        if (r == 0 && segment.n_touched > 0) {
            r = coxi_buffer_append_raw(touched, segment.touched,
                                       segment.n_touched * sizeof(uint32_t));
        }
    }
    return r;
}

int coxi_applied_void(struct coxi_applied *applied, uint64_t closure, uint32_t attempt,
                      struct coxi_buffer *segments, struct coxi_buffer *touched)
{
    int r = check_id(closure);
    if (r != 0) {
        return r;
    }
    coxi_lock(&applied->lock);
    /* As in coxi_applied_begin, the open commit ends without waiting for anything. */
    while (find_open(applied, closure) < applied->n_open) {
        coxi_wait_for_end(&applied->ended, &applied->lock);
    }
    if (closure > applied->watermark) {
        r = check_window(applied, closure);
        r = r == 0 ? cover(applied, closure) : r;
    }
    if (r == 0 && closure > applied->watermark) {
        struct entry *entry = entry_of(applied, closure);
        entry->fence = attempt > entry->fence ? attempt : entry->fence;
        applied->highest = closure > applied->highest ? closure : applied->highest;
        r = list_mark(applied, entry->mark, segments, touched);
    }
    coxi_unlock(&applied->lock);
    return r;
}

/* ---- the set as a list, and back */

struct listing {
    struct coxi_buffer intervals; /* struct coxi_interval */
    struct coxi_buffer touched;
    /* The last interval of each segment, indexed by segment number. */
    struct coxi_maybe latest[COXI_SEGMENTS_MAX];
};

static bool is_alike(const struct listing *listing,
                     const struct coxi_interval *interval,
                     const struct coxi_segment *segment)
{
    const uint32_t *touched = (const uint32_t *)(const void *)listing->touched.data;
    COXI_CHECK(interval->touched_n == 0 || touched != NULL);
    return (interval->ends != 0) == segment->last &&
           interval->touched_n == segment->n_touched &&
           (interval->touched_n == 0 ||
            memcmp(touched + interval->touched_at, segment->touched,
                   segment->n_touched * sizeof(*touched)) == 0);
}

/* Adds a segment of closure `id`, which is the highest closure so far. */
static int list_one(struct listing *listing, uint64_t id,
                    const struct coxi_segment *segment)
{
    struct coxi_maybe *latest = &listing->latest[segment->segment];
    struct coxi_interval *intervals =
        (struct coxi_interval *)(void *)listing->intervals.data;
    struct coxi_interval *before =
        coxi_maybe_is_some(*latest) ? &intervals[coxi_maybe_index(*latest)] : NULL;
    bool alike = before != NULL && is_alike(listing, before, segment);
    if (alike && before->last + 1 == id) {
        before->last = id;
        return 0;
    }
    struct coxi_interval interval = {
        .first = id,
        .last = id,
        .segment = segment->segment,
        .ends = segment->last,
        .touched_at = alike ? before->touched_at
                            : (uint32_t)(listing->touched.len / sizeof(uint32_t)),
        .touched_n = (uint32_t)segment->n_touched,
    };
    uint32_t at = (uint32_t)(listing->intervals.len / sizeof(interval));
    int r = coxi_buffer_append_raw(&listing->intervals, &interval, sizeof(interval));
    if (r == 0 && !alike && segment->n_touched > 0) {
        r = coxi_buffer_append_raw(&listing->touched, segment->touched,
                                   segment->n_touched * sizeof(uint32_t));
    }
    *latest = coxi_maybe_of(at);
    return r;
}

static int by_segment(const void *a, const void *b)
{
    const struct coxi_interval *x = a;
    const struct coxi_interval *y = b;
    if (x->segment != y->segment) {
        return x->segment < y->segment ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

int coxi_applied_list(struct coxi_applied *applied, struct coxi_applied_list *ret)
{
    struct listing listing = {0};
    int r = 0;
    coxi_lock(&applied->lock);
    for (uint64_t id = applied->watermark + 1; r == 0 && id <= applied->highest; id++) {
        uint32_t mark = entry_of(applied, id)->mark;
        uint32_t at = 0;
        struct coxi_segment segment;
        while (r == 0 && coxi_marks_next(applied->marks, mark, &at, &segment)) {
            r = list_one(&listing, id, &segment);
        }
    }
    uint64_t watermark = applied->watermark;
    coxi_unlock(&applied->lock);
    if (r != 0) {
        coxi_buffer_fini(&listing.intervals);
        coxi_buffer_fini(&listing.touched);
        return r;
    }
    size_t n = listing.intervals.len / sizeof(struct coxi_interval);
    if (n > 1) {
        qsort(listing.intervals.data, n, sizeof(struct coxi_interval), by_segment);
    }
    *ret = (struct coxi_applied_list){
        .watermark = watermark,
        .intervals = (struct coxi_interval *)(void *)listing.intervals.data,
        .n_intervals = n,
        .touched = (uint32_t *)(void *)listing.touched.data,
        .n_touched = listing.touched.len / sizeof(uint32_t),
    };
    return 0;
}

/* Adds the interval's segment to each of its closures. */
static int load_interval(struct coxi_applied *applied,
                         const struct coxi_interval *interval, const uint32_t *touched)
    COXI_REQUIRES(applied->lock)
{
    struct coxi_segment segment = {interval->segment, interval->ends != 0,
                                   touched + interval->touched_at, interval->touched_n};
    if (interval->first <= applied->watermark || interval->last < interval->first ||
        interval->last - applied->watermark > COXI_APPLIED_WINDOW ||
        interval->last > COXI_CLOSURE_MAX || interval->segment >= COXI_SEGMENTS_MAX ||
        interval->touched_n > COXI_PS_MAX) {
        return coxi_error(
            COX_EFORMAT, "closures %llu to %llu cannot be in an applied set",
            (unsigned long long)interval->first, (unsigned long long)interval->last);
    }
    int r = cover(applied, interval->last);
    for (uint64_t id = interval->first; r == 0 && id <= interval->last; id++) {
        struct entry *entry = entry_of(applied, id);
        struct coxi_segment there;
        uint32_t mark;
        if (coxi_marks_find(applied->marks, entry->mark, segment.segment, &there)) {
            return coxi_error(COX_EFORMAT, "closure %llu is twice in an applied set",
                              (unsigned long long)id);
        }
        r = use_mark(applied, entry->mark, &segment, &mark);
        if (r == 0) {
            drop_mark(applied, entry->mark);
            entry->mark = mark;
            applied->highest = id > applied->highest ? id : applied->highest;
        }
    }
    return r;
}

int coxi_applied_load(struct coxi_applied *applied,
                      const struct coxi_applied_list *list)
{
    if (check_id(list->watermark) != 0) {
        return coxi_error(COX_EFORMAT, "closure %llu cannot be a watermark",
                          (unsigned long long)list->watermark);
    }
    int r = 0;
    coxi_lock(&applied->lock);
    applied->watermark = applied->highest = list->watermark;
    for (size_t i = 0; r == 0 && i < list->n_intervals; i++) {
        r = load_interval(applied, &list->intervals[i], list->touched);
    }
    coxi_unlock(&applied->lock);
    return r;
}
