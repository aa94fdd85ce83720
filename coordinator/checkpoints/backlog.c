/*
 * See backlog.h: the part of a checkpoint that says which closures and writes a
 * restarted client must do again. H is the highest closure that any ps had applied, or
 * that was settled, when all ps had answered. The backlog holds every closure up to H
 * that is not settled, or that a ps it touched had not yet applied when that ps took
 * its snapshot; the client's own writes are chosen in the same way. A superfluous
 * closure does no harm: ps that have it treat it as a duplicate. Also in the backlog:
 * closures that are done and whose results, kept on a worker, are inputs of closures in
 * the backlog.
 *
 * Runs on the loop, which also logs closures: so each one is either unsettled or in the
 * log. Cost: a copy of the backlog, which is about as large as the work in flight.
 */
#include "coordinator/checkpoints/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "checkpoint/backlog.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "coordinator/base/history.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/seat.h"
#include "coordinator/datasets/saved.h"
#include "coordinator/recovery/recovery.h"
#include "coordinator/workers/module.h"

/* A closure of the backlog: a call, or a write of the client's own. */
struct item {
    struct coxi_closure *call; /* NULL: `head` has everything */
    struct coxi_backlog_head head;
};

struct collection {
    const struct cox_coordinator *c;
    struct coxi_manifest *manifest;
    const struct coxi_recovery_mark *mark;
    struct coxi_buffer items;
    /* the contents of the file: */
    struct coxi_buffer heads;
    struct coxi_buffer inputs;
    struct coxi_buffer args;
    struct cox_function **functions;
    struct coxi_backlog_function *names;
    size_t n_functions;
};

static void collection_fini(struct collection *all)
{
    coxi_buffer_fini(&all->items);
    coxi_buffer_fini(&all->heads);
    coxi_buffer_fini(&all->inputs);
    coxi_buffer_fini(&all->args);
    free(all->functions);
    free(all->names);
}

/* ---- choosing the closures */

static bool has_all(const struct collection *all, uint32_t ps,
                    struct coxi_closure_id id)
{
    return coxi_applied_list_is_whole(&all->manifest->shards[ps].applied, id.n);
}

static bool is_missing(const struct collection *all,
                       const struct coxi_replay_entry *entry)
{
    bool missing = false;
    for (uint32_t p = 0; !missing && p < all->manifest->n_shards; p++) {
        /* A variable created meanwhile is not in the checkpoint, and nothing is loaded
         * for it. */
        bool is_call =
            entry->kind == COXI_REPLAY_CALL || entry->kind == COXI_REPLAY_ROUND;
        bool touched = is_call ? coxi_replay_touched(entry, p)
                       : entry->kind == COXI_REPLAY_UPDATE
                           ? coxi_replay_update_is_on(entry->update, p)
                           : false;
        missing = touched && !has_all(all, p, coxi_replay_applied_as(entry));
    }
    return missing;
}

static int add_item(struct collection *all, const struct item *item)
{
    return coxi_buffer_append(&all->items, item, sizeof(*item));
}

/* Describes a write of the client: the variable and its rows, then the data. */
static int describe_update(struct collection *all,
                           const struct coxi_replay_update *update,
                           struct coxi_backlog_head *head)
{
    const struct coxi_backlog_update what = {update->variable->id, update->op,
                                             update->begin, update->count};
    head->function = COXI_BACKLOG_UPDATE;
    head->args_at = all->args.len;
    int r = coxi_buffer_append(&all->args, &what, sizeof(what));
    if (r == 0) {
        r = coxi_buffer_append(&all->args, update->data, update->bytes);
    }
    head->args_len = all->args.len - head->args_at;
    return r;
}

/* Takes an entry that was logged after the ps were asked for their snapshots. A round
 * is logged when it is decided; until it is done, note_unsettled takes it. */
static int note_logged(void *arg, const struct coxi_replay_entry *entry)
{
    struct collection *all = arg;
    bool is_open = coxi_closures_get(all->c, entry->id) != NULL;
    struct item item = {.head.closure = entry->id.n};
    int r = 0;
    if (entry->id.n > all->manifest->progress.closure || is_open ||
        !is_missing(all, entry)) {
        return 0;
    }
    if (entry->kind == COXI_REPLAY_CALL || entry->kind == COXI_REPLAY_ROUND) {
        /* the call stays in the log: only a later checkpoint drops it */
        item.call = entry->call;
    } else {
        r = describe_update(all, entry->update, &item.head);
    }
    return r == 0 ? add_item(all, &item) : r;
}

/* The highest closure that any ps has applied, or that is settled. */
static uint64_t highest(const struct cox_coordinator *c,
                        const struct coxi_manifest *manifest)
{
    uint64_t id = c->closures->progress.closure;
    for (uint32_t p = 0; p < manifest->n_shards; p++) {
        const struct coxi_applied_list *list = &manifest->shards[p].applied;
        id = list->watermark > id ? list->watermark : id;
        for (size_t i = 0; i < list->n_intervals; i++) {
            id = list->intervals[i].last > id ? list->intervals[i].last : id;
        }
    }
    return id;
}

/* Adds the calls that are not settled. They run again, so the checkpoint covers their
 * cursors. */
static int note_unsettled(struct collection *all, struct cox_coordinator *c)
{
    struct coxi_manifest_progress *progress = &all->manifest->progress;
    int r = 0;
    for (uint64_t id = c->closures->unsettled.first;
         r == 0 && id < c->closures->unsettled.next && id <= progress->closure; id++) {
        struct coxi_closure *closure = coxi_closures_get(c, coxi_closure_id(id));
        if (closure != NULL && !closure->fetches) {
            r = add_item(all, &(struct item){closure, {.closure = id}});
            coxi_manifest_cover(progress, id, closure->asked.cursor);
        }
    }
    return r;
}

/* The closure whose result is input `k` of the call, if that closure must run again and
 * is not yet in this collection; otherwise NULL. */
static struct coxi_closure *kept_source(struct cox_coordinator *c,
                                        const struct coxi_closure *call, size_t k)
{
    struct coxi_closure *source = coxi_inputs_pending(call, k);
    bool noted = source == NULL || coxi_closures_get(c, source->future.id) != NULL ||
                 source->kept->noted == c->closures->n_collected;
    return noted ? NULL : source;
}

static void mark(const struct cox_coordinator *c, struct coxi_closure *closure)
{
    if (closure->kept != NULL) {
        closure->kept->noted = c->closures->n_collected;
    }
}

/* Adds the closures whose kept results are inputs of collected closures, and in turn
 * the closures whose results those took. */
static int note_kept(struct collection *all, struct cox_coordinator *c)
{
    c->closures->n_collected++;
    for (size_t i = 0; i * sizeof(struct item) < all->items.len; i++) {
        const struct item *item = &((struct item *)(void *)all->items.data)[i];
        if (item->call != NULL) {
            mark(c, item->call);
        }
    }
    int r = 0;
    for (size_t i = 0; r == 0 && i * sizeof(struct item) < all->items.len; i++) {
        /* Look the call up each time, because the list moves when it grows. */
        const struct coxi_closure *call =
            ((struct item *)(void *)all->items.data)[i].call;
        size_t n = call != NULL ? coxi_inputs_count(call) : 0;
        for (size_t k = 0; r == 0 && k < n; k++) {
            struct coxi_closure *source = kept_source(c, call, k);
            if (source != NULL) {
                mark(c, source);
                const struct coxi_backlog_head head = {
                    .closure = source->future.id.n,
                    .done = 1 + coxi_round_distance(source)};
                r = add_item(all, &(struct item){source, head});
            }
        }
    }
    return r;
}

/* Stores how far the data sets are, without the tasks that the next client will count:
 * those of closures that are settled and run again. */
static int note_datasets(struct collection *all, struct cox_coordinator *c)
{
    int r = coxi_datasets_save(c, all->manifest);
    const struct item *items = (const struct item *)(const void *)all->items.data;
    for (size_t i = 0; r == 0 && i < all->items.len / sizeof(*items); i++) {
        const struct coxi_closure *call = items[i].call;
        if (call != NULL &&
            (call->state == COXI_DONE_OK || call->state == COXI_FAILED ||
             call->state == COXI_CANCELLED)) {
            coxi_datasets_uncount(call, all->manifest);
        }
    }
    return r;
}

/* ---- describing them */

static int function_index(struct collection *all, struct cox_function *function,
                          uint64_t *ret)
{
    size_t n = all->n_functions;
    for (size_t i = 0; i < n; i++) {
        if (all->functions[i] == function) {
            *ret = i;
            return 0;
        }
    }
    struct cox_function **functions =
        realloc(all->functions, (n + 1) * sizeof(struct cox_function *));
    all->functions = functions != NULL ? functions : all->functions;
    struct coxi_backlog_function *names = realloc(all->names, (n + 1) * sizeof(*names));
    all->names = names != NULL ? names : all->names;
    if (functions == NULL || names == NULL) {
        return coxi_error_memory("the backlog of a checkpoint");
    }
    functions[n] = function;
    names[n] = (struct coxi_backlog_function){function->module->name, function->name};
    *ret = all->n_functions++;
    return 0;
}

static int describe_call(struct collection *all, struct coxi_closure *closure,
                         struct coxi_backlog_head *head)
{
    size_t n_inputs = 0;
    int r = function_index(all, closure->function, &head->function);
    head->args_at = all->args.len;
    head->cursor = closure->asked.cursor;
    head->priority = (int)closure->asked.priority;
    head->only_worker =
        closure->asked.only != NULL ? closure->asked.only->worker->index + 1 : 0;
    head->timeout_ms = closure->asked.timeout_ms;
    if (r == 0) {
        r = coxi_inputs_export(closure, &all->args, &all->inputs, &n_inputs);
    }
    head->args_len = all->args.len - head->args_at;
    head->n_inputs = n_inputs;
    return r;
}

/* True if a ps has ended the round itself, as its shard has it. */
static bool is_in_shard(const struct collection *all, const struct coxi_round *round)
{
    bool is_in = false;
    for (uint32_t p = 0; !round->decided && p < all->manifest->n_shards; p++) {
        is_in = is_in || has_all(all, p, round->end->future.id);
    }
    return is_in;
}

/* Describes the end of a round. If it was decided, the decision stays. */
static int describe_round(struct collection *all, const struct coxi_round *round,
                          struct coxi_backlog_head *head)
{
    bool decided = round->decided || is_in_shard(all, round);
    const struct coxi_backlog_round what = {
        .first = round->first,
        .n = round->n,
        .needed = round->needed,
        .sequence = round->rounds->id,
        .number = round->number,
        .staleness = round->rounds->spec.staleness,
        .reduce = round->rounds->spec.reduce,
        .flags =
            (decided ? COXI_BACKLOG_DECIDED : 0U) |
            (round->rounds->spec.deterministic != 0 ? COXI_BACKLOG_DETERMINISTIC : 0U),
    };
    head->function = COXI_BACKLOG_ROUND;
    head->args_at = all->args.len;
    int r = coxi_buffer_append(&all->args, &what, sizeof(what));
    for (uint32_t i = 0; r == 0 && i < round->n; i++) {
        bool may = round->members[i].state != COXI_MEMBER_OUT;
        const struct coxi_backlog_part part = {
            .counts = round->decided ? round->parts[i].attempt != 0 : decided || may,
            .factor = round->parts[i].factor,
        };
        r = coxi_buffer_append(&all->args, &part, sizeof(part));
    }
    head->args_len = all->args.len - head->args_at;
    return r;
}

static int describe(struct collection *all, const struct item *item)
{
    struct coxi_backlog_head head = item->head;
    int r = item->call == NULL ? 0
            : coxi_round_is_end(item->call)
                ? describe_round(all, item->call->round, &head)
                : describe_call(all, item->call, &head);
    return r == 0 ? coxi_buffer_append(&all->heads, &head, sizeof(head)) : r;
}

static int by_id(const void *a, const void *b)
{
    const struct item *x = a;
    const struct item *y = b;
    return x->head.closure < y->head.closure ? -1 : x->head.closure > y->head.closure;
}

/* A ps that was lost and restored meanwhile may have written its shard before its
 * closures had been replayed. */
static int check_losses(struct cox_coordinator *c,
                        const struct coxi_recovery_mark *mark)
{
    return coxi_ps_losses(c) != mark->n_losses
               ? coxi_error(COX_EPSLOST,
                            "a ps was lost while a checkpoint was written: "
                            "it is given up")
               : 0;
}

/*
 * The end of the run settles every call with its error, also calls that have not run,
 * and so does cox_close. A client that resumed after a cursor would skip them, or give
 * out a task again of which a part is applied. So no checkpoint is written from then
 * on.
 */
static int check_run(struct cox_coordinator *c)
{
    if (c->phase.closing) {
        return coxi_error(COX_ECLOSED, "the coordinator is being closed, which has "
                                       "cancelled calls");
    }
    coxi_lock(&c->lock);
    int r =
        c->life.fatal != 0 ? coxi_error(c->life.fatal, "%s", c->life.fatal_text) : 0;
    coxi_unlock(&c->lock);
    return r;
}

/*
 * A cursor promises that all calls up to it count. Calls that an error has cancelled do
 * not count until the program, which is told of the error, schedules them again. If one
 * of them lies before the cursor, a client that resumed from this checkpoint would skip
 * it.
 */
static int check_cursor(struct cox_coordinator *c,
                        const struct coxi_manifest_progress *progress)
{
    coxi_lock(&c->lock);
    uint64_t first = c->closures->first_cancelled;
    coxi_unlock(&c->lock);
    return first == 0 || first > progress->cursor_of
               ? 0
               : coxi_error(
                     COX_ECANCELLED,
                     "an error has cancelled closure %llu, and others may be, before "
                     "cursor %llu: a client that resumed from this checkpoint would "
                     "skip them: schedule them again, then save",
                     (unsigned long long)first, (unsigned long long)progress->cursor);
}

static int collect(struct cox_coordinator *c, void *arg)
{
    struct collection *all = arg;
    /* ends closures whose inputs will never come, and those of rounds that have ended */
    coxi_dispatch_go_on(c);
    all->manifest->progress = c->closures->progress;
    all->manifest->progress.closure = coxi_rounds_whole(c, highest(c, all->manifest));
    all->manifest->history_seq = coxi_history_last(c);
    all->manifest->next_place =
        coxi_rounds_next_place(c, all->manifest->progress.closure);
    int r = check_run(c);
    if (r == 0) {
        r = check_losses(c, all->mark);
    }
    if (r == 0) {
        r = coxi_replay_log_each_since(c->replay_log, all->mark->log, note_logged, all);
    }
    if (r == 0) {
        r = note_unsettled(all, c);
    }
    if (r == 0) {
        r = check_cursor(c, &all->manifest->progress);
    }
    if (r == 0) {
        r = note_kept(all, c);
    }
    if (r == 0) {
        r = note_datasets(all, c);
    }
    struct item *items = (struct item *)(void *)all->items.data;
    size_t n = all->items.len / sizeof(*items);
    if (r == 0 && n > 0) {
        qsort(items, n, sizeof(*items), by_id);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = describe(all, &items[i]);
    }
    return r;
}

/* ---- writing the file */

static int write_file(const struct collection *all, const char *dir,
                      struct coxi_manifest_shard *ret)
{
    char path[PATH_MAX];
    const struct coxi_backlog backlog = {
        .heads = (const struct coxi_backlog_head *)(const void *)all->heads.data,
        .n = all->heads.len / sizeof(*backlog.heads),
        .inputs = (struct coxi_backlog_input *)(void *)all->inputs.data,
        .n_inputs = all->inputs.len / sizeof(*backlog.inputs),
        .functions = all->names,
        .n_functions = all->n_functions,
        .args = all->args.data,
        .args_len = all->args.len,
    };
    if (backlog.n == 0) {
        return 0;
    }
    (void)snprintf(ret->file, sizeof(ret->file), "backlog.safetensors");
    int r = coxi_path(path, "%s/%s", dir, ret->file);
    return r == 0 ? coxi_backlog_write(path, &backlog, &ret->bytes, &ret->crc32) : r;
}

int coxi_backlog_collect(struct cox_coordinator *c, const char *dir,
                         const struct coxi_recovery_mark *mark,
                         struct coxi_manifest *manifest)
{
    struct collection all = {.c = c, .manifest = manifest, .mark = mark};
    int r = coxi_call_on_loop(c, collect, &all);
    if (r == 0) {
        r = write_file(&all, dir, &manifest->backlog);
    }
    collection_fini(&all);
    return r;
}
