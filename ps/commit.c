/*
 * Commits. All work that can fail is done before the first update is applied, so a
 * commit is applied either as a whole or not at all.
 *
 * A commit that changes a rate changes nothing else, and nothing else runs beside it,
 * because updates read the rate without a lock.
 *
 * Threads: any, many at once: rows and blocks have locks of their own. Holds the
 * registry and the moment (read); to change a rate, the registry written. Cost: no
 * allocation once the caller's scratch has grown. Each row of a table takes 8 bytes of
 * scratch, and its gradient in F32 if it came narrow.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "net/message.h"
#include "ps/ready.h"
#include "ps/rounds.h"

/* The i-th update; the updates are at the start of scratch. */
static struct coxi_ready *ready_at(const struct coxi_buffer *scratch, size_t i)
{
    return (struct coxi_ready *)(void *)scratch->data + i;
}

static int apply_commit(struct coxi_store *store, const struct coxi_commit *commit,
                        const void *payload, size_t len, struct coxi_buffer *scratch)
{
    const uint8_t *at = payload;
    scratch->len = 0;
    int r = coxi_ready_check_scale(commit);
    if (r != 0) {
        return r;
    }
    size_t bytes = commit->n_updates * sizeof(struct coxi_ready);
    r = coxi_memory_reserve(store->work, scratch, bytes, "a commit");
    /* All zeros: no update is resolved yet. */
    r = r == 0 ? coxi_buffer_append(scratch, NULL, bytes) : r;
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < commit->n_updates; i++) {
        struct coxi_ready ready;
        r = coxi_ready_take(store, commit, &commit->updates[i], &at, &len, &ready);
        r = r == 0 ? coxi_ready_resolve(store, &ready, scratch) : r;
        *ready_at(scratch, i) = ready;
    }
    if (r == 0 && len > 0) {
        r = coxi_error(COX_EINVAL, "a commit has %zu bytes more than its updates", len);
    }
    for (size_t i = 0; i < commit->n_updates; i++) {
        (r == 0 ? coxi_ready_apply : coxi_ready_release)(ready_at(scratch, i), scratch);
        if (r == 0) {
            coxi_ready_count(ready_at(scratch, i));
        }
    }
    return r;
}

/* Applies a rate, which must be the only update of its commit. Registry written. */
static int apply_rate(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, struct coxi_buffer *scratch)
{
    (void)scratch;
    const struct coxi_update *update = &commit->updates[0];
    struct coxi_part *part =
        update->variable < store->n_parts ? &store->parts[update->variable] : NULL;
    struct coxi_rate rate;
    if (part == NULL || (part->table == NULL && part->dense == NULL)) {
        return coxi_error(COX_ENOENT, "ps %u has nothing of variable %u",
                          store->ps_index, update->variable);
    }
    if (commit->n_updates != 1 || len != sizeof(rate)) {
        return coxi_error(COX_EINVAL, "variable '%s': a rate comes alone, in %zu bytes",
                          part->variable->name, sizeof(rate));
    }
    memcpy(&rate, payload, sizeof(rate));
    return coxi_part_rate(part, &rate);
}

/* Applies a commit unless it was applied before. */
static int commit_once(
    struct coxi_store *store, const struct coxi_commit *commit, bool *ret_duplicate,
    int (*apply_it)(struct coxi_store *store, const struct coxi_commit *commit,
                    const void *payload, size_t len, struct coxi_buffer *scratch),
    const void *payload, size_t len, struct coxi_buffer *scratch)
    COXI_REQUIRES_SHARED(store->registry)
{
    coxi_read_lock(&store->moment);
    int r = coxi_store_check(store, &commit->session, commit->incarnation);
    if (r == 0) {
        r = coxi_applied_begin(store->applied, commit);
        *ret_duplicate = r == COX_EEXIST;
        if (r == 0) {
            r = apply_it(store, commit, payload, len, scratch);
            coxi_applied_end(store->applied, commit->closure, r);
            atomic_fetch_add_explicit(&store->commits, r == 0, memory_order_relaxed);
        } else if (r == COX_EEXIST) {
            atomic_fetch_add_explicit(&store->duplicates, 1, memory_order_relaxed);
            r = 0;
        }
    }
    coxi_rw_unlock(&store->moment);
    return r;
}

/* Ends a round, and forgets what waited for it. Registry read. */
static int end_round(struct coxi_store *store, const struct coxi_commit *commit,
                     const void *payload, size_t len, struct coxi_buffer *scratch,
                     bool *ret_duplicate) COXI_REQUIRES_SHARED(store->registry)
{
    int r = commit_once(store, commit, ret_duplicate, coxi_store_round_end, payload,
                        len, scratch);
    if (r == 0) {
        coxi_rounds_drop(store->rounds, commit->closure);
        coxi_ends_changed(&store->ends);
    }
    return r;
}

/* Ends a round of which all is here, without the client. If that fails, the client tries
 * it, and learns why. Registry read. */
static void end_whole(struct coxi_store *store, const struct coxi_commit *last,
                      struct coxi_buffer *scratch) COXI_REQUIRES_SHARED(store->registry)
{
    uint32_t n = last->share.n;
    const struct coxi_update update = {
        .op = COXI_OP_ROUND, .begin = last->round - n, .count = n};
    const struct coxi_commit end = {
        .session = last->session,
        .incarnation = last->incarnation,
        .closure = last->round,
        .attempt = 1,
        .last = true,
        .touched = &store->ps_index,
        .n_touched = 1,
        .updates = &update,
        .n_updates = 1,
        .n_waiting = n,
    };
    bool sees = last->share.after == 0 ||
                coxi_applied_ask(store->applied, last->share.after) == COX_EEXIST;
    struct coxi_round_part *parts = sees ? calloc(n, sizeof(*parts)) : NULL;
    bool duplicate;
    if (parts != NULL && coxi_store_round_parts(store, last->round, n, parts) == 0) {
        (void)end_round(store, &end, parts, n * sizeof(*parts), scratch, &duplicate);
    }
    free(parts);
}

/* Lets a commit wait for the end of its round. Registry read. */
static int wait_for_round(struct coxi_store *store, const struct coxi_commit *commit,
                          const void *payload, size_t len, struct coxi_buffer *scratch,
                          bool *ret_duplicate) COXI_REQUIRES_SHARED(store->registry)
{
    bool is_whole = false;
    int r = coxi_store_check(store, &commit->session, commit->incarnation);
    r = r == 0 ? coxi_store_round_wait(store, commit, payload, len, &is_whole) : r;
    *ret_duplicate = r == COX_EEXIST;
    if (r == 0 && is_whole) {
        end_whole(store, commit, scratch);
    }
    return r == COX_EEXIST ? 0 : r;
}

bool coxi_store_has_ended(struct coxi_store *store, uint64_t round)
{
    coxi_read_lock(&store->registry);
    bool has =
        store->applied != NULL && coxi_applied_ask(store->applied, round) == COX_EEXIST;
    coxi_rw_unlock(&store->registry);
    return has;
}

static bool has_op(const struct coxi_commit *commit, enum coxi_op op)
{
    return commit->n_updates > 0 && commit->updates[0].op == op;
}

int coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                      const void *payload, size_t len, struct coxi_buffer *scratch,
                      bool *ret_duplicate)
{
    int r;
    if (has_op(commit, COXI_OP_RATE)) {
        coxi_write_lock(&store->registry);
        r = commit_once(store, commit, ret_duplicate, apply_rate, payload, len,
                        scratch);
        coxi_rw_unlock(&store->registry);
        return r;
    }
    coxi_read_lock(&store->registry);
    if (commit->round != 0) {
        r = wait_for_round(store, commit, payload, len, scratch, ret_duplicate);
    } else if (has_op(commit, COXI_OP_ROUND)) {
        r = end_round(store, commit, payload, len, scratch, ret_duplicate);
    } else {
        r = commit_once(store, commit, ret_duplicate, apply_commit, payload, len,
                        scratch);
    }
    coxi_rw_unlock(&store->registry);
    return r;
}
