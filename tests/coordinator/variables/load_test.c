/* Warm start: what one run has saved goes on in another, on other ps and in other shards. */
#include <jansson.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum { W = 40, KEYS = 300, DIM = 2 };

/* A model of w [40] and t (dim 2), as module model trains it. */
struct model {
    struct crew crew;
    struct cox_variable *w;
    struct cox_table *t;
    float w_values[W];
    float t_values[KEYS * DIM];
};

/* What a test varies. */
struct plan {
    int n_ps;
    const char *dir; /* of its checkpoints; NULL: none */
    struct cox_optimizer optimizer;
    struct cox_lifecycle lifecycle;
    uint64_t shard_max_bytes; /* 0: a shard on each ps */
};

static void model_open_with(struct model *model, const struct plan *plan,
                            struct cox_options *options)
{
    struct cox_variable_spec w = COX_VARIABLE_SPEC_INIT;
    struct cox_table_spec t = COX_TABLE_SPEC_INIT;
    options->checkpoint_dir = plan->dir;
    crew_open(&model->crew, plan->n_ps, 1, "model", options);
    w.name = "w";
    w.dtype = COX_F32;
    w.rank = 1;
    w.shape[0] = W;
    w.shards = plan->shard_max_bytes == 0 ? (uint32_t)plan->n_ps : 0;
    w.shard_min_bytes = 1;
    w.shard_max_bytes = plan->shard_max_bytes;
    w.optimizer = plan->optimizer;
    w.initializer = (struct cox_initializer){COX_UNIFORM, -1, 1, 3};
    assert_code(0, cox_variable_create(model->crew.c, &w, &model->w));
    t.name = "t";
    t.dim = DIM;
    t.optimizer = plan->optimizer;
    t.initializer = w.initializer;
    t.lifecycle = plan->lifecycle;
    assert_code(0, cox_table_create(model->crew.c, &t, &model->t));
}

static void model_open(struct model *model, const struct plan *plan)
{
    struct cox_options options = COX_OPTIONS_INIT;
    model_open_with(model, plan, &options);
}

static void keys_of(uint64_t keys[KEYS])
{
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * i + 1;
    }
}

/* Pushes a gradient of ones to all, so many times, one after the other. */
static void model_train(struct model *model, int times)
{
    uint64_t keys[KEYS];
    keys_of(keys);
    const struct cox_value args[] = {COX_VECTOR("keys", COX_I64, KEYS, keys)};
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

static void model_read(struct model *model)
{
    uint64_t keys[KEYS];
    keys_of(keys);
    assert_code(0, cox_variable_read(model->crew.c, model->w, model->w_values,
                                     sizeof(model->w_values)));
    assert_code(0,
                cox_table_read(model->crew.c, model->t, keys, KEYS, model->t_values));
}

static void assert_alike(struct model *a, struct model *b)
{
    model_read(a);
    model_read(b);
    assert_memory_equal(a->w_values, b->w_values, sizeof(a->w_values));
    assert_memory_equal(a->t_values, b->t_values, sizeof(a->t_values));
}

static struct cox_table_stats stats_of(struct model *model)
{
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    assert_code(0, cox_table_stats(model->crew.c, model->t, &stats));
    return stats;
}

/* A run that has trained so often, and saved; its directory. */
static const char *saved(struct plan plan, const char *name, int times)
{
    struct model model;
    plan.dir = coxi_test_path(name);
    model_open(&model, &plan);
    model_train(&model, times);
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    crew_close(&model.crew);
    return plan.dir;
}

static int load(struct model *model, const char *path, struct cox_load_info *ret)
{
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    options.path = path;
    return cox_checkpoint_load(model->crew.c, &options, ret);
}

static struct cox_optimizer adagrad(void)
{
    return (struct cox_optimizer){.kind = COX_ADAGRAD, .learning_rate = 0.5F};
}

/* Adam, with a rate that depends on how often it has been at work. */
static struct cox_optimizer adam(void)
{
    return (struct cox_optimizer){
        .kind = COX_ADAM,
        .learning_rate = 0.5F,
        .schedule = {.kind = COX_SCHEDULE_LINEAR, .end_rate = 0.1F, .steps = 20}};
}

/* Trains 5 times on one number of ps and 3 times on another: as 8 times on one ps. */
static void assert_goes_on(struct plan first, struct plan second)
{
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct model model;
    struct model other;
    struct plan straight = first;
    const char *dir = saved(first, "first", 5);
    model_open(&model, &second);
    assert_code(0, load(&model, dir, &info));
    assert_int_equal(1, info.number);
    assert_int_equal(2, info.variables);
    assert_int_equal(0, info.skipped);
    assert_int_equal(KEYS, info.rows);
    model_train(&model, 3);
    straight.n_ps = 1;
    straight.shard_max_bytes = 0;
    model_open(&other, &straight);
    model_train(&other, 8);
    assert_alike(&model, &other);
    assert_int_equal(KEYS, stats_of(&model).rows);
    crew_close(&model.crew);
    crew_close(&other.crew);
}

TEST(what_three_ps_have_saved_goes_on_exactly_on_two)
{
    assert_goes_on((struct plan){.n_ps = 3, .optimizer = adagrad()},
                   (struct plan){.n_ps = 2, .optimizer = adagrad()});
}

TEST(what_two_ps_have_saved_goes_on_exactly_on_five_in_other_shards)
{
    assert_goes_on(
        (struct plan){.n_ps = 2, .optimizer = adam()},
        (struct plan){.n_ps = 5, .optimizer = adam(), .shard_max_bytes = 60});
}

TEST(what_rows_are_kept_of_each_row_goes_with_them)
{
    const struct cox_optimizer rowwise = {.kind = COX_ROWWISE_ADAGRAD,
                                          .learning_rate = 0.5F};
    assert_goes_on((struct plan){.n_ps = 2, .optimizer = rowwise},
                   (struct plan){.n_ps = 3, .optimizer = rowwise});
}

TEST(what_builds_on_another_is_loaded_and_what_is_loaded_is_in_what_builds_on_others)
{
    struct model from;
    struct model model;
    struct model last;
    struct cox_options options = COX_OPTIONS_INIT;
    struct plan plan = {.n_ps = 2, .optimizer = adam()};
    options.checkpoint_incremental = 5;
    plan.dir = coxi_test_path("first");
    model_open_with(&from, &plan, &options);
    for (int i = 0; i < 2; i++) {
        model_train(&from, 2);
        assert_code(0, cox_checkpoint_save(from.crew.c, NULL, NULL));
    }
    plan.n_ps = 3;
    plan.dir = coxi_test_path("second");
    model_open_with(&model, &plan, &options);
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    assert_code(0, load(&model, coxi_test_path("first/ckpt-2"), NULL));
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    plan.dir = NULL;
    model_open(&last, &plan);
    assert_code(0, load(&last, coxi_test_path("second/ckpt-2"), NULL));
    model_train(&from, 2);
    model_train(&last, 2);
    assert_alike(&from, &last);
    crew_close(&last.crew);
    crew_close(&model.crew);
    crew_close(&from.crew);
}

/* ---- state */

/* With values alone: each is where the saved one was, and starts anew from there. */
static void assert_starts_anew(struct model *model, struct model *from)
{
    assert_alike(model, from);
    float before = model->w_values[3];
    model_train(model, 1);
    model_read(model);
    assert_float_equal(before - 0.5F, model->w_values[3], 1e-5);
}

TEST(values_alone_are_loaded_where_that_is_asked_for_or_the_optimizer_is_another)
{
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    struct model from;
    struct model model;
    struct plan plan = {.n_ps = 2, .optimizer = adagrad()};
    plan.dir = coxi_test_path("first");
    model_open(&from, &plan);
    model_train(&from, 4);
    assert_code(0, cox_checkpoint_save(from.crew.c, NULL, NULL));
    options.path = plan.dir;
    options.state = COX_LOAD_STATE_NONE;
    plan.dir = NULL;
    model_open(&model, &plan);
    assert_code(0, cox_checkpoint_load(model.crew.c, &options, NULL));
    assert_starts_anew(&model, &from);
    crew_close(&model.crew);
    plan.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.5F};
    model_open(&model, &plan);
    options.state = COX_LOAD_STATE_REQUIRED;
    assert_code(COX_ECONFLICT, cox_checkpoint_load(model.crew.c, &options, NULL));
    assert_error_names("'w' is SGD here");
    assert_error_names("Adagrad");
    assert_code(0, load(&model, options.path, NULL));
    assert_starts_anew(&model, &from);
    crew_close(&model.crew);
    crew_close(&from.crew);
}

/* ---- which variables, and what does not fit */

static struct cox_variable *variable(struct crew *crew, const char *name,
                                     uint32_t dtype, uint64_t rows)
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

/* A run with a/x, a/y, b/x of 4 I64 each, all of the value given, saved. */
static const char *save_named(const char *dir)
{
    static const char *const names[] = {"a/x", "a/y", "b/x"};
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path(dir);
    crew_open(&crew, 2, 1, NULL, &options);
    for (int64_t i = 0; i < 3; i++) {
        const int64_t values[4] = {10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3};
        struct cox_variable *v = variable(&crew, names[i], COX_I64, 4);
        assert_code(0, cox_variable_assign(crew.c, v, values, sizeof(values)));
    }
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
    return options.checkpoint_dir;
}

static int64_t first_of(struct crew *crew, struct cox_variable *v)
{
    int64_t values[4];
    assert_code(0, cox_variable_read(crew->c, v, values, sizeof(values)));
    return values[1];
}

TEST(variables_are_chosen_by_pattern_and_found_under_another_prefix)
{
    static const char *const patterns[] = {"*/x"};
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct crew crew;
    options.path = save_named("first");
    crew_open(&crew, 1, 1, NULL, NULL);
    struct cox_variable *x = variable(&crew, "a/x", COX_I64, 4);
    struct cox_variable *y = variable(&crew, "a/y", COX_I64, 4);
    struct cox_variable *new_x = variable(&crew, "new/x", COX_I64, 4);
    options.variables = patterns;
    options.n_variables = 1;
    options.to_prefix = "a/";
    options.from_prefix = "a/";
    assert_code(0, cox_checkpoint_load(crew.c, &options, &info));
    assert_int_equal(1, info.variables);
    assert_int_equal(1, first_of(&crew, x));
    assert_int_equal(0, first_of(&crew, y));
    options.to_prefix = "new/";
    options.from_prefix = "b/";
    assert_code(0, cox_checkpoint_load(crew.c, &options, &info));
    assert_int_equal(1, info.variables);
    assert_int_equal(21, first_of(&crew, new_x));
    assert_int_equal(1, first_of(&crew, x));
    crew_close(&crew);
}

TEST(what_does_not_fit_is_named_and_nothing_is_loaded_or_it_is_skipped)
{
    static const char *const unknown[] = {"z*"};
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct crew crew;
    options.path = save_named("first");
    crew_open(&crew, 2, 1, NULL, NULL);
    struct cox_variable *x = variable(&crew, "a/x", COX_I64, 4);
    (void)variable(&crew, "a/y", COX_I64, 5);
    assert_code(COX_ECONFLICT, cox_checkpoint_load(crew.c, &options, &info));
    assert_error_names("'a/y' is I64 [5] here");
    assert_error_names("I64 [4]");
    assert_int_equal(0, info.variables);
    assert_int_equal(0, first_of(&crew, x));
    (void)variable(&crew, "c", COX_F32, 4);
    options.missing = COX_LOAD_MISSING_SKIP;
    assert_code(0, cox_checkpoint_load(crew.c, &options, &info));
    assert_int_equal(1, info.variables);
    assert_int_equal(2, info.skipped);
    assert_int_equal(1, first_of(&crew, x));
    options.missing = COX_LOAD_MISSING_FAIL;
    options.to_prefix = "c";
    options.from_prefix = "c";
    assert_code(COX_ENOENT, cox_checkpoint_load(crew.c, &options, NULL));
    assert_error_names("has no variable 'c'");
    options = (struct cox_load_options)COX_LOAD_OPTIONS_INIT;
    options.path = coxi_test_path("first");
    options.variables = unknown;
    options.n_variables = 1;
    assert_code(COX_ENOENT, cox_checkpoint_load(crew.c, &options, NULL));
    assert_error_names("'z*'");
    crew_close(&crew);
}

TEST(a_table_of_another_dim_is_a_conflict)
{
    struct model model;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    struct cox_table *t;
    const char *dir =
        saved((struct plan){.n_ps = 1, .optimizer = adagrad()}, "first", 1);
    crew_open(&model.crew, 1, 1, NULL, NULL);
    spec.name = "t";
    spec.dim = 3;
    assert_code(0, cox_table_create(model.crew.c, &spec, &t));
    assert_code(COX_ECONFLICT, load(&model, dir, NULL));
    assert_error_names("'t' is a table of dim 3 here");
    assert_error_names("a table of dim 2");
    crew_close(&model.crew);
}

TEST(narrow_types_and_metrics_are_loaded_as_they_are)
{
    const uint16_t halves[5] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0};
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_metric_spec spec = {sizeof(spec), "mean", COX_METRIC_MEAN, 0};
    struct model model;
    struct cox_metric *mean;
    uint16_t read[5];
    double value = 0;
    double weight = 0;
    const double held[2] = {6, 4};
    struct cox_variable *v;
    options.checkpoint_dir = coxi_test_path("first");
    crew_open(&model.crew, 2, 1, NULL, &options);
    struct cox_variable *half = variable(&model.crew, "half", COX_BF16, 5);
    assert_code(0, cox_metric_create(model.crew.c, &spec, &mean));
    assert_code(0, cox_variable_assign(model.crew.c, half, halves, sizeof(halves)));
    /* A metric is a variable to whoever holds its handle as one. */
    assert_code(COX_ENOENT, cox_variable_get(model.crew.c, "mean", &v));
    v = (struct cox_variable *)mean;
    assert_code(0, cox_variable_assign(model.crew.c, v, held, sizeof(held)));
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    crew_close(&model.crew);
    crew_open(&model.crew, 3, 1, NULL, NULL);
    half = variable(&model.crew, "half", COX_BF16, 5);
    assert_code(0, cox_metric_create(model.crew.c, &spec, &mean));
    assert_code(0, load(&model, options.checkpoint_dir, NULL));
    assert_code(0, cox_variable_read(model.crew.c, half, read, sizeof(read)));
    assert_memory_equal(halves, read, sizeof(halves));
    assert_code(0, cox_metric_read(model.crew.c, mean, &value, &weight));
    assert_float_equal(1.5, value, 1e-12);
    assert_float_equal(4, weight, 1e-12);
    crew_close(&model.crew);
}

/* ---- rows that come and go */

TEST(rows_are_loaded_whatever_is_admitted_and_no_more_than_rows_max)
{
    struct model model;
    struct plan plan = {.n_ps = 3, .optimizer = adagrad()};
    const char *dir = saved(plan, "first", 2);
    plan.n_ps = 2;
    plan.lifecycle.admit_count = 100;
    model_open(&model, &plan);
    assert_code(0, load(&model, dir, NULL));
    assert_int_equal(KEYS, stats_of(&model).rows);
    crew_close(&model.crew);
    plan.lifecycle = (struct cox_lifecycle){.rows_max = 50};
    model_open(&model, &plan);
    assert_code(0, load(&model, dir, NULL));
    assert_int_equal(2 * 50, stats_of(&model).rows);
    crew_close(&model.crew);
}

/* ---- progress */

static void note_progress(void *arg, uint64_t bytes, uint64_t all)
{
    uint64_t *last = arg;
    assert_true(bytes > *last);
    assert_true(bytes <= all);
    *last = bytes;
}

TEST(progress_goes_up_to_all)
{
    struct model model;
    struct cox_load_options options = COX_LOAD_OPTIONS_INIT;
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct plan plan = {.n_ps = 2, .optimizer = adagrad()};
    uint64_t last = 0;
    options.path = saved(plan, "first", 1);
    options.on_progress = note_progress;
    options.arg = &last;
    model_open(&model, &plan);
    assert_code(0, cox_checkpoint_load(model.crew.c, &options, &info));
    assert_int_equal(info.bytes, last);
    crew_close(&model.crew);
}

/* ---- other versions */

/* Writes the manifest anew, as one would be that knows of nothing but what there was at
 * first, and of something else. */
static void write_as_another_version(const char *path)
{
    static const char *const later[] = {"wire_dtype", "nonfinite", "metric",
                                        "lifecycle"};
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    size_t i;
    json_t *v;
    json_array_foreach(json_object_get(root, "variables"), i, v)
    {
        for (size_t k = 0; k < sizeof(later) / sizeof(*later); k++) {
            assert_int_equal(0, json_object_del(v, later[k]));
        }
        json_t *optimizer = json_object_get(v, "optimizer");
        assert_int_equal(0, json_object_del(optimizer, "schedule"));
        assert_int_equal(0, json_object_del(optimizer, "growth_factor"));
        assert_int_equal(0, json_object_set_new(v, "colour", json_string("blue")));
    }
    (void)json_object_del(root, "crc32");
    assert_int_equal(0, json_object_set_new(root, "mood", json_pack("[i]", 3)));
    char *text = json_dumps(root, JSON_INDENT(1));
    char *sealed = coxi_manifest_seal(text);
    assert_non_null(sealed);
    coxi_test_write(path, sealed, strlen(sealed));
    free(sealed);
    free(text);
    json_decref(root);
}

TEST(what_another_version_has_written_in_this_format_is_loaded)
{
    struct model model;
    struct model other;
    struct plan plan = {.n_ps = 2, .optimizer = adagrad()};
    const char *dir = saved(plan, "first", 3);
    model_open(&model, &plan);
    model_open(&other, &plan);
    assert_code(0, load(&model, dir, NULL));
    write_as_another_version(coxi_test_path("first/ckpt-1/manifest.json"));
    assert_code(0, load(&other, dir, NULL));
    assert_alike(&model, &other);
    crew_close(&model.crew);
    crew_close(&other.crew);
}

/* ---- failures */

TEST(a_damaged_checkpoint_is_named_and_the_older_one_can_be_loaded)
{
    struct model model;
    struct plan plan = {.n_ps = 1, .optimizer = adagrad()};
    size_t len = 0;
    plan.dir = coxi_test_path("first");
    model_open(&model, &plan);
    model_train(&model, 1);
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    crew_close(&model.crew);
    char *shard = coxi_test_path("first/ckpt-2/ps-0-of-1.safetensors");
    char *bytes = coxi_test_read(shard, &len);
    bytes[len - 9] ^= 1;
    coxi_test_write(shard, bytes, len);
    free(bytes);
    plan.dir = NULL;
    model_open(&model, &plan);
    model_read(&model);
    float before = model.w_values[0];
    assert_code(COX_ECHECKSUM, load(&model, coxi_test_path("first"), NULL));
    assert_error_names("ps-0-of-1.safetensors");
    assert_error_names("ckpt-1 is complete");
    model_read(&model);
    assert_true(before == model.w_values[0]);
    assert_int_equal(0, stats_of(&model).rows);
    assert_code(0, load(&model, coxi_test_path("first/ckpt-1"), NULL));
    assert_int_equal(KEYS, stats_of(&model).rows);
    assert_code(COX_ENOENT, load(&model, coxi_test_path("nowhere"), NULL));
    crew_close(&model.crew);
}

static uint64_t recovered(struct model *model)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(model->crew.c, &stats));
    return stats.ps_recovered;
}

static void lose_ps(struct model *model, int index)
{
    uint64_t before = recovered(model);
    crew_kill(crew_ps_process(&model->crew, index));
    while (recovered(model) == before) {
        model_read(model);
    }
}

TEST(a_ps_lost_after_a_load_gets_it_again_from_where_it_came)
{
    struct model model;
    struct model straight;
    struct plan plan = {.n_ps = 3, .optimizer = adam()};
    (void)saved(plan, "first", 4);
    const char *from = coxi_test_path("first/ckpt-1");
    plan.n_ps = 2;
    plan.dir = coxi_test_path("second");
    model_open(&model, &plan);
    model_train(&model, 2);
    assert_code(0, load(&model, from, NULL));
    assert_true(coxi_checkpoint_is_read(from));
    model_train(&model, 3);
    plan.dir = NULL;
    plan.n_ps = 1;
    model_open(&straight, &plan);
    assert_code(0, load(&straight, from, NULL));
    model_train(&straight, 3);
    assert_alike(&model, &straight);
    for (int ps = 0; ps < 2; ps++) {
        lose_ps(&model, ps);
        assert_alike(&model, &straight);
    }
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    assert_false(coxi_checkpoint_is_read(from));
    lose_ps(&model, 0);
    assert_alike(&model, &straight);
    crew_close(&straight.crew);
    crew_close(&model.crew);
}

/* ---- what happens meanwhile */

/* What a ps is lost in. */
struct amidst {
    struct model *model;
    struct cox_variable *other;
    uint64_t recovered;
    bool is_lost;
};

static bool has_recovered(void *arg)
{
    const struct amidst *amidst = arg;
    return recovered(amidst->model) > amidst->recovered;
}

/* The replay log asks for a checkpoint, which has to wait for the load; and a ps is lost, and
 * comes back. */
static void lose_amidst(void *arg, uint64_t bytes, uint64_t all)
{
    static const uint8_t large[40 * 1024];
    struct amidst *amidst = arg;
    struct model *model = amidst->model;
    (void)bytes;
    (void)all;
    if (amidst->is_lost) {
        return;
    }
    amidst->is_lost = true;
    assert_code(
        0, cox_variable_assign(model->crew.c, amidst->other, large, sizeof(large)));
    model_train(model, 1);
    amidst->recovered = recovered(model);
    crew_kill(crew_ps_process(&model->crew, 1));
    coxi_test_until(has_recovered, amidst, "the ps that comes back");
}

TEST(a_ps_lost_amidst_a_load_gets_all_of_it_while_a_checkpoint_waits)
{
    static const char *const table[] = {"t"};
    struct model model;
    struct model from;
    struct amidst amidst = {.model = &model};
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_load_options load_options = COX_LOAD_OPTIONS_INIT;
    struct plan plan = {.n_ps = 2, .optimizer = adagrad()};
    plan.dir = coxi_test_path("first");
    model_open(&from, &plan);
    model_train(&from, 4);
    assert_code(0, cox_checkpoint_save(from.crew.c, NULL, NULL));
    load_options.path = plan.dir;
    load_options.variables = table;
    load_options.n_variables = 1;
    load_options.on_progress = lose_amidst;
    load_options.arg = &amidst;
    plan.dir = coxi_test_path("second");
    options.replay_log_bytes = 64 * 1024;
    model_open_with(&model, &plan, &options);
    amidst.other = variable(&model.crew, "other", COX_U8, 40 * 1024);
    assert_code(0, cox_checkpoint_load(model.crew.c, &load_options, NULL));
    assert_true(amidst.is_lost);
    model_train(&from, 1);
    model_read(&model);
    model_read(&from);
    assert_memory_equal(from.t_values, model.t_values, sizeof(from.t_values));
    crew_close(&model.crew);
    crew_close(&from.crew);
}

TEST(a_ps_that_has_come_back_takes_nothing_of_a_load_that_began_before)
{
    struct model model;
    uint64_t before[2];
    uint64_t now[2];
    struct plan plan = {.n_ps = 2, .optimizer = adagrad()};
    (void)saved(plan, "first", 1);
    const char *from = coxi_test_path("first/ckpt-1");
    plan.dir = coxi_test_path("second");
    model_open(&model, &plan);
    inside_incarnations(model.crew.c, before);
    lose_ps(&model, 1);
    inside_incarnations(model.crew.c, now);
    assert_true(before[0] == now[0] && before[1] != now[1]);
    assert_code(COX_EPSLOST, inside_load(model.crew.c, model.w, from, before));
    assert_code(0, inside_load(model.crew.c, model.w, from, now));
    crew_close(&model.crew);
}
