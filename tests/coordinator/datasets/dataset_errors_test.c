/* Data sets beside which other closures fail. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

TEST(an_error_of_another_closure_gives_tasks_back)
{
    struct rows rows;
    struct cox_call call = COX_CALL_INIT;
    rows_open(&rows, 1, NULL, NULL);
    struct cox_function *step = crew_function(&rows.crew, "count_lines");
    for (int i = 0; i < 5; i++) {
        assert_code(0, cox_schedule_next(rows.crew.c, step, rows.dataset, NULL, NULL));
    }
    /* without a task it fails, and cancels all others */
    assert_code(0, cox_schedule(rows.crew.c, step, &call, NULL));
    int r = 0;
    int n_errors = 0;
    while (r != COX_EEOF) {
        r = cox_schedule_next(rows.crew.c, step, rows.dataset, NULL, NULL);
        n_errors += r == COX_ESTEP;
        assert_true(r == 0 || r == COX_EEOF || r == COX_ESTEP);
    }
    assert_int_equal(n_errors, 1);
    rows_assert_all(&rows, 1);
    assert_int_equal(rows_progress(&rows).failed, 0);
    rows_close(&rows);
}

/* ---- tasks of which a part is applied */

static bool is_there(void *arg)
{
    return access(arg, F_OK) == 0;
}

/* Schedules the first task: it flushes its batches, and then is at the gate. */
static void flush_and_hang(struct rows *rows, uint32_t only_worker)
{
    const char *gate = coxi_test_path("gate");
    const int64_t one = 1; /* row 0 */
    const struct cox_value args[] = {COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate),
                                     COX_SCALAR("slow_row", COX_I64, &one),
                                     COX_SCALAR("holds", COX_I64, &one),
                                     COX_SCALAR("flush", COX_I64, &one)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 4;
    call.only_worker = only_worker;
    coxi_test_write(coxi_test_path("gate-0"), "", 0);
    assert_code(0, cox_schedule_next(rows->crew.c,
                                     crew_function(&rows->crew, "count_lines"),
                                     rows->dataset, &call, NULL));
    coxi_test_until(is_there, (void *)(uintptr_t)coxi_test_path("gate-0.held"),
                    "a task is at its gate");
}

/* An error of worker 1 cancels everything. The task goes on as soon as the gate is
 * open. */
static void fail_elsewhere(struct rows *rows)
{
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    call.only_worker = 2;
    /* without a task it fails */
    assert_code(0, cox_schedule(rows->crew.c, crew_function(&rows->crew, "count_lines"),
                                &call, &future));
    assert_code(COX_ESTEP, cox_future_wait(future, 10000));
    cox_future_free(future);
    assert_code(COX_ETIMEDOUT, cox_join(rows->crew.c, 100));
    assert_error_names("still run after an error");
    assert_int_equal(0, unlink(coxi_test_path("gate-0")));
}

static void assert_all_once(struct rows *rows)
{
    assert_code(COX_ESTEP, cox_join(rows->crew.c, -1));
    assert_code(COX_EEOF, rows_run(rows, "count_lines", NULL, 0));
    rows_assert_all(rows, 1);
    struct cox_dataset_progress p = rows_progress(rows);
    assert_true(p.done == p.tasks && p.failed == 0 && p.retries == 0);
    assert_int_equal(p.records, ROWS_N);
}

TEST(an_error_of_another_closure_leaves_no_task_half_done)
{
    struct rows rows;
    rows_open(&rows, 2, NULL, NULL);
    flush_and_hang(&rows, 1);
    fail_elsewhere(&rows);
    assert_all_once(&rows);
    rows_close(&rows);
}

static bool is_put_back(void *arg)
{
    const struct rows *rows = arg;
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(rows->crew.c, &stats));
    return stats.put_back > 0;
}

TEST(an_error_of_another_closure_spares_a_task_of_a_lost_worker)
{
    struct rows rows;
    coxi_test_expect_crashes();
    rows_open(&rows, 2, NULL, NULL);
    flush_and_hang(&rows, 1);
    pid_t step = crew_step_process(&rows.crew, 0);
    pid_t supervisor = crew_supervisor(&rows.crew, 0);
    crew_stop(supervisor);
    crew_kill(step);
    coxi_test_until(is_put_back, &rows, "the task waits for its worker");
    fail_elsewhere(&rows);
    assert_int_equal(0, kill(supervisor, SIGCONT));
    assert_all_once(&rows);
    rows_close(&rows);
}
