/* Data sets whose tasks fail, or whose workers and ps die. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coxswain/event.h"
#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

/* ---- what events tell */

struct told {
    atomic_int failed;
    atomic_int retried;
    atomic_int epochs;
    char text[600]; /* of the last failure; read when it has come */
};

static void on_event(void *arg, const struct cox_event *event)
{
    struct told *told = arg;
    if (event->code == COX_EVENT_TASK_FAILED) {
        (void)snprintf(told->text, sizeof(told->text), "%s", event->text);
        (void)atomic_fetch_add(&told->failed, 1);
    }
    (void)atomic_fetch_add(&told->retried, event->code == COX_EVENT_TASK_RETRIED);
    (void)atomic_fetch_add(&told->epochs, event->code == COX_EVENT_EPOCH_DONE);
}

static struct cox_options with_events(struct told *told)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.on_event = on_event;
    options.event_arg = told;
    return options;
}

/* ---- steps that fail */

TEST(a_task_that_fails_is_tried_again)
{
    struct rows rows;
    struct told told = {0};
    struct cox_options options = with_events(&told);
    struct cox_dataset_spec spec = rows_spec();
    const char *gate = coxi_test_path("gate");
    struct cox_value arg = COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    spec.failures_max = 1000;
    rows_open(&rows, 1, &options, &spec);
    struct cox_function *step = crew_function(&rows.crew, "fail_while");
    coxi_test_write(gate, "", 0);
    call.args = &arg;
    call.n_args = 1;
    for (int i = 0; i < 10; i++) {
        assert_code(0,
                    cox_schedule_next(rows.crew.c, step, rows.dataset, &call, &future));
        assert_code(COX_ESTEP, cox_future_wait(future, 10000));
        cox_future_free(future);
    }
    assert_int_equal(rows_progress(&rows).retries, 10);
    assert_int_equal(unlink(gate), 0);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 1);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.done == p.tasks && p.failed == 0);
    rows_close(&rows);
    assert_int_equal(told.retried, 10);
    assert_int_equal(told.failed, 0);
    assert_int_equal(told.epochs, 1);
}

/* How often the rows of the first task were counted, and all others. */
static void assert_counts(struct rows *rows, int64_t first, int64_t others)
{
    int64_t counts[ROWS_N];
    rows_read(rows, counts);
    assert_int_equal(counts[0], first);
    assert_int_equal(counts[3], first);
    for (int row = 0; row < ROWS_N; row++) {
        assert_true(
            counts[row] == others ||
            (row % ROWS_FILES == 0 && row < ROWS_SECOND && counts[row] == first));
    }
    assert_int_equal(counts[ROWS_N - 1], others);
}

/* Asserts that the text names the file, the offset and the reason. */
static void assert_tells(const char *text)
{
    assert_non_null(strstr(text, "rows-0:0: "));
    assert_non_null(strstr(text, "row 0"));
}

/* In the first of two epochs its first task always fails. */
static void assert_gives_up(struct rows *rows)
{
    const struct rows_arg args[] = {{"fail_row", 1}, {"fail_epochs", 1}};
    assert_code(COX_ESTEP, rows_run(rows, "count_lines", args, 2));
    assert_error_names("1 failed and 0 were skipped");
    assert_tells(coxi_test_error());
    assert_counts(rows, 1, 2);
    /* told once; and it is no error of the run */
    assert_code(COX_EEOF, rows_run(rows, "count_lines", args, 2));
    assert_code(0, cox_join(rows->crew.c, -1));
}

TEST(a_task_that_always_fails_is_given_up_and_told)
{
    struct rows rows;
    struct told told = {0};
    struct cox_options options = with_events(&told);
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = 2;
    rows_open(&rows, 2, &options, &spec);
    assert_gives_up(&rows);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 1 && p.retries == 2 && p.done == 2 * p.tasks - 1);
    assert_true(p.epoch == 2 && p.pending == 0 && p.todo == 0);
    assert_tells(p.first_failure);
    rows_close(&rows);
    assert_true(told.failed == 1 && told.retried == 2 && told.epochs == 2);
    assert_tells(told.text);
}

TEST(an_epoch_with_a_failed_task_ends_and_tells)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    const int64_t one = 1;
    const struct cox_value args[] = {COX_SCALAR("fail_row", COX_I64, &one),
                                     COX_SCALAR("fail_epochs", COX_I64, &one)};
    spec.epochs = 2;
    spec.failures_max = 1;
    call.args = args;
    call.n_args = 2;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    assert_code(COX_ESTEP, cox_schedule_epoch(rows.crew.c, step, rows.dataset, &call));
    assert_int_equal(rows_progress(&rows).epoch, 1);
    assert_counts(&rows, 0, 1);
    assert_code(0, cox_schedule_epoch(rows.crew.c, step, rows.dataset, &call));
    assert_code(COX_EEOF, cox_schedule_epoch(rows.crew.c, step, rows.dataset, &call));
    assert_counts(&rows, 1, 2);
    rows_close(&rows);
}

TEST(a_task_of_which_a_part_is_applied_is_never_given_out_again)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    const struct rows_arg args[] = {{"fail_row", 1}, {"flush", 1}};
    spec.failures_max = 1000;
    rows_open(&rows, 1, NULL, &spec);
    assert_code(COX_EPARTIAL, rows_run(&rows, "count_lines", args, 2));
    /* the step fails after all its segments but the last are applied */
    rows_assert_all(&rows, 1);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 1 && p.retries == 0);
    rows_close(&rows);
}

/* ---- too many failures */

TEST(failures_of_another_epoch_do_not_end_an_epoch)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *first;
    struct cox_future *next;
    const char *gate = coxi_test_path("gate");
    const int64_t row = 1;
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("slow_row", COX_I64, &row),
                                     COX_SCALAR("fail_row", COX_I64, &row)};
    spec.epochs = 2;
    spec.failures_max = 1;
    spec.failed_max = 2;
    coxi_test_write(gate, "", 0);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    call.args = args;
    call.n_args = 3;
    /* the first task hangs until the next epoch's first one has failed */
    assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, &call, &first));
    for (uint64_t i = rows_progress(&rows).tasks; i > 1; i--) {
        assert_code(0, rows_next(&rows, "count_lines", NULL));
    }
    call.args = &args[2];
    call.n_args = 1;
    assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, &call, &next));
    assert_code(COX_ESTEP, cox_future_wait(next, 10000));
    assert_int_equal(unlink(gate), 0);
    assert_code(COX_ESTEP, cox_future_wait(first, 10000));
    assert_code(COX_ESTEP, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("2 failed");
    assert_counts(&rows, 0, 2);
    cox_future_free(first);
    cox_future_free(next);
    rows_close(&rows);
}

TEST(an_epoch_that_has_ended_early_is_never_over)
{
    static const char *path;
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    const int64_t row = 1;
    const struct cox_value arg = COX_SCALAR("fail_row", COX_I64, &row);
    path = coxi_test_path("rows-0");
    spec.files = &path;
    spec.task_bytes = 1 << 20; /* one task */
    spec.failures_max = 1;
    spec.failed_max = 1;
    call.args = &arg;
    call.n_args = 1;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    for (int i = 0; i < 3; i++) {
        assert_code(COX_ESTEP,
                    cox_schedule_epoch(rows.crew.c, step, rows.dataset, &call));
        assert_error_names("has ended early");
    }
    rows_close(&rows);
}

/* ---- cancelled */

TEST(a_cancelled_task_is_given_out_again)
{
    struct rows rows;
    struct cox_future *futures[ROWS_N];
    size_t n = 0;
    const char *gate = coxi_test_path("gate");
    const int64_t slow = 1; /* row 0 */
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("slow_row", COX_I64, &slow)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 2;
    coxi_test_write(gate, "", 0);
    rows_open(&rows, 1, NULL, NULL);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    /* the first one runs, and the others wait */
    for (uint64_t i = rows_progress(&rows).tasks; i > 0; i--) {
        assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, &call,
                                         &futures[n++]));
    }
    for (size_t i = 0; i < n; i += 2) {
        assert_code(0, cox_future_cancel(futures[i]));
    }
    for (size_t i = 0; i < n; i++) {
        (void)cox_future_wait(futures[i], 10000);
        cox_future_free(futures[i]);
    }
    assert_int_equal(unlink(gate), 0);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 1);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 0 && p.retries == 0);
    rows_close(&rows);
}

/* ---- time-outs */

TEST(a_task_that_hangs_is_stopped_and_tried_again)
{
    struct rows rows;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_dataset_spec spec = rows_spec();
    const char *gate = coxi_test_path("gate");
    const int64_t slow = ROWS_SECOND + 1;
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("slow_row", COX_I64, &slow)};
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    options.max_attempts = 1;
    spec.timeout_floor_ms = 100;
    spec.failures_max = 10;
    call.args = args;
    call.n_args = 2;
    coxi_test_write(gate, "", 0);
    rows_open(&rows, 1, &options, &spec);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    /* the first task is done, so that there is an average; the second one hangs */
    assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, &call, &future));
    assert_code(0, cox_future_wait(future, 10000));
    cox_future_free(future);
    assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, &call, &future));
    assert_code(COX_EOVERRUN, cox_future_wait(future, 10000));
    cox_future_free(future);
    assert_int_equal(unlink(gate), 0);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 1);
    assert_int_equal(rows_progress(&rows).retries, 1);
    rows_close(&rows);
}

/* ---- workers and ps that die */

enum { EPOCHS = 4, BIG_LINES = 1 << 20 };

struct running {
    struct rows *rows;
    int code;
};

/* Runs all tasks; the third one of each epoch waits at that epoch's gate. */
static void *run(void *arg)
{
    struct running *running = arg;
    struct cox_call call = COX_CALL_INIT;
    const char *gate = coxi_test_path("gate");
    const int64_t row = ROWS_THIRD + 1;
    const int64_t one = 1;
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("slow_row", COX_I64, &row),
                                     COX_SCALAR("holds", COX_I64, &one)};
    struct cox_function *step = crew_function(&running->rows->crew, "count_lines");
    call.args = args;
    call.n_args = 3;
    while (running->code == 0) {
        running->code = cox_schedule_next(running->rows->crew.c, step,
                                          running->rows->dataset, &call, NULL);
    }
    return NULL;
}

static const char *gate_of(int epoch, const char *end)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "gate-%d%s", epoch, end);
    return coxi_test_path(name);
}

static bool is_there(void *arg)
{
    return access(arg, F_OK) == 0;
}

/* Kills what `victim` names while a task of each epoch is at its gate, in the first `n`
 * epochs. */
static void kill_amid(const struct cox_options *options, int n,
                      pid_t (*victim)(struct crew *crew, int index))
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct running running = {&rows, 0};
    pthread_t thread;
    spec.epochs = EPOCHS;
    for (int i = 0; i < n; i++) {
        coxi_test_write(gate_of(i, ""), "", 0);
    }
    rows_open(&rows, 2, options, &spec);
    assert_int_equal(0, pthread_create(&thread, NULL, run, &running));
    for (int i = 0; i < n; i++) {
        coxi_test_until(is_there, (void *)(uintptr_t)gate_of(i, ".held"),
                        "a task is at its gate");
        crew_kill(victim(&rows.crew, i % 2));
        assert_int_equal(0, unlink(gate_of(i, "")));
    }
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(running.code, COX_EEOF);
    rows_assert_all(&rows, EPOCHS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.done == EPOCHS * p.tasks && p.failed == 0 && p.retries == 0);
    assert_int_equal(p.records, EPOCHS * ROWS_N);
    rows_close(&rows);
}

TEST(workers_that_die_lose_no_record_and_repeat_none)
{
    coxi_test_expect_crashes();
    kill_amid(NULL, 4, crew_step_process);
}

TEST(ps_that_die_lose_no_record_and_repeat_none)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("ckpt");
    kill_amid(&options, 3, crew_ps_process);
}

/* ---- files that are damaged, or change */

/* Writes a file of lines, of which the second one is malformed, and opens a data set of
 * it: one task. */
static void open_damaged(struct rows *rows, uint32_t on_bad_record)
{
    static const char text[] = "0 1:1\n0 x:1\n0 2:1\n";
    static const char *path;
    struct cox_dataset_spec spec = rows_spec();
    path = coxi_test_path("damaged");
    coxi_test_write(path, text, sizeof(text) - 1);
    spec.files = &path;
    spec.on_bad_record = on_bad_record;
    rows_open(rows, 1, NULL, &spec);
}

static void assert_rows(struct rows *rows, int64_t first, int64_t second)
{
    int64_t counts[ROWS_N];
    rows_read(rows, counts);
    assert_int_equal(counts[1], first);
    assert_int_equal(counts[2], second);
}

TEST(a_damaged_record_fails_its_task)
{
    struct rows rows;
    open_damaged(&rows, COX_BAD_FAIL);
    assert_code(COX_EFORMAT, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("/damaged:6: ");
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 1 && p.retries == 2 && p.done == 0 && p.records == 0);
    assert_non_null(strstr(p.first_failure, "/damaged:6: "));
    assert_rows(&rows, 0, 0);
    rows_close(&rows);
}

TEST(a_damaged_record_is_left_out_and_counted)
{
    struct rows rows;
    open_damaged(&rows, COX_BAD_SKIP_RECORD);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.bad_records == 1 && p.records == 2 && p.done == 1 && p.failed == 0);
    assert_non_null(strstr(p.first_failure, "/damaged:6: "));
    assert_rows(&rows, 1, 1);
    rows_close(&rows);
}

TEST(a_damaged_record_skips_its_task)
{
    struct rows rows;
    open_damaged(&rows, COX_BAD_SKIP_TASK);
    assert_code(COX_EFORMAT, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("0 failed and 1 was skipped");
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.skipped == 1 && p.failed == 0 && p.retries == 0 && p.records == 0);
    assert_rows(&rows, 0, 0);
    rows_close(&rows);
}

TEST(a_file_that_changes_under_way_is_noticed)
{
    struct rows rows;
    rows_open(&rows, 1, NULL, NULL);
    coxi_test_write(coxi_test_path("rows-2"), "0 1:1\n", 6);
    assert_code(COX_ECONFLICT, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("/rows-2 has changed");
    struct cox_dataset_progress p = rows_progress(&rows);
    const char *name = strstr(p.first_failure, "/rows-2");
    assert_non_null(name);
    assert_null(strstr(name + 1, "/rows-2")); /* once is enough */
    assert_int_equal(p.failed, 16);           /* all tasks of that file */
    assert_int_equal(p.done, p.tasks - 16);
    assert_rows(&rows, 1, 0);
    rows_close(&rows);
}

/* Waits until a step is at the gate of the first epoch; changes the file meanwhile. */
static void change_amid(const char *path)
{
    struct stat at;
    coxi_test_until(is_there, (void *)(uintptr_t)gate_of(0, ".held"),
                    "a task is at its gate");
    assert_int_equal(0, stat(path, &at));
    const struct timespec times[2] = {at.st_atim, {at.st_mtim.tv_sec + 1, 0}};
    assert_int_equal(0, utimensat(AT_FDCWD, path, times, 0));
    assert_int_equal(0, unlink(gate_of(0, "")));
}

TEST(a_file_that_changes_is_noticed_by_a_step_that_leaves_records)
{
    static const char *path;
    static char text[BIG_LINES * 6 + 1]; /* more than a worker reads ahead */
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    const char *gate = coxi_test_path("gate");
    const int64_t one = 1;
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("holds", COX_I64, &one)};
    for (size_t i = 0; i < BIG_LINES; i++) {
        memcpy(text + 6 * i, "0 1:1\n", 6);
    }
    path = coxi_test_path("big");
    coxi_test_write(path, text, sizeof(text) - 1);
    coxi_test_write(gate_of(0, ""), "", 0);
    spec.files = &path;
    spec.task_bytes = sizeof(text); /* one task */
    spec.failures_max = 1;
    call.args = args;
    call.n_args = 2;
    rows_open(&rows, 1, NULL, &spec);
    assert_code(0,
                cox_schedule_next(rows.crew.c, crew_function(&rows.crew, "count_first"),
                                  rows.dataset, &call, &future));
    change_amid(path);
    assert_code(COX_ECONFLICT, cox_future_wait(future, 10000));
    cox_future_free(future);
    assert_rows(&rows, 0, 0);
    rows_close(&rows);
}
