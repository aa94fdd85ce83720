/*
 * See resume.h and resume_internal.h: turns the checkpoint's backlog into held closures
 * and writes. Runs on the thread that opens the coordinator, except coxi_resume_redo
 * and coxi_resume_redo_reset, which also run on the thread that writes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "common/error.h"
#include "common/file.h"
#include "common/metric.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/event.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/checkpoints/resume_internal.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/inputs.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/operation.h"
#include "coordinator/closures/settle.h"
#include "coordinator/datasets/saved.h"
#include "coordinator/variables/content.h"
#include "coordinator/variables/registry.h"
#include "coordinator/workers/worker.h"
#include "coordinator/workers/workers.h"
#include "schema/check.h"

/* ---- closures */

/* A number out of range counts as 0: the file is not trusted. */
static int8_t priority_of(const struct coxi_backlog_head *head)
{
    int64_t priority = head->priority;
    return (int8_t)(priority >= COX_PRIORITY_MIN && priority <= COX_PRIORITY_MAX
                        ? priority
                        : 0);
}

/* The options of the call. The file is not trusted. If the only worker that may run the
 * call no longer exists, any may. */
static struct coxi_asked asked_of(const struct cox_coordinator *c,
                                  const struct coxi_backlog_head *head)
{
    bool is_there = head->only_worker > 0 && head->only_worker <= c->workers->n;
    return (struct coxi_asked){
        .cursor = head->cursor,
        .timeout_ms = (uint32_t)head->timeout_ms,
        .only = is_there ? c->workers->all[head->only_worker - 1]->seat : NULL,
        .priority = priority_of(head),
    };
}

/* The closure of a call. NULL: no memory. */
static struct coxi_closure *new_closure(struct coxi_resumed *resumed, size_t i)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    const struct coxi_backlog_head *head = &backlog->heads[i];
    struct coxi_closure *closure;
    const struct coxi_closure_spec spec = {
        .function = &resumed->names[head->function].function,
        .args = head->args_len > 0 ? backlog->args + head->args_at : NULL,
        .args_len = head->args_len,
        .asked = asked_of(resumed->c, head),
        .waits = true,
    };
    if (coxi_closure_new(resumed->c, &spec, &closure) != 0) {
        return NULL;
    }
    closure->future.id = coxi_closure_id(head->closure);
    closure->older.inherited = true;
    closure->older.was_done = head->closure <= resumed->watermark;
    /* Attempts of the older client may have applied it on some ps. */
    closure->effect.uncertain = true;
    if (head->done != 0 && (coxi_kept_new(closure) != 0 ||
                            coxi_resume_join_past(closure, head->done - 1) != 0)) {
        coxi_futures_free(closure);
        return NULL;
    }
    return closure;
}

/* Where the window of unsettled closures begins. */
static uint64_t first_id(const struct coxi_backlog *backlog, uint64_t next_id)
{
    size_t i = 0;
    while (backlog != NULL && i < backlog->n && backlog->heads[i].done) {
        i++;
    }
    return backlog != NULL && i < backlog->n ? backlog->heads[i].closure : next_id;
}

/* The place of a closure in the backlog, which must contain it. */
static size_t place_of(const struct coxi_backlog *backlog, uint64_t closure)
{
    size_t from = 0;
    size_t to = backlog->n;
    while (to - from > 1) {
        size_t middle = from + (to - from) / 2;
        if (backlog->heads[middle].closure <= closure) {
            from = middle;
        } else {
            to = middle;
        }
    }
    return from;
}

/* `first`: the place of its first input in the backlog's inputs. */
static int hold_inputs(struct coxi_resumed *resumed, size_t i, size_t first)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    size_t n = backlog->heads[i].n_inputs;
    if (n == 0) {
        return 0;
    }
    struct cox_input *inputs = calloc(n, sizeof(*inputs));
    if (inputs == NULL) {
        return coxi_error_memory("a closure that is run again");
    }
    for (size_t k = 0; k < n; k++) {
        const struct coxi_backlog_input *input = &backlog->inputs[first + k];
        inputs[k].name = input->name;
        inputs[k].result = input->result;
        inputs[k].future =
            &resumed->held[place_of(backlog, input->closure)].closure->future;
    }
    int r = coxi_inputs_new(resumed->c, inputs, n, &resumed->held[i].closure->inputs);
    free(inputs);
    return r;
}

/* The place of the first call that runs again. */
static size_t first_call(const struct coxi_backlog *backlog)
{
    size_t i = 0;
    while (i < backlog->n &&
           (coxi_backlog_is_update(backlog, i) || backlog->heads[i].done)) {
        i++;
    }
    return i;
}

/* Counts the writes that follow a call, and marks the functions of those calls as
 * needed. */
static void note_needed(struct coxi_resumed *resumed)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    size_t done = 0;
    for (size_t at = resumed->barrier; at < backlog->n;
         at = coxi_backlog_next_write(backlog, at + 1)) {
        for (; done < at; done++) {
            if (!coxi_backlog_is_update(backlog, done) &&
                !coxi_backlog_is_round(backlog, done)) {
                resumed->names[backlog->heads[done].function].needed = true;
            }
        }
        resumed->n_writes++;
    }
}

struct holding {
    struct coxi_resumed *resumed; /* NULL: there is no backlog */
    uint64_t next_id;
    uint64_t next_place;
    size_t n_calls;
    size_t n_rounds;
};

/* Holds a write; its id counts as unsettled. */
static int hold_operation(struct coxi_resumed *resumed, size_t i)
{
    struct cox_coordinator *c = resumed->c;
    struct coxi_closure_id id =
        coxi_closure_id(coxi_backlog_of(resumed->file)->heads[i].closure);
    struct coxi_operation *operation = coxi_operation_new(c, id);
    if (operation == NULL) {
        return coxi_error_memory("a write that is done again");
    }
    resumed->held[i].operation = operation; /* coxi_resume_free frees it */
    return coxi_closures_put_operation(c, id);
}

/* Holds a call. If it will run again it is WAITING. `first_input`: the place of its
 * first input in the backlog's inputs. */
static int hold_closure(struct coxi_resumed *resumed, size_t i, size_t first_input)
{
    struct cox_coordinator *c = resumed->c;
    bool done = coxi_backlog_of(resumed->file)->heads[i].done;
    struct coxi_closure *closure = new_closure(resumed, i);
    if (closure == NULL) {
        return coxi_error_memory("a closure that is run again");
    }
    uint64_t id = closure->future.id.n;
    int r = done ? 0 : coxi_window_put(&c->closures->unsettled, id, closure);
    if (r != 0) {
        coxi_futures_free(closure);
        return r;
    }
    resumed->held[i].closure = closure;
    if (!done) {
        coxi_list_append(&c->closures->waiting, closure);
        r = coxi_datasets_adopt(closure);
    }
    return r != 0 ? r : hold_inputs(resumed, i, first_input);
}

/* On the loop: holds the whole backlog. This client's ids begin after those of the
 * older client. */
static int hold(struct cox_coordinator *c, void *arg)
{
    struct holding *holding = arg;
    struct coxi_resumed *resumed = holding->resumed;
    const struct coxi_backlog *backlog =
        resumed != NULL ? coxi_backlog_of(resumed->file) : NULL;
    size_t n = backlog != NULL ? backlog->n : 0;
    size_t first_input = 0;
    int r = 0;
    c->saving.resumed = resumed;
    c->closures->rounds.listed_place = holding->next_place;
    coxi_window_fini(&c->closures->unsettled);
    coxi_window_init(&c->closures->unsettled, first_id(backlog, holding->next_id),
                     COXI_WINDOW);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (coxi_backlog_is_more(backlog, i)) {
            continue;
        }
        bool update = coxi_backlog_is_update(backlog, i);
        bool is_round = coxi_backlog_is_round(backlog, i);
        r = update     ? hold_operation(resumed, i)
            : is_round ? coxi_resume_hold_round(resumed, i)
                       : hold_closure(resumed, i, first_input);
        holding->n_rounds += r == 0 && is_round;
        holding->n_calls += r == 0 && !update && !is_round && !backlog->heads[i].done;
        first_input += backlog->heads[i].n_inputs;
    }
    if (resumed != NULL) {
        resumed->barrier = coxi_backlog_next_write(backlog, first_call(backlog));
        note_needed(resumed);
    }
    coxi_lock(&c->lock);
    atomic_store(&c->closures->gate, resumed != NULL ? &coxi_resume_gate : NULL);
    c->ids.next = holding->next_id;
    c->closures->rounds.next_place = holding->next_place;
    c->ids.before_unsettled = resumed != NULL && resumed->n_names > 0;
    c->ids.first_unsettled = c->closures->unsettled.count > 0
                                 ? c->closures->unsettled.first
                                 : holding->next_id;
    c->life.n_waiting += holding->n_calls + holding->n_rounds;
    c->life.n_unsettled += holding->n_calls + holding->n_rounds;
    c->life.n_inherited += holding->n_calls + holding->n_rounds;
    coxi_unlock(&c->lock);
    return r;
}

static int resumed_new(struct cox_coordinator *c, struct coxi_backlog_file *file,
                       struct coxi_resumed **ret)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(file);
    struct coxi_resumed *resumed = calloc(1, sizeof(*resumed));
    if (resumed != NULL) {
        resumed->c = c;
        resumed->file = file;
        resumed->n_names = backlog->n_functions;
        resumed->names = calloc(backlog->n_functions + 1, sizeof(*resumed->names));
        resumed->held = calloc(backlog->n + 1, sizeof(*resumed->held));
    }
    if (resumed == NULL || resumed->names == NULL || resumed->held == NULL) {
        if (resumed != NULL) {
            free(resumed->names);
            free(resumed->held);
            free(resumed);
        }
        coxi_backlog_close(file);
        return coxi_error_memory("the backlog of a checkpoint");
    }
    for (size_t i = 0; i < resumed->n_names; i++) {
        struct coxi_resumed_name *named = &resumed->names[i];
        named->module.c = c;
        named->module.name = (char *)(uintptr_t)backlog->functions[i].module;
        named->function.module = &named->module;
        named->function.name = backlog->functions[i].name;
    }
    *ret = resumed;
    return 0;
}

/* True if the variable accepts the update and the file holds its data. The file is not
 * trusted. */
static bool update_fits(const struct coxi_variable *v,
                        const struct coxi_backlog_update *update, size_t len)
{
    uint64_t rows = coxi_variable_rows(v);
    if (update->op == COXI_OP_RATE) {
        return update->begin == 0 && update->count == 0 &&
               len >= sizeof(struct coxi_rate);
    }
    return v->kind == COXI_KIND_DENSE && update->op <= COXI_OP_MAX && rows > 0 &&
           update->begin <= rows && update->count <= rows - update->begin &&
           len / coxi_variable_row_bytes(v) >= update->count;
}

/* Finds a write of the older client in the file; *ret borrows from the file. */
static int find_update(struct cox_coordinator *c, const struct coxi_resumed *resumed,
                       size_t i, struct coxi_content_write *ret)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    const struct coxi_backlog_head *head = &backlog->heads[i];
    struct coxi_backlog_update update;
    const uint8_t *data = backlog->args + head->args_at;
    memcpy(&update, data, sizeof(update));
    coxi_lock(&c->lock);
    const struct coxi_entry *entry = update.variable < c->registry->n_entries
                                         ? c->registry->entries[update.variable]
                                         : NULL;
    coxi_unlock(&c->lock);
    const struct coxi_variable *v =
        entry != NULL && entry->made ? entry->description : NULL;
    if (v == NULL || v->rank == 0 ||
        !update_fits(v, &update, head->args_len - sizeof(update))) {
        return coxi_error(
            COX_EFORMAT,
            "the checkpoint's backlog writes to a variable or rows that do not exist");
    }
    *ret = (struct coxi_content_write){v, (enum coxi_op)update.op, update.begin,
                                       update.count, data + sizeof(update)};
    return 0;
}

/* Logs the write, so that a checkpoint taken before it is done has it in its
 * backlog. */
static int log_update(struct cox_coordinator *c, struct coxi_resumed *resumed, size_t i)
{
    struct coxi_content_write w;
    int r = find_update(c, resumed, i, &w);
    if (r != 0) {
        return r;
    }
    struct coxi_replay_entry what = {
        .id = coxi_closure_id(coxi_backlog_of(resumed->file)->heads[i].closure),
        .kind = COXI_REPLAY_UPDATE,
        .state = COXI_REPLAY_HELD};
    what.update = coxi_replay_update_new(w.variable, w.op, w.begin, w.count, w.data);
    r = what.update == NULL ? coxi_error_memory("the replay log")
                            : coxi_replay_log_operation(c->replay_log, &what);
    if (r != 0) {
        free(what.update);
    }
    return r;
}

/* Reports a write that a ps has refused: the program's next call to schedule or join
 * returns the error. */
static void note_refused(struct cox_coordinator *c, struct coxi_closure_id closure,
                         int code)
{
    char text[COXI_TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "write %" PRIu64 " of the client before this one: %.400s", closure.n,
                   coxi_error_text());
    coxi_lock(&c->lock);
    coxi_note_error(c, code, text);
    coxi_unlock(&c->lock);
}

int coxi_resume_redo(struct cox_coordinator *c, const struct coxi_resumed *resumed,
                     size_t i, struct coxi_operation *operation)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    bool over;
    int r;
    /* a held write keeps its operation until it is written */
    COXI_CHECK(operation != NULL);
    coxi_replay_log_set(c->replay_log, operation->id, COXI_REPLAY_OPEN);
    do {
        enum coxi_operation_end how = COXI_OPERATION_NOWHERE;
        struct coxi_content_write w;
        r = find_update(c, resumed, i++, &w);
        r = r == 0 ? coxi_content_write(c, operation->id, &w, &how) : r;
        over = r != 0 && (how == COXI_OPERATION_NOWHERE || coxi_check_alive(c) != 0);
        if (r != 0 && !over) {
            note_refused(c, operation->id, r);
        }
    } while (!over && coxi_backlog_is_more(backlog, i));
    coxi_operation_end(operation, over ? COXI_OPERATION_LOGGED : COXI_OPERATION_DONE);
    return over ? r : 0;
}

int coxi_resume_redo_reset(struct cox_coordinator *c, const struct coxi_variable *v,
                           struct coxi_operation *operation)
{
    const struct coxi_content_write w = {v, COXI_OP_ASSIGN, 0, v->shape[0],
                                         coxi_metric_zeros};
    enum coxi_operation_end how;
    coxi_replay_log_set(c->replay_log, operation->id, COXI_REPLAY_OPEN);
    int r = coxi_content_write(c, operation->id, &w, &how);
    bool over = r != 0 && (how == COXI_OPERATION_NOWHERE || coxi_check_alive(c) != 0);
    if (r != 0 && !over) {
        note_refused(c, operation->id, r);
    }
    coxi_operation_end(operation, over ? COXI_OPERATION_LOGGED : COXI_OPERATION_DONE);
    return over ? r : 0;
}

/* ---- taking over the backlog */

/* Does the writes that no call precedes. */
static int write_first(struct cox_coordinator *c, struct coxi_resumed *resumed)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    size_t end = first_call(backlog);
    int r = 0;
    for (size_t i = coxi_backlog_next_write(backlog, 0); r == 0 && i < end;
         i = coxi_backlog_next_write(backlog, i + 1)) {
        struct coxi_operation *operation = resumed->held[i].operation;
        resumed->held[i].operation = NULL;
        r = coxi_resume_redo(c, resumed, i, operation);
    }
    return r;
}

int coxi_resume_backlog(struct cox_coordinator *c,
                        const struct coxi_checkpoint *checkpoint, uint64_t watermark)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    struct holding holding = {.next_id = m->progress.closure + 1,
                              .next_place = m->next_place};
    struct coxi_backlog_file *file = NULL;
    char path[PATH_MAX];
    int r = 0;
    if (m->backlog.bytes > 0) {
        r = coxi_path(path, "%s/%s", checkpoint->path, m->backlog.file);
        if (r == 0) {
            r = coxi_backlog_open(path, m->backlog.bytes, m->backlog.crc32, &file);
        }
        if (r == 0) {
            r = resumed_new(c, file, &holding.resumed);
        }
    }
    if (r != 0) {
        return r;
    }
    if (holding.resumed != NULL) {
        holding.resumed->watermark = watermark;
    }
    r = coxi_call_on_loop(c, hold, &holding);
    c->saving.started.rerun = holding.n_calls;
    const struct coxi_backlog *backlog = file != NULL ? coxi_backlog_of(file) : NULL;
    for (size_t i = 0; r == 0 && backlog != NULL && i < backlog->n; i++) {
        r = coxi_backlog_is_update(backlog, i) ? log_update(c, holding.resumed, i) : 0;
    }
    if (r == 0 && backlog != NULL) {
        r = write_first(c, holding.resumed);
    }
    return r == 0 && backlog != NULL ? coxi_resume_start(holding.resumed) : r;
}
