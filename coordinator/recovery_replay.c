/* See recovery_internal.h: doing again what ps that have come back miss. */
#include "coordinator/recovery_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "coordinator/inputs.h"
#include "coordinator/kept.h"
#include "coordinator/load.h"

enum { BATCH_MAX = 1 << 16 }; /* closures replayed at a time */

/* ---- what is to be replayed */

struct item {
    uint64_t id;
    enum coxi_log_kind kind;
    struct cox_future *call; /* a reference */
    const struct coxi_variable *created;
    struct coxi_log_update *update; /* a copy */
    struct coxi_loading *loading;   /* a reference */
};

struct items {
    struct coxi_recovery *rec;
    struct item *items;
    size_t n;
    size_t capacity;
    uint64_t first_unsettled; /* which runs when all are UP */
    int code;
};

static void items_fini(struct items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        if (items->items[i].call != NULL) {
            coxi_future_unref(items->items[i].call);
        }
        free(items->items[i].update);
        coxi_loading_unref(items->items[i].loading);
    }
    free(items->items);
}

/* True where ps p is owed the entry. A closure of several segments is run again whatever
 * it has of it: that counts once. */
static bool is_owed(const struct coxi_recovery *rec, uint32_t p,
                    const struct coxi_log_entry *entry)
{
    const struct coxi_recovery_server *server = &rec->servers[p];
    if (!server->owed || coxi_applied_list_is_whole(&server->restored, entry->id)) {
        return false;
    }
    switch (entry->kind) {
    case COXI_LOG_CALL:
        return coxi_log_touched(entry, p);
    case COXI_LOG_CREATE:
        return coxi_recovery_is_part(entry->created, p);
    case COXI_LOG_UPDATE:
        return coxi_recovery_is_part(entry->update->variable, p);
    case COXI_LOG_LOAD:
        return coxi_loading_is_part(entry->loading, p);
    case COXI_LOG_BARRED:
        break;
    }
    return false;
}

static int keep_item(struct items *items, const struct coxi_log_entry *entry)
{
    struct item item = {.id = entry->id, .kind = entry->kind};
    if (items->n == items->capacity) {
        size_t capacity = items->capacity == 0 ? 256 : items->capacity * 2;
        struct item *more = realloc(items->items, capacity * sizeof(*more));
        if (more == NULL) {
            return coxi_error_memory("what is to be replayed");
        }
        items->items = more;
        items->capacity = capacity;
    }
    if (entry->kind == COXI_LOG_CALL) {
        item.call = entry->call;
        atomic_fetch_add_explicit(&item.call->refs, 1, memory_order_relaxed);
    } else if (entry->kind == COXI_LOG_CREATE) {
        item.created = entry->created;
    } else if (entry->kind == COXI_LOG_LOAD) {
        item.loading = coxi_loading_ref(entry->loading);
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

static int note_item(void *arg, const struct coxi_log_entry *entry)
{
    struct items *items = arg;
    struct coxi_recovery *rec = items->rec;
    for (uint32_t p = 0; p < rec->c->n_ps; p++) {
        if (is_owed(rec, p, entry)) {
            return keep_item(items, entry);
        }
    }
    return 0;
}

/* On the loop, which logs closures: so that none is between running and logged. */
static void collect(struct coxi_recovery *rec, void *arg)
{
    struct items *items = arg;
    const struct coxi_window *closures = &rec->c->closures;
    items->first_unsettled = closures->count > 0 ? closures->first : closures->next;
    coxi_lock(&rec->lock);
    items->code = coxi_log_each(rec->log, note_item, items);
    coxi_unlock(&rec->lock);
}

/* ---- replaying calls */

struct batch {
    const struct item *items;
    size_t n;
    int code;
};

/* On the loop. */
static void begin_batch(struct coxi_recovery *rec, void *arg)
{
    struct batch *batch = arg;
    struct cox_coordinator *c = rec->c;
    size_t n_new = 0;
    coxi_window_fini(&rec->replays);
    coxi_window_init(&rec->replays, batch->items[0].id, COXI_WINDOW);
    for (size_t i = 0; batch->code == 0 && i < batch->n; i++) {
        struct cox_future *call = batch->items[i].call;
        /* It may be running again already, for what it returned. */
        struct cox_future *f = coxi_kept_find_remake(c, call->id);
        bool is_new = f == NULL;
        batch->code = is_new ? coxi_closure_again(call, &f) : 0;
        if (batch->code == 0) {
            batch->code = coxi_window_put(&rec->replays, f->id, f);
        }
        if (is_new && batch->code == 0) {
            coxi_closure_begin(f);
            n_new++;
        } else if (is_new && f != NULL) {
            coxi_future_unref(f);
        }
    }
    c->waiting_change += (ptrdiff_t)n_new;
    coxi_lock(&c->lock);
    c->n_unsettled += n_new;
    coxi_unlock(&c->lock);
}

static void count_replays(struct coxi_recovery *rec, void *arg)
{
    *(size_t *)arg = rec->replays.count;
}

/* Waits until nothing is being replayed. COX_EAGAIN: a ps is lost meanwhile. */
static int wait_for_replays(struct coxi_recovery *rec)
{
    size_t n = 0;
    coxi_recovery_on_loop(rec, count_replays, &n);
    while (n > 0) {
        coxi_lock(&rec->lock);
        bool lost = coxi_recovery_any(rec, false);
        if (!lost) {
            struct timespec until = coxi_deadline(COXI_RECOVERY_SLICE_MS);
            (void)pthread_cond_timedwait(&rec->changed, &rec->lock, &until);
        }
        coxi_unlock(&rec->lock);
        if (lost) {
            return COX_EAGAIN;
        }
        if (coxi_recovery_stopping(rec)) {
            return coxi_error(COX_ECLOSED, "the coordinator is being closed");
        }
        coxi_recovery_on_loop(rec, count_replays, &n);
    }
    return 0;
}

void coxi_recovery_replayed(struct cox_future *f)
{
    struct cox_coordinator *c = f->c;
    struct coxi_recovery *rec = c->recovery;
    if (rec == NULL || coxi_window_get(&rec->replays, f->id) != f) {
        return; /* it runs again for another reason */
    }
    (void)coxi_window_take(&rec->replays, f->id);
    f->replay->attempt = f->attempt;
    if (f->state != COXI_DONE_OK && !c->closing) {
        char text[COXI_TEXT_MAX];
        (void)snprintf(text, sizeof(text),
                       "closure %llu (%s) was done, had to be done again for a ps that "
                       "had been lost, and failed: %.300s",
                       (unsigned long long)f->id, f->function->name,
                       f->text != NULL ? f->text : coxi_strerror(f->code));
        coxi_fatal(c, COX_EREPLAY, text);
    }
    if (rec->replays.count == 0) {
        coxi_lock(&rec->lock);
        (void)pthread_cond_broadcast(&rec->changed);
        coxi_unlock(&rec->lock);
    }
}

/* ---- replaying operations */

static int update_on(struct coxi_recovery *rec, uint32_t p, const struct item *item)
{
    static const uint64_t zeros = 0;
    const struct coxi_log_update *u = item->update;
    const struct coxi_variable *v = u->variable;
    const struct coxi_shard *shard = coxi_variable_shard(v, p);
    size_t row_bytes = coxi_variable_row_bytes(v);
    uint64_t first = shard->begin > u->begin ? shard->begin : u->begin;
    uint64_t shard_end = shard->begin + shard->count;
    uint64_t end = shard_end < u->begin + u->count ? shard_end : u->begin + u->count;
    if (first >= end) {
        return 0;
    }
    size_t bytes = (end - first) * row_bytes;
    struct coxi_update update = {v->id, u->op, first, end - first};
    struct coxi_message message = {.kind = COXI_COMMIT};
    struct iovec payload[2] = {
        {(void *)(uintptr_t)(u->data + (first - u->begin) * row_bytes), bytes},
        {(void *)(uintptr_t)&zeros, coxi_align(bytes, 8) - bytes},
    };
    struct coxi_psc_request request = {.payload = payload, .n_payload = 2};
    message.commit = (struct coxi_commit){
        .session = rec->c->session,
        .incarnation = coxi_psc_incarnation(rec->c->ps[p]),
        .closure = item->id,
        .attempt = 1,
        .last = true,
        .touched = &p,
        .n_touched = 1,
        .updates = &update,
        .n_updates = 1,
    };
    return coxi_psc_call(rec->c->ps[p], &message, &request, COXI_COMMITTED, NULL, NULL);
}

/* What of it ps p has a part of; nothing, where that is none. */
static int redo_on(struct coxi_recovery *rec, uint32_t p, const struct item *item)
{
    if (item->kind == COXI_LOG_LOAD) {
        return coxi_loading_is_part(item->loading, p)
                   ? coxi_loading_repeat(rec->c, item->loading, item->id, p)
                   : 0;
    }
    const struct coxi_variable *variable =
        item->kind == COXI_LOG_CREATE ? item->created : item->update->variable;
    if (!coxi_recovery_is_part(variable, p)) {
        return 0;
    }
    return item->kind == COXI_LOG_CREATE
               ? coxi_recovery_create(rec, rec->c->ps[p], variable, item->id)
               : update_on(rec, p, item);
}

static int redo(struct coxi_recovery *rec, const struct item *item)
{
    int r = 0;
    for (uint32_t p = 0; r == 0 && p < rec->c->n_ps; p++) {
        const struct coxi_recovery_server *server = &rec->servers[p];
        if (server->owed && !coxi_applied_list_is_whole(&server->restored, item->id)) {
            r = redo_on(rec, p, item);
        }
    }
    return r == COX_EPSLOST ? COX_EAGAIN : r;
}

/* Everything in the log before `id` has been done on every ps that is owed something. What
 * is not settled is not in the log: no watermark passes that. */
static void done_before(struct coxi_recovery *rec, const struct items *items,
                        uint64_t id)
{
    struct coxi_message message = {.kind = COXI_WATERMARK};
    id = id < items->first_unsettled ? id : items->first_unsettled;
    message.watermark.session = rec->c->session;
    message.watermark.watermark = id - 1;
    for (uint32_t p = 0; p < rec->c->n_ps; p++) {
        coxi_lock(&rec->lock);
        struct coxi_recovery_server *server = &rec->servers[p];
        bool tell = server->owed && server->watermark < id - 1;
        server->watermark = tell ? id - 1 : server->watermark;
        coxi_unlock(&rec->lock);
        if (tell) {
            message.watermark.incarnation = coxi_psc_incarnation(rec->c->ps[p]);
            coxi_psc_tell(rec->c->ps[p], &message);
        }
    }
}

/* Calls together, up to the next operation. */
static int replay_items(struct coxi_recovery *rec, const struct items *items)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < items->n;) {
        struct batch batch = {.items = &items->items[i]};
        done_before(rec, items, items->items[i].id);
        while (i < items->n && items->items[i].kind == COXI_LOG_CALL &&
               batch.n < BATCH_MAX) {
            batch.n++;
            i++;
        }
        if (batch.n > 0) {
            coxi_recovery_on_loop(rec, begin_batch, &batch);
            r = batch.code != 0 ? batch.code : wait_for_replays(rec);
        } else {
            r = redo(rec, &items->items[i++]);
        }
    }
    return r;
}

int coxi_recovery_replay(struct coxi_recovery *rec)
{
    struct items items = {.rec = rec};
    int r = wait_for_replays(rec); /* of a pass before */
    if (r == 0) {
        coxi_recovery_on_loop(rec, collect, &items);
        r = items.code;
    }
    if (r == 0) {
        r = replay_items(rec, &items);
    }
    items_fini(&items);
    return r;
}
