/* Learning rates follow the closures of the run, for any number of ps, and even if
 * processes die. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* ---- every optimizer with every schedule, on one ps and on several */

enum { KEYS = 16, ROWS = 14, DIM = 2, STEPS = 18, CASES_MAX = 64 };

static const struct cox_optimizer optimizers[] = {
    {.kind = COX_SGD, .weight_decay = 0.01F},
    {.kind = COX_MOMENTUM},
    {.kind = COX_NESTEROV},
    {.kind = COX_ADAGRAD, .initial_accumulator = 0.1F},
    {.kind = COX_ROWWISE_ADAGRAD},
    {.kind = COX_RMSPROP},
    {.kind = COX_ADADELTA},
    {.kind = COX_ADAM, .clip_value = 0.5F},
    {.kind = COX_ADAMW, .weight_decay = 0.01F},
    {.kind = COX_FTRL, .beta = 1, .l1 = 0.01F},
};

static const struct cox_schedule schedules[] = {
    {.kind = COX_SCHEDULE_CONSTANT},
    {.kind = COX_SCHEDULE_LINEAR, .end_rate = 0.01F, .steps = 12, .warmup_steps = 3},
    {.kind = COX_SCHEDULE_POLYNOMIAL, .end_rate = 0.01F, .power = 2, .steps = 12},
    {.kind = COX_SCHEDULE_EXPONENTIAL, .gamma = 0.5F, .steps = 5, .warmup_steps = 2},
    {.kind = COX_SCHEDULE_STEP, .gamma = 0.5F, .steps = 4},
    {.kind = COX_SCHEDULE_COSINE, .end_rate = 0.01F, .steps = 12, .warmup_steps = 1},
};

struct trained {
    int64_t n;
    char names[CASES_MAX][64];
    struct cox_table *tables[CASES_MAX];
    struct cox_variable *dense[CASES_MAX];
    float rows[CASES_MAX][KEYS][DIM];
    float values[CASES_MAX][ROWS][DIM];
};

static void create_case(struct crew *crew, struct trained *t, size_t o, size_t s)
{
    char name[32];
    struct cox_table_spec table = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    (void)snprintf(t->names[t->n], sizeof(t->names[0]), "optimizer %zu, schedule %zu",
                   o, s);
    table.name = name;
    table.dim = DIM;
    table.optimizer = optimizers[o];
    table.optimizer.learning_rate = 0.1F;
    table.optimizer.schedule = schedules[s];
    dense.name = name;
    dense.dtype = COX_F32;
    dense.rank = 2;
    dense.shape[0] = ROWS;
    dense.shape[1] = DIM;
    dense.shards = 7;
    dense.optimizer = table.optimizer;
    (void)snprintf(name, sizeof(name), "d%d", (int)t->n);
    assert_code(0, cox_variable_create(crew->c, &dense, &t->dense[t->n]));
    (void)snprintf(name, sizeof(name), "t%d", (int)t->n);
    table.optimizer.clip_norm = 0.7F; /* clips whole rows: one ps has all of a row */
    assert_code(0, cox_table_create(crew->c, &table, &t->tables[t->n]));
    t->n++;
}

static void create_cases(struct crew *crew, struct trained *t)
{
    t->n = 0;
    for (size_t o = 0; o < sizeof(optimizers) / sizeof(*optimizers); o++) {
        for (size_t s = 0; s < sizeof(schedules) / sizeof(*schedules); s++) {
            if (optimizers[o].kind != COX_FTRL || s == 0) {
                create_case(crew, t, o, s);
            }
        }
    }
}

static void schedule_step(struct crew *crew, int64_t i, int64_t n)
{
    struct cox_value args[] = {COX_SCALAR("i", COX_I64, &i),
                               COX_SCALAR("n", COX_I64, &n)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = 2;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, "train"), &call, NULL));
}

/* Trains with one worker and one slot, so that each ps gets the steps in order. */
static void train(int n_ps, struct trained *t)
{
    struct crew crew;
    uint64_t keys[KEYS];
    crew_open(&crew, n_ps, 1, "rates", NULL);
    create_cases(&crew, t);
    for (int64_t i = 0; i < STEPS; i++) {
        schedule_step(&crew, i, t->n);
    }
    assert_code(0, cox_join(crew.c, -1));
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i;
    }
    for (int64_t k = 0; k < t->n; k++) {
        assert_code(0, cox_table_read(crew.c, t->tables[k], keys, KEYS, t->rows[k][0]));
        assert_code(0, cox_variable_read(crew.c, t->dense[k], t->values[k],
                                         sizeof(t->values[k])));
    }
    crew_close(&crew);
}

static void assert_same(const char *name, const char *what, const float *a,
                        const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double most = fabs((double)a[i]) > 1 ? fabs((double)a[i]) : 1;
        if (!(fabs((double)a[i] - (double)b[i]) <= 1e-6 * most)) {
            fail_msg("%s, %s: number %zu is %.9g, not %.9g", name, what, i,
                     (double)b[i], (double)a[i]);
        }
    }
}

TEST(any_number_of_ps_trains_the_same)
{
    static struct trained one;
    static struct trained several;
    static const int n_ps[] = {3, 7};
    train(1, &one);
    for (size_t i = 0; i < sizeof(n_ps) / sizeof(*n_ps); i++) {
        train(n_ps[i], &several);
        for (int64_t k = 0; k < one.n; k++) {
            assert_same(one.names[k], "table", one.rows[k][0], several.rows[k][0],
                        (size_t)KEYS * DIM);
            assert_same(one.names[k], "dense", one.values[k][0], several.values[k][0],
                        (size_t)ROWS * DIM);
        }
    }
}

/* ---- losses: row i shows the rate of the closure that pushed it */

enum { N_PS = 2, MARKS_MAX = 24 };

struct marked {
    struct crew crew;
    struct cox_table *rates;
};

static void marked_open(struct marked *m, const char *dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    options.checkpoint_dir = coxi_test_path(dir);
    options.checkpoint_incremental = 5;
    crew_open(&m->crew, N_PS, 2, "rates", &options);
    spec.name = "rates";
    spec.dim = 1;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    spec.optimizer.schedule.kind = COX_SCHEDULE_STEP;
    spec.optimizer.schedule.gamma = 0.5F;
    spec.optimizer.schedule.steps = 1;
    assert_code(0, cox_table_create(m->crew.c, &spec, &m->rates));
}

static void mark(struct marked *m, int64_t key, const int64_t *at)
{
    int64_t step = at != NULL ? *at : 0;
    struct cox_value args[] = {COX_SCALAR("key", COX_I64, &key),
                               COX_SCALAR("at", COX_I64, &step)};
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = at != NULL ? 2 : 1;
    assert_code(0,
                cox_schedule(m->crew.c, crew_function(&m->crew, "mark"), &call, NULL));
}

static float rate_of(struct marked *m, uint64_t key)
{
    float rate;
    assert_code(0, cox_table_read(m->crew.c, m->rates, &key, 1, &rate));
    return rate;
}

/* Asserts that the first n closures of the run had the rates 1, 1/2, 1/4 ... */
static void assert_marks(struct marked *m, uint64_t n)
{
    assert_code(0, cox_join(m->crew.c, -1));
    for (uint64_t i = 0; i < MARKS_MAX; i++) {
        assert_true(rate_of(m, i) == (i < n ? ldexpf(1, -(int)i) : 0));
    }
}

static uint64_t recovered(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    assert_code(0, cox_stats(crew->c, &stats));
    return stats.ps_recovered;
}

/* Kills ps `index`, and returns when it is restored, because reads wait for that. */
static void lose_ps(struct marked *m, int index)
{
    uint64_t before = recovered(&m->crew);
    crew_kill(crew_ps_process(&m->crew, index));
    while (recovered(&m->crew) == before) {
        for (uint64_t i = 0; i < MARKS_MAX; i++) {
            (void)rate_of(m, i);
        }
    }
}

TEST(rates_are_the_closures_own_whatever_dies)
{
    struct marked m;
    uint64_t n = 0;
    marked_open(&m, "checkpoints");
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            mark(&m, (int64_t)n++, NULL);
        }
        crew_kill(crew_step_process(&m.crew, round % 2));
        assert_marks(&m, n);
        assert_code(0, cox_checkpoint_save(m.crew.c, NULL, NULL));
        mark(&m, (int64_t)n++, NULL);
        assert_marks(&m, n);
        lose_ps(&m, round % N_PS); /* it is restored, and one closure is replayed */
        assert_marks(&m, n);
    }
    crew_close(&m.crew);
}

TEST(a_client_that_goes_on_goes_on_with_the_rates)
{
    struct marked m;
    const int64_t three = 3;
    marked_open(&m, "resumed");
    for (int64_t i = 0; i < 6; i++) {
        mark(&m, i, NULL);
    }
    assert_marks(&m, 6);
    assert_code(0, cox_checkpoint_save(m.crew.c, NULL, NULL));
    crew_close(&m.crew);
    marked_open(&m, "resumed");
    assert_marks(&m, 6);
    for (int64_t i = 6; i < 9; i++) {
        mark(&m, i, NULL);
    }
    assert_marks(&m, 9);
    mark(&m, 100, &three); /* the step sets its place in the schedules itself */
    assert_code(0, cox_join(m.crew.c, -1));
    assert_true(rate_of(&m, 100) == 0.125F);
    crew_close(&m.crew);
}
