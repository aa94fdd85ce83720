/* See local_step.h: the functions that a worker gives to steps, working directly on a
 * store. */
#include "bench/local_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "common/buffer.h"
#include "common/layout.h"
#include "ps/store.h"

enum { WEIGHTS, BIAS, N_VARIABLES };

struct cox_variable {
    struct coxi_variable description;
};

struct local_step {
    struct cox_step step; /* first: what the module sees */
    struct coxi_store *store;
    struct coxi_session session;
    struct cox_variable variables[N_VARIABLES];
    struct coxi_shard bias_shard;
    uint64_t closure;
    const struct cox_value *args;
    size_t n_args;
    struct coxi_buffer pulled;
    struct coxi_buffer versions; /* stays empty, because no pull has a version */
    struct coxi_buffer scratch;
    struct coxi_buffer updates;
    struct coxi_buffer payload;
    char text[512];
};

static const char *api_error(struct cox_step *step)
{
    return ((struct local_step *)step)->text;
}

static int api_fail(struct cox_step *step, int code, const char *format, va_list args)
{
    struct local_step *local = (struct local_step *)step;
    (void)vsnprintf(local->text, sizeof(local->text), format, args);
    return code;
}

static size_t api_arguments(struct cox_step *step, const struct cox_value **ret)
{
    struct local_step *local = (struct local_step *)step;
    *ret = local->args;
    return local->n_args;
}

static int api_variable(struct cox_step *step, const char *name,
                        struct cox_variable **ret)
{
    struct local_step *local = (struct local_step *)step;
    *ret = &local->variables[strcmp(name, "weights") == 0 ? WEIGHTS : BIAS];
    return 0;
}

static int api_shape(struct cox_step *step, const struct cox_variable *variable,
                     uint32_t *ret_dtype, uint32_t *ret_rank,
                     uint64_t ret_shape[COX_RANK_MAX])
{
    (void)step;
    *ret_dtype = variable->description.dtype;
    *ret_rank = variable->description.rank;
    memcpy(ret_shape, variable->description.shape, sizeof(variable->description.shape));
    return 0;
}

static int api_pull(struct cox_step *step, const struct cox_pull *pulls, size_t n_pulls)
{
    struct local_step *local = (struct local_step *)step;
    for (size_t i = 0; i < n_pulls; i++) {
        const struct coxi_variable *v = &pulls[i].variable->description;
        bool is_table = v->kind == COXI_KIND_TABLE;
        const struct cox_rows *rows = &pulls[i].rows;
        struct coxi_pull_item item = {v->id, 0, is_table ? rows->n : 1, 0};
        struct coxi_pull pull = {local->session, 1, &item, 1, false, 0, 0};
        local->pulled.len = 0;
        bench_check(coxi_store_pull(local->store, &pull, rows->keys,
                                    is_table ? rows->n * sizeof(uint64_t) : 0,
                                    &local->pulled, &local->versions),
                    "pull");
        memcpy(pulls[i].values, local->pulled.data, local->pulled.len);
    }
    return 0;
}

static int api_update(struct cox_step *step, struct cox_variable *variable, uint32_t op,
                      const struct cox_rows *rows, const void *values)
{
    struct local_step *local = (struct local_step *)step;
    const struct coxi_variable *v = &variable->description;
    size_t count = v->kind == COXI_KIND_TABLE ? rows->n : 1;
    struct coxi_update update = {v->id, op, 0, count};
    int r = coxi_buffer_append_raw(&local->updates, &update, sizeof(update));
    if (r == 0 && v->kind == COXI_KIND_TABLE) {
        r = coxi_buffer_append(&local->payload, rows->keys, rows->n * sizeof(uint64_t));
    }
    return r == 0 ? coxi_buffer_append(&local->payload, values,
                                       count * coxi_variable_row_bytes(v))
                  : r;
}

static int api_result(struct cox_step *step, const struct cox_value *value)
{
    (void)step;
    (void)value;
    return 0;
}

static const struct cox_step_api api = {
    .size = sizeof(api),
    .error = api_error,
    .fail = api_fail,
    .arguments = api_arguments,
    .variable = api_variable,
    .shape = api_shape,
    .pull = api_pull,
    .update = api_update,
    .result = api_result,
};

static void create(struct local_step *local, uint32_t id, const char *name,
                   enum coxi_kind kind, uint32_t dim)
{
    struct coxi_create create = {.session = local->session,
                                 .closure = ++local->closure};
    struct coxi_variable *v = &local->variables[id].description;
    *v = (struct coxi_variable){
        .id = id,
        .name = name,
        .kind = kind,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {dim},
        .optimizer = {.kind = COXI_OPTIMIZER_ADAGRAD,
                      .learning_rate = 0.1F,
                      .epsilon = 1e-7F,
                      .initial_accumulator = 100},
        .shards = kind == COXI_KIND_DENSE ? &local->bias_shard : NULL,
        .n_shards = kind == COXI_KIND_DENSE ? 1 : 0,
    };
    create.variable = *v;
    bench_check(coxi_store_create(local->store, &create), name);
}

struct local_step *local_step_new(uint32_t dim)
{
    struct local_step *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        bench_die("out of memory");
    }
    local->step.api = &api;
    local->session = (struct coxi_session){1, 1, 1};
    local->bias_shard = (struct coxi_shard){0, 0, 1};
    bench_check(coxi_store_new(0, 1, &local->store), "store");
    bench_check(coxi_store_claim(local->store, &local->session, NULL), "store");
    create(local, WEIGHTS, "weights", COXI_KIND_TABLE, dim);
    create(local, BIAS, "bias", COXI_KIND_DENSE, 1);
    return local;
}

void local_step_free(struct local_step *local)
{
    coxi_store_free(local->store);
    coxi_buffer_fini(&local->pulled);
    coxi_buffer_fini(&local->scratch);
    coxi_buffer_fini(&local->updates);
    coxi_buffer_fini(&local->payload);
    free(local);
}

void local_step_run(struct local_step *local, int (*run)(struct cox_step *step),
                    const struct cox_value *args, size_t n_args)
{
    bool duplicate;
    local->args = args;
    local->n_args = n_args;
    local->updates.len = 0;
    local->payload.len = 0;
    if (run(&local->step) != 0) {
        bench_die("the step failed: %s", local->text);
    }
    struct coxi_commit commit = {
        .session = local->session,
        .incarnation = 1,
        .closure = ++local->closure,
        .attempt = 1,
        .last = true,
        .updates = (const struct coxi_update *)(void *)local->updates.data,
        .n_updates = local->updates.len / sizeof(struct coxi_update),
    };
    bench_check(coxi_store_commit(local->store, &commit, local->payload.data,
                                  local->payload.len, &local->scratch, &duplicate),
                "commit");
    bench_check(
        coxi_store_advance(local->store,
                           &(struct coxi_watermark){.session = local->session,
                                                    .watermark = local->closure}),
        "watermark");
}
