/*
 * See load.h: decides which variables are loaded, and from which tensors, and checks
 * that they fit. All of that happens before anything is sent.
 *
 * Threads: any.
 */
#include "coordinator/variables/load.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoints.h"
#include "checkpoint/hold.h"
#include "checkpoint/place.h"
#include "common/disk.h"
#include "common/dtype.h"
#include "common/error.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/alive.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/gate.h"
#include "coordinator/closures/operation.h"
#include "coordinator/variables/registry.h"

/* ---- life */

void coxi_loading_ref(struct coxi_loading *loading)
{
    atomic_fetch_add(&loading->refs, 1);
}

uint64_t coxi_loading_bytes(const struct coxi_loading *loading)
{
    return sizeof(*loading) + loading->n_items * sizeof(*loading->items);
}

void coxi_loading_unref(struct coxi_loading *loading)
{
    if (loading == NULL || atomic_fetch_sub(&loading->refs, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < loading->n_items; i++) {
        free(loading->items[i].from);
    }
    coxi_hold_release(loading->hold);
    free(loading->items);
    free(loading->path);
    free(loading);
}

/* A loading of a checkpoint, without any variables yet. */
static int loading_new(const struct coxi_checkpoint *checkpoint, size_t n_items_max,
                       struct coxi_loading **ret)
{
    char real[PATH_MAX];
    struct coxi_loading *loading = calloc(1, sizeof(*loading));
    if (loading == NULL) {
        return coxi_error_memory("loading a checkpoint");
    }
    atomic_init(&loading->refs, 1);
    loading->items = calloc(n_items_max + 1, sizeof(*loading->items));
    int r = coxi_place_real(checkpoint->path, real);
    loading->path = r == 0 ? strdup(real) : NULL;
    if (r == 0) {
        r = loading->items == NULL || loading->path == NULL
                ? coxi_error_memory("loading a checkpoint")
                : coxi_hold_try(loading->path, &loading->hold);
    }
    if (r != 0) {
        coxi_loading_unref(loading);
        return r;
    }
    *ret = loading;
    return 0;
}

/* ---- checks */

/* Describes a variable: a table, or "F32 [7, 2]". */
static void describe(const struct coxi_variable *v, char *ret, size_t len)
{
    char shape[128];
    if (v->kind == COXI_KIND_TABLE) {
        (void)snprintf(ret, len, "a table of dim %zu", coxi_table_dim(v));
        return;
    }
    coxi_shape_text(v->rank, v->shape, shape, sizeof(shape));
    (void)snprintf(ret, len, "%s%s %s",
                   v->metric != COXI_METRIC_NONE ? "a metric, " : "",
                   coxi_dtype_name(v->dtype), shape);
}

static int check_alike(const struct coxi_variable *to, const struct coxi_variable *from,
                       const struct coxi_checkpoint *checkpoint)
{
    char ours[192];
    char its[192];
    if (to->kind == from->kind && to->dtype == from->dtype && to->rank == from->rank &&
        memcmp(to->shape, from->shape, to->rank * sizeof(*to->shape)) == 0 &&
        to->metric == from->metric) {
        return 0;
    }
    describe(to, ours, sizeof(ours));
    describe(from, its, sizeof(its));
    return coxi_error(COX_ECONFLICT, "variable '%s' is %s here, but '%s' of %s is %s%s",
                      to->name, ours, from->name, checkpoint->path, its,
                      strcmp(ours, its) == 0 ? " of another kind" : "");
}

/* Decides whether the state is loaded, too. */
static int choose_state(const struct cox_load_options *o,
                        const struct coxi_variable *to,
                        const struct coxi_variable *from,
                        const struct coxi_checkpoint *checkpoint, bool *ret)
{
    struct coxi_load_source source;
    uint32_t kind = to->optimizer.kind;
    bool fits = kind != COXI_OPTIMIZER_NONE && kind == from->optimizer.kind &&
                coxi_load_source_find(checkpoint, from, true, &source);
    if (o->state == COX_LOAD_STATE_REQUIRED && !fits && kind != COXI_OPTIMIZER_NONE) {
        return coxi_error(
            COX_ECONFLICT,
            "the optimizer of variable '%s' is %s here, but '%s' of %s has "
            "state of %s%s",
            to->name, coxi_optimizer_name(&to->optimizer), from->name, checkpoint->path,
            coxi_optimizer_name(&from->optimizer),
            kind == from->optimizer.kind ? ", and not all of it" : "");
    }
    *ret = fits && o->state != COX_LOAD_STATE_NONE;
    return 0;
}

/* ---- choosing variables */

struct choice {
    struct cox_coordinator *c;
    const struct cox_load_options *options;
    const struct coxi_checkpoint *checkpoint;
    struct coxi_loading *loading;
    struct cox_load_info *info;
};

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Adds the variable to the loading, under its name in the checkpoint. */
static int choose(struct choice *choice, const struct coxi_variable *to,
                  const char *from_name)
{
    const struct coxi_checkpoint *checkpoint = choice->checkpoint;
    struct coxi_load_item item = {.to = to};
    struct coxi_load_source source;
    const struct coxi_variable *from = coxi_checkpoint_variable(checkpoint, from_name);
    int r = from == NULL ? coxi_error(COX_ENOENT, "%s has no variable '%s' for '%s'",
                                      checkpoint->path, from_name, to->name)
                         : check_alike(to, from, checkpoint);
    if (r == 0) {
        r = choose_state(choice->options, to, from, checkpoint, &item.state);
    }
    if (r != 0 && choice->options->missing == COX_LOAD_MISSING_SKIP) {
        choice->info->skipped++;
        return 0;
    }
    if (r != 0) {
        return r;
    }
    item.from = strdup(from_name);
    if (item.from == NULL) {
        return coxi_error_memory("loading a checkpoint");
    }
    choice->loading->items[choice->loading->n_items++] = item;
    (void)coxi_load_source_find(checkpoint, from, item.state, &source);
    choice->info->variables++;
    choice->info->rows += to->kind == COXI_KIND_TABLE ? source.rows : 0;
    choice->info->bytes += source.bytes;
    return 0;
}

/* True if the options select a variable with this name; marks each pattern that
 * matches. */
static bool is_meant(const struct cox_load_options *o, const char *name, bool *matched)
{
    const char *prefix = or_empty(o->to_prefix);
    bool meant = o->variables == NULL;
    if (strncmp(name, prefix, strlen(prefix)) != 0) {
        return false;
    }
    for (size_t i = 0; o->variables != NULL && i < o->n_variables; i++) {
        bool matches = coxi_name_matches(o->variables[i], name);
        matched[i] = matched[i] || matches;
        meant = meant || matches;
    }
    return meant;
}

static int choose_all(struct choice *choice, const struct coxi_variable *const *all,
                      size_t n, bool *matched)
{
    const struct cox_load_options *o = choice->options;
    char name[2 * COXI_WIRE_NAME_MAX + 2];
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        if (is_meant(o, all[i]->name, matched)) {
            (void)snprintf(name, sizeof(name), "%.*s%s", COXI_WIRE_NAME_MAX,
                           or_empty(o->from_prefix),
                           all[i]->name + strlen(or_empty(o->to_prefix)));
            r = choose(choice, all[i], name);
        }
    }
    for (size_t i = 0; r == 0 && o->variables != NULL && i < o->n_variables; i++) {
        if (!matched[i] && o->missing != COX_LOAD_MISSING_SKIP) {
            r = coxi_error(COX_ENOENT, "no variable of this run is called '%s'",
                           o->variables[i]);
        }
    }
    return r;
}

/* The variables that exist; for free(). */
static const struct coxi_variable **list_variables(struct cox_coordinator *c,
                                                   size_t *ret_n)
{
    size_t n = 0;
    coxi_lock(&c->lock);
    const struct coxi_variable **all =
        calloc((size_t)c->registry->n_entries + 1, sizeof(void *));
    for (uint32_t i = 0; all != NULL && i < c->registry->n_entries; i++) {
        if (c->registry->entries[i]->made) {
            all[n++] = c->registry->entries[i]->description;
        }
    }
    coxi_unlock(&c->lock);
    *ret_n = n;
    return all;
}

/* Chooses the variables, and finds every error that can be found before anything is
 * sent. */
static int plan(struct cox_coordinator *c, const struct cox_load_options *o,
                const struct coxi_checkpoint *checkpoint, struct cox_load_info *info,
                struct coxi_loading **ret)
{
    size_t n = 0;
    struct choice choice = {
        .c = c, .options = o, .checkpoint = checkpoint, .info = info};
    const struct coxi_variable **all = list_variables(c, &n);
    bool *matched = calloc(o->n_variables + 1, sizeof(*matched));
    int r = all == NULL || matched == NULL
                ? coxi_error_memory("loading a checkpoint")
                : loading_new(checkpoint, n, &choice.loading);
    if (r == 0) {
        r = choose_all(&choice, all, n, matched);
    }
    free(all);
    free(matched);
    if (r != 0) {
        coxi_loading_unref(choice.loading);
        return r;
    }
    *ret = choice.loading;
    return 0;
}

/* ---- loading */

bool coxi_loading_is_part(const struct coxi_loading *loading, uint32_t ps)
{
    bool is_part = false;
    for (size_t i = 0; !is_part && i < loading->n_items; i++) {
        const struct coxi_variable *to = loading->items[i].to;
        is_part = to->kind == COXI_KIND_TABLE || coxi_variable_shard(to, ps) != NULL;
    }
    return is_part;
}

/* The loading has failed with `code` after these ps had taken something, which
 * stays. */
static int tell_partial(struct cox_coordinator *c, const bool *took, int code)
{
    char why[COXI_TEXT_MAX];
    char list[256] = "";
    size_t used = 0;
    (void)snprintf(why, sizeof(why), "%s", coxi_error_text());
    for (uint32_t p = 0; p < c->ps.n && used < sizeof(list); p++) {
        if (took[p]) {
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s %u",
                                     used > 0 ? "," : "", p);
        }
    }
    return used == 0 || coxi_check_alive(c) != 0
               ? coxi_error(code, "%s", why)
               : coxi_error(COX_EPARTIAL, "%.300s; some of it is loaded on ps%s", why,
                            list);
}

static int send_to_all(struct cox_coordinator *c, const struct cox_load_options *o,
                       const struct coxi_checkpoint *checkpoint,
                       const struct coxi_loading *loading,
                       struct coxi_closure_id closure)
{
    uint64_t *incarnations = calloc(c->ps.n, sizeof(*incarnations));
    bool *took = calloc(c->ps.n, sizeof(*took));
    const struct coxi_load_target target = {.c = c,
                                            .closure = closure,
                                            .only_ps = COXI_LOAD_ALL_PS,
                                            .incarnations = incarnations,
                                            .took = took,
                                            .on_progress = o->on_progress,
                                            .arg = o->arg};
    int r = incarnations == NULL || took == NULL
                ? coxi_error_memory("loading a checkpoint")
                : 0;
    if (r == 0) {
        do {
            /*
             * A ps that comes back later gets the whole loading from the replay, in its
             * order. Until then it refuses our messages, because they name the old
             * incarnation.
             */
            r = coxi_ps_moment(c, incarnations);
            r = r == 0 ? coxi_loading_send(loading, checkpoint, &target) : r;
        } while (coxi_ps_again(c, &r));
        r = r == 0 ? 0 : tell_partial(c, took, r);
    }
    free(took);
    free(incarnations);
    return r;
}

/*
 * Learning rate schedules continue from their step in the checkpoint, as of operation
 * `closure`. Closures that were scheduled before keep their steps, also when they are
 * repeated.
 */
static void take_step(struct cox_coordinator *c, const struct coxi_manifest *m,
                      struct coxi_closure_id closure)
{
    uint64_t next = m->progress.closure + 1;
    uint64_t since =
        m->first_closure > 0 && next > m->first_closure ? next - m->first_closure : 0;
    coxi_lock(&c->lock);
    uint64_t first = atomic_load(&c->ids.first_closure);
    if (first != 0) {
        atomic_store(&c->ids.steps_from, first - atomic_load(&c->ids.steps_before));
        atomic_store(&c->ids.steps_loaded, closure.n);
        atomic_store(&c->ids.first_closure, closure.n + 1);
    }
    atomic_store(&c->ids.steps_before, m->steps_before + since);
    coxi_unlock(&c->lock);
}

static int load_all(struct cox_coordinator *c, const struct cox_load_options *o,
                    const struct coxi_checkpoint *checkpoint,
                    struct coxi_loading *loading)
{
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_LOAD, .loading = loading};
    struct coxi_operation *operation;
    int r = coxi_gate_wait(c); /* first the writes that the older client had begun */
    if (r == 0) {
        /* waits for room before it takes saving.lock, because only a checkpoint, which
         * takes that lock, too, makes room */
        r = coxi_operation_room(c);
    }
    if (r != 0) {
        return r;
    }
    coxi_lock(&c->saving.lock); /* each checkpoint has all of the loading or nothing */
    r = coxi_operation_begin(c, &what, false, &operation);
    if (r == 0) {
        r = send_to_all(c, o, checkpoint, loading, operation->id);
        if (r == 0 && o->state != COX_LOAD_STATE_NONE) {
            take_step(c, checkpoint->manifest, operation->id);
        }
        coxi_operation_end(operation,
                           r == 0 ? COXI_OPERATION_DONE : COXI_OPERATION_NOWHERE);
    }
    coxi_unlock(&c->saving.lock);
    return r;
}

int coxi_loading_repeat(struct cox_coordinator *c, const struct coxi_loading *loading,
                        struct coxi_closure_id closure, uint32_t ps)
{
    struct coxi_checkpoint *checkpoint = NULL;
    uint64_t *incarnations = calloc(c->ps.n, sizeof(*incarnations));
    const struct coxi_load_target target = {
        .c = c, .closure = closure, .only_ps = ps, .incarnations = incarnations};
    int r = incarnations == NULL ? coxi_error_memory("loading a checkpoint") : 0;
    if (r == 0) {
        coxi_ps_incarnations(c, incarnations);
        r = coxi_checkpoint_open(loading->path, COXI_CHECKPOINT_CHECKED, &checkpoint);
    }
    if (r == 0) {
        r = coxi_loading_send(loading, checkpoint, &target);
        coxi_checkpoint_close(checkpoint);
    }
    free(incarnations);
    return r;
}

static int check_options(const struct cox_load_options *o)
{
    if (o->path == NULL) {
        return coxi_error(COX_EINVAL, "cox_load_options.path must name a checkpoint, "
                                      "or a directory of checkpoints");
    }
    if (o->state > COX_LOAD_STATE_REQUIRED || o->missing > COX_LOAD_MISSING_SKIP) {
        return coxi_error(COX_EINVAL,
                          "cox_load_options: %u is no state, or %u no missing",
                          o->state, o->missing);
    }
    for (size_t i = 0; o->variables != NULL && i < o->n_variables; i++) {
        if (o->variables[i] == NULL) {
            return coxi_error(COX_EINVAL, "cox_load_options.variables[%zu] is NULL", i);
        }
    }
    return 0;
}

/* The work of cox_checkpoint_load, without what comes from outside. */
static int load(struct cox_coordinator *c, const struct cox_load_options *o,
                struct cox_load_info *ret)
{
    struct coxi_checkpoint *checkpoint = NULL;
    struct coxi_loading *loading = NULL;
    int r = coxi_checkpoint_use(o->path, COXI_CHECKPOINT_CHECKED, &checkpoint);
    if (r != 0) {
        return r;
    }
    ret->number = checkpoint->manifest->number;
    ret->run = checkpoint->manifest->session.run;
    r = plan(c, o, checkpoint, ret, &loading);
    if (r == 0 && loading->n_items > 0) {
        r = load_all(c, o, checkpoint, loading);
    }
    coxi_loading_unref(loading);
    coxi_checkpoint_close(checkpoint);
    return r;
}

int cox_checkpoint_load(struct cox_coordinator *c,
                        const struct cox_load_options *options,
                        struct cox_load_info *ret)
{
    struct cox_load_options o = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    if (c == NULL || options == NULL) {
        return coxi_error(COX_EINVAL,
                          "cox_checkpoint_load needs a coordinator and options");
    }
    COXI_CALL(c);
    int r = coxi_struct_copy(&o, COXI_STRUCT_LOAD_OPTIONS, options);
    r = r == 0 && ret != NULL ? coxi_struct_check(COXI_STRUCT_LOAD_INFO, ret) : r;
    r = r == 0 ? check_options(&o) : r;
    r = r == 0 ? coxi_check_alive(c) : r;
    if (r != 0) {
        return r;
    }
    coxi_disk_give_up_when(&c->saving.leaves_disk);
    r = load(c, &o, &info);
    coxi_disk_give_up_when(NULL);
    if (r == 0 && ret != NULL) {
        r = coxi_struct_return(ret, COXI_STRUCT_LOAD_INFO, &info);
    }
    return r;
}
