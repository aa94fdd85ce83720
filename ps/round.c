/*
 * Rounds. A commit of a round waits (ps/rounds.h) until the round ends. The end of a
 * round says which attempts of which closures count. Their gradients are multiplied by
 * the factors that it names and added up, in the order of the closures; the sum goes
 * through the optimizer once. Other updates are applied one after the other, in the
 * same order, before the gradients. Sums in one order have one result, whatever the
 * order of arrival, and however the rows are spread over ps.
 *
 * The staleness of a gradient is what its values have missed when the round ends. If its
 * variable drops or scales stale gradients, that happens before the sum. A round whose
 * gradients of a variable are all dropped does not touch that variable, and its t does
 * not rise. Gradients of a round are not compensated for delays.
 *
 * Threads: as in commit.c. Memory: the sums of a round, and as much again for the search
 * for equal rows; all in scratch. It is not reserved when commits begin to wait, so the
 * end may be refused for lack of memory (and leaves the round as it was). Before the end
 * nobody knows which commits count, so every commit would have to reserve for sums that
 * are made once; and new rows of tables, which may find no room either, cannot be made
 * before the end, because snapshots, counts and evictions would see them. Cost: a hash
 * for each listed row.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/distinct.h"
#include "common/error.h"
#include "common/floats.h"
#include "common/hash.h"
#include "common/trace.h"
#include "ps/ready.h"
#include "ps/rounds.h"

enum { PIECE = 256 };

/* A gradient of a commit that counts, before it is added up. */
struct source {
    struct coxi_ready update;
    float factor;
    size_t order; /* by closure, then segment, then place in its commit */
};

/* The end of a round while it is being applied. */
struct ending {
    struct coxi_store *store;
    const struct coxi_commit *commit;
    const struct coxi_round_part *parts;
    uint64_t first; /* closure of the first part */
    uint64_t n_parts;
    struct coxi_buffer sources; /* struct source; dropped ones first, once sorted */
    size_t n_dropped; /* sources that no sum has, because they are too stale */
    struct coxi_buffer updates; /* struct coxi_ready: what will be applied */
    struct coxi_buffer *scratch;
};

/* ---- a commit begins to wait */

/* Checks a commit of a round as if it were applied now. */
static int check(const struct coxi_store *store, const struct coxi_commit *commit,
                 const void *payload, size_t len)
{
    const uint8_t *at = payload;
    int r = coxi_applied_check(commit);
    r = r == 0 ? coxi_ready_check_scale(commit) : r;
    for (size_t i = 0; r == 0 && i < commit->n_updates; i++) {
        struct coxi_ready ready;
        r = coxi_ready_take(store, commit, &commit->updates[i], &at, &len, &ready);
    }
    return r == 0 && len > 0
               ? coxi_error(COX_EINVAL, "a commit has %zu bytes more than its updates",
                            len)
               : r;
}

int coxi_store_round_wait(struct coxi_store *store, const struct coxi_commit *commit,
                          const void *payload, size_t len, bool *ret_whole)
{
    int r = check(store, commit, payload, len);
    return r == 0 ? coxi_rounds_put(store->rounds, store->applied, commit, payload, len,
                                    ret_whole)
                  : r;
}

int coxi_store_round_parts(struct coxi_store *store, uint64_t round, uint32_t n,
                           struct coxi_round_part *ret)
{
    double sum = 0;
    uint32_t i = 0;
    if (!coxi_rounds_hold(store->rounds, round)) {
        return coxi_error(COX_ECANCELLED, "the round has failed");
    }
    const struct coxi_waiting *first = coxi_rounds_first(store->rounds, round);
    const struct coxi_waiting *waiting = first;
    bool is_mean = first != NULL && first->commit.share.mean;
    for (; waiting != NULL; waiting = coxi_rounds_next(store->rounds, waiting)) {
        sum += (double)waiting->commit.share.weight;
    }
    sum = is_mean ? sum : 1;
    for (waiting = first; waiting != NULL && i < n; i++) {
        ret[i] = (struct coxi_round_part){
            1, coxi_round_factor(waiting->commit.share.weight, sum)};
        waiting = coxi_rounds_next(store->rounds, waiting);
    }
    bool has_more = waiting != NULL;
    coxi_rounds_let_go(store->rounds, round);
    return i == n && !has_more
               ? 0
               : coxi_error(COX_ECANCELLED, "another attempt of its closures has come");
}

/* ---- what counts */

/* True if no later attempt of the closure has the segment. */
static bool is_latest(const struct coxi_waiting *waiting,
                      const struct coxi_waiting *next)
{
    return next == NULL || next->commit.closure != waiting->commit.closure ||
           next->commit.segment != waiting->commit.segment;
}

/* The part of a commit in its round; NULL: it does not count. */
static const struct coxi_round_part *part_of(const struct ending *ending,
                                             const struct coxi_waiting *waiting,
                                             const struct coxi_waiting *next)
{
    uint64_t at = waiting->commit.closure - ending->first;
    const struct coxi_round_part *part =
        at < ending->n_parts ? &ending->parts[at] : NULL;
    bool counts = part != NULL && (part->attempt == COXI_ATTEMPT_LATEST
                                       ? is_latest(waiting, next)
                                       : part->attempt == waiting->commit.attempt);
    return counts ? part : NULL;
}

static int append(const struct ending *ending, struct coxi_buffer *buffer,
                  const void *item, size_t bytes)
{
    int r = coxi_memory_reserve(ending->store->work, buffer, bytes, "a round");
    return r == 0 ? coxi_buffer_append_raw(buffer, item, bytes) : r;
}

/* Takes the updates of a commit that counts: gradients are sources of sums, the others
 * are applied as they are. */
static int take(struct ending *ending, const struct coxi_waiting *waiting, float factor)
{
    const struct coxi_commit *commit = &waiting->commit;
    const uint8_t *at = waiting->payload;
    size_t len = waiting->len;
    int r = 0;
    for (size_t i = 0; r == 0 && i < commit->n_updates; i++) {
        struct source source = {.order = ending->sources.len};
        struct coxi_ready *update = &source.update;
        r = coxi_ready_take(ending->store, commit, &commit->updates[i], &at, &len,
                            update);
        if (r == 0 && update->op == COXI_OP_GRADIENT) {
            uint32_t kind = update->place.part->variable->optimizer.kind;
            bool scaled = update->loss_scale != 0 && kind != COXI_OPTIMIZER_LOSS_SCALE;
            source.factor = scaled ? factor / update->loss_scale : factor;
            ending->n_dropped += update->is_dropped ? 1 : 0;
            r = append(ending, &ending->sources, &source, sizeof(source));
        } else if (r == 0) {
            r = append(ending, &ending->updates, update, sizeof(*update));
        }
    }
    return r;
}

/*
 * Checks that commits of as many closures wait as the client says. It sends the end to
 * the incarnation that has acknowledged them, or after they were replayed. So more or
 * fewer wait only if a step has touched other ps when it was replayed.
 */
static int check_found(const struct ending *ending, uint32_t n_found)
{
    const struct coxi_commit *commit = ending->commit;
    return n_found == commit->n_waiting
               ? 0
               : coxi_error(COX_EDIVERGED,
                            "%u closures of round %llu have touched ps %u, and commits "
                            "of %u wait there: which ps a step touches may depend only "
                            "on its arguments and cox_step_seed",
                            commit->n_waiting, (unsigned long long)commit->closure,
                            ending->store->ps_index, n_found);
}

static int take_all(struct ending *ending)
{
    int r = 0;
    uint32_t n_found = 0;
    uint64_t last_found = 0;
    struct coxi_rounds *rounds = ending->store->rounds;
    const struct coxi_waiting *waiting =
        coxi_rounds_first(rounds, ending->commit->closure);
    while (r == 0 && waiting != NULL) {
        const struct coxi_waiting *next = coxi_rounds_next(rounds, waiting);
        const struct coxi_round_part *part = part_of(ending, waiting, next);
        r = part != NULL ? take(ending, waiting, part->factor) : 0;
        if (part != NULL && part->attempt != COXI_ATTEMPT_LATEST) {
            n_found += waiting->commit.closure != last_found; /* it may have flushed */
            last_found = waiting->commit.closure;
        }
        waiting = next;
    }
    return r == 0 ? check_found(ending, n_found) : r;
}

static int by_variable(const void *a, const void *b)
{
    const struct source *x = a;
    const struct source *y = b;
    const struct coxi_part *p = x->update.place.part;
    const struct coxi_part *q = y->update.place.part;
    if (x->update.is_dropped != y->update.is_dropped) {
        return x->update.is_dropped ? -1 : 1;
    }
    if (p != q) {
        return p < q ? -1 : 1;
    }
    return x->order < y->order ? -1 : x->order > y->order;
}

/* ---- sums */

/* Adds `factor` times n numbers of type `dtype` to `sum`. */
static void add(float *sum, uint32_t dtype, const void *values, size_t n, float factor)
{
    float wide[PIECE];
    for (size_t at = 0; at < n; at += PIECE) {
        size_t count = n - at < PIECE ? n - at : PIECE;
        const float *from = wide;
        if (dtype == COX_F32) {
            from = (const float *)values + at;
        } else {
            coxi_floats_widen(dtype, (const uint16_t *)values + at, count, wide);
        }
        for (size_t i = 0; i < count; i++) {
            sum[at + i] += factor * from[i];
        }
    }
}

/* True if all sources have the same rows, one after the other: their sum has them, too. */
static bool is_whole(const struct source *sources, size_t n)
{
    const struct coxi_dense_rows *rows = &sources[0].update.place.rows;
    bool whole = rows->listed == NULL;
    for (size_t i = 1; whole && i < n; i++) {
        const struct coxi_dense_rows *other = &sources[i].update.place.rows;
        whole = other->listed == NULL && other->begin == rows->begin &&
                other->count == rows->count;
    }
    return whole;
}

/* The distinct rows of the sources, and the sum of each. */
struct sums {
    struct coxi_distinct rows;
    float *values;
};

static void add_rows(struct sums *sums, const struct source *source)
{
    const struct coxi_ready *update = &source->update;
    const struct coxi_dense_rows *rows = &update->place.rows;
    size_t dim = update->place.row_bytes / sizeof(float);
    size_t bytes = dim * (update->dtype == COX_F32 ? sizeof(float) : sizeof(uint16_t));
    for (size_t i = 0; i < rows->count; i += PIECE) {
        uint64_t keys[PIECE];
        uint32_t at[PIECE];
        size_t count = rows->count - i < PIECE ? rows->count - i : PIECE;
        for (size_t k = 0; k < count; k++) {
            keys[k] = rows->listed != NULL ? rows->listed[i + k] : rows->begin + i + k;
        }
        coxi_distinct_add(&sums->rows, keys, count, at);
        for (size_t k = 0; k < count; k++) {
            add(sums->values + at[k] * dim, update->dtype,
                (const uint8_t *)update->values + (i + k) * bytes, dim, source->factor);
        }
    }
}

/* How many bytes `room` takes. Gradients of no rows have a place, too: otherwise there
 * might be no scratch at all. */
static size_t room_for(size_t bytes)
{
    return coxi_align(bytes > 0 ? bytes : 1, 8);
}

/* Room in scratch, filled with zeros, whose address stays until the round has ended:
 * `sum_all` reserves enough for all sums at once. */
static void *room(struct ending *ending, size_t bytes)
{
    struct coxi_buffer *scratch = ending->scratch;
    void *at = scratch->data + scratch->len;
    bytes = room_for(bytes);
    memset(at, 0, bytes);
    scratch->len += bytes;
    return at;
}

/* How many rows n sources list; distinct or not. */
static size_t count_rows(const struct source *sources, size_t n)
{
    size_t rows = 0;
    for (size_t i = 0; i < n; i++) {
        rows += sources[i].update.place.rows.count;
    }
    return rows;
}

/* The bytes that the sum of n sources takes. */
static size_t sum_room(const struct source *sources, size_t n)
{
    size_t row_bytes = sources[0].update.place.row_bytes;
    if (is_whole(sources, n)) {
        return room_for(sources[0].update.place.rows.count * row_bytes);
    }
    size_t rows = count_rows(sources, n);
    return room_for(rows * sizeof(uint64_t)) + room_for(rows * row_bytes) +
           room_for(coxi_distinct_slots(rows) * sizeof(struct coxi_maybe));
}

/* Adds up n sources of one variable to one update. */
static int sum(struct ending *ending, const struct source *sources, size_t n)
{
    struct coxi_ready update = sources[0].update;
    size_t row_bytes = update.place.row_bytes;
    if (is_whole(sources, n)) {
        size_t numbers = update.place.rows.count * row_bytes / sizeof(float);
        float *sums = room(ending, numbers * sizeof(float));
        for (size_t i = 0; i < n; i++) {
            add(sums, sources[i].update.dtype, sources[i].update.values, numbers,
                sources[i].factor);
        }
        update.values = sums;
    } else {
        size_t rows = count_rows(sources, n);
        struct sums sums = {.rows = {.keys = room(ending, rows * sizeof(uint64_t)),
                                     .n_slots = coxi_distinct_slots(rows),
                                     .seed = coxi_hash_seed()},
                            .values = room(ending, rows * row_bytes)};
        sums.rows.slots = room(ending, sums.rows.n_slots * sizeof(struct coxi_maybe));
        for (size_t i = 0; i < n; i++) {
            add_rows(&sums, &sources[i]);
        }
        update.values = sums.values;
        update.place.rows = (struct coxi_dense_rows){sums.rows.keys, 0, sums.rows.n};
    }
    update.dtype = COX_F32;
    update.is_aged = false; /* its sources are */
    update.bases = NULL;
    update.loss_scale = 0; /* its step is that of the first source */
    return append(ending, &ending->updates, &update, sizeof(update));
}

/* How many of n sources, sorted by variable, are of the first one's. */
static size_t count_alike(const struct source *sources, size_t n)
{
    size_t i = 1;
    while (i < n && sources[i].update.place.part == sources[0].update.place.part) {
        i++;
    }
    return i;
}

static int sum_all(struct ending *ending)
{
    struct source *sources = (struct source *)(void *)ending->sources.data;
    size_t n = ending->sources.len / sizeof(*sources);
    size_t bytes = 0;
    if (n > 1) {
        qsort(sources, n, sizeof(*sources), by_variable);
    }
    if (n > 0) { /* otherwise there may be no memory for any */
        sources += ending->n_dropped;
        n -= ending->n_dropped;
    }
    for (size_t i = 0; i < n; i += count_alike(sources + i, n - i)) {
        bytes += sum_room(sources + i, count_alike(sources + i, n - i));
    }
    for (size_t i = 0; i < ending->updates.len / sizeof(struct coxi_ready); i++) {
        bytes += coxi_ready_room(
            &((const struct coxi_ready *)(const void *)ending->updates.data)[i]);
    }
    int r =
        coxi_memory_reserve(ending->store->work, ending->scratch,
                            bytes + count_rows(sources, n) * sizeof(void *), "a round");
    for (size_t i = 0; r == 0 && i < n; i += count_alike(sources + i, n - i)) {
        r = sum(ending, sources + i, count_alike(sources + i, n - i));
    }
    return r;
}

/* ---- the end */

static int end_round(struct ending *ending)
{
    int r = take_all(ending);
    r = r == 0 ? sum_all(ending) : r;
    struct coxi_ready *updates = (struct coxi_ready *)(void *)ending->updates.data;
    size_t n = ending->updates.len / sizeof(*updates);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = coxi_ready_resolve(ending->store, &updates[i], ending->scratch);
    }
    for (size_t i = 0; i < n; i++) {
        (r == 0 ? coxi_ready_apply : coxi_ready_release)(&updates[i], ending->scratch);
    }
    const struct source *sources =
        (const struct source *)(const void *)ending->sources.data;
    for (size_t i = 0; r == 0 && i < ending->sources.len / sizeof(*sources); i++) {
        coxi_ready_count(&sources[i].update);
    }
    return r;
}

int coxi_store_round_end(struct coxi_store *store, const struct coxi_commit *commit,
                         const void *payload, size_t len, struct coxi_buffer *scratch)
{
    const struct coxi_update *update = &commit->updates[0];
    if (commit->n_updates != 1 || update->begin >= commit->closure ||
        update->count != commit->closure - update->begin ||
        update->count > len / sizeof(struct coxi_round_part)) {
        return coxi_error(
            COX_EINVAL, "closure %llu ends no round of %llu closures from %llu on",
            (unsigned long long)commit->closure, (unsigned long long)update->count,
            (unsigned long long)update->begin);
    }
    for (uint64_t i = 0; i < update->count; i++) {
        const struct coxi_round_part *part =
            (const struct coxi_round_part *)payload + i;
        if (!isfinite(part->factor)) {
            return coxi_error(COX_EINVAL, "closure %llu counts %g times in its round",
                              (unsigned long long)(update->begin + i),
                              (double)part->factor);
        }
    }
    struct ending ending = {.store = store,
                            .commit = commit,
                            .parts = payload,
                            .first = update->begin,
                            .n_parts = update->count,
                            .scratch = scratch};
    uint64_t begun_ns = coxi_trace_begin();
    scratch->len = 0;
    bool held = coxi_rounds_hold(store->rounds, commit->closure);
    int r = end_round(&ending);
    if (held) {
        coxi_rounds_let_go(store->rounds, commit->closure);
    }
    coxi_memory_free(store->work, &ending.sources);
    coxi_memory_free(store->work, &ending.updates);
    coxi_trace_end_part(begun_ns, COXI_TRACE_ROUND, update->count);
    return r;
}
