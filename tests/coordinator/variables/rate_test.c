/* A client changes learning rates and schedules. The change applies to all later
 * updates, once, and stays in force for the next client. */
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/coordinator/writing.h"
#include "tests/test.h"

enum { N_PS = 2, N_W = 4, N_KEYS = 8 };

/* A table and a dense variable on all ps, both with SGD at rate 1. Each step updates
 * all their elements. */
struct run {
    struct crew crew;
    struct cox_table *t;
    struct cox_variable *w;
    float row; /* expected in each element of t */
    float all; /* expected in each element of w */
};

static struct cox_optimizer sgd(float rate)
{
    struct cox_optimizer optimizer = COX_OPTIMIZER_INIT;
    optimizer.kind = COX_SGD;
    optimizer.learning_rate = rate;
    return optimizer;
}

static struct cox_variable_spec dense_spec(const char *name, float rate)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = N_W;
    spec.shards = N_PS;
    spec.optimizer = sgd(rate);
    return spec;
}

static void open_crew(struct run *run)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    options.checkpoint_incremental = 8;
    crew_open(&run->crew, N_PS, 1, "model", &options);
}

static void open_run(struct run *run)
{
    struct cox_table_spec t = COX_TABLE_SPEC_INIT;
    const struct cox_variable_spec w = dense_spec("w", 1);
    open_crew(run);
    t.name = "t";
    t.dim = 2;
    t.optimizer = w.optimizer;
    assert_code(0, cox_table_create(run->crew.c, &t, &run->t));
    assert_code(0, cox_variable_create(run->crew.c, &w, &run->w));
}

/* Runs a step with gradients of 1; expects the rows to fall by `row`, and w by
 * `all`. */
static void train(struct run *run, float row, float all)
{
    static const uint64_t keys[N_KEYS] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct cox_value arg = COX_VECTOR("keys", COX_I64, N_KEYS, keys);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(run->crew.c, crew_function(&run->crew, "push_ones"),
                                &call, NULL));
    assert_code(0, cox_join(run->crew.c, -1));
    run->row -= row;
    run->all -= all;
}

static void assert_trained(struct run *run)
{
    static const uint64_t keys[N_KEYS] = {1, 2, 3, 4, 5, 6, 7, 8};
    float rows[N_KEYS][2];
    float w[N_W];
    assert_code(0, cox_table_read(run->crew.c, run->t, keys, N_KEYS, rows[0]));
    assert_code(0, cox_variable_read(run->crew.c, run->w, w, sizeof(w)));
    for (int i = 0; i < N_KEYS; i++) {
        assert_true(rows[i][0] == run->row && rows[i][1] == run->row);
    }
    for (int i = 0; i < N_W; i++) {
        assert_true(w[i] == run->all);
    }
}

/* Rates are powers of 2, so that sums are exact in any order. */
static void set_rates(struct run *run, float row, float all)
{
    assert_code(0, cox_table_set_rate(run->crew.c, run->t, row, NULL));
    assert_code(0, cox_variable_set_rate(run->crew.c, run->w, all, NULL));
}

/* Runs a step; returns by how much w fell. */
static float fall(struct run *run)
{
    float before[N_W];
    float w[N_W];
    assert_code(0, cox_variable_read(run->crew.c, run->w, before, sizeof(before)));
    train(run, 0, 0);
    assert_code(0, cox_variable_read(run->crew.c, run->w, w, sizeof(w)));
    return before[0] - w[0];
}

TEST(a_rate_that_is_set_holds_from_then_on)
{
    struct run run = {.row = 0};
    struct cox_schedule halves = {COX_SCHEDULE_STEP, 0, 0, 0.5F, 1, 0};
    open_run(&run);
    train(&run, 1, 1);
    set_rates(&run, 0.5F, 0.25F);
    train(&run, 0.5F, 0.25F);
    train(&run, 0.5F, 0.25F);
    assert_trained(&run);
    /* Two closures, one after the other. */
    assert_code(0, cox_variable_set_rate(run.crew.c, run.w, 65536, &halves));
    float first = fall(&run);
    assert_true(first > 0 && fall(&run) == first / 2);
    crew_close(&run.crew);
}

TEST(rates_are_set_anew_in_their_order_for_ps_that_are_lost)
{
    struct run run = {.row = 0};
    open_run(&run);
    set_rates(&run, 0.5F, 2);
    train(&run, 0.5F, 2);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    train(&run, 0.5F, 2);
    set_rates(&run, 4, 0.125F);
    train(&run, 4, 0.125F);
    set_rates(&run, 0.25F, 8);
    train(&run, 0.25F, 8);
    for (int ps = 0; ps < N_PS; ps++) {
        crew_kill(crew_ps_process(&run.crew, ps));
        assert_trained(&run);
    }
    train(&run, 0.25F, 8);
    assert_trained(&run);
    crew_close(&run.crew);
}

/* Asserts that an evaluator, which puts the chain together, can read the newest
 * checkpoint. */
static void assert_is_read(void)
{
    struct cox_evaluator *evaluator;
    struct cox_checkpoint_info info = COX_CHECKPOINT_INFO_INIT;
    uint64_t n_rows = 0;
    assert_code(0, cox_evaluator_open(coxi_test_path("checkpoints"), NULL, &evaluator));
    assert_code(0, cox_evaluator_next(evaluator, &info));
    assert_int_equal(2, info.number);
    assert_code(0, cox_evaluator_rows(evaluator, "t", &n_rows));
    assert_int_equal(N_KEYS, n_rows);
    cox_evaluator_close(evaluator);
}

TEST(a_client_that_goes_on_has_the_rates_that_were_set_and_sets_others)
{
    struct run run = {.row = 0};
    open_run(&run);
    train(&run, 1, 1);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    set_rates(&run, 0.5F,
              /* only the next checkpoint has these rates; it builds on the first */
              0.25F);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    assert_is_read();
    crew_close(&run.crew);

    open_run(&run);
    assert_trained(&run);
    train(&run, 0.5F, 0.25F);
    assert_trained(&run);
    set_rates(&run, 2, 4);
    train(&run, 2, 4);
    assert_trained(&run);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    crew_close(&run.crew);

    open_run(&run);
    train(&run, 2, 4);
    assert_trained(&run);
    crew_close(&run.crew);
}

/* The client dies while it sets a rate: no ps has the rate, and the checkpoint's
 * backlog lists it. */
TEST(a_rate_that_was_being_set_is_set_by_the_next_client)
{
    struct run run = {.row = 0};
    const float zeros[N_W] = {0};
    open_run(&run);
    struct writing operation;
    writing_begin_rate(&operation, run.crew.c, run.w, 0.5F);
    struct writing table;
    writing_begin_rate(&table, run.crew.c, (struct cox_variable *)run.t, 2);
    assert_code(0, cox_variable_assign(run.crew.c, run.w, zeros, sizeof(zeros)));
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    writing_end(&operation, true);
    writing_end(&table, true);
    crew_close(&run.crew);

    open_run(&run);
    train(&run, 2, 0.5F);
    assert_trained(&run);
    crew_close(&run.crew);
}

TEST(another_specification_names_the_fields_that_differ)
{
    struct run run = {.row = 0};
    struct cox_variable *w;
    struct cox_variable_spec spec = dense_spec("w", 0.5F);
    open_run(&run);
    set_rates(&run, 0.5F, 0.5F);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    crew_close(&run.crew);

    open_crew(&run);
    assert_code(COX_ECONFLICT, cox_variable_create(run.crew.c, &spec, &w));
    assert_error_names("optimizer.learning_rate is 0.5, not 1;");
    assert_error_names("cox_variable_set_rate");
    spec = dense_spec("w", 1);
    spec.optimizer.kind = COX_MOMENTUM;
    spec.shape[0] = 6;
    assert_code(COX_ECONFLICT, cox_variable_create(run.crew.c, &spec, &w));
    assert_error_names("shape is [6], not [4]");
    assert_error_names("optimizer.kind is momentum, not SGD");
    assert_error_names("optimizer.momentum is 0.9, not 0");
    spec = dense_spec("w", 1);
    assert_code(
        /* the first client's specification, although the rate was changed later */
        0, cox_variable_create(run.crew.c, &spec, &w));
    crew_close(&run.crew);
}

TEST(a_rate_that_the_rule_does_not_take_is_refused)
{
    struct run run = {.row = 0};
    struct cox_variable *other;
    struct cox_schedule endless = {COX_SCHEDULE_LINEAR, 0, 0, 0, 0, 0};
    struct cox_variable_spec spec = dense_spec("other", 0);
    open_run(&run);
    assert_code(COX_EINVAL, cox_variable_set_rate(run.crew.c, run.w, -1, NULL));
    assert_error_names("'w': learning_rate is -1");
    assert_code(COX_EINVAL, cox_variable_set_rate(run.crew.c, run.w, 1, &endless));
    assert_error_names("schedule.steps");
    endless.kind = 77;
    assert_code(COX_EINVAL, cox_table_set_rate(run.crew.c, run.t, 1, &endless));
    assert_code(COX_EINVAL, cox_table_set_rate(run.crew.c, NULL, 1, NULL));
    spec.optimizer.kind = COX_OPTIMIZER_NONE;
    assert_code(0, cox_variable_create(run.crew.c, &spec, &other));
    assert_code(COX_EINVAL, cox_variable_set_rate(run.crew.c, other, 1, NULL));
    assert_error_names("without optimizer");
    spec.name = "ftrl";
    spec.optimizer.kind = COX_FTRL;
    spec.optimizer.learning_rate = 1;
    assert_code(0, cox_variable_create(run.crew.c, &spec, &other));
    assert_code(COX_EINVAL, cox_variable_set_rate(run.crew.c, other, 1, NULL));
    assert_error_names("FTRL");
    train(&run, 1, 1);
    assert_trained(&run);
    crew_close(&run.crew);
}
