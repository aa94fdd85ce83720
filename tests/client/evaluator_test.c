/* The evaluator: waiting, loading, looking up, reporting; damaged checkpoints. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/client/crew.h"
#include "tests/test.h"

static const struct cox_evaluator_options brief = {sizeof(brief), 1, 1, 1};

static struct cox_evaluator *open_evaluator(const char *dir)
{
    struct cox_evaluator *evaluator;
    assert_code(0, cox_evaluator_open(dir, &brief, &evaluator));
    return evaluator;
}

/* A run that trains table t (dim 2) and dense w a little and ends with a checkpoint. */
static void train(const char *dir, int n_ps, float rows[4][2], float w[5])
{
    static const uint64_t keys[4] = {0, 5, 1u << 30, UINT64_MAX};
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_checkpoint_options final = COX_CHECKPOINT_OPTIONS_INIT;
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_table *t;
    struct cox_variable *dense;
    options.checkpoint_dir = dir;
    crew_open(&crew, n_ps, 1, "model", &options);
    table.name = "t";
    table.dim = 2;
    table.optimizer = (struct cox_optimizer){.kind = COX_ADAGRAD,
                                             .learning_rate = 0.1F,
                                             .epsilon = 1e-7F,
                                             .initial_accumulator = 0.5F};
    table.initializer = (struct cox_initializer){COX_NORMAL, 0, 0.1F, 3};
    spec.name = "w";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 5;
    spec.shards = 2;
    spec.optimizer = table.optimizer;
    assert_code(0, cox_table_create(crew.c, &table, &t));
    assert_code(0, cox_variable_create(crew.c, &spec, &dense));
    struct cox_value arg = COX_VECTOR("keys", COX_I64, 3, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < 7; i++) {
        assert_code(
            0, cox_schedule(crew.c, crew_function(&crew, "push_ones"), &call, NULL));
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, keys, 4, rows[0]));
    assert_code(0, cox_variable_read(crew.c, dense, w, 5 * sizeof(*w)));
    final.final = 1;
    assert_code(0, cox_checkpoint_save(crew.c, &final, NULL));
    crew_close(&crew);
}

TEST(evaluator_reads_what_was_trained_also_rows_that_were_not)
{
    static const uint64_t keys[4] = {0, 5, 1u << 30, UINT64_MAX};
    for (int n_ps = 1; n_ps <= 3; n_ps += 2) {
        float trained[4][2];
        float loaded[4][2];
        float w[2][5];
        uint64_t n_rows = 0;
        char name[16];
        struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
        (void)snprintf(name, sizeof(name), "ckpt%d", n_ps);
        char *dir = coxi_test_path(name);
        train(dir, n_ps, trained, w[0]);
        struct cox_evaluator *evaluator = open_evaluator(dir);
        assert_code(COX_ENOTREADY, cox_evaluator_read(evaluator, "w", w[1], 20));
        assert_code(0, cox_evaluator_next(evaluator, &info));
        assert_int_equal(1, info.final);
        assert_code(0, cox_evaluator_lookup(evaluator, "t", keys, 4, 2, loaded[0]));
        assert_memory_equal(trained, loaded, sizeof(loaded));
        assert_code(0, cox_evaluator_read(evaluator, "w", w[1], sizeof(w[1])));
        assert_memory_equal(w[0], w[1], sizeof(w[1]));
        assert_code(0, cox_evaluator_rows(evaluator, "t", &n_rows));
        assert_int_equal(3, n_rows);
        assert_code(COX_EINVAL, cox_evaluator_read(evaluator, "w", w[1], 16));
        assert_code(COX_EINVAL, cox_evaluator_lookup(evaluator, "t", keys, 4, 3, w[1]));
        assert_code(COX_ENOENT, cox_evaluator_read(evaluator, "t", w[1], 20));
        assert_code(COX_ENOENT, cox_evaluator_rows(evaluator, "w", &n_rows));
        assert_error_names("'w'");
        assert_code(COX_EEOF, cox_evaluator_next(evaluator, &info));
        cox_evaluator_close(evaluator);
    }
}

TEST(evaluator_waits_for_the_first_checkpoint_and_gives_up_after_its_deadline)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    char *dir = coxi_test_path("nowhere");
    struct cox_evaluator *evaluator = open_evaluator(dir);
    assert_code(COX_ETIMEDOUT, cox_evaluator_next(evaluator, &info));
    assert_error_names(dir);
    assert_int_equal(0, info.number);
    cox_evaluator_close(evaluator);
    cox_evaluator_close(NULL);
}

TEST(evaluator_appends_a_line_of_json_for_each_report)
{
    float rows[4][2];
    float w[5];
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    const struct cox_score metrics[2] = {{"auc", 0.75}, {"loss", 0.0 / 0.0}};
    char *dir = coxi_test_path("ckpt");
    train(dir, 1, rows, w);
    struct cox_evaluator *evaluator = open_evaluator(dir);
    assert_code(COX_ENOTREADY, cox_evaluator_report(evaluator, metrics, 2));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_report(evaluator, metrics, 2));
    assert_code(0, cox_evaluator_report(evaluator, metrics, 1));
    cox_evaluator_close(evaluator);
    char *text = coxi_test_read(coxi_test_path("ckpt/eval.jsonl"), NULL);
    assert_int_equal(0, strncmp(text, "{\"checkpoint\":1,\"time\":", 23));
    assert_non_null(strstr(text, "\"auc\":0.75,\"loss\":null}\n{\"checkpoint\":1,"));
    free(text);
}

/* One damage: the checkpoint is not loaded, for the right reason, and is when
 * mended. */
static void assert_damage(const char *dir, const char *file, size_t at, int code)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    size_t len = 0;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/ckpt-1/%s", dir, file);
    char *bytes = coxi_test_read(path, &len);
    struct cox_evaluator *evaluator = open_evaluator(dir);
    assert_true(at < len);
    bytes[at] = (char)(bytes[at] ^ 0x10);
    coxi_test_write(path, bytes, len);
    assert_code(code, cox_evaluator_next(evaluator, &info));
    assert_error_names(file);
    assert_int_equal(0, info.number);
    bytes[at] = (char)(bytes[at] ^ 0x10);
    coxi_test_write(path, bytes, len / 2);
    int r = cox_evaluator_next(evaluator, &info);
    assert_true(r == COX_EFORMAT);
    assert_error_names(file);
    assert_int_equal(0, unlink(path));
    r = cox_evaluator_next(evaluator, &info);
    assert_true(r == COX_EIO || r == COX_ENOENT);
    assert_error_names(file);
    coxi_test_write(path, bytes, len);
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(1, info.number);
    cox_evaluator_close(evaluator);
    free(bytes);
}

TEST(evaluator_never_loads_a_damaged_checkpoint_and_tries_again)
{
    float rows[4][2];
    float w[5];
    char *dir = coxi_test_path("ckpt");
    train(dir, 2, rows, w);
    assert_damage(dir, "ps-0-of-2.safetensors", 12, COX_ECHECKSUM);
    assert_damage(dir, "ps-1-of-2.safetensors", 200, COX_ECHECKSUM);
    assert_damage(dir, "manifest.json", 0, COX_EFORMAT);
}

TEST(evaluator_goes_on_to_the_newest_of_several)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    char *dir = coxi_test_path("ckpt");
    options.checkpoint_dir = dir;
    crew_open(&crew, 1, 1, NULL, &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    struct cox_evaluator *evaluator = open_evaluator(dir);
    for (int64_t i = 1; i <= 4; i++) {
        int64_t seen = 0;
        assert_code(0, cox_variable_assign(crew.c, c0, &i, sizeof(i)));
        assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
        if (i == 2) {
            continue; /* missed: only the newest counts */
        }
        assert_code(0, cox_evaluator_next(evaluator, &info));
        assert_int_equal(i, info.number);
        assert_int_equal(0, info.final);
        assert_code(0, cox_evaluator_read(evaluator, "c0", &seen, sizeof(seen)));
        assert_int_equal(i, seen);
    }
    assert_code(COX_ETIMEDOUT, cox_evaluator_next(evaluator, &info));
    cox_evaluator_close(evaluator);
    crew_close(&crew);
}
