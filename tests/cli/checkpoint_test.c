/* coxswain checkpoint show prints what the checkpoint holds. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

enum { N_KEYS = 3, W = 7 };
static const uint64_t keys[N_KEYS] = {3, 1u << 31, UINT64_MAX};

/* The values of write_checkpoint's checkpoint, as a client and an evaluator see
 * them. */
struct seen {
    char dir[300];
    double table_sum;
    double dense_sum;
    uint64_t table_rows;
};

static double sum(const float *values, size_t n)
{
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        total += (double)values[i];
    }
    return total;
}

static void train(struct crew *crew)
{
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    struct cox_table *t;
    struct cox_variable *w;
    table.name = "t";
    table.dim = 2;
    table.optimizer = (struct cox_optimizer){.kind = COX_ADAGRAD,
                                             .learning_rate = 0.1F,
                                             .epsilon = 1e-7F,
                                             .initial_accumulator = 0.5F};
    table.initializer = (struct cox_initializer){COX_UNIFORM, -1, 1, 11};
    dense.name = "w";
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = W;
    dense.shards = 2;
    dense.optimizer = table.optimizer;
    assert_code(0, cox_table_create(crew->c, &table, &t));
    assert_code(0, cox_variable_create(crew->c, &dense, &w));
    struct cox_value arg = COX_VECTOR("keys", COX_I64, N_KEYS, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < 9; i++) {
        assert_code(
            0, cox_schedule(crew->c, crew_function(crew, "push_ones"), &call, NULL));
    }
    assert_code(0, cox_join(crew->c, -1));
}

/* Writes a checkpoint of 2 ps, and loads it with the evaluator. */
static void write_checkpoint(struct seen *seen)
{
    struct crew crew;
    float rows[N_KEYS][2];
    float w[W];
    struct cox_evaluator *evaluator;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    (void)snprintf(seen->dir, sizeof(seen->dir), "%s", coxi_test_path("ckpt"));
    options.checkpoint_dir = seen->dir;
    crew_open(&crew, 2, 1, "model", &options);
    train(&crew);
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    assert_code(0, cox_evaluator_open(seen->dir, NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_lookup(evaluator, "t", keys, N_KEYS, 2, rows[0]));
    assert_code(0, cox_evaluator_read(evaluator, "w", w, sizeof(w)));
    assert_code(0, cox_evaluator_rows(evaluator, "t", &seen->table_rows));
    seen->table_sum = sum(rows[0], N_KEYS * 2);
    seen->dense_sum = sum(w, W);
    cox_evaluator_close(evaluator);
    crew_close(&crew);
}

static json_t *show(const char *dir)
{
    struct program program;
    const char *argv[] = {"coxswain", "checkpoint", "show", dir, "--json", NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    json_t *root = json_loads(output, 0, NULL);
    assert_non_null(root);
    free(output);
    return root;
}

/* Sums `member` over the shown tensors called `name` in all shards. */
static double total(const json_t *root, const char *name, const char *member)
{
    double found = 0;
    const json_t *tensors = json_object_get(root, "tensors");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        if (strcmp(json_string_value(json_object_get(tensor, "name")), name) != 0) {
            continue;
        }
        found += strcmp(member, "rows") != 0
                     ? json_number_value(json_object_get(tensor, member))
                     : (double)json_integer_value(
                           json_array_get(json_object_get(tensor, "shape"), 0));
    }
    return found;
}

TEST(show_agrees_with_what_the_evaluator_loads)
{
    struct seen seen;
    write_checkpoint(&seen);
    json_t *root = show(seen.dir);
    assert_int_equal(1, json_integer_value(json_object_get(root, "checkpoint")));
    assert_int_equal(N_KEYS, seen.table_rows);
    assert_true(total(root, "t/keys", "rows") == N_KEYS);
    assert_true(total(root, "t/values", "rows") == N_KEYS);
    assert_true(fabs(total(root, "t/values", "sum") - seen.table_sum) < 1e-6);
    double parts = total(root, "w/part_0", "sum") + total(root, "w/part_1", "sum");
    assert_true(fabs(parts - seen.dense_sum) < 1e-6);
    json_decref(root);
}

TEST(show_prints_a_table_and_says_that_the_checksums_are_right)
{
    struct seen seen;
    struct program program;
    write_checkpoint(&seen);
    const char *argv[] = {"coxswain", "checkpoint", "show", seen.dir, NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    assert_non_null(strstr(output, "checkpoint 1"));
    assert_non_null(strstr(output, "ps-1-of-2.safetensors"));
    assert_non_null(strstr(output, "t/values"));
    assert_non_null(strstr(output, "w/part_1"));
    assert_non_null(strstr(output, "all 2 checksums are right"));
    free(output);
}

/* Writes a checkpoint in which w has another rate than it was created with. */
static void write_rated(const char *dir)
{
    struct crew crew;
    struct cox_variable *w;
    struct cox_options options = COX_OPTIONS_INIT;
    const struct cox_schedule linear = {COX_SCHEDULE_LINEAR, 0.25F, 0, 0, 100, 0};
    options.checkpoint_dir = dir;
    crew_open(&crew, 2, 1, "model", &options);
    train(&crew);
    assert_code(0, cox_variable_get(crew.c, "w", &w));
    assert_code(0, cox_variable_set_rate(crew.c, w, 0.5F, &linear));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    crew_close(&crew);
}

static double number_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

TEST(show_tells_optimizers_and_the_rates_that_were_set)
{
    struct program program;
    char *dir = coxi_test_path("ckpt");
    write_rated(dir);
    const char *argv[] = {"coxswain", "checkpoint", "show", dir, NULL};
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    assert_non_null(strstr(output, " Adagrad, learning_rate 0.1, epsilon 1e-07, "
                                   "initial_accumulator 0.5\n"));
    assert_non_null(strstr(output,
                           " learning_rate 0.5, schedule linear, end_rate 0.25, "
                           "steps 100\n"));
    free(output);
    json_t *root = show(dir);
    const json_t *first = json_array_get(json_object_get(root, "variables"), 0);
    const json_t *optimizer = json_object_get(first, "optimizer");
    assert_string_equal("t", json_string_value(json_object_get(first, "name")));
    assert_string_equal("Adagrad",
                        json_string_value(json_object_get(optimizer, "kind")));
    assert_true(number_of(optimizer, "learning_rate") == (double)0.1F);
    assert_true(total(root, "w/part_1/rate", "learning_rate") == 0.5);
    json_decref(root);
}

/* Compares a line of the reader's output with the tensor that `show` has shown. */
static void assert_same(const json_t *root, const char *line)
{
    char name[64];
    char dtype[16];
    double value;
    const char *bracket = strchr(line, ']');
    assert_non_null(bracket);
    assert_int_equal(2, sscanf(line, "%63s %15s", name, dtype));
    assert_int_equal(1, sscanf(bracket + 1, "%lf", &value));
    const json_t *tensors = json_object_get(root, "tensors");
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *tensor = json_array_get(tensors, i);
        double shown = json_number_value(json_object_get(tensor, "sum"));
        if (strcmp(json_string_value(json_object_get(tensor, "name")), name) == 0 &&
            strcmp(json_string_value(json_object_get(tensor, "dtype")), dtype) == 0 &&
            (strcmp(dtype, "U64") == 0 || fabs(shown - value) < 1e-9)) {
            return;
        }
    }
    fail_msg("no tensor that is shown is: %s", line);
}

TEST(an_independent_reader_of_the_shards_finds_the_same_numbers)
{
    struct seen seen;
    struct program program;
    char shards[2][400];
    char *rest = NULL;
    size_t n_lines = 0;
    write_checkpoint(&seen);
    json_t *root = show(seen.dir);
    for (int i = 0; i < 2; i++) {
        (void)snprintf(shards[i], sizeof(shards[i]), "%s/ckpt-1/ps-%d-of-2.safetensors",
                       seen.dir, i);
    }
    const char *argv[] = {"/usr/bin/env", "python3", COXI_TEST_READER,
                          shards[0],      shards[1], NULL};
    int code = program_run(&program, argv);
    char *output = program_output(&program);
    if (code != 0) {
        fail_msg("the reader ended with %d: %s", code, output);
    }
    for (char *line = strtok_r(output, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        assert_same(root, line);
        n_lines++;
    }
    assert_int_equal(json_array_size(json_object_get(root, "tensors")), n_lines);
    free(output);
    json_decref(root);
}

TEST(show_names_the_shard_that_is_damaged_and_exits_1)
{
    struct seen seen;
    struct program program;
    char path[400];
    size_t len;
    write_checkpoint(&seen);
    (void)snprintf(path, sizeof(path), "%s/ckpt-1/ps-1-of-2.safetensors", seen.dir);
    char *bytes = coxi_test_read(path, &len);
    bytes[len - 1] ^= 1;
    coxi_test_write(path, bytes, len);
    free(bytes);
    const char *argv[] = {"coxswain", "checkpoint", "show", seen.dir, NULL};
    assert_int_equal(1, program_run(&program, argv));
    char *output = program_output(&program);
    assert_non_null(strstr(output, "ps-1-of-2.safetensors"));
    assert_null(strstr(output, "checksums are right"));
    free(output);
    const char *nowhere[] = {"coxswain", "checkpoint", "show", coxi_test_dir(), NULL};
    assert_int_equal(1, program_run(&program, nowhere));
    output = program_output(&program);
    assert_non_null(strstr(output, "is no checkpoint and holds none"));
    free(output);
}
