/* See rounds.h. Rounds are in buckets by their number: a worker may name any of the
 * COXI_APPLIED_WINDOW rounds above the watermark, and no more of these share a bucket
 * than that window has room for. Cost: a commit that does not come in the order of
 * closures walks those that came before it and belong behind it. */
#include "ps/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/sync.h"
#include "coxswain/round.h"
#include "ps/applied.h"
#include "ps/memory.h"

enum { BUCKETS = 1024 };

struct round {
    struct round *next; /* in its bucket */
    uint64_t number;
    uint32_t n_holders;
    bool dropped; /* the last holder frees it */
    bool torn;    /* it has a commit that is not all of a closure */
    uint32_t n_whole;
    struct coxi_waiting *first;
    struct coxi_waiting *last;
};

struct coxi_rounds {
    struct coxi_mutex lock; /* before that of the applied set */
    struct coxi_memory *memory;
    struct round *buckets[BUCKETS] COXI_GUARDED_BY(lock); /* by their numbers */
};

int coxi_rounds_new(struct coxi_memory *memory, struct coxi_rounds **ret)
{
    struct coxi_rounds *rounds = calloc(1, sizeof(*rounds));
    if (rounds == NULL) {
        return coxi_error_memory("rounds");
    }
    coxi_mutex_init(&rounds->lock);
    rounds->memory = memory;
    *ret = rounds;
    return 0;
}

static void free_waiting(struct coxi_rounds *rounds, struct coxi_waiting *waiting)
{
    while (waiting != NULL) {
        struct coxi_waiting *next = waiting->next;
        coxi_memory_give(rounds->memory, waiting->bytes);
        free(waiting);
        waiting = next;
    }
}

/* Where the round is listed; or where its bucket ends, if it is not. */
static struct round **find(struct coxi_rounds *rounds, uint64_t number)
    COXI_REQUIRES(rounds->lock)
{
    struct round **at = &rounds->buckets[number % BUCKETS];
    while (*at != NULL && (*at)->number != number) {
        at = &(*at)->next;
    }
    return at;
}

static void drop(struct coxi_rounds *rounds, struct round **at)
    COXI_REQUIRES(rounds->lock)
{
    struct round *round = *at;
    *at = round->next;
    free_waiting(rounds, round->first);
    coxi_memory_give(rounds->memory, sizeof(*round));
    free(round);
}

void coxi_rounds_free(struct coxi_rounds *rounds)
{
    if (rounds != NULL) {
        coxi_lock(&rounds->lock);
        for (size_t i = 0; i < BUCKETS; i++) {
            while (rounds->buckets[i] != NULL) {
                drop(rounds, &rounds->buckets[i]);
            }
        }
        coxi_unlock(&rounds->lock);
        coxi_mutex_fini(&rounds->lock);
        free(rounds);
    }
}

/* A copy of a commit, with its lists and its payload behind it. */
static int copy(struct coxi_rounds *rounds, const struct coxi_commit *commit,
                const void *payload, size_t len, struct coxi_waiting **ret)
{
    size_t updates = commit->n_updates * sizeof(*commit->updates);
    size_t touched = commit->n_touched * sizeof(*commit->touched);
    size_t updates_at = coxi_align(len, 8);
    size_t pulled = commit->n_pulled * sizeof(*commit->pulled);
    size_t pulled_at = updates_at + coxi_align(updates, 8);
    size_t touched_at = pulled_at + pulled;
    size_t bytes = sizeof(**ret) + touched_at + touched;
    int r =
        coxi_memory_take(rounds->memory, bytes, "a commit that waits for its round");
    if (r != 0) {
        return r;
    }
    struct coxi_waiting *waiting = malloc(bytes);
    if (waiting == NULL) {
        coxi_memory_give(rounds->memory, bytes);
        return coxi_error_memory("a commit that waits for its round");
    }
    uint8_t *to = (uint8_t *)waiting->content;
    *waiting = (struct coxi_waiting){.bytes = bytes, .commit = *commit, .len = len};
    waiting->payload = to;
    waiting->commit.updates =
        (const struct coxi_update *)(const void *)(to + updates_at);
    waiting->commit.pulled = (const uint64_t *)(const void *)(to + pulled_at);
    waiting->commit.touched = (const uint32_t *)(const void *)(to + touched_at);
    if (len > 0) {
        memcpy(to, payload, len);
    }
    if (updates > 0) {
        memcpy(to + updates_at, commit->updates, updates);
    }
    if (pulled > 0) {
        memcpy(to + pulled_at, commit->pulled, pulled);
    }
    if (touched > 0) {
        memcpy(to + touched_at, commit->touched, touched);
    }
    *ret = waiting;
    return 0;
}

/* Below 0: a comes before b; 0: they are the same commit. */
static int compare(const struct coxi_commit *a, const struct coxi_commit *b)
{
    if (a->closure != b->closure) {
        return a->closure < b->closure ? -1 : 1;
    }
    if (a->segment != b->segment) {
        return a->segment < b->segment ? -1 : 1;
    }
    return a->attempt < b->attempt ? -1 : a->attempt > b->attempt;
}

/* True if the commit is the first attempt's, and all of a closure of the round. */
static bool is_all(const struct coxi_commit *commit)
{
    uint64_t distance = commit->round - commit->closure;
    return commit->share.n > 0 && distance <= commit->share.n && commit->attempt == 1 &&
           commit->segment == 0 && commit->last && commit->n_touched == 1;
}

/* Counts a new commit; true: all of the round is here. */
static bool count(struct round *round, const struct coxi_commit *commit)
{
    const struct coxi_share *first = &round->first->commit.share;
    round->torn = round->torn || !is_all(commit) || commit->share.n != first->n ||
                  commit->share.mean != first->mean;
    round->n_whole++; /* nothing else has this closure, unless the round is torn */
    return !round->torn && round->n_whole == first->n;
}

static int make_round(struct coxi_rounds *rounds, uint64_t number, struct round **ret)
{
    int r = coxi_memory_take(rounds->memory, sizeof(**ret), "a round");
    if (r != 0) {
        return r;
    }
    struct round *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        coxi_memory_give(rounds->memory, sizeof(*made));
        return coxi_error_memory("a round");
    }
    made->number = number;
    *ret = made;
    return 0;
}

/* Puts a commit at its place in the round. */
static int insert(struct coxi_rounds *rounds, struct coxi_waiting *waiting,
                  bool *ret_whole) COXI_REQUIRES(rounds->lock)
{
    struct round **there = find(rounds, waiting->commit.round);
    int r = *there == NULL ? make_round(rounds, waiting->commit.round, there) : 0;
    if (r != 0) {
        return r;
    }
    struct round *round = *there;
    struct coxi_waiting *before = round->last;
    int order = -1;
    while (before != NULL && (order = compare(&before->commit, &waiting->commit)) > 0) {
        before = before->prev;
    }
    if (before != NULL && order == 0) {
        return COX_EEXIST;
    }
    waiting->prev = before;
    waiting->next = before != NULL ? before->next : round->first;
    *(before != NULL ? &before->next : &round->first) = waiting;
    *(waiting->next != NULL ? &waiting->next->prev : &round->last) = waiting;
    *ret_whole = count(round, &waiting->commit);
    return 0;
}

/* COX_EINVAL unless the commit is one of a closure that its round may have. */
static int check(const struct coxi_commit *commit)
{
    if (commit->round <= commit->closure ||
        commit->round - commit->closure > COX_ROUND_MAX || commit->attempt == 0 ||
        commit->attempt == COXI_ATTEMPT_LATEST) {
        return coxi_error(COX_EINVAL, "attempt %u of closure %llu is in no round %llu",
                          commit->attempt, (unsigned long long)commit->closure,
                          (unsigned long long)commit->round);
    }
    if (!isfinite(commit->share.weight) || commit->share.weight < 0) {
        return coxi_error(COX_EINVAL, "closure %llu counts %g times in its round",
                          (unsigned long long)commit->closure,
                          (double)commit->share.weight);
    }
    return 0;
}

int coxi_rounds_put(struct coxi_rounds *rounds, struct coxi_applied *applied,
                    const struct coxi_commit *commit, const void *payload, size_t len,
                    bool *ret_whole)
{
    struct coxi_waiting *waiting = NULL;
    *ret_whole = false;
    int r = check(commit);
    r = r == 0 ? copy(rounds, commit, payload, len, &waiting) : r;
    if (r != 0) {
        return r;
    }
    coxi_lock(&rounds->lock);
    r = coxi_applied_ask(applied, commit->round);
    r = r == 0 ? insert(rounds, waiting, ret_whole) : r;
    coxi_unlock(&rounds->lock);
    if (r != 0) {
        free_waiting(rounds, waiting);
    }
    return r;
}

bool coxi_rounds_hold(struct coxi_rounds *rounds, uint64_t number)
{
    coxi_lock(&rounds->lock);
    struct round *round = *find(rounds, number);
    if (round != NULL) {
        round->n_holders++;
    }
    coxi_unlock(&rounds->lock);
    return round != NULL;
}

void coxi_rounds_let_go(struct coxi_rounds *rounds, uint64_t number)
{
    coxi_lock(&rounds->lock);
    struct round **at = find(rounds, number);
    (*at)->n_holders--;
    if ((*at)->n_holders == 0 && (*at)->dropped) {
        drop(rounds, at);
    }
    coxi_unlock(&rounds->lock);
}

const struct coxi_waiting *coxi_rounds_first(struct coxi_rounds *rounds, uint64_t round)
{
    coxi_lock(&rounds->lock);
    const struct round *there = *find(rounds, round);
    const struct coxi_waiting *first = there != NULL ? there->first : NULL;
    coxi_unlock(&rounds->lock);
    return first;
}

const struct coxi_waiting *coxi_rounds_next(struct coxi_rounds *rounds,
                                            const struct coxi_waiting *waiting)
{
    coxi_lock(&rounds->lock);
    const struct coxi_waiting *next = waiting->next;
    coxi_unlock(&rounds->lock);
    return next;
}

/* Drops a round now, or when nobody holds it any more. Returns where the next one is. */
static struct round **drop_unheld(struct coxi_rounds *rounds, struct round **at)
    COXI_REQUIRES(rounds->lock)
{
    if ((*at)->n_holders > 0) {
        (*at)->dropped = true;
        return &(*at)->next;
    }
    drop(rounds, at);
    return at;
}

void coxi_rounds_drop(struct coxi_rounds *rounds, uint64_t round)
{
    coxi_lock(&rounds->lock);
    struct round **at = find(rounds, round);
    if (*at != NULL) {
        (void)drop_unheld(rounds, at);
    }
    coxi_unlock(&rounds->lock);
}

void coxi_rounds_drop_below(struct coxi_rounds *rounds, uint64_t watermark)
{
    coxi_lock(&rounds->lock);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct round **at = &rounds->buckets[i]; *at != NULL;) {
            at = (*at)->number <= watermark ? drop_unheld(rounds, at) : &(*at)->next;
        }
    }
    coxi_unlock(&rounds->lock);
}
