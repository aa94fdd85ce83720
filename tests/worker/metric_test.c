/* Steps add to metrics; the values that these read as. */
#include "common/metric.h"

#include <math.h>
#include <string.h>

#include "tests/test.h"
#include "tests/worker/counted.h"
#include "tests/worker/counted_commits.h"

/* ---- what steps add */

static struct coxi_variable metric_of(const char *name, uint32_t kind, uint64_t n)
{
    return (struct coxi_variable){
        .name = name, .dtype = COX_F64, .rank = 1, .shape = {n}, .metric = kind};
}

/* Reads the metric from the ps, as a client does. */
static void read_metric(struct rig *rig, uint32_t id, double *ret)
{
    const struct coxi_variable *v = &rig->variables[id];
    const uint64_t ps = v->shards[0].ps;
    const struct coxi_pull_item item = {id, 0, v->shape[0], 0};
    struct coxi_psc_request request = {.into = ret,
                                       .into_len = v->shape[0] * sizeof(double)};
    struct coxi_message message = {.kind = COXI_PULL};
    message.pull = (struct coxi_pull){
        rig->session, coxi_psc_incarnation(rig->client[ps]), &item, 1, false, 0, 0};
    assert_code(
        0, coxi_psc_call(rig->client[ps], &message, &request, COXI_PULLED, NULL, NULL));
}

static struct call measure(const char *name, const float *values, const float *weights,
                           size_t n)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", name);
    call_vector(&call, "values", COX_F32, n, values);
    call_vector(&call, "weights", COX_F32, n, weights);
    return call;
}

TEST(metric_takes_all_of_a_step_in_one_update)
{
    static const float values[] = {1, 2, 3};
    static const float weights[] = {1, 0.5F, 2};
    double found[2];
    double value;
    double weight;
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    const struct coxi_variable metrics[] = {metric_of("sum", COXI_METRIC_SUM, 1),
                                            metric_of("count", COXI_METRIC_COUNT, 1),
                                            metric_of("mean", COXI_METRIC_MEAN, 2)};
    const double expected[] = {2 * 8, 2 * 3.5, 8 / 3.5};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t id = rig_create(&rig, &metrics[i], 1, 1);
        struct call call = measure(metrics[i].name, values, weights, 3);
        for (uint64_t k = 0; k < 2; k++) {
            struct rig_done done = call_run(&rig, 1 + i * 10 + k, "measure", &call, 0);
            assert_int_equal(1, done.head.touched_n);
            assert_int_equal(1, done.touched[0]);
            assert_int_equal(i * 2 + k + 1, atomic_load(&commits.n_updates));
        }
        read_metric(&rig, id, found);
        assert_code(0, coxi_metric_read(metrics[i].metric, found, metrics[i].shape[0],
                                        &value, &weight));
        assert_true(value == expected[i]);
    }
    rig_close(&rig);
}

TEST(metric_that_a_step_assigns_to_keeps_the_order)
{
    static const float values[] = {1, 2, 3};
    static const float ones[] = {1, 1, 1};
    static const double assigned[] = {100, 10};
    double found[2];
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable metrics[] = {metric_of("mean", COXI_METRIC_MEAN, 2),
                                            metric_of("sum", COXI_METRIC_SUM, 1)};
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t id = rig_create(&rig, &metrics[i], 0, 1);
        struct call call = measure(metrics[i].name, values, ones, 3);
        call_vector(&call, "assigned", COX_F64, metrics[i].shape[0], assigned);
        for (uint64_t k = 1; k <= 2; k++) {
            (void)call_run(&rig, i * 10 + k, "measure", &call, 0);
        }
        read_metric(&rig, id, found);
        assert_true(found[0] == 103);
    }
    rig_close(&rig);
}

TEST(metric_of_a_step_that_fails_gets_nothing)
{
    static const float ones[] = {1, 1};
    const int64_t result = 5;
    double found = -1;
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable metric = metric_of("sum", COXI_METRIC_SUM, 1);
    uint32_t id = rig_create(&rig, &metric, 0, 1);
    struct call call = measure("sum", ones, ones, 2);
    (void)call_run(&rig, 1, "measure", &call, 0);
    call_number(&call, "result", &result);
    (void)call_run(&rig, 2, "measure", &call, COX_ESTEP);
    call.n--;
    (void)call_run(&rig, 3, "measure", &call, 0); /* begins at 0 again */
    read_metric(&rig, id, &found);
    assert_true(found == 4);
    rig_close(&rig);
}

TEST(metric_auc_takes_examples_by_score)
{
    static const float scores[] = {-1, 0.1F, 0.3F, 0.8F, 2};
    static const float labels[] = {0, 0, 1, 0, 1};
    static const double expected[] = {0, 1, 0, 1, 1, 1, 1, 0};
    double found[8];
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable metric = metric_of("auc", COXI_METRIC_AUC, 8);
    uint32_t id = rig_create(&rig, &metric, 0, 1);
    struct call call = {.n = 0};
    call_text(&call, "variable", "auc");
    call_vector(&call, "values", COX_F32, 5, scores);
    call_vector(&call, "labels", COX_F32, 5, labels);
    (void)call_run(&rig, 1, "measure", &call, 0);
    read_metric(&rig, id, found);
    assert_memory_equal(expected, found, sizeof(expected));
    rig_close(&rig);
}

TEST(metric_refuses_what_is_not_for_it)
{
    static const float one[] = {1};
    static const float nan_score[] = {NAN};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable metrics[] = {metric_of("auc", COXI_METRIC_AUC, 8),
                                            metric_of("sum", COXI_METRIC_SUM, 1)};
    for (uint32_t i = 0; i < 2; i++) {
        (void)rig_create(&rig, &metrics[i], 0, 1);
    }
    (void)rig_counter(&rig, "counter", 0);
    struct call call = measure("auc", one, one, 1);
    (void)call_run(&rig, 1, "measure", &call, COX_ESTEP);
    call = measure("counter", one, one, 1);
    struct rig_done done = call_run(&rig, 2, "measure", &call, COX_ESTEP);
    assert_non_null(strstr(done.result, "'counter' is no metric"));
    call = measure("sum", one, one, 1);
    call_vector(&call, "labels", COX_F32, 1, one);
    (void)call_run(&rig, 3, "measure", &call, COX_ESTEP);
    call = measure("auc", nan_score, one, 1);
    call_vector(&call, "labels", COX_F32, 1, one);
    done = call_run(&rig, 4, "measure", &call, COX_ESTEP);
    assert_non_null(strstr(done.result, "score 0 is NaN"));
    assert_int_equal(COX_EINVAL, done.head.step_code);
    call = measure("auc", one, one, 1);
    call_vector(&call, "labels", COX_F32, 1, nan_score);
    done = call_run(&rig, 5, "measure", &call, COX_ESTEP);
    assert_non_null(strstr(done.result, "metric 'auc': label 0 is NaN"));
    assert_int_equal(COX_EINVAL, done.head.step_code);
    rig_close(&rig);
}

/* Sends `n` closures that measure, from `first` on. */
static void measure_many(struct rig *rig, const struct call *call, uint64_t first,
                         uint64_t n)
{
    struct rig_batch batch = {0};
    for (uint64_t k = 0; k < n; k++) {
        rig_batch_add(rig, &batch, first + k, 1, "measure", call->args, call->n);
    }
    assert_code(0, rig_batch_push(rig, &batch));
}

TEST(metric_is_never_read_in_two_moments)
{
    enum { N = 300, BATCH = 100 };
    static const float ones[] = {1, 1, 1};
    struct rig rig;
    double found[2] = {0};
    rig_open(&rig, 1, 2, 16);
    const struct coxi_variable metric = metric_of("mean", COXI_METRIC_MEAN, 2);
    uint32_t id = rig_create(&rig, &metric, 0, 1);
    struct call call = measure("mean", ones, ones, 3);
    for (uint64_t i = 0; i < N; i += BATCH) {
        measure_many(&rig, &call, i + 1, BATCH);
        for (uint64_t k = 0; k < BATCH; k++) {
            read_metric(&rig, id, found);
            assert_true(found[0] == found[1]);
            assert_int_equal(0, (int)found[0] % 3);
            assert_code(0, rig_next(&rig).head.code);
        }
    }
    read_metric(&rig, id, found);
    assert_true(found[0] == 3 * N);
    rig_close(&rig);
}

/* Each step adds to the first and the last element of the largest metric, which must
 * agree. */
TEST(metric_of_most_buckets_is_of_one_moment)
{
    enum { N = 200, BATCH = 100 };
    static const float scores[] = {-1, 2};
    static const float labels[] = {1, 0};
    static double found[COXI_METRIC_MAX];
    struct rig rig;
    rig_open(&rig, 1, 2, 16);
    const struct coxi_variable metric =
        metric_of("auc", COXI_METRIC_AUC, COXI_METRIC_MAX);
    uint32_t id = rig_create(&rig, &metric, 0, 1);
    struct call call = {.n = 0};
    call_text(&call, "variable", "auc");
    call_vector(&call, "values", COX_F32, 2, scores);
    call_vector(&call, "labels", COX_F32, 2, labels);
    for (uint64_t i = 0; i < N; i += BATCH) {
        measure_many(&rig, &call, i + 1, BATCH);
        for (uint64_t k = 0; k < BATCH; k++) {
            read_metric(&rig, id, found);
            assert_true(found[0] == found[COXI_METRIC_MAX - 1]);
            assert_code(0, rig_next(&rig).head.code);
        }
    }
    read_metric(&rig, id, found);
    assert_true(found[0] == N && found[COXI_METRIC_MAX - 1] == N);
    rig_close(&rig);
}
