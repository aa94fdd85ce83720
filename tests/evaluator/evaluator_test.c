/* The evaluator: waiting, loading, looking up, reporting; damaged checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/checkpoint/sample.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

static const struct cox_evaluator_options brief = {
    .size = sizeof(brief), .first_timeout_ms = 1, .idle_timeout_ms = 1, .poll_ms = 1};

static const struct cox_evaluator_options patient = {.size = sizeof(patient),
                                                     .poll_ms = 1};

static struct cox_evaluator *open_with(const char *dir,
                                       const struct cox_evaluator_options *options)
{
    struct cox_evaluator *evaluator;
    assert_code(0, cox_evaluator_open(dir, options, &evaluator));
    return evaluator;
}

static struct cox_evaluator *open_evaluator(const char *dir)
{
    return open_with(dir, &brief);
}

/* Trains table t (dim 2) and dense w a little, and ends with a checkpoint. */
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

/* Flips a bit of a file, cuts the file off, and removes it. Asserts that loading the
 * checkpoint fails each time and names the file, and succeeds when the file is back. */
static void assert_damage(const char *dir, const char *file, size_t at, int code)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    size_t len = 0;
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/ckpt-1/%s", dir, file);
    char *bytes = coxi_test_read(path, &len);
    struct cox_evaluator *evaluator = open_with(dir, &patient);
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
    assert_damage(dir, "manifest.json", 0, COX_ECHECKSUM);
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
            continue; /* skipped, because only the newest one is loaded */
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

static void assert_follows(int code, struct cox_evaluator *evaluator, uint64_t number)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    assert_code(code, cox_evaluator_next(evaluator, &info));
    assert_int_equal(number, info.number);
}

TEST(a_final_checkpoint_is_not_the_end_where_a_client_goes_on)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_checkpoint_options final = COX_CHECKPOINT_OPTIONS_INIT;
    const char *dir = coxi_test_path("gone-on");
    options.checkpoint_dir = dir;
    final.final = 1;
    crew_open(&crew, 1, 1, "counter", &options);
    (void)crew_counter(&crew, "c0");
    assert_code(0, cox_checkpoint_save(crew.c, &final, NULL));
    crew_close(&crew);
    struct cox_evaluator *before = open_evaluator(dir);
    assert_follows(0, before, 1);
    assert_follows(COX_EEOF, before, 0);

    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_evaluator *after = open_evaluator(dir);
    assert_follows(0, after, 1);
    assert_follows(COX_ETIMEDOUT, after, 0);
    assert_follows(COX_ETIMEDOUT, before, 0);
    assert_code(0, cox_checkpoint_save(crew.c, &final, NULL));
    assert_follows(0, before, 2);
    assert_follows(0, after, 2);
    assert_follows(COX_EEOF, before, 0);
    assert_follows(COX_EEOF, after, 0);
    cox_evaluator_close(before);
    cox_evaluator_close(after);
    crew_close(&crew);
}

/* ---- several checkpoints, some of them damaged */

static void write_some(const char *dir, uint64_t first, uint64_t last)
{
    for (uint64_t n = first; n <= last; n++) {
        sample_write(
            dir, &(struct sample){
                     .run = 1, .number = n, .n_ps = 2, .n_rows = 5, .plus = (float)n});
    }
}

static void damage_one(const char *dir, int number)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "%s/ckpt-%d/ps-1-of-2.safetensors", dir, number);
    assert_int_equal(0, truncate(path, 100));
}

/* Asserts that the next checkpoint is `number`, and that the values are from it. */
static void assert_next(struct cox_evaluator *evaluator, uint64_t number)
{
    float w[SAMPLE_W];
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(number, info.number);
    assert_code(0, cox_evaluator_read(evaluator, "w", w, sizeof(w)));
    assert_true(w[0] == (float)number);
}

TEST(evaluator_names_the_older_checkpoint_that_is_complete)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    char *dir = coxi_test_path("ckpt");
    write_some(dir, 1, 4);
    damage_one(dir, 4);
    damage_one(dir, 3);
    struct cox_evaluator *evaluator = open_with(dir, &patient);
    for (int i = 0; i < 2; i++) {
        assert_code(COX_EFORMAT, cox_evaluator_next(evaluator, &info));
        assert_error_names("ckpt-4/ps-1-of-2.safetensors");
        assert_error_names("ckpt-2 is complete");
    }
    coxi_test_write(coxi_test_path("ckpt/LATEST"), "ckpt-", 5);
    assert_code(COX_EFORMAT, cox_evaluator_next(evaluator, &info));
    assert_error_names("LATEST");
    assert_error_names("ckpt-2 is complete");
    cox_evaluator_close(evaluator);
}

TEST(evaluator_takes_a_newer_checkpoint_in_place_of_one_that_fails)
{
    for (int every = 0; every <= 1; every++) {
        struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
        struct cox_evaluator_options options = patient;
        char *dir = coxi_test_path(every != 0 ? "every" : "newest");
        options.every = every;
        write_some(dir, 1, 1);
        struct cox_evaluator *evaluator = open_with(dir, &options);
        assert_next(evaluator, 1);
        write_some(dir, 2, 2);
        damage_one(dir, 2);
        assert_code(COX_EFORMAT, cox_evaluator_next(evaluator, &info));
        assert_code(COX_EFORMAT, cox_evaluator_next(evaluator, &info));
        write_some(dir, 3, 3);
        assert_next(evaluator, 3);
        cox_evaluator_close(evaluator);
    }
}

TEST(evaluator_gives_up_when_nothing_can_be_loaded_and_says_why)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    char *dir = coxi_test_path("ckpt");
    int r;
    write_some(dir, 1, 1);
    damage_one(dir, 1);
    struct cox_evaluator *evaluator = open_with(dir, &brief);
    while ((r = cox_evaluator_next(evaluator, &info)) == COX_EFORMAT) {
    }
    assert_int_equal(COX_ETIMEDOUT, r);
    assert_error_names("ps-1-of-2.safetensors");
    cox_evaluator_close(evaluator);
}

TEST(evaluator_takes_each_checkpoint_in_order_where_that_is_asked_for)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct cox_evaluator_options options = brief;
    char *dir = coxi_test_path("ckpt");
    options.every = 1;
    write_some(dir, 2, 3);
    struct cox_evaluator *evaluator = open_with(dir, &options);
    assert_next(evaluator, 2);
    write_some(dir, 5, 5);
    assert_next(evaluator, 3);
    assert_next(evaluator, 5);
    assert_code(COX_ETIMEDOUT, cox_evaluator_next(evaluator, &info));
    cox_evaluator_close(evaluator);
}

TEST(evaluator_ends_after_as_many_checkpoints_as_it_was_asked_for)
{
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct cox_evaluator_options options = patient;
    char *dir = coxi_test_path("ckpt");
    options.every = 1;
    options.max_checkpoints = 2;
    write_some(dir, 1, 3);
    struct cox_evaluator *evaluator = open_with(dir, &options);
    assert_next(evaluator, 1);
    assert_next(evaluator, 2);
    assert_code(COX_EEOF, cox_evaluator_next(evaluator, &info));
    assert_error_names("last of 2");
    cox_evaluator_close(evaluator);
}

TEST(evaluator_reads_only_what_it_was_asked_for)
{
    static const uint64_t key = 0;
    static const char *const names[] = {"w", "[mn]"};
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    struct cox_evaluator_options options = patient;
    float w[SAMPLE_W];
    int64_t n[SAMPLE_N];
    float row[SAMPLE_DIM];
    char *dir = coxi_test_path("ckpt");
    options.variables = names;
    options.n_variables = 2;
    write_some(dir, 1, 1);
    struct cox_evaluator *evaluator = open_with(dir, &options);
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_code(0, cox_evaluator_read(evaluator, "w", w, sizeof(w)));
    assert_code(0, cox_evaluator_read(evaluator, "n", n, sizeof(n)));
    assert_int_equal(sample_n(2), n[2]);
    assert_code(COX_ENOENT,
                cox_evaluator_lookup(evaluator, "t", &key, 1, SAMPLE_DIM, row));
    assert_error_names("variables");
    cox_evaluator_close(evaluator);
    static const char *const hole[] = {NULL};
    options.variables = hole;
    options.n_variables = 1;
    evaluator = NULL;
    assert_code(COX_EINVAL, cox_evaluator_open(dir, &options, &evaluator));
    assert_null(evaluator);
    options.variables = names; /* which a failure must leave alone */
    options.n_variables = 2;
    assert_int_equal(0, setenv("COX_EVALUATOR_IDLE_TIMEOUT_MS", "1m", 1)); /* NOLINT */
    assert_code(COX_EINVAL, cox_evaluator_open(dir, &options, &evaluator));
    assert_error_names("COX_EVALUATOR_IDLE_TIMEOUT_MS");
    assert_null(evaluator);
    assert_int_equal(0, unsetenv("COX_EVALUATOR_IDLE_TIMEOUT_MS")); /* NOLINT */
}

/* ---- scores, as other programs read them */

static void count_report(void *arg, const struct cox_eval *eval)
{
    double auc = 0;
    assert_code(0, cox_eval_score(eval, "auc", &auc));
    *(double *)arg += auc;
}

TEST(what_is_reported_is_read_back_and_called_back)
{
    const struct cox_score scores[] = {{"auc", 0.25}, {"loss", 0.0 / 0.0}};
    struct cox_evaluator_options options = patient;
    struct cox_evals *evals = NULL;
    struct cox_eval eval = COX_EVAL_INIT;
    double told = 0;
    double value = 0;
    char *dir = coxi_test_path("ckpt");
    char *log = coxi_test_path("ckpt/eval.jsonl");
    write_some(dir, 1, 1);
    assert_code(COX_ENOENT, cox_evals_read(dir, &evals));
    assert_error_names("eval.jsonl");
    options.on_report = count_report;
    options.arg = &told;
    struct cox_evaluator *evaluator = open_with(dir, &options);
    assert_next(evaluator, 1);
    assert_code(0, cox_evaluator_report(evaluator, scores, 2));
    /* A report that was cut off. */
    FILE *file = fopen(log, "ae");
    assert_non_null(file);
    assert_true(fputs("{\"checkpoint\":7,\"ti", file) >= 0);
    assert_int_equal(0, fclose(file));
    write_some(dir, 2, 2);
    assert_next(evaluator, 2);
    assert_code(0, cox_evaluator_report(evaluator, scores, 1));
    assert_true(told == 0.5);
    assert_code(0, cox_evals_read(dir, &evals));
    assert_int_equal(2, cox_evals_count(evals));
    assert_code(0, cox_evals_at(evals, 0, &eval));
    assert_int_equal(1, eval.checkpoint);
    assert_int_equal(2, eval.n_scores);
    assert_true(eval.time_s > 1e9);
    assert_code(0, cox_eval_score(&eval, "loss", &value));
    assert_true(isnan(value));
    assert_code(0, cox_evals_at(evals, 1, &eval));
    assert_int_equal(2, eval.checkpoint);
    assert_code(0, cox_eval_score(&eval, "auc", &value));
    assert_true(value == 0.25);
    assert_code(COX_ENOENT, cox_eval_score(&eval, "loss", &value));
    assert_error_names("'loss'");
    assert_code(COX_ENOENT, cox_evals_at(evals, 2, &eval));
    cox_evals_free(evals);
    cox_evals_free(NULL);
    cox_evaluator_close(evaluator);
}

TEST(a_score_whose_name_would_break_its_line_is_refused)
{
    const struct cox_score bad[][2] = {{{"auc", 1}, {"checkpoint", 2}},
                                       {{"time", 1}, {"auc", 2}},
                                       {{"auc", 1}, {"auc", 2}},
                                       {{"auc", 1}, {NULL, 2}}};
    const char *const named[] = {"'checkpoint'", "'time'", "'auc'", "scores[1]"};
    const struct cox_score good[] = {{"checkpoint_s", 1}, {"auc", 2}};
    struct cox_evals *evals = NULL;
    char *dir = coxi_test_path("ckpt");
    write_some(dir, 1, 1);
    struct cox_evaluator *evaluator = open_with(dir, &patient);
    assert_next(evaluator, 1);
    for (size_t i = 0; i < 4; i++) {
        assert_code(COX_EINVAL, cox_evaluator_report(evaluator, bad[i], 2));
        assert_error_names(named[i]);
    }
    assert_code(COX_ENOENT, cox_evals_read(dir, &evals));
    assert_code(0, cox_evaluator_report(evaluator, good, 2));
    assert_code(0, cox_evals_read(dir, &evals));
    assert_int_equal(1, cox_evals_count(evals));
    cox_evals_free(evals);
    cox_evaluator_close(evaluator);
}

TEST(nuls_in_the_results_hide_no_line)
{
    static const char text[] = "{\"checkpoint\":1,\"time\":1.5}\n"
                               "\0\0\0\n"
                               "{\"checkpoint\":2,\"time\":2.5}\n"
                               "\0\0{\"checkpoint\":3,\"time\":3.5}\n"
                               "{\"check\0point\":4,\"time\":4.5}\n"
                               "{\"checkpoint\":5,\"time\":5.5}\n\0\0";
    static const uint64_t whole[] = {1, 2, 3, 5};
    struct cox_evals *evals = NULL;
    struct cox_eval eval = COX_EVAL_INIT;
    char *dir = coxi_test_path("ckpt");
    assert_int_equal(0, mkdir(dir, 0700));
    coxi_test_write(coxi_test_path("ckpt/eval.jsonl"), text, sizeof(text) - 1);
    assert_code(0, cox_evals_read(dir, &evals));
    assert_int_equal(4, cox_evals_count(evals));
    for (size_t i = 0; i < 4; i++) {
        assert_code(0, cox_evals_at(evals, i, &eval));
        assert_int_equal(whole[i], eval.checkpoint);
    }
    cox_evals_free(evals);
}
