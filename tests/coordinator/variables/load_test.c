/* Warm start: a run goes on with another run's checkpoint, on other ps and with other
 * shards. */
#include <jansson.h>
#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/variables/model.h"
#include "tests/test.h"

/* Asserts that training 5 times on some ps, loading, and training 3 times on other ps
 * equals training 8 times on one ps. */
static void assert_goes_on(struct model_plan first, struct model_plan second)
{
    struct cox_load_info info = COX_LOAD_INFO_INIT;
    struct model model;
    struct model other;
    struct model_plan straight = first;
    const char *dir = model_saved(first, "first", 5);
    model_open(&model, &second);
    assert_code(0, model_load(&model, dir, &info));
    assert_int_equal(1, info.number);
    assert_int_equal(2, info.variables);
    assert_int_equal(0, info.skipped);
    assert_int_equal(MODEL_KEYS, info.rows);
    model_train(&model, 3);
    straight.n_ps = 1;
    straight.shard_max_bytes = 0;
    model_open(&other, &straight);
    model_train(&other, 8);
    model_assert_alike(&model, &other);
    assert_int_equal(MODEL_KEYS, model_stats(&model).rows);
    crew_close(&model.crew);
    crew_close(&other.crew);
}

TEST(what_three_ps_have_saved_goes_on_exactly_on_two)
{
    assert_goes_on((struct model_plan){.n_ps = 3, .optimizer = model_adagrad()},
                   (struct model_plan){.n_ps = 2, .optimizer = model_adagrad()});
}

TEST(what_two_ps_have_saved_goes_on_exactly_on_five_in_other_shards)
{
    assert_goes_on((struct model_plan){.n_ps = 2, .optimizer = model_adam()},
                   (struct model_plan){
                       .n_ps = 5, .optimizer = model_adam(), .shard_max_bytes = 60});
}

TEST(what_rows_are_kept_of_each_row_goes_with_them)
{
    const struct cox_optimizer rowwise = {.kind = COX_ROWWISE_ADAGRAD,
                                          .learning_rate = 0.5F};
    assert_goes_on((struct model_plan){.n_ps = 2, .optimizer = rowwise},
                   (struct model_plan){.n_ps = 3, .optimizer = rowwise});
}

TEST(what_builds_on_another_is_loaded_and_what_is_loaded_is_in_what_builds_on_others)
{
    struct model from;
    struct model model;
    struct model last;
    struct cox_options options = COX_OPTIONS_INIT;
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adam()};
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
    assert_code(0, model_load(&model, coxi_test_path("first/ckpt-2"), NULL));
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    plan.dir = NULL;
    model_open(&last, &plan);
    assert_code(0, model_load(&last, coxi_test_path("second/ckpt-2"), NULL));
    model_train(&from, 2);
    model_train(&last, 2);
    model_assert_alike(&from, &last);
    crew_close(&last.crew);
    crew_close(&model.crew);
    crew_close(&from.crew);
}

/* ---- optimizer state */

/* Asserts that `model`, which was loaded without state, has the values of `from`, and
 * that its optimizer starts anew. */
static void assert_starts_anew(struct model *model, struct model *from)
{
    model_assert_alike(model, from);
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
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adagrad()};
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
    assert_code(0, model_load(&model, options.path, NULL));
    assert_starts_anew(&model, &from);
    crew_close(&model.crew);
    crew_close(&from.crew);
}

/* ---- which variables, and what does not fit */

/* Saves a run with variables a/x, a/y and b/x of 4 I64 each. */
static const char *save_named(const char *dir)
{
    static const char *const names[] = {"a/x", "a/y", "b/x"};
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path(dir);
    crew_open(&crew, 2, 1, NULL, &options);
    for (int64_t i = 0; i < 3; i++) {
        const int64_t values[4] = {10 * i, 10 * i + 1, 10 * i + 2, 10 * i + 3};
        struct cox_variable *v = model_variable(&crew, names[i], COX_I64, 4);
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
    struct cox_variable *x = model_variable(&crew, "a/x", COX_I64, 4);
    struct cox_variable *y = model_variable(&crew, "a/y", COX_I64, 4);
    struct cox_variable *new_x = model_variable(&crew, "new/x", COX_I64, 4);
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
    struct cox_variable *x = model_variable(&crew, "a/x", COX_I64, 4);
    (void)model_variable(&crew, "a/y", COX_I64, 5);
    assert_code(COX_ECONFLICT, cox_checkpoint_load(crew.c, &options, &info));
    assert_error_names("'a/y' is I64 [5] here");
    assert_error_names("I64 [4]");
    assert_int_equal(0, info.variables);
    assert_int_equal(0, first_of(&crew, x));
    (void)model_variable(&crew, "c", COX_F32, 4);
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
    const char *dir = model_saved(
        (struct model_plan){.n_ps = 1, .optimizer = model_adagrad()}, "first", 1);
    crew_open(&model.crew, 1, 1, NULL, NULL);
    spec.name = "t";
    spec.dim = 3;
    assert_code(0, cox_table_create(model.crew.c, &spec, &t));
    assert_code(COX_ECONFLICT, model_load(&model, dir, NULL));
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
    struct cox_variable *half = model_variable(&model.crew, "half", COX_BF16, 5);
    assert_code(0, cox_metric_create(model.crew.c, &spec, &mean));
    assert_code(0, cox_variable_assign(model.crew.c, half, halves, sizeof(halves)));
    /* A metric cannot be found as a variable, although it is stored as one. */
    assert_code(COX_ENOENT, cox_variable_get(model.crew.c, "mean", &v));
    v = (struct cox_variable *)mean;
    assert_code(0, cox_variable_assign(model.crew.c, v, held, sizeof(held)));
    assert_code(0, cox_checkpoint_save(model.crew.c, NULL, NULL));
    crew_close(&model.crew);
    crew_open(&model.crew, 3, 1, NULL, NULL);
    half = model_variable(&model.crew, "half", COX_BF16, 5);
    assert_code(0, cox_metric_create(model.crew.c, &spec, &mean));
    assert_code(0, model_load(&model, options.checkpoint_dir, NULL));
    assert_code(0, cox_variable_read(model.crew.c, half, read, sizeof(read)));
    assert_memory_equal(halves, read, sizeof(halves));
    assert_code(0, cox_metric_read(model.crew.c, mean, &value, &weight));
    assert_float_equal(1.5, value, 1e-12);
    assert_float_equal(4, weight, 1e-12);
    crew_close(&model.crew);
}

/* ---- tables with a lifecycle */

TEST(rows_are_loaded_whatever_is_admitted_and_no_more_than_rows_max)
{
    struct model model;
    struct model_plan plan = {.n_ps = 3, .optimizer = model_adagrad()};
    const char *dir = model_saved(plan, "first", 2);
    plan.n_ps = 2;
    plan.lifecycle.admit_count = 100;
    model_open(&model, &plan);
    assert_code(0, model_load(&model, dir, NULL));
    assert_int_equal(MODEL_KEYS, model_stats(&model).rows);
    crew_close(&model.crew);
    plan.lifecycle = (struct cox_lifecycle){.rows_max = 50};
    model_open(&model, &plan);
    assert_code(0, model_load(&model, dir, NULL));
    assert_int_equal(2 * 50, model_stats(&model).rows);
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
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adagrad()};
    uint64_t last = 0;
    options.path = model_saved(plan, "first", 1);
    options.on_progress = note_progress;
    options.arg = &last;
    model_open(&model, &plan);
    assert_code(0, cox_checkpoint_load(model.crew.c, &options, &info));
    assert_int_equal(info.bytes, last);
    crew_close(&model.crew);
}

/* ---- other versions */

/* Rewrites the manifest as another version of the library would: without members that
 * were added later, and with members that this version does not know. */
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
            (void)json_object_del(v, later[k]); /* a member that is 0 may be missing */
        }
        json_t *optimizer = json_object_get(v, "optimizer");
        (void)json_object_del(optimizer, "schedule");
        (void)json_object_del(optimizer, "growth_factor");
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
    struct model_plan plan = {.n_ps = 2, .optimizer = model_adagrad()};
    const char *dir = model_saved(plan, "first", 3);
    model_open(&model, &plan);
    model_open(&other, &plan);
    assert_code(0, model_load(&model, dir, NULL));
    write_as_another_version(coxi_test_path("first/ckpt-1/manifest.json"));
    assert_code(0, model_load(&other, dir, NULL));
    model_assert_alike(&model, &other);
    crew_close(&model.crew);
    crew_close(&other.crew);
}

/* ---- failures */

TEST(a_damaged_checkpoint_is_named_and_the_older_one_can_be_loaded)
{
    struct model model;
    struct model_plan plan = {.n_ps = 1, .optimizer = model_adagrad()};
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
    assert_code(COX_ECHECKSUM, model_load(&model, coxi_test_path("first"), NULL));
    assert_error_names("ps-0-of-1.safetensors");
    assert_error_names("ckpt-1 is complete");
    model_read(&model);
    assert_true(before == model.w_values[0]);
    assert_int_equal(0, model_stats(&model).rows);
    assert_code(0, model_load(&model, coxi_test_path("first/ckpt-1"), NULL));
    assert_int_equal(MODEL_KEYS, model_stats(&model).rows);
    assert_code(COX_ENOENT, model_load(&model, coxi_test_path("nowhere"), NULL));
    crew_close(&model.crew);
}
