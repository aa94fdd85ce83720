/*
 * Variables and tables. Creating and assigning are numbered like closures and recorded
 * by the ps in the applied set, so that they too count once. Reads and assigns go from
 * the calling thread straight to the ps.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/sync.h"
#include "coordinator/coordinator.h"
#include "coordinator/rules.h"

_Static_assert((int)COX_RANK_MAX == (int)COXI_WIRE_RANK_MAX, "one limit");
_Static_assert((int)COX_NAME_MAX == (int)COXI_WIRE_NAME_MAX, "one limit");

/* ---- registry. All under c->lock */

static struct coxi_variable *find(const struct cox_coordinator *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_variables; i++) {
        if (strcmp(c->variables[i]->name, name) == 0) {
            return c->variables[i];
        }
    }
    return NULL;
}

/* True where `name` is "<above>/...": its tensors in checkpoints could be called
 * alike. */
static bool lies_below(const char *name, const char *above)
{
    size_t len = strlen(above);
    return strncmp(name, above, len) == 0 && name[len] == '/';
}

/* Names are like paths: unique, and none is the folder of another. */
static int check_free(const struct cox_coordinator *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_variables; i++) {
        const char *taken = c->variables[i]->name;
        if (strcmp(taken, name) == 0) {
            return coxi_error(COX_EEXIST, "there is a variable called '%s' already",
                              name);
        }
        if (*taken != '\0' && (lies_below(name, taken) || lies_below(taken, name))) {
            return coxi_error(COX_EEXIST,
                              "variable '%s' cannot lie beside '%s': a name is a "
                              "variable or a folder of them, not both",
                              name, taken);
        }
    }
    return 0;
}

/* The n ps that hold the fewest bytes, fewest first (ties: lowest index first). */
static void choose_ps(const struct cox_coordinator *c, struct coxi_shard *shards,
                      uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t best = c->n_ps;
        for (uint32_t p = 0; p < c->n_ps; p++) {
            bool taken = false;
            for (uint32_t j = 0; j < i; j++) {
                taken = taken || shards[j].ps == p;
            }
            if (!taken && (best == c->n_ps || c->ps_load[p] < c->ps_load[best])) {
                best = p;
            }
        }
        shards[i].ps = best;
    }
}

static int grow(struct cox_coordinator *c)
{
    size_t n = c->n_variables + 1;
    if ((n & (n - 1)) != 0) {
        return 0; /* the arrays grow at powers of two */
    }
    struct coxi_variable **variables = realloc(c->variables, n * 2 * sizeof(void *));
    c->variables = variables != NULL ? variables : c->variables;
    struct cox_variable **dense = realloc(c->dense, n * 2 * sizeof(void *));
    c->dense = dense != NULL ? dense : c->dense;
    struct cox_table **tables = realloc(c->tables, n * 2 * sizeof(void *));
    c->tables = tables != NULL ? tables : c->tables;
    return variables == NULL || dense == NULL || tables == NULL
               ? coxi_error_memory("variables")
               : 0;
}

/* Gives the variable an id and puts it in the registry; the name is taken from then
 * on. */
static int enlist(struct cox_coordinator *c, struct coxi_variable *variable)
{
    int r = check_free(c, variable->name);
    if (r == 0 && c->n_variables == COXI_VARIABLES_MAX) {
        r = coxi_error(COX_ELIMIT, "more than %d variables", COXI_VARIABLES_MAX);
    }
    if (r == 0) {
        r = grow(c);
    }
    if (r == 0) {
        variable->id = c->n_variables;
        c->variables[c->n_variables] = variable;
        c->dense[c->n_variables] = NULL;
        c->tables[c->n_variables] = NULL;
        c->n_variables++;
    }
    return r;
}

/* ---- creating */

static int create_on(struct cox_coordinator *c, uint32_t ps,
                     const struct coxi_variable *variable, uint64_t closure)
{
    struct coxi_message message = {.kind = COXI_CREATE};
    message.create.session = c->session;
    message.create.closure = closure;
    message.create.variable = *variable;
    struct coxi_psc_request request = {0};
    return coxi_psc_call(c->ps[ps], &message, &request, COXI_STATUS, NULL, NULL);
}

/* On the ps that hold a part of it: of a table, all. */
static int create_parts(struct cox_coordinator *c, const struct coxi_variable *variable)
{
    struct cox_future *operation;
    int r = coxi_operation_begin(c, &operation);
    if (r != 0) {
        return r;
    }
    bool is_table = variable->kind == COXI_KIND_TABLE;
    size_t n = is_table ? c->n_ps : variable->n_shards;
    for (size_t i = 0; r == 0 && i < n; i++) {
        uint32_t ps = is_table ? (uint32_t)i : (uint32_t)variable->shards[i].ps;
        r = create_on(c, ps, variable, operation->id);
    }
    coxi_operation_end(operation);
    return r;
}

/* Its bytes count where new variables are placed. Locked. */
static void count_load(struct cox_coordinator *c, const struct coxi_variable *variable)
{
    for (size_t i = 0; i < variable->n_shards; i++) {
        c->ps_load[variable->shards[i].ps] +=
            variable->shards[i].count * coxi_variable_row_bytes(variable);
    }
}

/* One that could not be created: its name is free again. */
static void forget(struct cox_coordinator *c, struct coxi_variable *variable)
{
    coxi_lock(&c->lock);
    for (size_t i = 0; i < variable->n_shards; i++) {
        c->ps_load[variable->shards[i].ps] -=
            variable->shards[i].count * coxi_variable_row_bytes(variable);
    }
    variable->name = "";
    coxi_unlock(&c->lock);
}

/*
 * Checks, places, registers and creates. *ret is the registry's copy. A variable that
 * could not be created keeps its id, but has no name and no handle.
 */
static int create(struct cox_coordinator *c, struct coxi_variable *wanted,
                  uint32_t n_shards, struct coxi_variable **ret)
{
    struct coxi_shard *shards = calloc(n_shards + 1, sizeof(*shards));
    if (shards == NULL) {
        return coxi_error_memory("a variable");
    }
    struct coxi_variable *variable = NULL;
    coxi_lock(&c->lock);
    choose_ps(c, shards, n_shards);
    coxi_shards_div(wanted->rank > 0 ? wanted->shape[0] : 0, n_shards, shards);
    wanted->shards = shards;
    wanted->n_shards = n_shards;
    int r = coxi_variable_check(wanted, c->n_ps);
    if (r == 0) {
        r = coxi_variable_copy(wanted, &variable);
    }
    if (r == 0) {
        r = enlist(c, variable);
    }
    if (r == 0) {
        count_load(c, variable);
    }
    coxi_unlock(&c->lock);
    free(shards);
    if (r != 0) {
        coxi_variable_free(variable);
        return r;
    }
    r = create_parts(c, variable);
    if (r == 0) {
        *ret = variable;
    } else {
        forget(c, variable);
    }
    return r;
}

/* Workers hear of it before any closure that is scheduled from now on. */
static void announce(struct cox_coordinator *c)
{
    coxi_lock(&c->lock);
    c->layout_changed = true;
    coxi_unlock(&c->lock);
    coxi_loop_wake(c->loop);
}

/* How many shards are made where `asked` are wanted: no more than there are ps or
 * rows. */
static uint32_t shards_of(const struct cox_coordinator *c,
                          const struct cox_variable_spec *spec)
{
    uint64_t n = spec->shards > 0 ? spec->shards : 1;
    n = n < c->n_ps ? n : c->n_ps;
    n = n < spec->shape[0] ? n : spec->shape[0];
    return n > 0 ? (uint32_t)n : 1;
}

int cox_variable_create(struct cox_coordinator *c, const struct cox_variable_spec *spec,
                        struct cox_variable **ret)
{
    struct cox_variable_spec s;
    if (c == NULL || spec == NULL || ret == NULL || spec->name == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_create needs a spec with a name");
    }
    int r = coxi_struct_copy(&s, sizeof(s), spec, "cox_variable_spec");
    if (r != 0) {
        return r;
    }
    struct coxi_variable wanted = {.name = s.name, .kind = COXI_KIND_DENSE};
    wanted.dtype = s.dtype;
    wanted.rank = s.rank;
    memcpy(wanted.shape, s.shape, sizeof(wanted.shape));
    wanted.wire_dtype = s.wire_dtype;
    wanted.nonfinite = s.nonfinite;
    coxi_rules_set(&wanted, &s.optimizer, &s.initializer);
    if (s.initializer.kind != COX_ZEROS && s.dtype != COX_F32) {
        return coxi_error(COX_EINVAL,
                          "variable '%s': only F32 starts at other than zero", s.name);
    }
    struct coxi_variable *made;
    struct cox_variable *handle = malloc(sizeof(*handle));
    r = handle == NULL ? coxi_error_memory("a variable")
                       : create(c, &wanted, shards_of(c, &s), &made);
    if (r != 0) {
        free(handle);
        return r;
    }
    *handle = (struct cox_variable){c, made};
    coxi_lock(&c->lock);
    c->dense[made->id] = handle;
    coxi_unlock(&c->lock);
    announce(c);
    *ret = handle;
    return 0;
}

int cox_table_create(struct cox_coordinator *c, const struct cox_table_spec *spec,
                     struct cox_table **ret)
{
    struct cox_table_spec s;
    if (c == NULL || spec == NULL || ret == NULL || spec->name == NULL) {
        return coxi_error(COX_EINVAL, "cox_table_create needs a spec with a name");
    }
    int r = coxi_struct_copy(&s, sizeof(s), spec, "cox_table_spec");
    if (r != 0) {
        return r;
    }
    struct coxi_variable wanted = {.name = s.name,
                                   .kind = COXI_KIND_TABLE,
                                   .dtype = COX_F32,
                                   .rank = 1,
                                   .shape = {s.dim},
                                   .wire_dtype = s.wire_dtype,
                                   .nonfinite = s.nonfinite};
    coxi_rules_set(&wanted, &s.optimizer, &s.initializer);
    coxi_rules_set_lifecycle(&wanted, &s.lifecycle);
    struct coxi_variable *made;
    struct cox_table *handle = malloc(sizeof(*handle));
    r = handle == NULL ? coxi_error_memory("a table") : create(c, &wanted, 0, &made);
    if (r != 0) {
        free(handle);
        return r;
    }
    *handle = (struct cox_table){c, made};
    coxi_lock(&c->lock);
    c->tables[made->id] = handle;
    coxi_unlock(&c->lock);
    announce(c);
    *ret = handle;
    return 0;
}

int cox_variable_get(struct cox_coordinator *c, const char *name,
                     struct cox_variable **ret)
{
    if (c == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_get needs a name");
    }
    coxi_lock(&c->lock);
    const struct coxi_variable *v = find(c, name);
    struct cox_variable *handle = v != NULL ? c->dense[v->id] : NULL;
    coxi_unlock(&c->lock);
    if (handle == NULL) {
        return coxi_error(COX_ENOENT, "there is no dense variable called '%s'", name);
    }
    *ret = handle;
    return 0;
}

int cox_table_get(struct cox_coordinator *c, const char *name, struct cox_table **ret)
{
    if (c == NULL || name == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_table_get needs a name");
    }
    coxi_lock(&c->lock);
    const struct coxi_variable *v = find(c, name);
    struct cox_table *handle = v != NULL ? c->tables[v->id] : NULL;
    coxi_unlock(&c->lock);
    if (handle == NULL) {
        return coxi_error(COX_ENOENT, "there is no table called '%s'", name);
    }
    *ret = handle;
    return 0;
}

void coxi_variables_free(struct cox_coordinator *c)
{
    for (uint32_t i = 0; i < c->n_variables; i++) {
        free(c->dense[i]);
        free(c->tables[i]);
        coxi_variable_free(c->variables[i]);
    }
    free(c->variables);
    free(c->dense);
    free(c->tables);
}

/* ---- reading and assigning */

static int check_bytes(const struct coxi_variable *v, size_t bytes)
{
    if (bytes != coxi_variable_bytes(v)) {
        return coxi_error(COX_EINVAL, "variable '%s' has %zu bytes, not %zu", v->name,
                          coxi_variable_bytes(v), bytes);
    }
    return 0;
}

static int pull_from(struct cox_coordinator *c, uint32_t ps,
                     const struct coxi_pull_item *item, const struct iovec *keys,
                     void *into, size_t into_len)
{
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull.session = c->session;
    message.pull.incarnation = coxi_psc_incarnation(c->ps[ps]);
    message.pull.items = item;
    message.pull.n_items = 1;
    struct coxi_psc_request request = {
        .payload = keys,
        .n_payload = keys != NULL ? 1 : 0,
        .into = into,
        .into_len = into_len,
        .answer_len = into_len,
    };
    return coxi_psc_call(c->ps[ps], &message, &request, COXI_PULLED, NULL, NULL);
}

int cox_variable_read(struct cox_coordinator *c, struct cox_variable *variable,
                      void *ret_data, size_t bytes)
{
    if (c == NULL || variable == NULL || variable->c != c || ret_data == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_read needs a variable of this "
                                      "coordinator and a place for its elements");
    }
    const struct coxi_variable *v = variable->description;
    size_t row_bytes = coxi_variable_row_bytes(v);
    int r = check_bytes(v, bytes);
    if (r == 0) {
        r = coxi_check_alive(c);
    }
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        const struct coxi_shard *shard = &v->shards[i];
        struct coxi_pull_item item = {v->id, shard->begin, shard->count, 0};
        r = pull_from(c, (uint32_t)shard->ps, &item, NULL,
                      (uint8_t *)ret_data + shard->begin * row_bytes,
                      shard->count * row_bytes);
    }
    return r;
}

static int assign_on(struct cox_coordinator *c, const struct coxi_variable *v,
                     const struct coxi_shard *shard, uint64_t closure,
                     const uint32_t *touched, const void *data)
{
    static const uint64_t zeros = 0;
    size_t bytes = shard->count * coxi_variable_row_bytes(v);
    struct coxi_update update = {v->id, COXI_OP_ASSIGN, shard->begin, shard->count};
    struct coxi_message message = {.kind = COXI_COMMIT};
    message.commit = (struct coxi_commit){
        .session = c->session,
        .incarnation = coxi_psc_incarnation(c->ps[shard->ps]),
        .closure = closure,
        .attempt = 1,
        .last = true,
        .touched = touched,
        .n_touched = v->n_shards,
        .updates = &update,
        .n_updates = 1,
    };
    struct iovec payload[2] = {
        {(void *)(uintptr_t)((const uint8_t *)data +
                             shard->begin * coxi_variable_row_bytes(v)),
         bytes},
        {(void *)(uintptr_t)&zeros, coxi_align(bytes, 8) - bytes},
    };
    struct coxi_psc_request request = {.payload = payload, .n_payload = 2};
    return coxi_psc_call(c->ps[shard->ps], &message, &request, COXI_COMMITTED, NULL,
                         NULL);
}

int cox_variable_assign(struct cox_coordinator *c, struct cox_variable *variable,
                        const void *data, size_t bytes)
{
    if (c == NULL || variable == NULL || variable->c != c || data == NULL) {
        return coxi_error(COX_EINVAL, "cox_variable_assign needs a variable of this "
                                      "coordinator and its elements");
    }
    const struct coxi_variable *v = variable->description;
    struct cox_future *operation;
    int r = check_bytes(v, bytes);
    uint32_t *touched = calloc(v->n_shards, sizeof(*touched));
    if (r == 0 && touched == NULL) {
        r = coxi_error_memory("an assignment");
    }
    if (r == 0) {
        r = coxi_operation_begin(c, &operation);
    }
    if (r != 0) {
        free(touched);
        return r;
    }
    for (size_t i = 0; i < v->n_shards; i++) {
        touched[i] = (uint32_t)v->shards[i].ps;
    }
    for (size_t i = 0; r == 0 && i < v->n_shards; i++) {
        r = assign_on(c, v, &v->shards[i], operation->id, touched, data);
    }
    coxi_operation_end(operation);
    free(touched);
    return r;
}

/* The rows of the keys that one ps holds; `mine`, `places` and `rows` have room for
 * all. */
static int read_rows(struct cox_coordinator *c, uint32_t ps,
                     const struct coxi_variable *v, const uint64_t *keys, size_t n_keys,
                     uint64_t *mine, size_t *places, float *rows, float *ret)
{
    size_t dim = coxi_table_dim(v);
    size_t n = 0;
    for (size_t i = 0; i < n_keys; i++) {
        if (coxi_key_ps(keys[i], c->n_ps) == ps) {
            mine[n] = keys[i];
            places[n++] = i;
        }
    }
    if (n == 0) {
        return 0;
    }
    struct coxi_pull_item item = {v->id, 0, n, 0};
    struct iovec payload = {mine, n * sizeof(*mine)};
    int r = pull_from(c, ps, &item, &payload, rows, n * dim * sizeof(*rows));
    for (size_t i = 0; r == 0 && i < n; i++) {
        memcpy(ret + places[i] * dim, rows + i * dim, dim * sizeof(*rows));
    }
    return r;
}

int cox_table_read(struct cox_coordinator *c, struct cox_table *table,
                   const uint64_t *keys, size_t n_keys, float *ret_rows)
{
    if (c == NULL || table == NULL || table->c != c ||
        (n_keys > 0 && (keys == NULL || ret_rows == NULL))) {
        return coxi_error(COX_EINVAL,
                          "cox_table_read needs a table of this coordinator, "
                          "keys, and a place for their rows");
    }
    const struct coxi_variable *v = table->description;
    int r = coxi_check_alive(c);
    if (r != 0 || n_keys == 0) {
        return r;
    }
    uint64_t *mine = calloc(n_keys, sizeof(*mine));
    size_t *places = calloc(n_keys, sizeof(*places));
    float *rows = calloc(n_keys, coxi_variable_row_bytes(v));
    if (mine == NULL || places == NULL || rows == NULL) {
        r = coxi_error_memory("reading rows");
    }
    for (uint32_t p = 0; r == 0 && p < c->n_ps; p++) {
        r = read_rows(c, p, v, keys, n_keys, mine, places, rows, ret_rows);
    }
    free(mine);
    free(places);
    free(rows);
    return r;
}
