/* See model.h. */
#include "tests/coordinator/variables/model.h"

#include "tests/test.h"

void model_open_with(struct model *model, const struct model_plan *plan,
                     struct cox_options *options)
{
    struct cox_variable_spec w = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec t = COX_TABLE_SPEC_INIT;
    options->checkpoint_dir = plan->dir;
    crew_open(&model->crew, plan->n_ps, 1, "model", options);
    w.name = "w";
    w.dtype = COX_F32;
    w.rank = 1;
    w.shape[0] = MODEL_W;
    w.shards = plan->shard_max_bytes == 0 ? (uint32_t)plan->n_ps : 0;
    w.shard_min_bytes = 1;
    w.shard_max_bytes = plan->shard_max_bytes;
    w.optimizer = plan->optimizer;
    w.initializer = (struct cox_initializer){COX_UNIFORM, -1, 1, 3};
    assert_code(0, cox_variable_create(model->crew.c, &w, &model->w));
    t.name = "t";
    t.dim = MODEL_DIM;
    t.optimizer = plan->optimizer;
    t.initializer = w.initializer;
    t.lifecycle = plan->lifecycle;
    assert_code(0, cox_table_create(model->crew.c, &t, &model->t));
}

void model_open(struct model *model, const struct model_plan *plan)
{
    struct cox_options options = COX_OPTIONS_INIT;
    model_open_with(model, plan, &options);
}

static void keys_of(uint64_t keys[MODEL_KEYS])
{
    for (uint64_t i = 0; i < MODEL_KEYS; i++) {
        keys[i] = i * i + 1;
    }
}

void model_train(struct model *model, int times)
{
    uint64_t keys[MODEL_KEYS];
    keys_of(keys);
    const struct cox_value args[] = {COX_VECTOR("keys", COX_I64, MODEL_KEYS, keys)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 1;
    for (int i = 0; i < times; i++) {
        assert_code(0, cox_schedule(model->crew.c,
                                    crew_function(&model->crew, "push_ones"), &call,
                                    NULL));
        assert_code(0, cox_join(model->crew.c, -1));
    }
}

void model_read(struct model *model)
{
    uint64_t keys[MODEL_KEYS];
    keys_of(keys);
    assert_code(0, cox_variable_read(model->crew.c, model->w, model->w_values,
                                     sizeof(model->w_values)));
    assert_code(
        0, cox_table_read(model->crew.c, model->t, keys, MODEL_KEYS, model->t_values));
}

void model_assert_alike(struct model *a, struct model *b)
{
    model_read(a);
    model_read(b);
    assert_memory_equal(a->w_values, b->w_values, sizeof(a->w_values));
    assert_memory_equal(a->t_values, b->t_values, sizeof(a->t_values));
}

struct cox_table_stats model_stats(struct model *model)
{
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    assert_code(0, cox_table_stats(model->crew.c, model->t, &stats));
    return stats;
}

const char *model_saved(struct model_plan plan, const char *name, int times)
{
    struct model model;
    plan.dir = coxi_test_path(name);
    model_open(&model, &plan);
    model_train(&model, times);
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    crew_close(&model.crew);
    return plan.dir;
}

int model_load(struct model *model, const char *path, struct cox_load_info *ret)
{
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    options.path = path;
    return cox_checkpoint_load(model->crew.c, &options, ret);
}

struct cox_optimizer model_adagrad(void)
{
    return (struct cox_optimizer){.kind = COX_ADAGRAD, .learning_rate = 0.5F};
}

struct cox_optimizer model_adam(void)
{
    return (struct cox_optimizer){
        .kind = COX_ADAM,
        .learning_rate = 0.5F,
        .schedule = {.kind = COX_SCHEDULE_LINEAR, .end_rate = 0.1F, .steps = 20}};
}

struct cox_variable *model_variable(struct crew *crew, const char *name, uint32_t dtype,
                                    uint64_t rows)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_variable *v;
    spec.name = name;
    spec.dtype = dtype;
    spec.rank = 1;
    spec.shape[0] = rows;
    spec.shards = 2;
    assert_code(0, cox_variable_create(crew->c, &spec, &v));
    return v;
}
