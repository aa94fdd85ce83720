/* Does again what restored ps lack since their checkpoint; see recovery_internal.h. */
#include "coordinator/recovery/recovery_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/attempts.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/settle.h"
#include "coordinator/closures/stragglers.h"
#include "coordinator/variables/load.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/resource.h"
#include "coordinator/workers/worker.h"
#include "net/ps_client.h"

enum {
    BATCH_MAX = 1 << 16, /* closures replayed at a time */
    /* ids between two watermarks that restored ps are told: a fraction of COXI_WINDOW */
    TELL_STEP = 1 << 15,
    RUNS_MS = 1000, /* a step that has run for longer counts as busy, not stuck */
};

/* ---- the items to replay */

struct item {
    struct coxi_closure_id id;
    uint64_t position; /* no later item has a lower id */
    enum coxi_replay_kind kind;
    struct coxi_closure *call; /* a reference; of a round: its end */
    const struct coxi_variable *created;
    struct coxi_replay_update *update; /* a copy */
    struct coxi_loading *loading;      /* a reference */
};

struct items {
    struct coxi_recovery *rec;
    struct item *items;
    size_t n;
    size_t capacity;
    /* the lowest unsettled id, or the next one if all are settled: no watermark passes
     * it */
    uint64_t first_unsettled;
};

static void items_fini(struct items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        if (items->items[i].call != NULL) {
            coxi_future_unref(&items->items[i].call->future);
        }
        free(items->items[i].update);
        coxi_loading_unref(items->items[i].loading);
    }
    free(items->items);
}

/* True if the ps has the entry already; `id`: coxi_replay_applied_as. A creation is
 * always repeated: it does no harm if the variable exists, and a restore may lack one
 * that was still being created. */
static bool has_been_done(const struct coxi_recovery_server *server,
                          enum coxi_replay_kind kind, struct coxi_closure_id id)
{
    return kind != COXI_REPLAY_CREATE &&
           coxi_applied_list_is_whole(&server->restored, id.n);
}

/* True if ps p lacks the entry. A closure of which it has only some segments is run
 * again whole; each segment still counts once. */
static bool is_owed(const struct coxi_recovery *rec, uint32_t p,
                    const struct coxi_replay_entry *entry)
{
    const struct coxi_recovery_server *server = &rec->servers[p];
    if (!rec->set->states[p].owed || entry->state == COXI_REPLAY_HELD ||
        has_been_done(server, entry->kind, coxi_replay_applied_as(entry))) {
        return false;
    }
    switch (entry->kind) {
    case COXI_REPLAY_CALL:
    case COXI_REPLAY_ROUND:
        return coxi_replay_touched(entry, p);
    case COXI_REPLAY_CREATE:
        return coxi_recovery_is_part(entry->created, p);
    case COXI_REPLAY_UPDATE:
        return coxi_replay_update_is_on(entry->update, p);
    case COXI_REPLAY_LOAD:
        return coxi_loading_is_part(entry->loading, p);
    case COXI_REPLAY_BARRED:
        break;
    }
    return false;
}

static int keep_item(struct items *items, const struct coxi_replay_entry *entry)
{
    struct item item = {
        .id = entry->id, .position = entry->position, .kind = entry->kind};
    if (items->n == items->capacity) {
        size_t capacity = items->capacity == 0 ? 256 : items->capacity * 2;
        struct item *more = realloc(items->items, capacity * sizeof(*more));
        if (more == NULL) {
            return coxi_error_memory("what is to be replayed");
        }
        items->items = more;
        items->capacity = capacity;
    }
    if (entry->kind == COXI_REPLAY_CALL || entry->kind == COXI_REPLAY_ROUND) {
        item.call = entry->call;
        coxi_future_ref(&item.call->future);
    } else if (entry->kind == COXI_REPLAY_CREATE) {
        item.created = entry->created;
    } else if (entry->kind == COXI_REPLAY_LOAD) {
        item.loading = entry->loading;
        coxi_loading_ref(item.loading);
    } else {
        size_t bytes = sizeof(*item.update) + entry->update->bytes;
        item.update = malloc(bytes);
        if (item.update == NULL) {
            return coxi_error_memory("what is to be replayed");
        }
        memcpy(item.update, entry->update, bytes);
    }
    items->items[items->n++] = item;
    return 0;
}

static int note_item(void *arg, const struct coxi_replay_entry *entry)
{
    struct items *items = arg;
    struct coxi_recovery *rec = items->rec;
    for (uint32_t p = 0; p < rec->c->ps.n; p++) {
        if (is_owed(rec, p, entry)) {
            return keep_item(items, entry);
        }
    }
    return 0;
}

/* Call on the loop: because the loop logs closures, each is either unsettled or in the
 * log. */
static int collect(struct coxi_recovery *rec, void *arg)
{
    struct items *items = arg;
    const struct coxi_window *closures = &rec->c->closures->unsettled;
    items->first_unsettled = closures->count > 0 ? closures->first : closures->next;
    coxi_lock(&rec->set->lock);
    int r = coxi_replay_log_each(rec->c->replay_log, note_item, items);
    coxi_unlock(&rec->set->lock);
    return r;
}

/* ---- replaying calls */

struct batch {
    const struct item *items;
    size_t n;
};

/* Begins the replay of a call. */
static int begin_replay(struct coxi_recovery *rec, struct coxi_closure *call)
{
    struct cox_coordinator *c = rec->c;
    /* It may be running again already, because its kept result was lost. */
    struct coxi_closure *closure = coxi_kept_find_remake(c, call->future.id);
    bool is_new = closure == NULL;
    int r = is_new ? coxi_closure_again(call, &closure) : 0;
    if (r == 0) {
        r = coxi_window_put(&rec->c->closures->replays, closure->future.id.n, closure);
    }
    if (r != 0) {
        if (is_new && closure != NULL) {
            coxi_future_unref(&closure->future);
        }
        return r;
    }
    if (!is_new) {
        coxi_closure_set_urgent(closure, true);
    } else {
        closure->rerun->urgent = true; /* it is in no line yet */
        coxi_closure_begin(closure);
        c->closures->waiting_change++;
        coxi_lock(&c->lock);
        c->life.n_unsettled++;
        c->life.n_inherited += closure->older.inherited;
        coxi_unlock(&c->lock);
    }
    return 0;
}

/* On the loop. Workers first make the resources that are older than the batch. */
static int begin_batch(struct coxi_recovery *rec, void *arg)
{
    const struct batch *batch = arg;
    int r = 0;
    coxi_window_fini(&rec->c->closures->replays);
    coxi_window_init(&rec->c->closures->replays, batch->items[0].id.n, COXI_WINDOW);
    for (size_t i = 0; r == 0 && i < batch->n; i++) {
        r = begin_replay(rec, batch->items[i].call);
    }
    rec->set->reached = batch->items[0].id.n;
    rec->set->batch_open = !atomic_load(&rec->set->any_lost);
    coxi_workers_resources(rec->c);
    return r;
}

/* The progress of a batch. */
struct progress {
    size_t n; /* replays that have not ended */
    /* a worker is busy (is_busy) */
    bool runs;
};

/* True if the worker has run a step, or made a resource, for RUNS_MS: both have
 * deadlines of their own, so a replay that waits for them is not stuck. */
static bool is_busy(const struct coxi_worker *worker, uint64_t now)
{
    bool runs = coxi_straggler_ran_ms(worker->seat, now) >= RUNS_MS;
    bool makes = worker->making != 0 && now - worker->making_since_ms >= RUNS_MS;
    return runs || makes;
}

/* On the loop: looks at the progress of the batch. */
static int look(struct coxi_recovery *rec, void *arg)
{
    struct progress *progress = arg;
    const struct cox_coordinator *c = rec->c;
    uint64_t now = coxi_now_ms();
    progress->n = rec->c->closures->replays.count;
    progress->runs = false;
    for (uint32_t i = 0; i < c->workers->n && !progress->runs; i++) {
        progress->runs = is_busy(c->workers->all[i], now);
    }
    return 0;
}

/* The error of a stuck replay: none has ended for ps_recovery_ms, while no step ran. */
static int stalled(const struct coxi_recovery *rec, size_t n)
{
    char why[COXI_TEXT_MAX];
    coxi_lock(&rec->c->lock);
    memcpy(why, rec->c->workers->text, sizeof(why));
    coxi_unlock(&rec->c->lock);
    return coxi_error(
        COX_EPSLOST,
        "a ps has come back, but its closures cannot be replayed: none of %zu "
        "closure%s has ended for %d ms; the last news of a worker: %.200s",
        n, coxi_s(n), rec->c->options.ps_recovery_ms, why);
}

/* Waits for a change. COX_EAGAIN: a ps is lost. COX_ECLOSED. */
static int await_change(struct coxi_recovery *rec)
{
    coxi_lock(&rec->set->lock);
    bool lost = coxi_ps_any_lost(rec->c, false);
    if (!lost) {
        struct timespec until = coxi_deadline(COXI_RECOVERY_SLICE_MS);
        (void)coxi_wait_until(&rec->set->changed, &rec->set->lock, &until);
    }
    coxi_unlock(&rec->set->lock);
    return lost                          ? COX_EAGAIN
           : coxi_recovery_stopping(rec) ? coxi_error(COX_ECLOSED, "it is being closed")
                                         : 0;
}

/* Waits until no replay is under way. */
static int wait_for_replays(struct coxi_recovery *rec)
{
    struct progress last = {0};
    struct progress now = {0};
    int r = coxi_recovery_on_loop(rec, look, &now);
    uint64_t since_ms = coxi_now_ms();
    while (r == 0 && now.n > 0) {
        r = await_change(rec);
        last = now;
        if (r == 0) {
            r = coxi_recovery_on_loop(rec, look, &now);
        }
        if (now.n != last.n || now.runs) {
            since_ms = coxi_now_ms();
        }
        if (r == 0 &&
            coxi_now_ms() - since_ms > (uint64_t)rec->c->options.ps_recovery_ms) {
            r = stalled(rec, now.n);
        }
        coxi_call_why(rec->c, "%zu closure%s not replayed yet", now.n,
                      now.n == 1 ? " is" : "s are");
    }
    return r;
}

/*
 * On the loop: cancels the replays that are left of a pass in which another ps was
 * lost. They must not go on, because they would reach that ps before the items that
 * precede them. The next pass begins them again in order.
 */
static int abandon(struct coxi_recovery *rec, void *arg)
{
    struct coxi_window *replays = &rec->c->closures->replays;
    (void)arg;
    rec->set->batch_open = false;
    coxi_inputs_go_on(rec->c); /* after this, each replay is in some list */
    for (uint64_t id = replays->first; id < replays->next; id++) {
        struct coxi_closure *closure = coxi_window_get(replays, id);
        if (closure != NULL) {
            closure->rerun->abandoned = true;
            coxi_attempts_cancel(closure);
        }
    }
    coxi_kept_wait_for_recovery(rec->c);
    return 0;
}

/* Lists the ps that still lack something: "0, 2". */
static void list_owed(struct coxi_recovery *rec, char *ret, size_t len)
{
    size_t used = 0;
    ret[0] = '\0';
    coxi_lock(&rec->set->lock);
    for (uint32_t p = 0; p < rec->c->ps.n && used < len; p++) {
        if (rec->set->states[p].owed) {
            used += (size_t)snprintf(ret + used, len - used, "%s%u",
                                     used > 0 ? ", " : "", p);
        }
    }
    coxi_unlock(&rec->set->lock);
}

/* A replay has failed: ends the run. */
static void report_failed(struct coxi_recovery *rec, const struct coxi_closure *closure)
{
    char text[COXI_TEXT_MAX];
    char owed[64];
    list_owed(rec, owed, sizeof(owed));
    (void)snprintf(text, sizeof(text),
                   "closure %llu (%s) was done, had to be replayed because ps %s was "
                   "lost, and failed: %.300s",
                   (unsigned long long)closure->future.id.n, closure->function->name,
                   owed, coxi_future_text(&closure->future));
    coxi_fatal(rec->c, COX_EREPLAY, text);
}

void coxi_recovery_replayed(struct coxi_closure *closure)
{
    struct cox_coordinator *c = closure->future.c;
    struct coxi_recovery *rec = c->ps.recovery;
    if (rec == NULL ||
        coxi_window_get(&rec->c->closures->replays, closure->future.id.n) != closure) {
        return; /* it was run again for another reason */
    }
    (void)coxi_window_take(&rec->c->closures->replays, closure->future.id.n);
    closure->rerun->of->attempts.last = closure->attempts.last;
    if (closure->round != NULL && closure->state == COXI_DONE_OK) {
        coxi_round_replayed(closure, closure->attempts.current);
    }
    rec->n_redone += closure->state == COXI_DONE_OK;
    if (closure->state != COXI_DONE_OK && !closure->rerun->abandoned &&
        !c->phase.closing) {
        report_failed(rec, closure);
    }
    if (rec->c->closures->replays.count == 0) {
        coxi_lock(&rec->set->lock);
        (void)pthread_cond_broadcast(&rec->set->changed);
        coxi_unlock(&rec->set->lock);
    }
}

/* ---- replaying operations */

/*
 * Lists the ps that the update touches, in the same order as the original commits did
 * (coordinator/variables/content_write.c), so that a ps which has the write already
 * takes this for a duplicate.
 */
static size_t list_touched(const struct coxi_replay_update *update, uint32_t n_ps,
                           uint32_t *ret)
{
    const struct coxi_variable *v = update->variable;
    bool table = v->kind == COXI_KIND_TABLE;
    size_t most = table ? n_ps : v->n_shards;
    size_t n = 0;
    for (size_t i = 0; i < most; i++) {
        uint32_t ps = (uint32_t)(table ? i : v->shards[i].ps);
        if (coxi_replay_update_is_on(update, ps)) {
            ret[n++] = ps;
        }
    }
    return n;
}

static int commit_update(struct coxi_recovery *rec, uint32_t p,
                         struct coxi_message *message, struct coxi_psc_request *request,
                         const struct coxi_replay_update *update)
{
    uint32_t *touched = calloc(rec->c->ps.n, sizeof(*touched));
    if (touched == NULL) {
        return coxi_error_memory("what is to be replayed");
    }
    message->commit.touched = touched;
    message->commit.n_touched = list_touched(update, rec->c->ps.n, touched);
    int r = coxi_psc_call(rec->c->ps.clients[p], message, request, COXI_COMMITTED, NULL,
                          NULL);
    free(touched);
    return r;
}

/* The rows of an update that ps p holds; none for a rate. */
static struct coxi_range rows_on(const struct coxi_replay_update *u, uint32_t p)
{
    return u->op == COXI_OP_RATE ? (struct coxi_range){0, 0}
                                 : coxi_shard_part(coxi_variable_shard(u->variable, p),
                                                   u->begin, u->count);
}

static int update_on(struct coxi_recovery *rec, uint32_t p, const struct item *item)
{
    static const uint64_t zeros = 0;
    const struct coxi_replay_update *u = item->update;
    const struct coxi_variable *v = u->variable;
    if (!coxi_replay_update_is_on(u, p)) {
        return 0;
    }
    struct coxi_range rows = rows_on(u, p);
    size_t at = (rows.begin - u->begin) * coxi_variable_row_bytes(v);
    size_t bytes = coxi_replay_update_bytes(v, u->op, rows.count);
    struct coxi_update update = {v->id, u->op, rows.begin, rows.count};
    struct coxi_message message = {.kind = COXI_COMMIT};
    struct iovec payload[2] = {
        {(void *)(uintptr_t)(u->data + at), bytes},
        {(void *)(uintptr_t)&zeros, coxi_align(bytes, 8) - bytes},
    };
    struct coxi_psc_request request = {.payload = payload, .n_payload = 2};
    message.commit = (struct coxi_commit){
        .session = rec->c->session,
        .incarnation = coxi_psc_incarnation(rec->c->ps.clients[p]),
        .closure = item->id.n,
        .attempt = 1,
        .last = true,
        .updates = &update,
        .n_updates = 1,
    };
    return commit_update(rec, p, &message, &request, u);
}

/* Does an item again on ps p, if that ps has a part of the variable. */
static int redo_on(struct coxi_recovery *rec, uint32_t p, const struct item *item)
{
    if (item->kind == COXI_REPLAY_ROUND) {
        return coxi_round_repeat(rec->c, item->call, p);
    }
    if (item->kind == COXI_REPLAY_LOAD) {
        return coxi_loading_is_part(item->loading, p)
                   ? coxi_loading_repeat(rec->c, item->loading, item->id, p)
                   : 0;
    }
    const struct coxi_variable *variable =
        item->kind == COXI_REPLAY_CREATE ? item->created : item->update->variable;
    if (!coxi_recovery_is_part(variable, p)) {
        return 0;
    }
    return item->kind == COXI_REPLAY_CREATE
               ? coxi_recovery_create(rec, rec->c->ps.clients[p], variable, item->id)
               : update_on(rec, p, item);
}

static int redo(struct coxi_recovery *rec, const struct item *item)
{
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < rec->c->ps.n; p++) {
        const struct coxi_recovery_server *server = &rec->servers[p];
        if (rec->set->states[p].owed && !has_been_done(server, item->kind, item->id)) {
            r = redo_on(rec, p, item);
        }
    }
    return r == COX_EPSLOST ? COX_EAGAIN : r;
}

/* Waits until ps p has handled its earlier messages: it handles the requests of a
 * connection in order. */
static int pass(struct cox_coordinator *c, uint32_t p)
{
    struct coxi_message message = {.kind = COXI_PULL};
    struct coxi_psc_request request = {0};
    message.pull.session = c->session;
    message.pull.incarnation = coxi_psc_incarnation(c->ps.clients[p]);
    return coxi_psc_call(c->ps.clients[p], &message, &request, COXI_PULLED, NULL, NULL);
}

/*
 * Every restored ps has everything in the log before `id` now: advances its watermark
 * to there, but not past an unsettled closure, which is not in the log. Returns when
 * the ps have taken the watermark, because they refuse ids that are too far above it.
 * The next id may be far above even after the replay, because closures that touched no
 * ps are not in the log. COX_EAGAIN: a ps is lost.
 */
static int done_before(struct coxi_recovery *rec, const struct items *items,
                       uint64_t id)
{
    int r = 0;
    struct coxi_message message = {.kind = COXI_WATERMARK};
    id = id < items->first_unsettled ? id : items->first_unsettled;
    message.watermark.session = rec->c->session;
    message.watermark.watermark = id - 1;
    for (uint32_t p = 0; p < rec->c->ps.n; p++) {
        coxi_lock(&rec->set->lock);
        struct coxi_ps_state *state = &rec->set->states[p];
        bool tell = state->owed && state->watermark < id - 1;
        state->watermark = tell ? id - 1 : state->watermark;
        coxi_unlock(&rec->set->lock);
        if (tell) {
            message.watermark.incarnation = coxi_psc_incarnation(rec->c->ps.clients[p]);
            coxi_psc_tell(rec->c->ps.clients[p], &message);
            r = r == 0 ? pass(rec->c, p) : r;
        }
    }
    return r == COX_EPSLOST ? COX_EAGAIN : r;
}

/*
 * How many items, from the first on, are calls that may run side by side. A batch ends
 * before the next operation, and before the next resource, because that is made only
 * when everything before it was done again. Its ids stay within the window that a ps
 * accepts above its watermark.
 */
static size_t batch_length(struct coxi_recovery *rec, const struct item *items,
                           size_t n)
{
    uint64_t end = items[0].id.n + COXI_AHEAD_MAX;
    uint64_t resource = coxi_resource_position_above(rec->c, items[0].id.n);
    size_t i = 0;
    end = resource < end ? resource : end;
    while (i < n && i < BATCH_MAX && items[i].kind == COXI_REPLAY_CALL &&
           items[i].id.n < end) {
        i++;
    }
    return i;
}

static int replay_items(struct coxi_recovery *rec, const struct items *items)
{
    int r = 0;
    uint64_t told = 0;
    for (size_t i = 0; r == 0 && i < items->n;) {
        struct batch batch = {.items = &items->items[i]};
        if (batch.items->position - told >= TELL_STEP || told == 0) {
            told = batch.items->position;
            r = done_before(rec, items, told);
        }
        if (r != 0) {
            break;
        }
        batch.n = batch_length(rec, batch.items, items->n - i);
        i += batch.n;
        if (batch.n > 0) {
            r = coxi_recovery_on_loop(rec, begin_batch, &batch);
            r = r == 0 ? wait_for_replays(rec) : r;
        } else {
            r = redo(rec, &items->items[i++]);
        }
    }
    return r == 0 ? done_before(rec, items, UINT64_MAX) : r;
}

int coxi_recovery_replay(struct coxi_recovery *rec)
{
    struct items items = {.rec = rec};
    /* Abandon what is left of an earlier pass. */
    int r = coxi_recovery_on_loop(rec, abandon, NULL);
    if (r == 0) {
        r = wait_for_replays(rec);
    }
    if (r == 0) {
        r = coxi_recovery_on_loop(rec, collect, &items);
    }
    if (r == 0) {
        r = replay_items(rec, &items);
    }
    items_fini(&items);
    return r;
}
