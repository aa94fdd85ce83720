/*
 * Tasks of data sets in rounds: each counts once, in a round that is applied. Calls of
 * coxi_future_keep, which stores a result, go through this file (ld --wrap), and can
 * fail for lack of memory.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

enum { EPOCHS = 2, MEMBERS = 4, MEMBERS_MAX = 64, PATIENCE_MS = 10000 };

static atomic_int n_without_memory; /* results for which there is none */

int __real_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len);
int __wrap_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len);

int __wrap_coxi_future_keep(struct cox_future *f, const uint8_t *result, size_t len)
{
    return atomic_fetch_sub(&n_without_memory, 1) > 0
               ? COX_ENOMEM
               : __real_coxi_future_keep(f, result, len);
}

static struct cox_dataset_spec spec_of(uint64_t epochs)
{
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = epochs;
    return spec;
}

static struct cox_stats stats_of(struct rows *rows)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(rows->crew.c, &stats));
    return stats;
}

/* Asserts that every row was counted once in each epoch, and no task has failed. */
static void assert_once(struct rows *rows, uint64_t epochs)
{
    rows_assert_all(rows, (int64_t)epochs);
    struct cox_dataset_progress p = rows_progress(rows);
    assert_int_equal(p.done, epochs * p.tasks);
    assert_int_equal(p.records, epochs * ROWS_N);
    assert_true(p.failed == 0 && p.retries == 0 && p.pending == 0 && p.todo == 0);
}

/* ---- which tasks a round has */

/* Schedules a round of up to n tasks; returns how many it has. */
static size_t next_round(struct rows *rows, struct cox_rounds *rounds, size_t n)
{
    struct cox_future *futures[MEMBERS_MAX];
    size_t n_members = 0;
    memset(futures, 0xff, sizeof(futures));
    assert_code(0, cox_round_schedule_next(rounds,
                                           crew_function(&rows->crew, "count_lines"),
                                           rows->dataset, NULL, n, futures, NULL));
    for (size_t i = 0; i < n; i++) {
        assert_true(i == n_members || futures[i] == NULL);
        n_members += futures[i] != NULL;
        cox_future_free(futures[i]);
    }
    return n_members;
}

TEST(each_epoch_ends_with_a_round_of_what_is_left)
{
    enum { N = 7 };
    struct rows rows;
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 0);
    uint64_t tasks = rows_progress(&rows).tasks;
    assert_true(tasks > N && tasks % N != 0);
    for (int i = 0; i < EPOCHS; i++) {
        for (uint64_t left = tasks; left > 0; left -= left < N ? left : N) {
            assert_int_equal(next_round(&rows, rounds, N), left < N ? left : N);
        }
    }
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, N, NULL, 0));
    assert_code(0, cox_join(rows.crew.c, -1));
    assert_once(&rows, EPOCHS);
    assert_int_equal(stats_of(&rows).rounds, EPOCHS * (tasks / N + 1));
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, N, NULL, 0));
    rows_close(&rows);
}

TEST(a_round_may_have_more_closures_than_there_are_tasks)
{
    struct rows rows;
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 0);
    uint64_t tasks = rows_progress(&rows).tasks;
    for (int i = 0; i < EPOCHS; i++) {
        assert_int_equal(next_round(&rows, rounds, MEMBERS_MAX), tasks);
    }
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, MEMBERS_MAX, NULL, 0));
    assert_once(&rows, EPOCHS);
    assert_int_equal(stats_of(&rows).rounds, EPOCHS);
    rows_close(&rows);
}

TEST(tasks_are_given_out_in_rounds_and_beside_them)
{
    struct rows rows;
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 0);
    for (int i = 0; i < 5; i++) {
        (void)next_round(&rows, rounds, MEMBERS);
        assert_code(0, rows_next(&rows, "count_lines", NULL));
    }
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, MEMBERS, NULL, 0));
    assert_once(&rows, EPOCHS);
    rows_close(&rows);
}

static struct cox_rounds *deterministic_rounds(struct crew *crew)
{
    struct cox_rounds *rounds;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.deterministic = 1;
    assert_code(0, cox_rounds_create(crew->c, &spec, &rounds));
    return rounds;
}

TEST(a_round_that_cannot_be_scheduled_takes_no_task)
{
    struct rows rows;
    struct crew *crew = &rows.crew;
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future = NULL;
    rows_open(&rows, 1, NULL, NULL);
    struct cox_rounds *rounds = rows_rounds(&rows, MEMBERS);
    struct cox_function *step = crew_function(crew, "count_lines");
    assert_code(COX_EINVAL, cox_round_schedule_next(NULL, step, rows.dataset, NULL,
                                                    MEMBERS, NULL, NULL));
    assert_code(COX_EINVAL, cox_round_schedule_next(rounds, step, rows.dataset, NULL,
                                                    MEMBERS, &future, &future));
    assert_error_names("backups");
    assert_code(COX_EINVAL, cox_round_schedule_next(rounds, step, rows.dataset, NULL,
                                                    COX_ROUND_MAX + 1, NULL, NULL));
    assert_code(COX_EINVAL, cox_round_schedule_next(rounds, step, NULL, NULL,
                                                    MEMBERS + 1, NULL, NULL));
    assert_code(COX_EINVAL,
                cox_round_schedule_next(deterministic_rounds(crew), step, rows.dataset,
                                        NULL, MEMBERS, NULL, NULL));
    assert_error_names("deterministic");
    call.keep = 1;
    assert_code(COX_EINVAL, cox_round_schedule_next(rounds, step, rows.dataset, &call,
                                                    MEMBERS + 1, NULL, NULL));
    call.keep = 0;
    call.only_worker = 77;
    assert_code(COX_EINVAL, cox_round_schedule_next(rounds, step, rows.dataset, &call,
                                                    MEMBERS + 1, NULL, &future));
    assert_error_names("only_worker is 77");
    assert_null(future);
    assert_int_equal(rows_progress(&rows).pending, 0);
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, MEMBERS + 1, NULL, 0));
    assert_once(&rows, 1);
    rows_close(&rows);
}

/* ---- backups */

/* A round of the first tasks, of which the first one hangs while the gate is there. */
struct hanging {
    const char *gate;
    struct cox_future *futures[MEMBERS_MAX];
    struct cox_future *end;
    size_t n;
};

static void hang(struct rows *rows, struct cox_rounds *rounds, size_t n,
                 struct hanging *ret)
{
    struct cox_call call = COX_CALL_INIT;
    ret->gate = coxi_test_path("gate");
    ret->n = n;
    const int64_t slow = 1; /* row 0 */
    const struct cox_value args[] = {
        COX_VECTOR("gate", COX_U8, strlen(ret->gate) + 1, ret->gate),
        COX_SCALAR("slow_row", COX_I64, &slow)};
    coxi_test_write(ret->gate, "", 0);
    call.args = args;
    call.n_args = 2;
    assert_code(
        0, cox_round_schedule_next(rounds, crew_function(&rows->crew, "count_lines"),
                                   rows->dataset, &call, n, ret->futures, &ret->end));
}

static void let_go(struct hanging *hanging)
{
    assert_int_equal(0, unlink(hanging->gate));
    for (size_t i = 0; i < hanging->n; i++) {
        cox_future_free(hanging->futures[i]);
    }
    cox_future_free(hanging->end);
}

TEST(a_task_that_comes_late_is_done_in_a_later_round)
{
    struct rows rows;
    struct hanging hanging;
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 1);
    hang(&rows, rounds, MEMBERS, &hanging);
    assert_code(0, cox_future_wait(hanging.end, PATIENCE_MS));
    assert_code(COX_ELATE, cox_future_wait(hanging.futures[0], PATIENCE_MS));
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.done == MEMBERS - 1 && p.pending == 0);
    assert_int_equal(p.todo, p.tasks - p.done);
    let_go(&hanging);
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, MEMBERS, NULL, 0));
    assert_code(0, cox_join(rows.crew.c, -1));
    assert_once(&rows, EPOCHS);
    assert_true(stats_of(&rows).late >= 1);
    rows_close(&rows);
}

TEST(a_task_whose_call_takes_the_result_of_a_late_closure_fails)
{
    struct rows rows;
    struct hanging hanging;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    spec.failures_max = 1;
    rows_open(&rows, 2, NULL, &spec);
    hang(&rows, rows_rounds(&rows, 1), MEMBERS, &hanging);
    assert_code(COX_ELATE, cox_future_wait(hanging.futures[0], PATIENCE_MS));
    const struct cox_input input = {"late", hanging.futures[0], NULL};
    call.inputs = &input;
    call.n_inputs = 1;
    int r = 0;
    for (uint64_t i = 0; r == 0 && i <= rows_progress(&rows).tasks; i++) {
        r = cox_schedule_next(rows.crew.c, crew_function(&rows.crew, "count_lines"),
                              rows.dataset, &call, NULL);
    }
    assert_code(COX_ELATE, r);
    assert_int_equal(1, stats_of(&rows).late);
    assert_int_equal(rows_progress(&rows).tasks - (MEMBERS - 1),
                     rows_progress(&rows).failed);
    let_go(&hanging);
    rows_close(&rows);
}

/* Opens a data set of a task for each file. */
static void open_files(struct rows *rows)
{
    struct cox_dataset_spec spec = rows_spec();
    spec.task_bytes = 1 << 20;
    rows_open(rows, 2, NULL, &spec);
    assert_int_equal(rows_progress(rows).tasks, ROWS_FILES);
}

TEST(a_shorter_round_has_fewer_backups_first)
{
    struct rows rows;
    struct hanging hanging;
    open_files(&rows);
    hang(&rows, rows_rounds(&rows, 2), ROWS_FILES + 2, &hanging);
    for (size_t i = 1; i < ROWS_FILES + 2; i++) {
        assert_true((i < ROWS_FILES) == (hanging.futures[i] != NULL));
    }
    /* it needs all three, so it waits for the one that hangs */
    assert_code(COX_ETIMEDOUT, cox_future_wait(hanging.end, 50));
    struct cox_future *end = hanging.end;
    hanging.end = NULL;
    let_go(&hanging);
    assert_code(0, cox_future_wait(end, PATIENCE_MS));
    cox_future_free(end);
    assert_once(&rows, 1);
    assert_true(stats_of(&rows).late == 0 && stats_of(&rows).rounds == 1);
    rows_close(&rows);
}

TEST(a_shorter_round_has_the_backups_that_are_left)
{
    struct rows rows;
    struct hanging hanging;
    open_files(&rows);
    struct cox_rounds *rounds = rows_rounds(&rows, 2);
    hang(&rows, rounds, ROWS_FILES + 1, &hanging);
    assert_code(0, cox_future_wait(hanging.end, PATIENCE_MS));
    assert_code(COX_ELATE, cox_future_wait(hanging.futures[0], PATIENCE_MS));
    let_go(&hanging);
    assert_int_equal(next_round(&rows, rounds, ROWS_FILES + 1), 1);
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, ROWS_FILES + 1, NULL, 0));
    assert_once(&rows, 1);
    assert_true(stats_of(&rows).late == 1 && stats_of(&rows).rounds == 2);
    rows_close(&rows);
}

/* ---- rounds that are not applied */

TEST(the_tasks_of_a_round_that_is_cancelled_are_given_out_again)
{
    struct rows rows;
    struct hanging hanging;
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 0);
    hang(&rows, rounds, MEMBERS, &hanging);
    /* some of the others may be staged */
    assert_code(0, cox_future_cancel(hanging.end));
    for (int i = 0; i < MEMBERS; i++) {
        assert_code(COX_ECANCELLED, cox_future_wait(hanging.futures[i], PATIENCE_MS));
    }
    assert_int_equal(rows_progress(&rows).done, 0);
    let_go(&hanging);
    assert_code(COX_EEOF, rows_run_rounds(&rows, rounds, MEMBERS, NULL, 0));
    assert_once(&rows, EPOCHS);
    assert_true(stats_of(&rows).rounds_failed >= 1);
    rows_close(&rows);
}

/* The first task always fails; a part of it waits on the ps already. */
TEST(a_failing_task_fails_its_rounds_until_it_is_given_up)
{
    enum { OFTEN = 3 };
    struct rows rows;
    int64_t counts[ROWS_N];
    const struct rows_arg args[] = {{"fail_row", 1}, {"flush", 1}};
    rows_open(&rows, 2, NULL, NULL);
    struct cox_rounds *rounds = rows_rounds(&rows, 0);
    assert_code(COX_ESTEP, rows_run_rounds(&rows, rounds, MEMBERS, args, 2));
    assert_error_names("1 failed");
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 1 && p.retries == OFTEN - 1 && p.done == p.tasks - 1);
    rows_read(&rows, counts);
    for (int i = 0; i < ROWS_N; i++) {
        bool failed = i < ROWS_SECOND && i % ROWS_FILES == 0;
        assert_int_equal(counts[i], failed ? 0 : 1);
    }
    assert_int_equal(stats_of(&rows).rounds_failed, OFTEN);
    assert_code(0, cox_join(rows.crew.c, -1));
    rows_close(&rows);
}

TEST(a_round_with_a_backup_goes_on_without_a_task_that_fails)
{
    struct rows rows;
    const struct rows_arg args[] = {{"fail_row", 1}, {"fail_epochs", 1}};
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    spec.failures_max = 1;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_rounds *rounds = rows_rounds(&rows, 1);
    assert_code(COX_ESTEP, rows_run_rounds(&rows, rounds, MEMBERS, args, 2));
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.failed == 1 && p.done == EPOCHS * p.tasks - 1);
    assert_int_equal(stats_of(&rows).rounds_failed, 0);
    rows_close(&rows);
}

/* One result finds no memory. */
static void lack_memory(struct rows *rows, const struct rows_arg *args, int n_args)
{
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(rows, 2, NULL, &spec);
    atomic_store(&n_without_memory, 1);
    assert_code(COX_EEOF, rows_run_rounds(rows, rows_rounds(rows, 0), MEMBERS, args,
                                          (size_t)n_args));
    assert_once(rows, EPOCHS);
}

/* A step that flushes leaves it to the client to end its round. */
TEST(a_task_whose_result_finds_no_memory_is_given_out_again_with_its_round)
{
    struct rows rows;
    lack_memory(&rows, &(struct rows_arg){"flush", 1}, 1);
    assert_int_equal(stats_of(&rows).rounds_failed, 1);
    rows_close(&rows);
}

/* If the ps has ended the round by then, the closure runs again for its result. */
TEST(a_task_whose_result_finds_no_memory_counts_once_whoever_ends_its_round)
{
    struct rows rows;
    lack_memory(&rows, NULL, 0);
    rows_close(&rows);
}

/* ---- checkpoints */

static struct cox_options options_in(const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = dir;
    return options;
}

/* Takes a checkpoint while the first task of the first round hangs, and closes the
 * client; the next one goes on. `n_done`: tasks that are done in the checkpoint. */
static void go_on_amid(uint32_t backups, uint64_t n_done)
{
    struct rows rows;
    struct hanging hanging;
    struct cox_progress progress = COX_PROGRESS_INIT;
    struct cox_options options = options_in(coxi_test_path("checkpoints"));
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    rows_open(&rows, 2, &options, &spec);
    hang(&rows, rows_rounds(&rows, backups), MEMBERS, &hanging);
    assert_code(n_done > 0 ? 0 : COX_ETIMEDOUT,
                cox_future_wait(hanging.end, n_done > 0 ? PATIENCE_MS : 50));
    /* in no round, so that the checkpoint has what came before it */
    struct cox_future *future;
    assert_code(0, rows_next(&rows, "count_lines", &future));
    assert_code(0, cox_future_wait(future, PATIENCE_MS));
    cox_future_free(future);
    assert_code(0, cox_checkpoint_save(rows.crew.c, NULL, NULL));
    let_go(&hanging);
    rows_close(&rows);

    rows_open(&rows, 2, &options, &spec);
    assert_code(0, cox_progress(rows.crew.c, &progress));
    assert_int_equal(progress.rerun, n_done > 0 ? 0 : MEMBERS);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_int_equal(p.done, n_done + 1);
    assert_int_equal(p.pending, n_done > 0 ? 0 : MEMBERS);
    assert_int_equal(p.todo + p.pending + p.done, p.tasks);
    assert_code(COX_EEOF,
                rows_run_rounds(&rows, rows_rounds(&rows, backups), MEMBERS, NULL, 0));
    assert_once(&rows, EPOCHS);
    rows_close(&rows);
}

TEST(a_round_under_way_in_the_checkpoint_counts_each_task_once)
{
    go_on_amid(0, 0);
}

TEST(a_task_that_came_late_before_the_checkpoint_is_given_out_by_the_next_client)
{
    go_on_amid(1, MEMBERS - 1);
}

/* ---- workers and ps that die (clients: dataset_resume_test.c) */

struct running {
    struct rows *rows;
    struct cox_rounds *rounds;
    int code;
};

/* Runs all rounds; the third task of each epoch waits at that epoch's gate. */
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
        running->code = cox_round_schedule_next(
            running->rounds, step, running->rows->dataset, &call, MEMBERS, NULL, NULL);
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

/* Kills what `victim` names while a task of each epoch is at its gate. */
static void kill_amid(uint32_t backups, pid_t (*victim)(struct crew *crew, int index))
{
    struct rows rows;
    struct cox_options options = options_in(coxi_test_path("checkpoints"));
    struct cox_dataset_spec spec = spec_of(EPOCHS);
    struct running running = {&rows, NULL, 0};
    pthread_t thread;
    for (int i = 0; i < EPOCHS; i++) {
        coxi_test_write(gate_of(i, ""), "", 0);
    }
    rows_open(&rows, 2, &options, &spec);
    running.rounds = rows_rounds(&rows, backups);
    assert_int_equal(0, pthread_create(&thread, NULL, run, &running));
    for (int i = 0; i < EPOCHS; i++) {
        coxi_test_until(is_there, (void *)(uintptr_t)gate_of(i, ".held"),
                        "a task is at its gate");
        crew_kill(victim(&rows.crew, i % 2));
        assert_int_equal(0, unlink(gate_of(i, "")));
    }
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(running.code, COX_EEOF);
    assert_once(&rows, EPOCHS);
    rows_close(&rows);
}

TEST(workers_that_die_amid_rounds_lose_no_record_and_repeat_none)
{
    coxi_test_expect_crashes();
    kill_amid(0, crew_step_process);
}

TEST(workers_that_die_amid_rounds_with_backups_do_neither)
{
    coxi_test_expect_crashes();
    kill_amid(1, crew_step_process);
}

TEST(ps_that_die_amid_rounds_lose_no_record_and_repeat_none)
{
    kill_amid(0, crew_ps_process);
}

TEST(ps_that_die_amid_rounds_with_backups_do_neither)
{
    kill_amid(1, crew_ps_process);
}
