/*
 * Creates and finds variables, tables and metrics; registry.c has the list of them.
 * content_read.c and content_write.c read and write their values.
 *
 * A creation is numbered like a closure, and the ps record it in the applied set, so it
 * counts once, too. It goes from the calling thread straight to the ps, and names the
 * incarnations for which it is meant. The operation is in the log before any ps is
 * asked. So recovery creates the variable on a ps that is lost at any time and comes
 * back, even after the ps answered here.
 */
#include <stdlib.h>
#include <string.h>

#include "common/defaults.h"
#include "common/difference.h"
#include "common/error.h"
#include "common/layout.h"
#include "common/rule.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/base/replay_log.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/operation.h"
#include "coordinator/coordinator.h"
#include "coordinator/variables/partition.h"
#include "coordinator/variables/registry.h"
#include "coordinator/variables/rules.h"

_Static_assert((int)COX_RANK_MAX == (int)COXI_WIRE_RANK_MAX, "one limit");
_Static_assert((int)COX_NAME_MAX == (int)COXI_WIRE_NAME_MAX, "one limit");

/* ---- creating */

/* Creates the variable on the ps that hold a part of it; a table on all ps. */
static int create_parts(struct cox_coordinator *c, const struct coxi_variable *variable,
                        struct coxi_closure_id closure, const uint64_t *incarnations)
{
    bool is_table = variable->kind == COXI_KIND_TABLE;
    size_t n = is_table ? c->ps.n : variable->n_shards;
    struct coxi_ps_round_call *calls = calloc(n, sizeof(*calls));
    struct coxi_ps_round round;
    if (calls == NULL) {
        return coxi_error_memory("a variable");
    }
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.session = c->session;
    message.create.closure = closure.n;
    message.create.variable = *variable;
    coxi_ps_round_begin(&round);
    for (size_t i = 0; i < n; i++) {
        uint32_t ps = is_table ? (uint32_t)i : (uint32_t)variable->shards[i].ps;
        message.create.incarnation = incarnations[ps];
        calls[i].expect = COXI_STATUS;
        coxi_ps_round_add(&round, c->ps.clients[ps], &message, &calls[i]);
    }
    int r = coxi_ps_round_end(&round);
    free(calls);
    return r;
}

/* Operation `id` has created it: announces it. */
static void announce(struct cox_coordinator *c, struct coxi_entry *entry,
                     struct coxi_closure_id id)
{
    coxi_lock(&c->lock);
    entry->created = id;
    coxi_registry_announce(c, entry);
    coxi_unlock(&c->lock);
}

/* Creates it as an operation; it is permanent when this returns 0. */
static int create_for_good(struct cox_coordinator *c, struct coxi_entry *entry)
{
    struct coxi_replay_entry what = {.kind = COXI_REPLAY_CREATE,
                                     .created = entry->description};
    struct coxi_operation *operation;
    uint64_t *incarnations = calloc(c->ps.n, sizeof(*incarnations));
    if (incarnations == NULL) {
        return coxi_error_memory("a variable");
    }
    int r = coxi_operation_begin(c, &what, true, &operation);
    if (r == 0) {
        do {
            r = coxi_ps_moment(c, incarnations);
            r = r == 0
                    ? create_parts(c, entry->description, operation->id, incarnations)
                    : r;
        } while (coxi_ps_again(c, &r));
        if (r == 0) {
            announce(c, entry, operation->id);
        }
        coxi_operation_end(operation,
                           r == 0 ? COXI_OPERATION_DONE : COXI_OPERATION_NOWHERE);
    }
    free(incarnations);
    return r;
}

/* Checks, places and registers a variable. */
static int place(struct cox_coordinator *c, struct coxi_variable *wanted,
                 struct coxi_shard *shards, uint32_t n_shards, struct coxi_entry *entry)
    COXI_REQUIRES(c->lock)
{
    coxi_partition_place(c->registry->ps_load, c->ps.n, n_shards, shards);
    coxi_shards_div(wanted->rank > 0 ? wanted->shape[0] : 0, n_shards, shards);
    wanted->shards = shards;
    wanted->n_shards = n_shards;
    int r = coxi_variable_check(wanted, c->ps.n);
    if (r == 0) {
        r = coxi_optimizer_check_rate(&wanted->optimizer);
        r = r == 0
                ? 0
                : coxi_error(r, "variable '%s': %s", wanted->name, coxi_error_text());
    }
    if (r == 0) {
        r = coxi_variable_copy(wanted, &entry->description);
    }
    return r == 0 ? coxi_registry_add(c, entry) : r;
}

/* True if two optimizers differ only in what cox_variable_set_rate sets. */
static bool differs_in_rate(const struct coxi_optimizer *a,
                            const struct coxi_optimizer *b)
{
    struct coxi_optimizer with = *a;
    with.learning_rate = b->learning_rate;
    with.schedule = b->schedule;
    return !coxi_optimizer_equal(a, b) && coxi_optimizer_equal(&with, b);
}

/* Compares a wanted variable with the existing one of its name: 0 if they are the same,
 * perhaps with another placement. COX_ECONFLICT. */
static int match(const struct coxi_variable *wanted, uint32_t n_shards,
                 const struct coxi_variable *found)
{
    char fields[300];
    struct coxi_variable there = *wanted;
    there.shards = found->shards;
    there.n_shards = n_shards;
    coxi_variable_difference(&there, found, fields, sizeof(fields));
    if (*fields == '\0') {
        return 0;
    }
    return coxi_error(COX_ECONFLICT,
                      "'%s' is specified differently in the checkpoint from which this "
                      "client resumed: here its %s; keep that specification%s, or "
                      "start a run with a directory of its own",
                      wanted->name, fields,
                      differs_in_rate(&wanted->optimizer, &found->optimizer)
                          ? " and set the rate (cox_variable_set_rate, "
                            "cox_table_set_rate)"
                          : "");
}

/* Finds a variable that the older client had and that nobody has asked for yet: *ret,
 * or NULL. */
static int attach(struct cox_coordinator *c, const struct coxi_variable *wanted,
                  uint32_t n_shards, struct coxi_entry **ret)
{
    coxi_lock(&c->lock);
    struct coxi_entry *entry = coxi_registry_find(c, wanted->name);
    bool found = entry != NULL && entry->found;
    int r = found ? match(wanted, n_shards, entry->description) : 0;
    if (found && r == 0) {
        entry->found = false;
    }
    coxi_unlock(&c->lock);
    *ret = found ? entry : NULL;
    return r;
}

/* Returns the wanted variable, created if need be, ready to be used. */
static int create(struct cox_coordinator *c, struct coxi_variable *wanted,
                  uint32_t n_shards, struct coxi_entry **ret)
{
    struct coxi_entry *attached;
    int r = attach(c, wanted, n_shards, &attached);
    if (r != 0 || attached != NULL) {
        *ret = attached;
        return r;
    }
    struct coxi_shard *shards = calloc(n_shards + 1, sizeof(*shards));
    struct coxi_entry *entry = calloc(1, sizeof(*entry));
    if (shards == NULL || entry == NULL) {
        free(shards);
        free(entry);
        return coxi_error_memory("a variable");
    }
    entry->c = c;
    coxi_lock(&c->lock);
    r = place(c, wanted, shards, n_shards, entry);
    coxi_unlock(&c->lock);
    free(shards);
    if (r != 0) {
        coxi_entry_free(entry);
        return r;
    }
    r = create_for_good(c, entry);
    if (r != 0) {
        coxi_lock(&c->lock);
        coxi_registry_forget(c, entry);
        coxi_unlock(&c->lock);
        return r;
    }
    *ret = entry;
    return 0;
}

int cox_variable_create(struct cox_coordinator *c, const struct cox_variable_spec *spec,
                        struct cox_variable **ret)
{
    struct cox_variable_spec s;
    if (c == NULL || spec == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_create needs a spec with a name");
    }
    COXI_CALL(c);
    int r = coxi_struct_copy(&s, COXI_STRUCT_VARIABLE_SPEC, spec);
    if (r != 0) {
        return r;
    }
    if (s.name == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_create needs a spec with a name");
    }
    struct coxi_variable wanted = {.name = s.name, .kind = COXI_KIND_DENSE};
    struct coxi_entry *entry;
    uint32_t n_shards = 1;
    wanted.dtype = s.dtype;
    wanted.rank = s.rank;
    memcpy(wanted.shape, s.shape, sizeof(wanted.shape));
    wanted.wire_dtype = s.wire_dtype;
    wanted.wire_rounding = s.wire_rounding;
    wanted.nonfinite = s.nonfinite;
    wanted.staleness = (struct coxi_staleness){s.staleness_action, s.delay_compensation,
                                               s.staleness_max};
    r = coxi_rules_set(&wanted, &s.optimizer, &s.initializer);
    if (r != 0) {
        return r;
    }
    coxi_rules_seed(&wanted, c->options.seed);
    if (s.initializer.kind != COX_ZEROS && s.dtype != COX_F32) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': only F32 starts at other than zero", s.name);
    }
    /* another rank will be refused later */
    if (s.rank > 0 && s.rank <= COX_RANK_MAX) {
        r = coxi_partition_count(&s, &wanted, c->ps.n, &n_shards);
    }
    if (r == 0) {
        r = create(c, &wanted, n_shards, &entry);
    }
    if (r != 0) {
        return r;
    }
    *ret = (struct cox_variable *)entry;
    return 0;
}

int cox_table_create(struct cox_coordinator *c, const struct cox_table_spec *spec,
                     struct cox_table **ret)
{
    struct cox_table_spec s;
    struct coxi_entry *entry;
    if (c == NULL || spec == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_table_create needs a spec with a name");
    }
    COXI_CALL(c);
    int r = coxi_struct_copy(&s, COXI_STRUCT_TABLE_SPEC, spec);
    if (r != 0) {
        return r;
    }
    if (s.name == NULL) {
        return coxi_error(COX_EINVAL, "cox_table_create needs a spec with a name");
    }
    struct coxi_variable wanted = {
        .name = s.name,
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {s.dim},
        .wire_dtype = s.wire_dtype,
        .wire_rounding = s.wire_rounding,
        .nonfinite = s.nonfinite,
        .staleness = {s.staleness_action, s.delay_compensation, s.staleness_max}};
    r = coxi_rules_set(&wanted, &s.optimizer, &s.initializer);
    coxi_rules_seed(&wanted, c->options.seed);
    coxi_rules_set_lifecycle(&wanted, &s.lifecycle);
    if (r == 0) {
        r = create(c, &wanted, 0, &entry);
    }
    if (r != 0) {
        return r;
    }
    *ret = (struct cox_table *)entry;
    return 0;
}

/* The number of elements of a metric's variable (common/metric.h). */
static int metric_size(const struct cox_metric_spec *spec, uint64_t *ret)
{
    enum { COXI_DEFAULTS_METRIC_SPEC(COXI_DEFAULT_NUMBER) };
    enum { BUCKETS_MAX = COXI_METRIC_MAX / 2 };
    uint32_t buckets = spec->buckets > 0 ? spec->buckets : DEFAULT_buckets;
    switch ((enum cox_metric_kind)spec->kind) {
    case COX_METRIC_SUM:
    case COX_METRIC_COUNT:
    case COX_METRIC_MEAN:
        *ret = spec->kind == COX_METRIC_MEAN ? 2 : 1;
        if (spec->buckets != 0) {
            return coxi_error(COX_EINVAL, "metric '%s': only an AUC has buckets",
                              spec->name);
        }
        return 0;
    case COX_METRIC_AUC:
        *ret = 2 * (uint64_t)buckets;
        if (buckets < 2 || buckets > BUCKETS_MAX) {
            return coxi_error(COX_EINVAL,
                              "metric '%s': an AUC has 2 to %d buckets, not %u",
                              spec->name, BUCKETS_MAX, buckets);
        }
        return 0;
    }
    return coxi_error(COX_EINVAL, "metric '%s': %u is no kind of metric", spec->name,
                      spec->kind);
}

int cox_metric_create(struct cox_coordinator *c, const struct cox_metric_spec *spec,
                      struct cox_metric **ret)
{
    struct cox_metric_spec s;
    struct coxi_entry *entry;
    if (c == NULL || spec == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_metric_create needs a spec with a name");
    }
    COXI_CALL(c);
    int r = coxi_struct_copy(&s, COXI_STRUCT_METRIC_SPEC, spec);
    if (r != 0) {
        return r;
    }
    if (s.name == NULL) {
        return coxi_error(COX_EINVAL, "cox_metric_create needs a spec with a name");
    }
    struct coxi_variable wanted = {.name = s.name,
                                   .kind = COXI_KIND_DENSE,
                                   .dtype = COX_F64,
                                   .rank = 1,
                                   .metric = s.kind};
    r = metric_size(&s, &wanted.shape[0]);
    if (r == 0) {
        r = create(c, &wanted, 1, &entry);
    }
    if (r != 0) {
        return r;
    }
    *ret = (struct cox_metric *)entry;
    return 0;
}

/* ---- finding */

/* The three kinds of variables that users see; each has a public function to find
 * it. */
enum sort { VARIABLE, TABLE, METRIC };

static enum sort sort_of(const struct coxi_variable *v)
{
    return v->metric != COXI_METRIC_NONE ? METRIC
           : v->kind == COXI_KIND_TABLE  ? TABLE
                                         : VARIABLE;
}

/* Finds the entry called `name`, which must be of that sort. */
static int get(struct cox_coordinator *c, const char *name, enum sort sort,
               struct coxi_entry **ret)
{
    static const char *const names[] = {
        [VARIABLE] = "variable", [TABLE] = "table", [METRIC] = "metric"};
    coxi_lock(&c->lock);
    struct coxi_entry *entry = coxi_registry_find(c, name);
    coxi_unlock(&c->lock);
    if (entry == NULL) {
        return coxi_error(COX_ENOENT, "there is no %s called '%s'", names[sort], name);
    }
    enum sort is = sort_of(entry->description);
    if (is != sort) {
        return coxi_error(COX_ENOENT, "'%s' is a %s, not a %s: use cox_%s_get", name,
                          names[is], names[sort], names[is]);
    }
    *ret = entry;
    return 0;
}

int cox_variable_get(struct cox_coordinator *c, const char *name,
                     struct cox_variable **ret)
{
    struct coxi_entry *entry;
    if (c == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_get needs a name");
    }
    int r = get(c, name, VARIABLE, &entry);
    if (r == 0) {
        *ret = (struct cox_variable *)entry;
    }
    return r;
}

int cox_table_get(struct cox_coordinator *c, const char *name, struct cox_table **ret)
{
    struct coxi_entry *entry;
    if (c == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_table_get needs a name");
    }
    int r = get(c, name, TABLE, &entry);
    if (r == 0) {
        *ret = (struct cox_table *)entry;
    }
    return r;
}

int cox_metric_get(struct cox_coordinator *c, const char *name, struct cox_metric **ret)
{
    struct coxi_entry *entry;
    if (c == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_metric_get needs a name");
    }
    int r = get(c, name, METRIC, &entry);
    if (r == 0) {
        *ret = (struct cox_metric *)entry;
    }
    return r;
}
