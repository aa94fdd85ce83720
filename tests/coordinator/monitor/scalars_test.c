/* What steps and the program log: once each, whatever dies. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/history_file.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/told.h"
#include "tests/test.h"

enum { N = 50 };

/* Schedules n calls of the step without arguments, and waits for them. */
static void run_steps(struct crew *crew, const char *function, int n)
{
    for (int i = 0; i < n; i++) {
        assert_code(0,
                    cox_schedule(crew->c, crew_function(crew, function), NULL, NULL));
    }
    assert_code(0, cox_join(crew->c, -1));
}

/* Asserts that there are `n` points of "loss", each once and with its value. */
static void assert_losses(const struct told *told, size_t n)
{
    assert_int_equal(n, told_scalars(told, "loss", UINT64_MAX));
    for (size_t i = 0; i < told->n; i++) {
        const json_t *name = json_object_get(told->all[i], "name");
        if (name != NULL && strcmp(json_string_value(name), "loss") == 0) {
            uint64_t step = (uint64_t)told_number(told->all[i], "step");
            assert_true(told_number(told->all[i], "value") == 1 / (double)step);
            assert_int_equal(1, told_scalars(told, "loss", step));
        }
    }
}

TEST(what_steps_and_the_program_log_is_in_the_history)
{
    struct crew crew;
    struct told told;
    crew_open(&crew, 2, 2, "scalars", NULL);
    (void)crew_counter(&crew, "c0");
    run_steps(&crew, "train", N);
    assert_code(0, cox_log_scalar(crew.c, "lr \"<é>\n", 7, 0.1));
    assert_code(0, cox_log_scalar(crew.c, "strange", 1, (double)NAN));
    assert_code(0, cox_log_config(crew.c, "{\"name\": \"<b>\", \"depth\": 3}"));
    crew_close(&crew);
    told_read(crew.log_dir, &told);
    assert_losses(&told, N);
    assert_true(told_value(&told, "lr \"<é>\n", 7) == 0.1);
    assert_int_equal(1, told_scalars(&told, "strange", 1));
    const json_t *config = json_object_get(told_last(&told, "config"), "config");
    assert_string_equal("<b>", told_text(config, "name"));
    assert_int_equal(3, told_number(config, "depth"));
    told_free(&told);
}

TEST(wrong_calls_are_refused)
{
    struct crew crew;
    char name[200];
    crew_open(&crew, 1, 1, "scalars", NULL);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_code(COX_EINVAL, cox_log_scalar(NULL, "a", 1, 1));
    assert_code(COX_EINVAL, cox_log_scalar(crew.c, NULL, 1, 1));
    assert_code(COX_EINVAL, cox_log_scalar(crew.c, "", 1, 1));
    assert_code(COX_EINVAL, cox_log_scalar(crew.c, name, 1, 1));
    assert_error_names("127");
    assert_code(COX_EINVAL, cox_log_scalar(crew.c, "a", UINT64_MAX, 1));
    assert_code(COX_EINVAL, cox_log_total(NULL, 1));
    assert_code(COX_EINVAL, cox_log_total(crew.c, (uint64_t)INT64_MAX + 1));
    assert_code(COX_EINVAL, cox_log_config(crew.c, "[1]"));
    assert_code(COX_EINVAL, cox_log_config(crew.c, "{"));
    assert_code(COX_EINVAL, cox_log_config(crew.c, NULL));
    for (int i = 0; i < 1024; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_code(0, cox_log_scalar(crew.c, name, 1, 1));
    }
    assert_code(COX_ELIMIT, cox_log_scalar(crew.c, "more", 1, 1));
    crew_close(&crew);
}

TEST(samples_say_how_much_there_is_to_do)
{
    struct crew crew;
    struct told told;
    crew_open(&crew, 1, 2, "scalars", NULL);
    (void)crew_counter(&crew, "c0");
    assert_code(0, cox_log_total(crew.c, 2 * N));
    run_steps(&crew, "train", N);
    crew_close(&crew); /* takes the last sample */
    told_read(crew.log_dir, &told);
    assert_int_equal(2 * N, told_number(told_last(&told, "sample"), "total"));
    assert_int_equal(N, told_number(told_last(&told, "sample"), "done"));
    told_free(&told);
}

TEST(a_run_that_has_done_all_has_no_time_left_and_a_total_of_0_is_unknown)
{
    static const uint64_t totals[] = {N, 0};
    for (size_t i = 0; i < 2; i++) {
        struct crew crew;
        struct told told;
        crew_open(&crew, 1, 1, "scalars", NULL);
        (void)crew_counter(&crew, "c0");
        assert_code(0, cox_log_total(crew.c, 7));
        assert_code(0, cox_log_total(crew.c, totals[i]));
        run_steps(&crew, "train", N);
        crew_close(&crew);
        told_read(crew.log_dir, &told);
        const json_t *sample = told_last(&told, "sample");
        if (totals[i] > 0) {
            assert_true(told_number(sample, "eta_s") == 0);
        } else {
            assert_null(json_object_get(sample, "total"));
            assert_null(json_object_get(sample, "eta_s"));
        }
        told_free(&told);
    }
}

TEST(a_step_logs_at_most_256_scalars_and_goes_on)
{
    struct crew crew;
    struct told told;
    crew_open(&crew, 1, 1, "scalars", NULL);
    run_steps(&crew, "too_much", 1);
    crew_close(&crew);
    told_read(crew.log_dir, &told);
    assert_int_equal(1, told_scalars(&told, "<b>0", UINT64_MAX));
    assert_int_equal(1, told_scalars(&told, "<b>255", UINT64_MAX));
    assert_int_equal(0, told_scalars(&told, "more", UINT64_MAX));
    told_free(&told);
}

TEST(more_names_than_are_allowed_are_not_recorded_and_one_event_tells)
{
    struct crew crew;
    struct told told;
    size_t n_events = 0;
    crew_open(&crew, 1, 1, "scalars", NULL);
    for (int64_t i = 0; i < 130; i++) {
        crew_schedule(&crew, crew_function(&crew, "names"), 1, i);
    }
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    told_read(crew.log_dir, &told);
    assert_int_equal(1024, told_count(&told, "scalar"));
    for (size_t i = 0; i < told.n; i++) {
        const json_t *code = json_object_get(told.all[i], "code");
        n_events +=
            code != NULL && strcmp(json_string_value(code), "metrics_failed") == 0;
    }
    assert_int_equal(1, n_events);
    told_free(&told);
}

TEST(a_step_that_fails_logs_nothing)
{
    struct crew crew;
    struct told told;
    struct cox_future *future;
    crew_open(&crew, 1, 1, "scalars", NULL);
    assert_code(0, cox_schedule(crew.c, crew_function(&crew, "fails"), NULL, &future));
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    cox_future_free(future);
    crew_close(&crew);
    told_read(crew.log_dir, &told);
    assert_int_equal(0, told_scalars(&told, "failed", UINT64_MAX));
    told_free(&told);
}

TEST(a_step_that_runs_again_after_a_crash_counts_once)
{
    struct crew crew;
    struct told told;
    coxi_test_expect_crashes();
    crew_open(&crew, 1, 2, "scalars", NULL);
    (void)crew_counter(&crew, "c0");
    run_steps(&crew, "crash_first", 3);
    crew_close(&crew);
    told_read(crew.log_dir, &told);
    assert_losses(&told, 3);
    told_free(&told);
}

static bool is_back(void *arg)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(arg, &stats));
    return stats.ps_recovered > 0;
}

TEST(a_replay_for_a_ps_that_has_come_back_logs_nothing)
{
    struct crew crew;
    struct told told;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("run");
    crew_open(&crew, 1, 2, "scalars", &options);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    run_steps(&crew, "train", N);
    crew_kill(crew_ps_process(&crew, 0));
    coxi_test_until(is_back, crew.c, "the ps");
    run_steps(&crew, "train", N);
    assert_int_equal(2 * N, crew_read(&crew, c0));
    crew_close(&crew);
    told_read(options.checkpoint_dir, &told);
    assert_losses(&told, (size_t)2 * N);
    told_free(&told);
}

/* ---- a client that is killed */

/* Logs N steps, saves a checkpoint, logs N more, and waits for its end. */
static void train_for_ever(const char *dir)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    crew_open(&crew, 1, 2, "scalars", &options);
    (void)crew_counter(&crew, "c0");
    run_steps(&crew, "train", N);
    assert_code(0, cox_log_scalar(crew.c, "epoch", 1, 1));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, NULL));
    run_steps(&crew, "train", N);
    assert_code(0, cox_log_scalar(crew.c, "epoch", 2, 2));
    for (;;) {
        (void)pause();
    }
}

/* The text of metrics.jsonl has all that the client has logged. */
static bool has_all(void *dir)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/metrics.jsonl", (const char *)dir);
    if (access(path, F_OK) != 0) {
        return false;
    }
    size_t len;
    char *text = coxi_test_read(path, &len);
    bool has = strstr(text, "\"name\":\"epoch\",\"step\":2") != NULL;
    free(text);
    return has;
}

static void note(void *arg, const struct coxi_record *record)
{
    size_t *n = arg;
    *n += record->kind == COXI_RECORD_SCALAR;
}

static size_t count_lines(struct coxi_records *records, const char *part)
{
    struct coxi_buffer out = {0};
    uint64_t at;
    size_t n = 0;
    assert_code(0, coxi_records_since(records, 0, 1 << 24, &out, &at));
    assert_code(0, coxi_buffer_append_raw(&out, "", 1));
    for (const char *p = (const char *)out.data; (p = strstr(p, part)) != NULL; p++) {
        n++;
    }
    coxi_buffer_fini(&out);
    return n;
}

TEST(after_kill_9_the_next_client_goes_on_and_each_point_is_there_once)
{
    struct crew crew;
    struct coxi_history *history;
    struct cox_options options = COX_OPTIONS_INIT;
    char *dir = coxi_test_path("run");
    size_t n_before = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        train_for_ever(dir);
    }
    coxi_test_until(has_all, dir, "what the client has logged");
    crew_kill(pid);
    assert_int_equal(pid, waitpid(pid, NULL, 0));
    assert_code(0, coxi_history_each(dir, COXI_RECORDS_OF(COXI_RECORD_SCALAR), note,
                                     &n_before));
    assert_int_equal(4 * N + 2, n_before);
    options.checkpoint_dir = dir;
    crew_open(&crew, 1, 2, "scalars", &options);
    run_steps(&crew, "train", 2 * N);
    assert_code(0, cox_log_scalar(crew.c, "epoch", 3, 3));
    crew_close(&crew);
    assert_code(0, coxi_history_open(dir, &history));
    struct coxi_records *records = coxi_history_records(history);
    assert_int_equal(3 * N, count_lines(records, "\"name\":\"loss\""));
    assert_int_equal(1, count_lines(records, "\"name\":\"epoch\",\"step\":1"));
    assert_int_equal(0, count_lines(records, "\"name\":\"epoch\",\"step\":2"));
    assert_int_equal(1, count_lines(records, "\"name\":\"epoch\",\"step\":3"));
    coxi_history_close(history);
}
