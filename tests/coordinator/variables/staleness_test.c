/* Two steps pull the same values and commit one after the other: the second one's
 * gradients have missed one update. */
#include <math.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { N_PS = 2, N_WORKERS = 2, KEY = 7 };

struct run {
    struct crew crew;
    struct cox_variable *w; /* a row on each ps */
    struct cox_table *t;
};

/* The delay compensation of all variables. */
static float compensation;

static struct cox_variable_spec w_spec(uint32_t action, uint64_t max)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "w";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = N_PS;
    spec.shards = N_PS;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    spec.staleness_action = action;
    spec.staleness_max = max;
    spec.delay_compensation = compensation;
    return spec;
}

static struct cox_table_spec t_spec(uint32_t action, uint64_t max)
{
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = "t";
    spec.dim = 1;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    spec.staleness_action = action;
    spec.staleness_max = max;
    spec.delay_compensation = compensation;
    return spec;
}

static void open_crew(struct run *run)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("checkpoints");
    crew_open(&run->crew, N_PS, N_WORKERS, "stale", &options);
}

static void open_run(struct run *run, uint32_t action, uint64_t max)
{
    const struct cox_variable_spec w = w_spec(action, max);
    const struct cox_table_spec t = t_spec(action, max);
    open_crew(run);
    assert_code(0, cox_variable_create(run->crew.c, &w, &run->w));
    assert_code(0, cox_table_create(run->crew.c, &t, &run->t));
}

/* Lets a step on each worker pull; then the first commits, and after it the second. */
static void train_both(struct run *run)
{
    struct crew_hold holds[N_WORKERS];
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        crew_hold_on(&holds[i], &run->crew, "hold_and_train", i + 1, true);
    }
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        crew_hold_wait(&holds[i]);
    }
    for (uint32_t i = 0; i < N_WORKERS; i++) {
        crew_hold_end(&holds[i]);
        assert_code(0, cox_future_wait(holds[i].future, -1));
        cox_future_free(holds[i].future);
    }
}

static struct cox_staleness_counts counts(struct run *run, const char *name,
                                          uint32_t only_worker)
{
    struct cox_staleness_counts found = COX_STALENESS_COUNTS_INIT;
    assert_code(0, cox_staleness(run->crew.c, name, only_worker, &found));
    return found;
}

static void assert_counts(struct run *run, const char *name, uint32_t only_worker,
                          uint64_t n_fresh, uint64_t n_stale, uint64_t n_dropped)
{
    const struct cox_staleness_counts found = counts(run, name, only_worker);
    assert_int_equal(n_fresh, found.counts[0]);
    assert_int_equal(n_stale, found.counts[1]);
    assert_int_equal(n_fresh + n_stale, found.gradients);
    assert_int_equal(n_stale, found.sum);
    assert_int_equal(n_stale > 0 ? 1 : 0, found.max);
    assert_int_equal(n_dropped, found.dropped);
}

/* Asserts that all values are `value`. */
static void assert_values(struct run *run, float value)
{
    float w[N_PS];
    float row;
    const uint64_t key = KEY;
    assert_code(0, cox_variable_read(run->crew.c, run->w, w, sizeof(w)));
    assert_code(0, cox_table_read(run->crew.c, run->t, &key, 1, &row));
    assert_true(w[0] == value && w[1] == value && row == value);
}

TEST(staleness_of_two_steps_is_known_by_variable_and_by_worker)
{
    struct run run;
    open_run(&run, COX_STALENESS_APPLY, 0);
    assert_counts(&run, NULL, 0, 0, 0, 0);
    train_both(&run);
    assert_values(&run, -2);
    assert_counts(&run, "w", 0, N_PS, N_PS, 0);
    assert_counts(&run, "t", 0, 1, 1, 0);
    assert_counts(&run, NULL, 1, N_PS + 1, 0, 0);
    assert_counts(&run, NULL, 2, 0, N_PS + 1, 0);
    assert_counts(&run, NULL, 3, 0, 0, 0);
    assert_counts(&run, NULL, 0, N_PS + 1, N_PS + 1, 0);
    crew_close(&run.crew);
}

TEST(staleness_is_counted_once_where_a_closure_is_replayed)
{
    struct run run;
    open_run(&run, COX_STALENESS_APPLY, 0);
    train_both(&run);
    crew_kill(crew_ps_process(&run.crew, 0));
    assert_values(&run, -2); /* waits until the ps is back, and has all */
    const struct cox_staleness_counts w = counts(&run, "w", 0);
    assert_int_equal(2 * N_PS, w.gradients);
    crew_close(&run.crew);
}

TEST(stale_gradients_are_dropped_and_their_closures_are_done)
{
    struct run run;
    open_run(&run, COX_STALENESS_DROP, 0);
    train_both(&run);
    assert_values(&run, -1);
    assert_counts(&run, NULL, 1, N_PS + 1, 0, 0);
    assert_counts(&run, NULL, 2, 0, N_PS + 1, N_PS + 1);
    crew_close(&run.crew);
}

TEST(stale_gradients_are_scaled)
{
    struct run run;
    open_run(&run, COX_STALENESS_SCALE, 0);
    train_both(&run);
    assert_values(&run, -1.5F);
    assert_counts(&run, NULL, 0, N_PS + 1, N_PS + 1, 0);
    crew_close(&run.crew);
}

TEST(gradients_are_compensated_for_delays)
{
    struct run run;
    compensation = 0.25F;
    open_run(&run, COX_STALENESS_APPLY, 0);
    train_both(&run); /* the second gradient is 1 + 1 * 1 * (-1 - 0) / 4 */
    assert_values(&run, -1.75F);
    assert_counts(&run, NULL, 0, N_PS + 1, N_PS + 1, 0);
    crew_close(&run.crew);
    compensation = 0;
}

TEST(what_is_done_about_stale_gradients_outlives_ps_and_client)
{
    struct run run;
    open_run(&run, COX_STALENESS_DROP, 0);
    train_both(&run);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    crew_kill(crew_ps_process(&run.crew, 1));
    train_both(&run);
    assert_values(&run, -2);
    assert_code(0, cox_checkpoint_save(run.crew.c, NULL, NULL));
    crew_close(&run.crew);
    open_crew(&run);
    struct cox_variable_spec w = w_spec(COX_STALENESS_DROP, 1);
    assert_code(COX_ECONFLICT, cox_variable_create(run.crew.c, &w, &run.w));
    assert_error_names("staleness_max is 1, not 0");
    w = w_spec(COX_STALENESS_SCALE, 0);
    assert_code(COX_ECONFLICT, cox_variable_create(run.crew.c, &w, &run.w));
    assert_error_names("staleness_action is 2, not 1");
    w = w_spec(COX_STALENESS_DROP, 0);
    w.delay_compensation = 0.5F;
    assert_code(COX_ECONFLICT, cox_variable_create(run.crew.c, &w, &run.w));
    assert_error_names("delay_compensation is 0.5, not 0");
    w = w_spec(COX_STALENESS_DROP, 0);
    const struct cox_table_spec t = t_spec(COX_STALENESS_DROP, 0);
    assert_code(0, cox_variable_create(run.crew.c, &w, &run.w));
    assert_code(0, cox_table_create(run.crew.c, &t, &run.t));
    train_both(&run);
    assert_values(&run, -3);
    crew_close(&run.crew);
}

TEST(staleness_options_and_questions_that_make_no_sense_are_refused)
{
    struct run run;
    struct cox_variable *v;
    struct cox_staleness_counts found = COX_STALENESS_COUNTS_INIT;
    open_run(&run, COX_STALENESS_APPLY, 0);
    struct cox_variable_spec bad = w_spec(COX_STALENESS_APPLY, 1);
    bad.name = "bad";
    assert_code(COX_EINVAL, cox_variable_create(run.crew.c, &bad, &v));
    assert_error_names("staleness_max");
    bad.staleness_action = COX_STALENESS_SCALE + 1;
    assert_code(COX_EINVAL, cox_variable_create(run.crew.c, &bad, &v));
    bad.staleness_action = COX_STALENESS_DROP;
    bad.optimizer = (struct cox_optimizer)COX_OPTIMIZER_INIT;
    assert_code(COX_EINVAL, cox_variable_create(run.crew.c, &bad, &v));
    assert_error_names("optimizer");
    static const struct {
        float compensation;
        float clip_norm;
        uint32_t wire_dtype;
        uint32_t kind;
        const char *told;
    } refused[] = {{-1, 0, 0, COX_SGD, "from 0 on"},
                   {NAN, 0, 0, COX_SGD, "from 0 on"},
                   {INFINITY, 0, 0, COX_SGD, "from 0 on"},
                   {1, 1, 0, COX_SGD, "with clip_norm"},
                   {1, 0, COX_BF16, COX_SGD, "with a wire_dtype"},
                   {1, 0, 0, COX_ROWWISE_ADAGRAD, "with row-wise Adagrad"},
                   {1, 0, 0, COX_OPTIMIZER_NONE, "with an optimizer"}};
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        bad = w_spec(COX_STALENESS_APPLY, 0);
        bad.name = "bad";
        bad.delay_compensation = refused[i].compensation;
        bad.wire_dtype = refused[i].wire_dtype;
        bad.optimizer.kind = refused[i].kind;
        bad.optimizer.learning_rate = refused[i].kind == COX_OPTIMIZER_NONE ? 0 : 1;
        bad.optimizer.clip_norm = refused[i].clip_norm;
        assert_code(COX_EINVAL, cox_variable_create(run.crew.c, &bad, &v));
        assert_error_names("delay_compensation");
        assert_error_names(refused[i].told);
    }
    assert_code(COX_EINVAL, cox_staleness(run.crew.c, "w", 1, &found));
    assert_code(COX_EINVAL, cox_staleness(run.crew.c, NULL, 0, NULL));
    assert_code(COX_EINVAL, cox_staleness(NULL, NULL, 0, &found));
    assert_code(COX_ENOENT, cox_staleness(run.crew.c, "no such", 0, &found));
    assert_error_names("no such");
    found.size = 3;
    assert_code(COX_EINVAL, cox_staleness(run.crew.c, NULL, 0, &found));
    crew_close(&run.crew);
}

TEST(percentiles_of_staleness_are_the_ends_of_buckets)
{
    struct cox_staleness_counts h = COX_STALENESS_COUNTS_INIT;
    assert_int_equal(0, cox_staleness_percentile(&h, 50));
    assert_int_equal(0, cox_staleness_percentile(NULL, 50));
    h.gradients = 10;
    h.counts[0] = 5;
    h.counts[3] = 4;
    h.counts[6] = 1;
    h.max = 40;
    assert_int_equal(0, cox_staleness_percentile(&h, 0));
    assert_int_equal(0, cox_staleness_percentile(&h, 50));
    assert_int_equal(7, cox_staleness_percentile(&h, 51));
    assert_int_equal(7, cox_staleness_percentile(&h, 90));
    assert_int_equal(40, cox_staleness_percentile(&h, 100));
    h.counts[6] = 0;
    h.counts[COX_STALENESS_BUCKETS - 1] = 1;
    h.max = UINT64_MAX;
    assert_true(cox_staleness_percentile(&h, 99) == UINT64_MAX);
}
