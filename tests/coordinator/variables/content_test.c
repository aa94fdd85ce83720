/* The client reads and writes the values of variables and tables: slices across shards;
 * additions; the counters of a table; metrics. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/rand.h"
#include "tests/coordinator/crew.h"
#include "tests/test.h"

enum { PS = 17, ROWS = 40, WIDTH = 3 };

struct reference {
    struct cox_variable *v;
    int64_t rows[ROWS][WIDTH]; /* the rows that v must hold */
};

static void make(struct crew *crew, uint32_t shards, struct reference *ret)
{
    char name[16];
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    (void)snprintf(name, sizeof(name), "v%u", shards);
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 2;
    spec.shape[0] = ROWS;
    spec.shape[1] = WIDTH;
    spec.shards = shards;
    memset(ret, 0, sizeof(*ret));
    assert_code(0, cox_variable_create(crew->c, &spec, &ret->v));
}

static void fill(int64_t *values, size_t n, uint64_t *rng)
{
    for (size_t i = 0; i < n; i++) {
        values[i] = (int64_t)(coxi_rand(rng) % 1000);
    }
}

static void assign_some(struct crew *crew, struct reference *to, uint64_t *rng)
{
    int64_t values[ROWS * WIDTH];
    uint64_t begin = coxi_rand(rng) % (ROWS + 1);
    uint64_t count = coxi_rand(rng) % (ROWS - begin + 1);
    fill(values, count * WIDTH, rng);
    assert_code(0, cox_variable_assign_rows(crew->c, to->v, begin, count, values,
                                            count * sizeof(to->rows[0])));
    memcpy(to->rows[begin < ROWS ? begin : 0], values, count * sizeof(to->rows[0]));
}

static void add_to_all(struct crew *crew, struct reference *to, uint64_t *rng)
{
    int64_t values[ROWS * WIDTH];
    fill(values, ROWS * WIDTH, rng);
    assert_code(0, cox_variable_add(crew->c, to->v, values, sizeof(values)));
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        to->rows[i / WIDTH][i % WIDTH] += values[i];
    }
}

static void read_some(struct crew *crew, const struct reference *from, uint64_t *rng)
{
    int64_t values[ROWS * WIDTH + 1];
    uint64_t begin = coxi_rand(rng) % (ROWS + 1);
    uint64_t count = coxi_rand(rng) % (ROWS - begin + 1);
    values[count * WIDTH] = -77;
    assert_code(0, cox_variable_read_rows(crew->c, from->v, begin, count, values,
                                          count * sizeof(from->rows[0])));
    assert_int_equal(-77, values[count * WIDTH]);
    if (count > 0) {
        assert_memory_equal(from->rows[begin], values, count * sizeof(from->rows[0]));
    }
}

TEST(a_variable_of_1_to_17_shards_is_one_variable)
{
    struct crew crew;
    crew_open(&crew, PS, 1, NULL, NULL);
    for (uint32_t shards = 1; shards <= PS; shards++) {
        struct reference reference;
        uint64_t rng = shards;
        make(&crew, shards, &reference);
        for (int i = 0; i < 20; i++) {
            assign_some(&crew, &reference, &rng);
            if (i % 5 == 4) {
                add_to_all(&crew, &reference, &rng);
            }
            read_some(&crew, &reference, &rng);
        }
    }
    crew_close(&crew);
}

TEST(rows_that_are_not_there_are_einval)
{
    struct crew crew;
    struct reference reference;
    int64_t values[ROWS * WIDTH] = {0};
    const size_t row = sizeof(reference.rows[0]);
    crew_open(&crew, 3, 1, NULL, NULL);
    make(&crew, 3, &reference);
    assert_code(COX_EINVAL,
                cox_variable_read_rows(crew.c, reference.v, ROWS + 1, 0, values, 0));
    assert_error_names("'v3' has 40 rows");
    assert_code(COX_EINVAL, cox_variable_read_rows(crew.c, reference.v, ROWS - 1, 2,
                                                   values, 2 * row));
    assert_code(COX_EINVAL, cox_variable_assign_rows(crew.c, reference.v, 2, UINT64_MAX,
                                                     values, 0));
    assert_code(COX_EINVAL, cox_variable_assign_rows(crew.c, reference.v, 2, 2, values,
                                                     2 * row - 1));
    assert_error_names("2 rows of it take 48 bytes, not 47");
    assert_code(COX_EINVAL,
                cox_variable_read(crew.c, reference.v, values, sizeof(values) - 8));
    assert_error_names("40 rows of it take 960 bytes, not 952");
    assert_code(COX_EINVAL,
                cox_variable_read_rows(crew.c, reference.v, 2, 1, values, 8));
    assert_error_names("1 row of it takes 24 bytes, not 8");
    assert_code(COX_EINVAL,
                cox_variable_add(crew.c, reference.v, values, sizeof(values) - 8));
    read_some(&crew, &reference, &(uint64_t){1});
    crew_close(&crew);
}

TEST(halves_take_no_additions)
{
    struct crew crew;
    struct cox_variable *v;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    const uint16_t one = 0x3f80;
    uint16_t found = 1;
    crew_open(&crew, 1, 1, NULL, NULL);
    spec.name = "half";
    spec.dtype = COX_BF16;
    spec.rank = 1;
    spec.shape[0] = 1;
    assert_code(0, cox_variable_create(crew.c, &spec, &v));
    assert_code(COX_EINVAL, cox_variable_add(crew.c, v, &one, sizeof(one)));
    assert_error_names("'half'");
    assert_code(0, cox_variable_read(crew.c, v, &found, sizeof(found)));
    assert_int_equal(0, found);
    crew_close(&crew);
}

TEST(large_variables_are_spread_over_the_ps_by_themselves)
{
    enum { N = 3 * 65536 };
    struct crew crew;
    struct cox_stats before = COX_STATS_INIT;
    struct cox_stats after = COX_STATS_INIT;
    struct cox_variable *v;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    crew_open(&crew, 4, 1, NULL, NULL);
    spec.name = "v";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = N;
    assert_code(0, cox_variable_create(crew.c, &spec, &v));
    assert_code(0, cox_stats(crew.c, &before));
    float *ones = calloc(N, sizeof(*ones));
    assert_non_null(ones);
    assert_code(0, cox_variable_assign(crew.c, v, ones, N * sizeof(*ones)));
    free(ones);
    assert_code(0, cox_stats(crew.c, &after));
    assert_int_equal(3, after.commits - before.commits); /* 256 KiB each */
    crew_close(&crew);
}

TEST(what_the_ps_have_of_a_table_is_added_up)
{
    struct crew crew;
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    struct cox_table_stats stats = COX_TABLE_STATS_INIT;
    const uint64_t keys[] = {1, 2, 3};
    float rows[3 * 2];
    crew_open(&crew, 2, 1, NULL, NULL);
    spec.name = "t";
    spec.dim = 2;
    assert_code(0, cox_table_create(crew.c, &spec, &table));
    assert_code(0, cox_table_read(crew.c, table, keys, 3, rows));
    assert_code(0, cox_table_stats(crew.c, table, &stats));
    assert_int_equal(0, stats.rows);
    assert_code(COX_EINVAL, cox_table_stats(crew.c, NULL, &stats));
    crew_close(&crew);
}

TEST(metrics_are_found_by_name_and_start_at_nothing)
{
    struct crew crew;
    struct cox_metric *metric = NULL;
    struct cox_metric *found = NULL;
    struct cox_variable *v = NULL;
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    double value = -1;
    double weight = -1;
    crew_open(&crew, 2, 1, NULL, NULL);
    spec.name = "auc";
    spec.kind = COX_METRIC_AUC;
    assert_code(0, cox_metric_create(crew.c, &spec, &metric));
    assert_code(COX_EEXIST, cox_metric_create(crew.c, &spec, &found));
    assert_code(0, cox_metric_get(crew.c, "auc", &found));
    assert_ptr_equal(metric, found);
    assert_code(COX_ENOENT, cox_variable_get(crew.c, "auc", &v));
    assert_code(COX_ENOENT, cox_metric_get(crew.c, "loss", &found));
    assert_error_names("'loss'");
    assert_code(0, cox_metric_read(crew.c, metric, &value, &weight));
    assert_true(isnan(value) && weight == 0);
    assert_code(0, cox_metric_reset(crew.c, metric));
    spec.name = "sum";
    spec.kind = COX_METRIC_SUM;
    assert_code(0, cox_metric_create(crew.c, &spec, &metric));
    assert_code(0, cox_metric_read(crew.c, metric, &value, NULL));
    assert_true(value == 0);
    spec.name = "none";
    spec.kind = 0;
    assert_code(COX_EINVAL, cox_metric_create(crew.c, &spec, &metric));
    assert_error_names("'none'");
    spec.kind = COX_METRIC_MEAN;
    spec.buckets = 3;
    assert_code(COX_EINVAL, cox_metric_create(crew.c, &spec, &metric));
    assert_error_names("buckets");
    spec.kind = COX_METRIC_AUC;
    spec.buckets = 1025;
    assert_code(COX_EINVAL, cox_metric_create(crew.c, &spec, &metric));
    assert_error_names("2 to 1024");
    crew_close(&crew);
}

/* ---- updates by steps */

static void schedule_value(struct crew *crew, const char *function, double value,
                           struct cox_future **ret)
{
    struct cox_value arg = COX_SCALAR("value", COX_F64, &value);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, function), &call, ret));
}

static struct cox_metric *create_metric(struct crew *crew, const char *name,
                                        uint32_t kind)
{
    struct cox_metric *metric;
    struct cox_metric_spec spec = COX_METRIC_SPEC_INIT;
    spec.name = name;
    spec.kind = kind;
    assert_code(0, cox_metric_create(crew->c, &spec, &metric));
    return metric;
}

static void assert_reads(struct crew *crew, struct cox_metric *metric, double value,
                         double weight)
{
    double found;
    double found_weight;
    assert_code(0, cox_metric_read(crew->c, metric, &found, &found_weight));
    assert_true(fabs(found - value) < 1e-9);
    assert_true(fabs(found_weight - weight) < 1e-9);
}

TEST(metrics_count_each_step_once_whatever_dies)
{
    enum { STEPS = 2000 };
    struct crew crew;
    crew_open(&crew, 2, 2, "model", NULL);
    struct cox_metric *mean = create_metric(&crew, "mean", COX_METRIC_MEAN);
    struct cox_metric *count = create_metric(&crew, "count", COX_METRIC_COUNT);
    struct cox_metric *auc = create_metric(&crew, "auc", COX_METRIC_AUC);
    for (int i = 0; i < STEPS; i++) {
        schedule_value(&crew, "score", i % 4, NULL);
        if (i % 500 == 250) {
            crew_kill(crew_step_process(&crew, i % 2));
        }
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_reads(&crew, mean, 1.5, 2.0 * STEPS);
    assert_reads(&crew, count, 2.0 * STEPS, 2.0 * STEPS);
    assert_reads(&crew, auc, 1, 2.0 * STEPS);
    assert_code(0, cox_metric_reset(crew.c, count));
    assert_reads(&crew, count, 0, 0);
    crew_close(&crew);
}

static void create_model(struct crew *crew, uint32_t nonfinite, uint32_t wire_dtype,
                         struct cox_table **ret_t, struct cox_variable **ret_w)
{
    struct cox_table_spec t = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec w = COX_VARIABLE_SPEC_INIT;
    t.name = "t";
    t.dim = 2;
    t.optimizer.kind = COX_SGD;
    t.optimizer.learning_rate = 1;
    t.nonfinite = nonfinite;
    t.wire_dtype = wire_dtype;
    w.name = "w";
    w.dtype = COX_F32;
    w.rank = 1;
    w.shape[0] = 3;
    w.optimizer = t.optimizer;
    assert_code(0, cox_table_create(crew->c, &t, ret_t));
    assert_code(0, cox_variable_create(crew->c, &w, ret_w));
}

TEST(a_gradient_that_is_not_finite_is_rejected_with_all_of_its_step)
{
    struct crew crew;
    struct cox_table *t;
    struct cox_variable *w;
    struct cox_future *future;
    struct cox_error error = COX_ERROR_INIT;
    const uint64_t key = 7;
    float row[2];
    float values[3];
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 2, 1, "model", &options);
    create_model(&crew, COX_NONFINITE_REJECT, 0, &t, &w);
    schedule_value(&crew, "push_value", (double)NAN, &future);
    assert_code(COX_ENONFINITE, cox_future_wait(future, -1));
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(COX_ENONFINITE, error.code);
    assert_string_equal("push_value", error.function);
    assert_non_null(strstr(error.message, "'t'"));
    assert_non_null(strstr(error.message, "7"));
    cox_future_free(future);
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == 0 && row[1] == 0);
    assert_code(0, cox_variable_read(crew.c, w, values, sizeof(values)));
    assert_true(values[0] == 0 && values[1] == 0);
    schedule_value(&crew, "push_value", 2, NULL);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == -1 && row[1] == -2);
    assert_code(0, cox_variable_read(crew.c, w, values, sizeof(values)));
    assert_true(values[0] == -1 && values[1] == 0);
    crew_close(&crew);
}

TEST(gradients_that_are_not_finite_are_applied_where_that_is_allowed)
{
    struct crew crew;
    struct cox_table *t;
    struct cox_variable *w;
    const uint64_t key = 7;
    float row[2];
    crew_open(&crew, 1, 1, "model", NULL);
    create_model(&crew, COX_NONFINITE_ALLOW, 0, &t, &w);
    schedule_value(&crew, "push_value", (double)INFINITY, NULL);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == -1 && isinf(row[1]));
    crew_close(&crew);
}

TEST(narrow_gradients_are_rounded_and_too_large_ones_rejected)
{
    struct crew crew;
    struct cox_table *t;
    struct cox_variable *w;
    const uint64_t key = 7;
    float row[2];
    crew_open(&crew, 1, 1, "model", NULL);
    create_model(&crew, COX_NONFINITE_REJECT, COX_F16, &t, &w);
    schedule_value(&crew, "push_value", 2049, NULL); /* F16 has 11 bits of precision */
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == -1 && row[1] == -2048);
    schedule_value(&crew, "push_value", 1e6, NULL); /* too large for F16 */
    assert_code(COX_ENONFINITE, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == -1 && row[1] == -2048);
    crew_close(&crew);
}

TEST(gradients_rounded_by_chance_add_up_to_what_they_were)
{
    enum { STEPS = 400 };
    struct crew crew;
    struct cox_table *t;
    struct cox_variable *w;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec dense = COX_VARIABLE_SPEC_INIT;
    const uint64_t key = 7;
    const double value = 1 + 0x1p-12; /* a quarter of F16's last digit above 1 */
    float row[2];
    crew_open(&crew, 2, 1, "model", NULL);
    spec.name = "t";
    spec.dim = 2;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 1;
    spec.wire_rounding = COX_ROUND_STOCHASTIC;
    assert_code(COX_EINVAL, cox_table_create(crew.c, &spec, &t));
    assert_error_names("wire_rounding");
    spec.wire_dtype = COX_F16;
    assert_code(0, cox_table_create(crew.c, &spec, &t));
    dense.name = "w";
    dense.dtype = COX_F32;
    dense.rank = 1;
    dense.shape[0] = 3;
    dense.optimizer = spec.optimizer;
    assert_code(0, cox_variable_create(crew.c, &dense, &w));
    for (int i = 0; i < STEPS; i++) {
        schedule_value(&crew, "push_value", value, NULL);
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_table_read(crew.c, t, &key, 1, row));
    assert_true(row[0] == -STEPS);
    assert_true(fabs((double)row[1] + STEPS * value) < 0.05);
    /* the value if each gradient were rounded to nearest */
    assert_true(row[1] != -STEPS);
    crew_close(&crew);
}

static int pull_row(struct crew *crew)
{
    const uint64_t key = 7;
    struct cox_value arg = COX_VECTOR("keys", COX_I64, 1, &key);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, "pull_all"), &call, NULL));
    return cox_join(crew->c, -1);
}

TEST(pulls_that_become_infinite_are_refused_and_counted)
{
    static const uint32_t policies[] = {COX_NONFINITE_REJECT, COX_NONFINITE_ALLOW};
    for (size_t i = 0; i < 2; i++) {
        struct crew crew;
        struct cox_stats stats = COX_STATS_INIT;
        struct cox_table *t;
        struct cox_variable *w;
        crew_open(&crew, 1, 1, "model", NULL);
        create_model(&crew, policies[i], COX_F16, &t, &w);
        schedule_value(&crew, "push_value", 60000, NULL);
        assert_code(0, pull_row(&crew));
        assert_code(0, cox_stats(crew.c, &stats));
        assert_int_equal(0, stats.pulled_infinite);
        schedule_value(&crew, "push_value", 60000, NULL); /* F32 holds 120000 */
        assert_code(0, cox_join(crew.c, -1));
        int r = pull_row(&crew);
        if (policies[i] == COX_NONFINITE_REJECT) {
            assert_true(r != 0);
            assert_error_names("'t'");
            assert_error_names("infinite");
        } else {
            assert_code(0, r);
        }
        assert_code(0, cox_stats(crew.c, &stats));
        assert_int_equal(1, stats.pulled_infinite);
        crew_close(&crew);
    }
}
