/* Steps that merge the batches of their task: accumulated gradients, and local steps.
 * Each record counts once in each epoch, whatever dies. */
#include <string.h>

#include "tests/coordinator/datasets/dataset.h"
#include "tests/steps/merge.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

enum { EPOCHS = 2 };

struct fixture {
    struct crew crew;
    struct cox_variable *weights;
    struct cox_dataset *dataset;
    struct cox_function *count;
};

static void fixture_open(struct fixture *f, const struct cox_options *options)
{
    struct cox_variable_spec weights = COX_VARIABLE_SPEC_INIT;
    struct cox_dataset_spec spec = rows_spec();
    weights.name = "weights";
    weights.dtype = COX_F32;
    weights.rank = 1;
    weights.shape[0] = ROWS_N;
    weights.shards = 2;
    weights.optimizer.kind = COX_SGD;
    weights.optimizer.learning_rate = 1;
    spec.epochs = EPOCHS;
    crew_open(&f->crew, 2, 1, "merge", options);
    assert_code(0, cox_variable_create(f->crew.c, &weights, &f->weights));
    assert_code(0, cox_dataset_create(f->crew.c, &spec, &f->dataset));
    f->count = crew_function(&f->crew, "count_merged");
}

/* Schedules the next task. With a gate, its first attempt waits there before it
 * pushes. */
static int schedule(struct fixture *f, int64_t mode, int64_t flush, const char *gate,
                    struct cox_future **ret)
{
    const char *path = gate != NULL ? gate : "";
    struct cox_call call = COX_CALL_INIT;
    const struct cox_value args[] = {
        COX_VECTOR("variable", COX_U8, sizeof("weights"), "weights"),
        COX_SCALAR("mode", COX_I64, &mode), COX_SCALAR("flush", COX_I64, &flush),
        COX_VECTOR("path", COX_U8, strlen(path) + 1, path)};
    call.args = args;
    call.n_args = gate != NULL ? 4 : 3;
    return cox_schedule_next(f->crew.c, f->count, f->dataset, &call, ret);
}

/* Trains on all tasks; kills what `victim` names while the first task has merged all its
 * batches and pushed none of them (`flush`: all of them). */
static void train(const struct cox_options *options, int64_t mode, int64_t flush,
                  pid_t (*victim)(struct crew *crew, int index))
{
    struct fixture f;
    struct cox_future *future;
    float weights[ROWS_N];
    const char *gate = gate_make("gate");
    int r = 0;
    fixture_open(&f, options);
    assert_code(0, schedule(&f, mode, flush, gate, &future));
    int fd = gate_pass(gate);
    crew_kill(victim(&f.crew, 0));
    gate_release(fd);
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    while (r == 0) {
        r = schedule(&f, mode, flush, NULL, NULL);
    }
    assert_code(COX_EEOF, r);
    assert_code(0, cox_join(f.crew.c, -1));
    assert_code(0, cox_variable_read(f.crew.c, f.weights, weights, sizeof(weights)));
    for (int i = 0; i < ROWS_N; i++) {
        if (weights[i] != EPOCHS) {
            fail_msg("row %d was counted %g times, not %d", i, (double)weights[i],
                     EPOCHS);
        }
    }
    crew_close(&f.crew);
}

/* ---- tables */

enum { KEYS = 9, DIM = 2 };

/* Keys of 3 batches, some of them more than once, and their gradients. */
static const uint64_t keys[KEYS] = {1, 1, 5, 5, 900, 1, 2, 900, 5};
static const float gradients[KEYS * DIM] = {
    0.1F, 0.7F, 0.3F, -1, 5, -6, 0.2F, 0.9F, 7, 8, 1e-3F, 3, 4, 0.5F, 0.6F, -2, 1, 9};

/* Runs step `batches` on table `name` with that mode, in one batch or three; reads the
 * rows of all keys. */
static void run_batches(struct crew *crew, const char *name, int64_t mode,
                        int64_t n_batches, float ret[KEYS * DIM])
{
    const int64_t sizes[] = {n_batches == 1 ? KEYS : 4, 2, 3};
    const int64_t width = DIM;
    const float scale = 1;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    struct cox_table *table;
    const struct cox_value args[] = {
        COX_VECTOR("variable", COX_U8, strlen(name) + 1, name),
        COX_SCALAR("mode", COX_I64, &mode),
        COX_SCALAR("width", COX_I64, &width),
        COX_SCALAR("scale", COX_F32, &scale),
        COX_VECTOR("sizes", COX_I64, (uint64_t)n_batches, sizes),
        COX_VECTOR("keys", COX_I64, KEYS, keys),
        COX_VECTOR("values", COX_F32, KEYS * DIM, gradients)};
    spec.name = name;
    spec.dim = DIM;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 0.3F;
    spec.initializer.kind = COX_UNIFORM;
    spec.initializer.a = -1;
    spec.initializer.b = 1;
    spec.initializer.seed = 5;
    call.args = args;
    call.n_args = sizeof(args) / sizeof(*args);
    assert_code(0, cox_table_create(crew->c, &spec, &table));
    assert_code(0,
                cox_schedule(crew->c, crew_function(crew, "batches"), &call, &future));
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    assert_code(0, cox_table_read(crew->c, table, keys, KEYS, ret));
}

TEST(accumulated_batches_and_one_local_step_are_a_push)
{
    struct crew crew;
    float pushed[KEYS * DIM];
    float accumulated[KEYS * DIM];
    float local[KEYS * DIM];
    crew_open(&crew, 2, 2, "merge", NULL);
    run_batches(&crew, "pushed", MERGE_PUSH, 1, pushed);
    run_batches(&crew, "accumulated", MERGE_ACCUMULATE, 3, accumulated);
    run_batches(&crew, "local", MERGE_LOCAL, 1, local);
    assert_memory_equal(pushed, accumulated, sizeof(pushed));
    for (size_t i = 0; i < KEYS * DIM; i++) {
        assert_true(local[i] - pushed[i] < 1e-6F && pushed[i] - local[i] < 1e-6F);
    }
    crew_close(&crew);
}

/* ---- losses */

TEST(accumulated_batches_count_once_when_the_worker_dies)
{
    train(NULL, MERGE_ACCUMULATE, 0, crew_step_process);
}

TEST(accumulated_batches_that_were_flushed_count_once_when_the_worker_dies)
{
    train(NULL, MERGE_ACCUMULATE, 1, crew_step_process);
}

TEST(local_steps_count_once_when_the_worker_dies)
{
    train(NULL, MERGE_LOCAL, 0, crew_step_process);
}

TEST(local_steps_that_were_flushed_count_once_when_the_worker_dies)
{
    train(NULL, MERGE_LOCAL, 1, crew_step_process);
}

static void lose_ps(int64_t flush)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("ckpt");
    train(&options, MERGE_LOCAL, flush, crew_ps_process);
}

TEST(local_steps_count_once_when_a_ps_dies)
{
    lose_ps(0);
}

TEST(local_steps_that_were_flushed_count_once_when_a_ps_dies)
{
    lose_ps(1);
}
