/* Tasks of data sets that wait: for a worker, or after a failure. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/datasets/dataset.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

/* A data set of one task, in a yard. */
static struct cox_dataset *one_task(struct yard *yard)
{
    static const char *file;
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    struct cox_dataset *dataset;
    file = coxi_test_path("one");
    coxi_test_write(file, "0 1:1\n", 6);
    spec.name = "one";
    spec.files = &file;
    spec.n_files = 1;
    spec.format = COX_LIBSVM;
    spec.failures_max = 1;
    assert_code(0, cox_dataset_create(yard->crew.c, &spec, &dataset));
    return dataset;
}

static struct cox_dataset_progress progress_of(struct yard *yard,
                                               struct cox_dataset *dataset)
{
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    assert_code(0, cox_dataset_progress(yard->crew.c, dataset, &progress));
    return progress;
}

/* One failure of the task would end it. */
TEST(what_is_missing_is_no_failure_of_a_task)
{
    static const int codes[] = {COX_ENOTREADY, COX_EAGAIN,  COX_ELIMIT,
                                COX_ENOMEM,    COX_EMODULE, 0};
    enum { N = sizeof(codes) / sizeof(*codes) };
    struct yard yard;
    struct coxi_closure_head head[8];
    yard_open(&yard, NULL);
    struct cox_dataset *dataset = one_task(&yard);
    struct cox_function *nothing = crew_function(&yard.crew, "nothing");
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    for (size_t i = 0; i < N; i++) {
        struct cox_future *future;
        assert_code(0, cox_schedule_next(yard.crew.c, nothing, dataset, NULL, &future));
        assert_int_equal(1, fake_worker_expect(anna, head));
        fake_worker_answer(anna, head, codes[i]);
        assert_code(codes[i], cox_future_wait(future, 10000));
        cox_future_free(future);
        assert_int_equal(i + 1 == N, progress_of(&yard, dataset).done);
    }
    assert_code(COX_EEOF, cox_schedule_next(yard.crew.c, nothing, dataset, NULL, NULL));
    assert_int_equal(0, progress_of(&yard, dataset).failed);
    assert_int_equal(0, progress_of(&yard, dataset).retries);
    caller_close(anna);
    yard_close(&yard);
}

/* ---- no worker */

struct giving {
    struct cox_coordinator *c;
    struct cox_function *function;
    struct cox_dataset *dataset;
    int code;
};

static void *give(void *arg)
{
    struct giving *giving = arg;
    while (giving->code == 0) {
        giving->code =
            cox_schedule_next(giving->c, giving->function, giving->dataset, NULL, NULL);
    }
    return NULL;
}

static bool has_failed(void *arg)
{
    return yard_stats(arg).failed > 0;
}

/* Each of its closures would fail after 1 ms. */
TEST(a_task_waits_for_a_worker_and_is_not_given_out_again_and_again)
{
    struct yard yard;
    struct program berta;
    struct cox_options options = COX_OPTIONS_INIT;
    pthread_t thread;
    options.keep_going = 1;
    options.worker_wait_ms = 1;
    yard_open(&yard, &options);
    struct cox_dataset *dataset = one_task(&yard);
    struct giving giving = {yard.crew.c, crew_function(&yard.crew, "nothing"), dataset,
                            0};
    assert_int_equal(0, pthread_create(&thread, NULL, give, &giving));
    coxi_test_until(has_failed, &yard, "a closure without a worker");
    yard_worker(&yard, &berta, "berta");
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(COX_EEOF, giving.code);
    assert_int_equal(1, progress_of(&yard, dataset).done);
    assert_int_equal(1, yard_stats(&yard).failed);
    yard_close(&yard);
    yard_kill(&berta);
}

/* ---- too many failures */

TEST(an_epoch_ends_early_when_as_many_tasks_have_failed_as_may)
{
    struct rows rows;
    struct cox_dataset_spec spec = rows_spec();
    struct cox_call call = COX_CALL_INIT;
    const char *gate = coxi_test_path("gate");
    const struct cox_value arg = COX_VECTOR("gate", COX_U8, strlen(gate) + 1, gate);
    spec.epochs = 2;
    spec.failures_max = 1;
    spec.failed_max = 3;
    coxi_test_write(gate, "", 0);
    call.args = &arg;
    call.n_args = 1;
    rows_open(&rows, 1, NULL, &spec);
    struct cox_function *step = crew_function(&rows.crew, "fail_while");
    for (int i = 0; i < 2; i++) { /* it is told each time */
        assert_code(COX_ESTEP,
                    cox_schedule_epoch(rows.crew.c, step, rows.dataset, &call));
        assert_error_names("epoch 1 of 2 of data set 'rows' has ended early");
        assert_error_names("3 of its tasks have failed");
        assert_error_names("the gate is shut");
    }
    assert_code(0, cox_join(rows.crew.c, 10000));
    struct cox_dataset_progress p = rows_progress(&rows);
    /* those that were under way have failed, too; none of the next epoch was begun */
    assert_true(p.failed >= 3 && p.failed <= p.tasks && p.done == 0);
    assert_int_equal(unlink(gate), 0);
    rows_close(&rows);
}
