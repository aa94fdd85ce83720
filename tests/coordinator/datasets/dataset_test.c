/* Data sets: every record is trained on once in each epoch. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/datasets/dataset.h"
#include "tests/test.h"

TEST(every_record_counts_once_in_each_epoch)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = 3;
    rows_open(&rows, 2, NULL, &spec);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 3);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.tasks >= p.bytes_total / ROWS_TASK_BYTES);
    assert_int_equal(p.records, 3 * ROWS_N);
    assert_int_equal(p.done, 3 * p.tasks);
    assert_int_equal(p.bytes, 3 * p.bytes_total);
    assert_true(p.epoch == 3 && p.epochs == 3 && p.todo == 0 && p.pending == 0);
    assert_true(p.failed == 0 && p.skipped == 0 && p.retries == 0);
    assert_true(p.eta_s == 0);
    assert_string_equal(p.first_failure, "");
    /* and again */
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    assert_error_names("'rows'");
    assert_code(0, cox_join(rows.crew.c, -1));
    rows_close(&rows);
}

TEST(an_epoch_is_scheduled_by_one_call)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = 2;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_function *count = crew_function(&rows.crew, "count_lines");
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        assert_int_equal(rows_progress(&rows).epoch, epoch);
        assert_code(0, cox_schedule_epoch(rows.crew.c, count, rows.dataset, NULL));
        rows_assert_all(&rows, epoch + 1);
    }
    assert_code(COX_EEOF, cox_schedule_epoch(rows.crew.c, count, rows.dataset, NULL));
    rows_close(&rows);
}

TEST(epochs_for_ever_go_on)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = COX_EPOCHS_FOREVER;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_function *count = crew_function(&rows.crew, "count_lines");
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        assert_code(0, cox_schedule_epoch(rows.crew.c, count, rows.dataset, NULL));
    }
    rows_assert_all(&rows, 5);
    struct cox_dataset_progress p = rows_progress(&rows);
    assert_true(p.epochs == COX_EPOCHS_FOREVER && p.epoch == 5 && p.eta_s < 0);
    assert_int_equal(p.todo, p.tasks);
    rows_close(&rows);
}

/* ---- the order */

/* The first rows of the next `n` tasks. */
static void take_rows(struct rows *rows, size_t n, int64_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        struct cox_future *future;
        struct cox_value value;
        assert_code(0, rows_next(rows, "tell_row", &future));
        assert_code(0, cox_future_wait(future, 10000));
        assert_code(0, cox_future_result(future, "row", &value));
        memcpy(&ret[i], value.data, sizeof(*ret));
        /* what the worker tells the data set is not for programs */
        assert_code(COX_ENOENT, cox_future_result(future, "\1read", &value));
        cox_future_free(future);
    }
}

/* The order of two epochs of a new client; returns the number of tasks of one. */
static size_t order_of(uint32_t shuffle, uint64_t seed, int64_t ret[200])
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    spec.epochs = 2;
    spec.shuffle = shuffle;
    spec.seed = seed;
    rows_open(&rows, 1, NULL, &spec);
    size_t n = (size_t)rows_progress(&rows).tasks;
    assert_true(2 * n <= 200);
    take_rows(&rows, 2 * n, ret);
    rows_close(&rows);
    return n;
}

TEST(tasks_come_in_the_order_of_the_files)
{
    int64_t rows[200] = {0};
    size_t n = order_of(0, 5, rows);
    assert_int_equal(rows[0], 0);
    for (size_t i = 1; i < n; i++) {
        int64_t file = rows[i] % ROWS_FILES;
        int64_t before = rows[i - 1] % ROWS_FILES;
        assert_true(file == before ? rows[i] > rows[i - 1] : file == before + 1);
    }
    assert_memory_equal(rows, rows + n, n * sizeof(*rows));
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

TEST(a_shuffled_order_is_repeatable)
{
    int64_t first[200] = {0};
    int64_t again[200] = {0};
    int64_t other[200] = {0};
    size_t n = order_of(1, 5, first);
    assert_int_equal(n, order_of(1, 5, again));
    assert_int_equal(n, order_of(1, 6, other));
    assert_memory_equal(first, again, 2 * n * sizeof(*first));
    assert_memory_not_equal(first, other, 2 * n * sizeof(*first));
    assert_memory_not_equal(first, first + n, n * sizeof(*first));
    /* each epoch has every task */
    qsort(first, n, sizeof(*first), by_number);
    qsort(first + n, n, sizeof(*first), by_number);
    assert_memory_equal(first, first + n, n * sizeof(*first));
    for (size_t i = 1; i < n; i++) {
        assert_true(first[i] > first[i - 1]);
    }
}

/* ---- several at once */

struct scheduling {
    struct rows *rows;
    struct cox_dataset *dataset;
    int code;
};

static void *schedule_all(void *arg)
{
    struct scheduling *scheduling = arg;
    struct rows rows = *scheduling->rows;
    rows.dataset = scheduling->dataset;
    scheduling->code = rows_run(&rows, "count_lines", NULL, 0);
    return NULL;
}

TEST(two_data_sets_and_four_threads_go_on_side_by_side)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_dataset *other;
    struct scheduling threads[4];
    pthread_t ids[4];
    spec.epochs = 2;
    rows_open(&rows, 2, NULL, &spec);
    spec.name = "others";
    spec.epochs = 1;
    spec.shuffle = 1;
    assert_code(0, cox_dataset_create(rows.crew.c, &spec, &other));
    for (int i = 0; i < 4; i++) {
        threads[i] = (struct scheduling){&rows, i % 2 == 0 ? rows.dataset : other, 0};
        assert_int_equal(0, pthread_create(&ids[i], NULL, schedule_all, &threads[i]));
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(0, pthread_join(ids[i], NULL));
        assert_int_equal(threads[i].code, COX_EEOF);
    }
    rows_assert_all(&rows, 3);
    rows_close(&rows);
}

TEST(a_data_set_without_records_is_over_at_once)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    const char *empty = coxi_test_path("empty");
    coxi_test_write(empty, "", 0);
    spec.files = &empty;
    spec.epochs = COX_EPOCHS_FOREVER;
    rows_open(&rows, 1, NULL, &spec);
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    assert_code(COX_EEOF, cox_schedule_epoch(rows.crew.c,
                                             crew_function(&rows.crew, "count_lines"),
                                             rows.dataset, NULL));
    assert_int_equal(rows_progress(&rows).tasks, 0);
    rows_close(&rows);
}

/* ---- what is refused */

static void assert_refused(struct rows *rows, const struct cox_dataset_spec *spec,
                           int code, const char *named)
{
    struct cox_dataset *dataset = NULL;
    assert_code(code, cox_dataset_create(rows->crew.c, spec, &dataset));
    assert_error_names(named);
    assert_null(dataset);
}

TEST(a_data_set_that_cannot_be_is_refused)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    const char *missing = coxi_test_path("no-such-*");
    rows_open(&rows, 1, NULL, NULL);
    assert_refused(&rows, &spec, COX_EEXIST, "'rows'");
    spec.name = "a b";
    assert_refused(&rows, &spec, COX_EINVAL, "white space");
    spec.name = NULL;
    assert_refused(&rows, &spec, COX_EINVAL, "name");
    spec.name = "more";
    spec.format = 0;
    assert_refused(&rows, &spec, COX_EINVAL, "'more': format is 0");
    spec.format = COX_LIBSVM;
    spec.source = 2;
    assert_refused(&rows, &spec, COX_EINVAL, "source");
    spec.source = 0;
    spec.epochs = UINT64_MAX - 1;
    assert_refused(&rows, &spec, COX_EINVAL, "epochs");
    spec.epochs = 0;
    spec.files = &missing;
    assert_refused(&rows, &spec, COX_ENOENT, "no-such-*");
    spec.files = rows_spec().files;
    spec.size = 8;
    assert_refused(&rows, &spec, COX_EINVAL, "cox_dataset_spec");
    rows_close(&rows);
}

static void assert_call_refused(struct rows *rows, const struct cox_call *call,
                                int code, const char *named)
{
    assert_code(code, cox_schedule_next(rows->crew.c,
                                        crew_function(&rows->crew, "count_lines"),
                                        rows->dataset, call, NULL));
    assert_error_names(named);
}

TEST(names_of_the_library_are_not_for_programs)
{
    struct rows rows;
    int64_t one = 1;
    struct cox_value arg = COX_SCALAR("\1task", COX_I64, &one);
    struct cox_call call = COX_CALL_INIT;
    rows_open(&rows, 1, NULL, NULL);
    call.args = &arg;
    call.n_args = 1;
    assert_call_refused(&rows, &call, COX_EINVAL, "the library's");
    assert_code(COX_EINVAL,
                cox_schedule(rows.crew.c, crew_function(&rows.crew, "count_lines"),
                             &call, NULL));
    rows_close(&rows);
}

TEST(calls_that_do_not_go_with_tasks_are_refused)
{
    struct rows rows;
    struct cox_call call = COX_CALL_INIT;
    static const int64_t one = 1;
    struct cox_value args[64];
    char names[64][16];
    rows_open(&rows, 1, NULL, NULL);
    call.cursor = 1;
    assert_call_refused(&rows, &call, COX_EINVAL, "cursor");
    call.cursor = 0;
    call.keep = 1;
    assert_call_refused(&rows, &call, COX_EINVAL, "keep");
    call.keep = 0;
    for (int i = 0; i < 64; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "a%d", i);
        args[i] = (struct cox_value)COX_SCALAR(names[i], COX_I64, &one);
    }
    call.args = args;
    call.n_args = 64;
    assert_call_refused(&rows, &call, COX_ELIMIT, "63");
    call.n_args = 63;
    assert_code(0,
                cox_schedule_next(rows.crew.c, crew_function(&rows.crew, "count_lines"),
                                  rows.dataset, &call, NULL));
    /* nothing was lost */
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 1);
    rows_close(&rows);
}

TEST(a_task_that_could_not_be_scheduled_is_not_lost)
{
    struct rows rows;
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = 100;
    rows_open(&rows, 1, NULL, NULL);
    for (int i = 0; i < 10; i++) {
        assert_call_refused(&rows, &call, COX_EINVAL, "worker 99");
    }
    assert_code(COX_EEOF, rows_run(&rows, "count_lines", NULL, 0));
    rows_assert_all(&rows, 1);
    rows_close(&rows);
}

/* No checkpoint with more could be read. */
TEST(there_are_no_more_data_sets_than_a_manifest_has)
{
    enum { MOST = 4096 };
    struct rows rows;
    struct cox_dataset *dataset;
    struct cox_dataset_spec spec = rows_spec();
    char name[16];
    const char *file = coxi_test_path("nothing");
    coxi_test_write(file, "", 0);
    rows_open(&rows, 1, NULL, NULL); /* which has one */
    spec.files = &file;
    spec.name = name;
    for (int i = 1; i <= MOST; i++) {
        (void)snprintf(name, sizeof(name), "set-%d", i);
        assert_code(i < MOST ? 0 : COX_ELIMIT,
                    cox_dataset_create(rows.crew.c, &spec, &dataset));
    }
    assert_error_names("more than 4096 data sets");
    rows_close(&rows);
}
