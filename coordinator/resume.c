/*
 * See resume.h.
 *
 * Calls of the backlog are closures under their old ids, WAITING from the start: so no ps is
 * told a watermark beyond them. Their functions are names at first. What the program schedules
 * or joins first lets them go on, for by then it has loaded its modules and made its resources.
 *
 * Threads: who opens; the loop, which owns closures; users' in coxi_resume_go_on.
 */
#include "coordinator/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/backlog.h"
#include "common/checkpoint.h"
#include "common/checkpoints.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "coordinator/content.h"
#include "coordinator/generation.h"
#include "coordinator/inputs.h"
#include "coordinator/kept.h"
#include "coordinator/partition.h"
#include "coordinator/queue.h"
#include "coordinator/recovery_internal.h"
#include "coordinator/settle.h"

/* A function of the backlog, in place of which there will be one of a module. */
struct named {
    struct cox_function function; /* what its closures have until then */
    struct cox_module module;     /* a name */
    struct cox_function *loaded;  /* guarded by c->lock */
};

struct coxi_resumed {
    struct cox_coordinator *c;
    struct coxi_backlog_file *file;
    struct named *names;
    size_t n_names;
    struct cox_future **held; /* by place in the backlog; the loop's. NULL: not held */
    struct coxi_mail mail;
    bool posted; /* guarded by c->lock */
    bool over;   /* all functions are loaded; guarded by c->lock */
};

/* ---- whose directory */

static bool is_used(const char *dir)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t number;
    bool used = coxi_latest_read(dir, &number) != COX_ENOENT ||
                coxi_checkpoints_list(dir, &all, &n) != 0;
    for (size_t i = 0; i < n; i++) {
        used = used || !all[i].unfinished;
    }
    free(all);
    return used;
}

int coxi_resume_claim(struct cox_coordinator *c)
{
    if (c->options.resume == -1 && is_used(c->checkpoint_dir)) {
        return coxi_error(COX_EEXIST,
                          "checkpoint directory: %s holds checkpoints of another run: "
                          "choose a directory of this run's own, or let resume be 0",
                          c->checkpoint_dir);
    }
    int r = coxi_generation_claim(c->checkpoint_dir, &c->session);
    return r == 0 ? 0 : coxi_error(r, "checkpoint directory: %s", coxi_error_text());
}

/* ---- the checkpoint */

/* The number to go on from, or 0; and the highest that has been used. */
static int choose(const struct cox_coordinator *c, uint64_t *ret_number,
                  uint64_t *ret_highest)
{
    struct coxi_listed *all = NULL;
    size_t n = 0;
    uint64_t wanted = c->options.resume_from;
    int r = coxi_checkpoints_list(c->checkpoint_dir, &all, &n);
    if (r != 0) {
        return r;
    }
    *ret_highest = n > 0 ? all[n - 1].number : 0;
    while (n > 0 &&
           (all[n - 1].unfinished || (wanted != 0 && all[n - 1].number != wanted))) {
        n--;
    }
    *ret_number = n > 0 ? all[n - 1].number : 0;
    free(all);
    return wanted == 0 || *ret_number == wanted
               ? 0
               : coxi_error(COX_ENOENT, "there is no checkpoint %" PRIu64 " in %s",
                            wanted, c->checkpoint_dir);
}

static int check_checkpoint(const struct cox_coordinator *c,
                            const struct coxi_checkpoint *checkpoint)
{
    const struct coxi_manifest *m = checkpoint->manifest;
    if (m->session.run != c->session.run) {
        return coxi_error(COX_EFORMAT,
                          "%s is of run %016" PRIx64 ", the directory of %016" PRIx64,
                          checkpoint->path, m->session.run, c->session.run);
    }
    return m->n_shards == c->n_ps
               ? 0
               : coxi_error(COX_ECONFLICT,
                            "%s is of %" PRIu32 " ps, and this cluster has %" PRIu32
                            ": a run goes on with the number that it has; load it into "
                            "a new one with another directory",
                            checkpoint->path, m->n_shards, c->n_ps);
}

/* ---- variables */

static int add_entry(struct cox_coordinator *c, struct coxi_variable *description,
                     bool made)
{
    struct coxi_entry *entry = calloc(1, sizeof(*entry));
    struct coxi_entry **entries =
        realloc(c->entries, ((size_t)c->n_entries + 1) * 2 * sizeof(void *));
    c->entries = entries != NULL ? entries : c->entries;
    if (entry == NULL || entries == NULL || description == NULL) {
        free(entry);
        coxi_variable_free(description);
        return coxi_error_memory("variables");
    }
    *entry = (struct coxi_entry){
        .c = c, .description = description, .made = made, .found = made};
    c->entries[c->n_entries++] = entry;
    for (size_t i = 0; i < description->n_shards; i++) {
        c->ps_load[description->shards[i].ps] += coxi_partition_load(description, i);
    }
    return 0;
}

/* The variables of the checkpoint, under the ids that they had. Takes them. */
static int take_variables(struct cox_coordinator *c, struct coxi_manifest *m)
{
    int r = 0;
    coxi_lock(&c->lock);
    for (uint32_t i = 0; r == 0 && i < m->n_variables; i++) {
        struct coxi_variable *v = m->variables[i];
        while (r == 0 && c->n_entries < v->id) { /* one that could not be created */
            struct coxi_variable *nothing = calloc(1, sizeof(*nothing));
            if (nothing != NULL) {
                nothing->name = "";
            }
            r = add_entry(c, nothing, false);
        }
        if (r == 0) {
            m->variables[i] = NULL;
            r = add_entry(c, v, true);
        }
    }
    c->layout_changed = true;
    coxi_unlock(&c->lock);
    return r;
}

int coxi_resume_match(const struct coxi_variable *wanted, uint32_t n_shards,
                      const struct coxi_variable *found)
{
    struct coxi_variable there = *wanted;
    there.shards = found->shards;
    there.n_shards = found->n_shards;
    return n_shards == found->n_shards && coxi_variable_equal(&there, found)
               ? 0
               : coxi_error(
                     COX_ECONFLICT,
                     "variable '%s' is in the checkpoint that this client went on "
                     "from, and was specified in another way: `coxswain "
                     "checkpoint show` tells how; keep to that, or begin a run "
                     "with a directory of its own",
                     wanted->name);
}

/* ---- the ps */

static int fill_all(struct coxi_recovery *rec, struct coxi_recovery_target *targets)
{
    struct cox_coordinator *c = rec->c;
    for (uint32_t p = 0; p < c->n_ps; p++) {
        targets[p] = (struct coxi_recovery_target){.ps = p, .psc = c->ps[p]};
    }
    int r = coxi_recovery_fill(rec, targets, c->n_ps);
    if (r == COX_EPSLOST) { /* then it has been filled when it is back */
        r = coxi_recovery_wait(c);
    }
    for (uint32_t p = 0; r == 0 && p < c->n_ps; p++) {
        if (targets[p].code != 0 && targets[p].code != COX_EPSLOST) {
            r = coxi_error(targets[p].code, "ps %u could not be restored from %s", p,
                           rec->base.path);
        }
    }
    return r;
}

static int restore_all(struct coxi_recovery *rec)
{
    struct coxi_recovery_target *targets = calloc(rec->c->n_ps, sizeof(*targets));
    if (targets == NULL) {
        return coxi_error_memory("restoring ps");
    }
    int r = fill_all(rec, targets);
    free(targets);
    return r;
}

/* ---- the backlog */

/* The file is not trusted. */
static int8_t priority_of(const struct coxi_backlog_head *head)
{
    int64_t priority = head->priority;
    return (int8_t)(priority >= COX_PRIORITY_MIN && priority <= COX_PRIORITY_MAX
                        ? priority
                        : 0);
}

static struct cox_future *new_held(struct coxi_resumed *resumed, size_t i)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    const struct coxi_backlog_head *head = &backlog->heads[i];
    bool update = head->function == COXI_BACKLOG_UPDATE;
    size_t len = update ? 0 : head->args_len;
    struct cox_future *f = malloc(sizeof(*f) + len);
    if (f == NULL) {
        return NULL;
    }
    *f = (struct cox_future){.c = resumed->c, .id = head->closure};
    atomic_init(&f->refs, 1);
    if (!update) {
        f->function = &resumed->names[head->function].function;
        f->cursor = head->cursor;
        f->priority = priority_of(head);
        f->only_worker = head->only_worker <= resumed->c->n_workers
                             ? (uint32_t)head->only_worker
                             : 0; /* it is not there any more: then any */
        f->timeout_ms = (uint32_t)head->timeout_ms;
        f->args_len = (uint32_t)len;
        f->state = COXI_WAITING;
        if (len > 0) {
            memcpy(f->args, backlog->args + head->args_at, len);
        }
    }
    if (head->done && coxi_kept_new(f) != 0) {
        free(f);
        return NULL;
    }
    return f;
}

static bool is_update(const struct coxi_backlog *backlog, size_t i)
{
    return i < backlog->n && backlog->heads[i].function == COXI_BACKLOG_UPDATE;
}

/* True where head i goes on with the write of the one before it. */
static bool is_more(const struct coxi_backlog *backlog, size_t i)
{
    return i > 0 && is_update(backlog, i) && is_update(backlog, i - 1) &&
           backlog->heads[i].closure == backlog->heads[i - 1].closure;
}

/* Where the window of closures that are not settled is to begin. */
static uint64_t first_id(const struct coxi_backlog *backlog, uint64_t next_id)
{
    size_t i = 0;
    while (backlog != NULL && i < backlog->n && backlog->heads[i].done) {
        i++;
    }
    return backlog != NULL && i < backlog->n ? backlog->heads[i].closure : next_id;
}

/* The place of a closure in the backlog, which has it. */
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

/* `first`: of its inputs. */
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
        inputs[k].future = resumed->held[place_of(backlog, input->closure)];
    }
    int r = coxi_inputs_new(resumed->c, inputs, n, &resumed->held[i]->inputs);
    free(inputs);
    return r;
}

struct holding {
    struct coxi_resumed *resumed; /* NULL: there is no backlog */
    uint64_t next_id;
    size_t n_calls;
    int code;
};

/* On the loop: this client's ids begin behind those of the one before. */
static void hold(struct coxi_recovery *rec, void *arg)
{
    struct holding *holding = arg;
    struct cox_coordinator *c = rec->c;
    struct coxi_resumed *resumed = holding->resumed;
    const struct coxi_backlog *backlog =
        resumed != NULL ? coxi_backlog_of(resumed->file) : NULL;
    size_t n = backlog != NULL ? backlog->n : 0;
    size_t first_input = 0;
    int r = 0;
    coxi_window_fini(&c->closures);
    coxi_window_init(&c->closures, first_id(backlog, holding->next_id), COXI_WINDOW);
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (is_more(backlog, i)) {
            continue;
        }
        struct cox_future *f = new_held(resumed, i);
        bool done = backlog->heads[i].done;
        r = f == NULL ? coxi_error_memory("a closure that is run again")
            : done    ? 0
                      : coxi_window_put(&c->closures, f->id, f);
        if (r != 0) {
            free(f);
            break;
        }
        resumed->held[i] = f;
        if (f->function != NULL && !done) {
            coxi_list_append(&c->waiting, f);
            holding->n_calls++;
        }
        r = f->function != NULL ? hold_inputs(resumed, i, first_input) : 0;
        first_input += backlog->heads[i].n_inputs;
    }
    coxi_lock(&c->lock);
    c->next_id = holding->next_id;
    c->first_unsettled = c->closures.count > 0 ? c->closures.first : holding->next_id;
    c->n_waiting += holding->n_calls;
    c->n_unsettled += holding->n_calls;
    coxi_unlock(&c->lock);
    holding->code = r;
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
        resumed->held = calloc(backlog->n + 1, sizeof(struct cox_future *));
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
        struct named *named = &resumed->names[i];
        named->module.c = c;
        named->module.name = (char *)(uintptr_t)backlog->functions[i].module;
        named->function.module = &named->module;
        named->function.name = backlog->functions[i].name;
    }
    *ret = resumed;
    return 0;
}

/* What the client before was writing, as it is in the file; *ret borrows from that. */
static int find_update(struct cox_coordinator *c, const struct coxi_resumed *resumed,
                       size_t i, struct coxi_content_write *ret)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    const struct coxi_backlog_head *head = &backlog->heads[i];
    struct coxi_backlog_update update;
    const uint8_t *data = backlog->args + head->args_at;
    memcpy(&update, data, sizeof(update));
    const struct coxi_entry *entry =
        update.variable < c->n_entries ? c->entries[update.variable] : NULL;
    const struct coxi_variable *v = entry != NULL ? entry->description : NULL;
    uint64_t rows = v != NULL && v->rank > 0 && entry->made ? coxi_variable_rows(v) : 0;
    if (update.begin > rows || update.count > rows - update.begin ||
        update.op > COXI_OP_MAX || rows == 0 || v->kind != COXI_KIND_DENSE ||
        (head->args_len - sizeof(update)) / coxi_variable_row_bytes(v) < update.count) {
        return coxi_error(COX_EFORMAT,
                          "the checkpoint's backlog writes to what there is not");
    }
    *ret = (struct coxi_content_write){v, (enum coxi_op)update.op, update.begin,
                                       update.count, data + sizeof(update)};
    return 0;
}

/* Logs it: a checkpoint that is taken before it is done has it in its backlog. */
static int log_update(struct cox_coordinator *c, struct coxi_resumed *resumed, size_t i)
{
    struct coxi_content_write w;
    int r = find_update(c, resumed, i, &w);
    if (r != 0) {
        return r;
    }
    struct coxi_log_entry what = {.id =
                                      coxi_backlog_of(resumed->file)->heads[i].closure,
                                  .kind = COXI_LOG_UPDATE,
                                  .state = COXI_LOG_HELD};
    what.update = coxi_log_update_new(w.variable, w.op, w.begin, w.count, w.data);
    r = what.update == NULL ? coxi_error_memory("the replay log")
                            : coxi_recovery_operation(c, &what);
    if (r != 0) {
        free(what.update);
    }
    return r;
}

/* Writes what the i-th head begins, and ends the operation. */
static int redo_update(struct cox_coordinator *c, struct coxi_resumed *resumed,
                       size_t i)
{
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    struct cox_future *operation = resumed->held[i];
    enum coxi_operation_end how;
    int r;
    resumed->held[i] = NULL;
    coxi_recovery_operation_set(c, operation->id, COXI_LOG_OPEN);
    do {
        struct coxi_content_write w;
        r = find_update(c, resumed, i++, &w);
        r = r == 0 ? coxi_content_write(c, operation->id, &w, &how) : r;
    } while (r == 0 && is_more(backlog, i));
    coxi_operation_end(operation, r == 0 ? COXI_OPERATION_DONE : COXI_OPERATION_LOGGED);
    return r;
}

static int take_backlog(struct coxi_recovery *rec,
                        const struct coxi_checkpoint *checkpoint)
{
    struct cox_coordinator *c = rec->c;
    const struct coxi_manifest *m = checkpoint->manifest;
    struct holding holding = {.next_id = m->progress.closure + 1};
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
    c->resumed = holding.resumed;
    coxi_recovery_on_loop(rec, hold, &holding);
    c->started.rerun = holding.n_calls;
    r = holding.code;
    const struct coxi_backlog *backlog = file != NULL ? coxi_backlog_of(file) : NULL;
    for (size_t i = 0; r == 0 && backlog != NULL && i < backlog->n; i++) {
        r = is_update(backlog, i) ? log_update(c, holding.resumed, i) : 0;
    }
    for (size_t i = 0; r == 0 && backlog != NULL && i < backlog->n; i++) {
        if (is_update(backlog, i) && !is_more(backlog, i)) {
            r = redo_update(c, holding.resumed, i);
        }
    }
    return r;
}

/* ---- going on */

/* Takes what recovery starts from out of the checkpoint. */
static int take_base(struct coxi_recovery *rec, struct coxi_checkpoint *checkpoint)
{
    struct coxi_recovery_base base = {.path = strdup(checkpoint->path),
                                      .shards = checkpoint->manifest->shards,
                                      .lock = dup(checkpoint->lock)};
    if (base.path == NULL || base.lock < 0) {
        free(base.path);
        return coxi_error_memory("a checkpoint");
    }
    checkpoint->manifest->shards = NULL;
    coxi_lock(&rec->lock);
    rec->base = base;
    coxi_unlock(&rec->lock);
    return 0;
}

static int go_on_from(struct cox_coordinator *c, struct coxi_checkpoint *checkpoint)
{
    struct coxi_recovery *rec = c->recovery;
    struct coxi_manifest *m = checkpoint->manifest;
    c->started.checkpoint = m->number;
    c->started.closure = m->progress.closure;
    c->started.cursor = m->progress.cursor;
    c->progress = m->progress;
    int r = take_variables(c, m);
    if (r == 0) {
        r = take_base(rec, checkpoint);
    }
    if (r == 0) {
        r = restore_all(rec);
    }
    return r == 0 ? take_backlog(rec, checkpoint) : r;
}

int coxi_resume(struct cox_coordinator *c)
{
    uint64_t number = 0;
    char path[PATH_MAX];
    struct coxi_checkpoint *checkpoint = NULL;
    int r = choose(c, &number, &c->checkpoint_number);
    coxi_checkpoints_remove_unfinished(
        c->checkpoint_dir); /* whose numbers are used, too */
    if (r != 0 || number == 0) {
        return r;
    }
    r = coxi_path(path, "%s/ckpt-%" PRIu64, c->checkpoint_dir, number);
    if (r == 0) {
        r = coxi_checkpoint_open(path, COXI_CHECKPOINT_LISTED, &checkpoint);
    }
    if (r == 0) {
        r = check_checkpoint(c, checkpoint);
    }
    if (r == 0) {
        r = go_on_from(c, checkpoint);
    }
    coxi_checkpoint_close(checkpoint);
    return r == COX_ECHECKSUM || r == COX_EFORMAT || r == COX_EIO
               ? coxi_checkpoints_offer(
                     r, coxi_checkpoints_whole(c->checkpoint_dir, number))
               : r;
}

/* One that was done before: what it returned is nowhere, until others need it. */
static void be_done(struct cox_future *f)
{
    f->state = COXI_DONE_OK;
    atomic_store(&f->settled, true);
    coxi_inputs_settled(f);
    coxi_kept_unwant(f);
    coxi_future_unref(f);
}

/* On the loop: who has a function now is in line, or waits for others alone. */
static void let_go(struct coxi_mail *mail)
{
    struct coxi_resumed *resumed =
        (struct coxi_resumed *)((uint8_t *)mail - offsetof(struct coxi_resumed, mail));
    struct cox_coordinator *c = resumed->c;
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    coxi_lock(&c->lock);
    resumed->posted = false;
    coxi_unlock(&c->lock);
    for (size_t i = 0; i < backlog->n; i++) {
        struct cox_future *f = resumed->held[i];
        uint64_t function = backlog->heads[i].function;
        if (f == NULL || function == COXI_BACKLOG_UPDATE) {
            continue;
        }
        coxi_lock(&c->lock);
        struct cox_function *loaded = resumed->names[function].loaded;
        coxi_unlock(&c->lock);
        if (loaded == NULL) {
            continue;
        }
        resumed->held[i] = NULL;
        if (backlog->heads[i].done) {
            f->function = loaded;
            be_done(f);
            continue;
        }
        if (coxi_window_get(&c->closures, backlog->heads[i].closure) != f) {
            continue; /* it was cancelled */
        }
        f->function = loaded;
        coxi_list_remove(&c->waiting, f);
        if (f->inputs != NULL) {
            coxi_inputs_wait(f);
        } else {
            coxi_closure_set(f, COXI_QUEUED);
            coxi_closure_enqueue(f, false);
        }
    }
    coxi_loop_wake_after_mail(c->loop);
}

/* The function of that name, in any module of that name that was loaded; or NULL. Locked. */
static struct cox_function *find_function(const struct cox_coordinator *c,
                                          const struct named *named)
{
    for (uint32_t i = 0; i < c->n_modules; i++) {
        const struct cox_module *module = c->modules[i];
        bool is_it = module->accepted && strcmp(module->name, named->module.name) == 0;
        for (uint32_t k = 0; is_it && k < module->info.n_steps; k++) {
            if (strcmp(module->functions[k].name, named->function.name) == 0) {
                return &module->functions[k];
            }
        }
    }
    return NULL;
}

const struct cox_function *coxi_resume_go_on(struct cox_coordinator *c)
{
    struct coxi_resumed *resumed = c->resumed;
    const struct cox_function *missing = NULL;
    bool found = false;
    if (resumed == NULL || resumed->over) {
        return NULL;
    }
    for (size_t i = 0; i < resumed->n_names; i++) {
        struct named *named = &resumed->names[i];
        if (named->loaded == NULL) {
            named->loaded = find_function(c, named);
            found = found || named->loaded != NULL;
            missing = named->loaded == NULL ? &named->function : missing;
        }
    }
    resumed->over = missing == NULL;
    if (found && !resumed->posted) {
        resumed->posted = true;
        resumed->mail.run = let_go;
        coxi_loop_post(c->loop, &resumed->mail);
    }
    return missing;
}

void coxi_resume_free(struct cox_coordinator *c)
{
    struct coxi_resumed *resumed = c->resumed;
    if (resumed == NULL) {
        return;
    }
    const struct coxi_backlog *backlog = coxi_backlog_of(resumed->file);
    for (size_t i = 0; i < backlog->n; i++) {
        struct cox_future *f = resumed->held[i]; /* other calls have ended by now */
        if (f != NULL && backlog->heads[i].done) {
            be_done(f);
        } else if (backlog->heads[i].function == COXI_BACKLOG_UPDATE) {
            free(f);
        }
    }
    coxi_inputs_go_on(c); /* who has waited for those that were done is over, too */
    coxi_backlog_close(resumed->file);
    free(resumed->names);
    free(resumed->held);
    free(resumed);
    c->resumed = NULL;
}

int cox_progress(const struct cox_coordinator *c, struct cox_progress *ret)
{
    if (c == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_progress needs a coordinator");
    }
    struct cox_progress progress = c->started;
    progress.generation = c->session.generation;
    return coxi_struct_return(ret, sizeof(progress), &progress, "cox_progress");
}
