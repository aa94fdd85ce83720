/* The update rules on shards and tables, compared with PyTorch's and Keras's results
 * for the same gradients (optimizer_golden.inc); and cases that those do not cover. */
#include "common/optimizer.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "common/initializer.h"
#include "common/rand.h"
#include "common/schedule.h"
#include "ps/dense.h"
#include "ps/table.h"
#include "tests/ps/rows.h"
#include "tests/ps/subject.h"
#include "tests/test.h"

#include "tests/ps/optimizer_golden.inc"

enum { N_GOLDENS = sizeof(goldens) / sizeof(*goldens) };

/* ---- against others */

/* Asserts equality within 1e-6 of the largest value so far. */
static void assert_close(const char *name, int step, double expected, float value,
                         double *most)
{
    *most = fmax(*most, fabs(expected));
    double error = fabs(expected - (double)value);
    if (!(error <= 1e-6 * *most)) {
        fail_msg("%s, step %d: %.9g is not %.9g", name, step, (double)value, expected);
    }
}

static int kept_index(int done)
{
    for (int i = 0; i < KEPT; i++) {
        if (kept_steps[i] == done) {
            return i;
        }
    }
    return -1;
}

static void compare_dense(const struct golden *golden)
{
    struct coxi_shard shard = {.count = VALUES};
    struct coxi_variable v = {.name = golden->name,
                              .dtype = COX_F32,
                              .rank = 1,
                              .shape = {VALUES},
                              .shards = &shard,
                              .n_shards = 1,
                              .optimizer = golden->optimizer};
    struct coxi_dense *dense;
    double most[VALUES];
    if (golden->optimizer.kind == COXI_OPTIMIZER_ROWWISE_ADAGRAD) {
        v.rank = 2;
        v.shape[0] = shard.count = 3;
        v.shape[1] = 2;
    }
    assert_code(0, coxi_variable_check(&v, 1));
    assert_code(0, coxi_dense_new(&v, &shard, NULL, &dense));
    update_rows(dense, 0, shard.count, COXI_OP_ASSIGN, dense_start);
    for (int i = 0; i < VALUES; i++) {
        most[i] = fabs((double)dense_start[i]);
    }
    for (int step = 0; step < STEPS; step++) {
        float w[VALUES];
        update_rows(dense, 0, shard.count, COXI_OP_GRADIENT, dense_gradients[step]);
        read_rows(dense, &v, 0, shard.count, w);
        int kept = kept_index(step + 1);
        for (int i = 0; kept >= 0 && i < VALUES; i++) {
            assert_close(golden->name, step + 1, golden->dense[kept][i], w[i],
                         &most[i]);
        }
    }
    assert_int_equal(STEPS, coxi_dense_step(dense));
    coxi_dense_free(dense);
}

TEST(dense_variables_go_where_others_take_them)
{
    for (size_t i = 0; i < N_GOLDENS; i++) {
        compare_dense(&goldens[i]);
    }
}

/* Pushes the rows of a step in one update; returns how many. */
static size_t push_rows(struct coxi_table *table, int step,
                        const float (*gradients)[DIM])
{
    struct coxi_row *rows[ROWS];
    uint64_t keys[ROWS];
    struct coxi_table_change change = {
        .step = (uint64_t)step, .keys = keys, .values = gradients[0], .rows = rows};
    size_t n = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        if ((rows_touched[step] >> row & 1) != 0) {
            keys[n++] = row;
        }
    }
    change.n = n;
    assert_code(0, coxi_table_resolve(table, &change));
    coxi_table_update(table, &change);
    return n;
}

static void compare_rows(const struct golden *golden)
{
    const struct coxi_variable v = {
        .name = golden->name,
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {DIM},
        .optimizer = golden->optimizer,
        .initializer = {.kind = COXI_INIT_CONSTANT, .a = row_start}};
    static const uint64_t keys[ROWS] = {0, 1, 2, 3};
    struct coxi_table *table;
    double most[ROWS * DIM];
    size_t at = 0;
    assert_code(0, coxi_variable_check(&v, 1));
    assert_code(0, coxi_table_new(&v, NULL, &table));
    for (int i = 0; i < ROWS * DIM; i++) {
        most[i] = (double)row_start;
    }
    for (int step = 0; step < STEPS; step++) {
        float w[ROWS * DIM];
        at += push_rows(table, step, row_gradients + at);
        coxi_table_pull(table, keys, ROWS, w);
        int kept = kept_index(step + 1);
        for (int i = 0; kept >= 0 && i < ROWS * DIM; i++) {
            assert_close(golden->name, step + 1, golden->rows[kept][i], w[i], &most[i]);
        }
    }
    assert_int_equal(STEPS, coxi_table_step(table));
    coxi_table_free(table);
}

TEST(rows_touched_now_and_then_go_where_others_take_them)
{
    for (size_t i = 0; i < N_GOLDENS; i++) {
        compare_rows(&goldens[i]);
    }
}

TEST(schedules_give_the_rates_that_others_give)
{
    for (size_t i = 0; i < sizeof(golden_schedules) / sizeof(*golden_schedules); i++) {
        const struct golden_schedule *golden = &golden_schedules[i];
        for (size_t k = 0; k < RATES; k++) {
            float rate = coxi_learning_rate(&golden->schedule, 0.1F, rate_steps[k]);
            if (!(fabs(golden->rates[k] - (double)rate) <= 1e-7 * golden->rates[k])) {
                fail_msg("%s, step %d: %.9g is not %.9g", golden->name,
                         (int)rate_steps[k], (double)rate, golden->rates[k]);
            }
        }
    }
}

/* ---- what others say nothing of */

static const struct coxi_optimizer sgd = {.kind = COXI_OPTIMIZER_SGD,
                                          .learning_rate = 1};

TEST(a_gradient_of_zero_on_no_state_changes_nothing)
{
    static const struct coxi_optimizer bare[] = {
        {.kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1},
        {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD, .learning_rate = 1},
        {.kind = COXI_OPTIMIZER_FTRL, .learning_rate = 1},
        {.kind = COXI_OPTIMIZER_ADAM, .learning_rate = 1, .epsilon = 1e-30F},
    };
    const float g[2] = {0};
    for (size_t i = 0; i < sizeof(bare) / sizeof(*bare); i++) {
        float w[2];
        struct subject s;
        subject_open(&s, &bare[i], 1, 2);
        push(&s, g);
        read_rows(s.dense, &s.variable, 0, 1, w);
        assert_true(w[0] == 0 && w[1] == 0);
        coxi_dense_free(s.dense);
    }
}

/* The gradient's square is 0 in F32, and so is the divisor of the weight. */
TEST(ftrl_stays_finite_where_squares_vanish)
{
    const struct coxi_optimizer ftrl = {.kind = COXI_OPTIMIZER_FTRL,
                                        .learning_rate = 1};
    const float g[1] = {1e-30F};
    float w[1];
    struct subject s;
    subject_open(&s, &ftrl, 1, 1);
    push(&s, g);
    read_rows(s.dense, &s.variable, 0, 1, w);
    assert_true(w[0] == 0);
    coxi_dense_free(s.dense);
}

/* With equal gradients each step moves a value by the rate, from the first step on,
 * because of Adam's corrections. */
TEST(a_row_of_adam_counts_its_own_steps)
{
    const struct coxi_variable v = {.name = "t",
                                    .kind = COXI_KIND_TABLE,
                                    .dtype = COX_F32,
                                    .rank = 1,
                                    .shape = {1},
                                    .optimizer = {.kind = COXI_OPTIMIZER_ADAM,
                                                  .learning_rate = 0.5F,
                                                  .epsilon = 1e-12F,
                                                  .beta1 = 0.9F,
                                                  .beta2 = 0.999F}};
    struct coxi_table *table;
    struct coxi_row *rows[2];
    const uint64_t keys[2] = {1, 2};
    const float g[1] = {7};
    float w[2];
    assert_code(0, coxi_table_new(&v, NULL, &table));
    struct coxi_table_change both = {.keys = keys, .n = 2, .values = g, .rows = rows};
    struct coxi_table_change first = {.keys = keys, .n = 1, .values = g, .rows = rows};
    struct coxi_table_change second = {
        .keys = keys + 1, .n = 1, .values = g, .rows = rows + 1};
    struct coxi_table_change none = {.n = 0};
    assert_code(0, coxi_table_resolve(table, &both));
    for (int i = 0; i < 50; i++) {
        coxi_table_update(table, &first);
    }
    coxi_table_update(table, &second);
    coxi_table_update(table, &none); /* no step */
    assert_int_equal(51, coxi_table_step(table));
    coxi_table_pull(table, keys, 2, w);
    assert_true(fabsf(w[0] + 25) < 1e-4F);
    assert_true(fabsf(w[1] + 0.5F) < 1e-6F);
    coxi_table_free(table);
}

TEST(adam_goes_on_where_its_count_of_steps_ends)
{
    struct coxi_optimizer adam = {.kind = COXI_OPTIMIZER_ADAM,
                                  .learning_rate = 1,
                                  .epsilon = 1e-8F,
                                  .beta1 = 0.9F,
                                  .beta2 = 0.999F};
    struct coxi_optimizer_step step;
    const float last = 16777216; /* 2^24: adding 1 gives the same float */
    float kept[3] = {1, 1, last};
    float w[1] = {0};
    const float g[1] = {1};
    coxi_optimizer_begin(&adam, 0, 0, &step);
    coxi_optimizer_row(&step, w, kept, g, 1);
    assert_true(kept[2] == last);
    assert_true(fabsf(w[0] + 1) < 1e-6F);
}

/* The user means a share of 0.00001; 1 - 0.99999F differs from it by about 1 %. */
TEST(averages_take_the_share_that_was_meant)
{
    const struct coxi_optimizer adam = {.kind = COXI_OPTIMIZER_ADAM,
                                        .learning_rate = 1,
                                        .epsilon = 1e-8F,
                                        .beta1 = 0.9F,
                                        .beta2 = 0.99999F};
    const struct coxi_optimizer rmsprop = {.kind = COXI_OPTIMIZER_RMSPROP,
                                           .learning_rate = 1,
                                           .epsilon = 1e-8F,
                                           .rho = 0.99999F};
    struct coxi_optimizer_step step;
    float kept[3] = {0};
    float w[1] = {0};
    const float g[1] = {1};
    coxi_optimizer_begin(&adam, 0, 0, &step);
    coxi_optimizer_row(&step, w, kept, g, 1);
    assert_true(fabs((double)kept[0] - 0.1) < 1e-7 * 0.1);
    assert_true(fabs((double)kept[1] - 1e-5) < 1e-7 * 1e-5);
    kept[0] = 0;
    coxi_optimizer_begin(&rmsprop, 0, 0, &step);
    coxi_optimizer_row(&step, w, kept, g, 1);
    assert_true(fabs((double)kept[0] - 1e-5) < 1e-7 * 1e-5);
}

/* ---- blocks and pieces */

enum { LONG_ROWS = 3, LONG = 2500, ALL = LONG_ROWS * LONG };

static void fill_long(float *values, uint64_t seed)
{
    for (size_t i = 0; i < ALL; i++) {
        values[i] = (float)(coxi_rand_unit(&seed) * 2 - 1);
    }
}

TEST(clipping_and_decay_reach_every_value)
{
    static float start[ALL];
    static float g[ALL];
    static float w[ALL];
    struct coxi_optimizer o = sgd;
    struct subject s;
    o.learning_rate = 0.5F;
    o.clip_value = 0.25F;
    o.weight_decay = 0.125F;
    fill_long(start, 1);
    fill_long(g, 2);
    subject_open(&s, &o, LONG_ROWS, LONG);
    update_rows(s.dense, 0, LONG_ROWS, COXI_OP_ASSIGN, start);
    push(&s, g);
    read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
    for (size_t i = 0; i < ALL; i++) {
        float clipped = fminf(fmaxf(g[i], -0.25F), 0.25F);
        float expected = start[i] - 0.5F * (clipped + 0.125F * start[i]);
        assert_true(fabsf(w[i] - expected) < 1e-6F);
    }
    coxi_dense_free(s.dense);
}

/* Long variables are updated in pieces and blocks, with the same result as short
 * ones. */
TEST(long_variables_go_where_short_ones_go)
{
    enum { SHORT = 50 };
    static float g[ALL];
    static float w[ALL];
    fill_long(g, 6);
    for (uint32_t kind = COXI_OPTIMIZER_SGD; kind < COXI_OPTIMIZER_FTRL; kind++) {
        struct coxi_optimizer o = goldens[0].optimizer;
        struct subject s;
        for (size_t i = 0; i < N_GOLDENS && o.kind != kind; i++) {
            o = goldens[i].optimizer;
        }
        if (kind == COXI_OPTIMIZER_ROWWISE_ADAGRAD) {
            continue; /* this rule depends on the rows of the gradient */
        }
        o.weight_decay = 0.5F;
        o.clip_value = 0.75F;
        subject_open(&s, &o, LONG_ROWS, LONG);
        push(&s, g);
        push(&s, g);
        read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
        coxi_dense_free(s.dense);
        for (size_t at = 0; at < ALL; at += SHORT) {
            float few[SHORT];
            subject_open(&s, &o, 1, SHORT);
            push(&s, g + at);
            push(&s, g + at);
            read_rows(s.dense, &s.variable, 0, 1, few);
            assert_memory_equal(few, w + at, sizeof(few));
            coxi_dense_free(s.dense);
        }
    }
}

TEST(a_dense_gradient_is_clipped_by_the_norm_of_all_of_it)
{
    static float g[ALL];
    static float w[ALL];
    struct coxi_optimizer o = sgd;
    struct subject s;
    double squares = 0;
    o.clip_norm = 3;
    fill_long(g, 3);
    subject_open(&s, &o, LONG_ROWS, LONG);
    push(&s, g);
    read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
    for (size_t i = 0; i < ALL; i++) {
        squares += (double)w[i] * (double)w[i];
        assert_true(w[i] * g[i] <= 0);
    }
    assert_true(fabs(sqrt(squares) - 3) < 1e-5);
    /* A gradient below the norm is not clipped. */
    for (size_t i = 0; i < ALL; i++) {
        g[i] *= 1e-3F;
    }
    update_rows(s.dense, 0, LONG_ROWS, COXI_OP_ASSIGN, memset(w, 0, sizeof(w)));
    push(&s, g);
    read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
    for (size_t i = 0; i < ALL; i++) {
        assert_true(w[i] == -g[i]);
    }
    coxi_dense_free(s.dense);
}

static void compare_long_rows(float weight_decay)
{
    static float start[ALL];
    static float g[ALL];
    static float w[ALL];
    const struct coxi_optimizer o = {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD,
                                     .learning_rate = 0.5F,
                                     .initial_accumulator = 0.25F,
                                     .weight_decay = weight_decay};
    struct subject s;
    fill_long(start, 4);
    fill_long(g, 5);
    subject_open(&s, &o, LONG_ROWS, LONG);
    update_rows(s.dense, 0, LONG_ROWS, COXI_OP_ASSIGN, start);
    push(&s, g);
    read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
    float *sums = read_array(s.dense, 1, LONG_ROWS * sizeof(float));
    for (size_t row = 0; row < LONG_ROWS; row++) {
        double sum = 0;
        for (size_t i = row * LONG; i < (row + 1) * LONG; i++) {
            double full = (double)g[i] + (double)weight_decay * (double)start[i];
            sum += full * full;
        }
        sum = 0.25 + sum / LONG;
        assert_true(fabs(sum - (double)sums[row]) < 1e-6);
        for (size_t i = row * LONG; i < (row + 1) * LONG; i++) {
            double full = (double)g[i] + (double)weight_decay * (double)start[i];
            double expected = (double)start[i] - 0.5 * full / sqrt(sum);
            assert_true(fabs(expected - (double)w[i]) < 1e-6);
        }
    }
    free(sums);
    coxi_dense_free(s.dense);
}

TEST(rows_of_several_blocks_have_one_accumulator)
{
    compare_long_rows(0);
    compare_long_rows(0.5F);
}

/* ---- state and threads */

static void assert_layout(enum coxi_optimizer_kind kind, enum coxi_kind of,
                          size_t n_slots, size_t n_row, const char *names)
{
    char found[128] = "";
    const struct coxi_variable v = {
        .kind = of, .optimizer = {.kind = kind, .initial_accumulator = 0.5F}};
    struct coxi_state_layout layout = coxi_optimizer_layout(&v);
    assert_int_equal(n_slots, layout.n_slots);
    assert_int_equal(n_row, layout.n_row);
    for (size_t i = 0; i < n_slots + n_row; i++) {
        strcat(strcat(found, layout.states[i].name), " ");
        assert_true(layout.states[i].start == (i == 0 ? 0.5F : 0));
    }
    assert_string_equal(names, found);
}

TEST(optimizers_tell_their_state)
{
    const enum coxi_kind t = COXI_KIND_TABLE;
    assert_layout(COXI_OPTIMIZER_NONE, t, 0, 0, "");
    assert_layout(COXI_OPTIMIZER_SGD, t, 0, 0, "");
    assert_layout(COXI_OPTIMIZER_ADAGRAD, t, 1, 0, "adagrad ");
    assert_layout(COXI_OPTIMIZER_MOMENTUM, t, 1, 0, "momentum ");
    assert_layout(COXI_OPTIMIZER_NESTEROV, t, 1, 0, "momentum ");
    assert_layout(COXI_OPTIMIZER_ROWWISE_ADAGRAD, t, 0, 1, "rowwise_adagrad ");
    assert_layout(COXI_OPTIMIZER_ADADELTA, t, 2, 0,
                  "adadelta_squares adadelta_deltas ");
    assert_layout(COXI_OPTIMIZER_RMSPROP, t, 1, 0, "rmsprop ");
    assert_layout(COXI_OPTIMIZER_ADAM, t, 2, 1, "adam_m adam_v adam_t ");
    assert_layout(COXI_OPTIMIZER_ADAMW, t, 2, 1, "adam_m adam_v adam_t ");
    assert_layout(COXI_OPTIMIZER_ADAM, COXI_KIND_DENSE, 2, 0, "adam_m adam_v ");
    assert_layout(COXI_OPTIMIZER_FTRL, t, 2, 0, "ftrl_n ftrl_z ");
}

enum { N_THREADS = 3, PUSHES = 40 };

static void *push_ones(void *arg)
{
    static _Thread_local float ones[ALL];
    for (size_t i = 0; i < ALL; i++) {
        ones[i] = 1;
    }
    for (int i = 0; i < PUSHES; i++) {
        push(arg, ones);
    }
    return NULL;
}

/* Every row gets the same gradients of 1, so their sum does not depend on the order. */
TEST(gradients_of_many_threads_all_count)
{
    static const struct coxi_optimizer optimizers[] = {
        {.kind = COXI_OPTIMIZER_ROWWISE_ADAGRAD, .learning_rate = 1},
        {.kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1},
    };
    static float w[ALL];
    double expected = 0;
    for (int i = 1; i <= N_THREADS * PUSHES; i++) {
        expected -= 1 / sqrt(i);
    }
    for (size_t o = 0; o < 2; o++) {
        pthread_t threads[N_THREADS];
        struct subject s;
        subject_open(&s, &optimizers[o], LONG_ROWS, LONG);
        for (int i = 0; i < N_THREADS; i++) {
            assert_int_equal(0, pthread_create(&threads[i], NULL, push_ones, &s));
        }
        for (int i = 0; i < N_THREADS; i++) {
            assert_int_equal(0, pthread_join(threads[i], NULL));
        }
        read_rows(s.dense, &s.variable, 0, LONG_ROWS, w);
        for (size_t i = 0; i < ALL; i++) {
            assert_true(fabs(expected - (double)w[i]) < 1e-4);
        }
        assert_int_equal(N_THREADS * PUSHES, coxi_dense_step(s.dense));
        coxi_dense_free(s.dense);
    }
}

/* ---- schedules */

TEST(a_warm_up_rises_from_0_and_the_schedule_begins_where_it_ends)
{
    const struct coxi_schedule constant = {.warmup_steps = 4};
    const struct coxi_schedule linear = {
        .kind = COXI_SCHEDULE_LINEAR, .steps = 10, .warmup_steps = 4};
    for (uint64_t step = 0; step < 4; step++) {
        assert_true(coxi_learning_rate(&constant, 2, step) == 0.5F * (float)step);
        assert_true(coxi_learning_rate(&linear, 2, step) == 0.5F * (float)step);
    }
    assert_true(coxi_learning_rate(&constant, 2, 4) == 2);
    assert_true(coxi_learning_rate(&constant, 2, UINT64_MAX) == 2);
    assert_true(coxi_learning_rate(&linear, 2, 4) == 2);
    assert_true(coxi_learning_rate(&linear, 2, 9) == 1);
    assert_true(coxi_learning_rate(&linear, 2, 14) == 0);
    assert_true(coxi_learning_rate(&linear, 2, UINT64_MAX) == 0);
}

TEST(an_update_takes_the_rate_of_its_step)
{
    const float ones[4] = {1, 1, 1, 1};
    struct coxi_optimizer o = sgd;
    struct subject s;
    float w[4];
    o.schedule =
        (struct coxi_schedule){.kind = COXI_SCHEDULE_STEP, .gamma = 0.5F, .steps = 2};
    subject_open(&s, &o, 2, 2);
    for (int i = 0; i < 5; i++) {
        push(&s, ones);
    }
    read_rows(s.dense, &s.variable, 0, 2, w);
    for (int i = 0; i < 4; i++) {
        assert_true(w[i] == -(1 + 1 + 0.5F + 0.5F + 0.25F));
    }
    /* A gradient counts even if it changes only rows of other shards; other updates do
     * not count. */
    uint64_t version = coxi_dense_version(s.dense);
    update_rows(s.dense, 0, 0, COXI_OP_GRADIENT, ones);
    assert_int_equal(6, coxi_dense_step(s.dense));
    /* so that an incremental checkpoint has the new count */
    assert_true(coxi_dense_version(s.dense) > version);
    update_rows(s.dense, 0, 2, COXI_OP_ADD, ones);
    update_rows(s.dense, 0, 0, COXI_OP_ADD, ones);
    assert_int_equal(6, coxi_dense_step(s.dense));
    /* A gradient has the rate of its own step, independent of the shard's count. */
    const struct coxi_dense_rows rows = {NULL, 0, 2};
    coxi_dense_update(s.dense, &rows, COXI_OP_GRADIENT, 2, COX_F32, ones);
    read_rows(s.dense, &s.variable, 0, 2, w);
    assert_true(w[0] == -(1 + 1 + 0.5F + 0.5F + 0.25F) + 1 - 0.5F);
    coxi_dense_free(s.dense);
}
