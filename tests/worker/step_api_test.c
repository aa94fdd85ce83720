/* The functions of steps, on a real cluster. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

/* ---- calls */

struct call {
    struct cox_value args[8];
    size_t n;
};

static void add_text(struct call *call, const char *name, const char *text)
{
    const struct cox_value value = COX_VECTOR(name, COX_U8, strlen(text) + 1, text);
    call->args[call->n++] = value;
}

static void add_number(struct call *call, const char *name, const int64_t *number)
{
    const struct cox_value value = COX_SCALAR(name, COX_I64, number);
    call->args[call->n++] = value;
}

static void add_vector(struct call *call, const char *name, uint32_t dtype, size_t n,
                       const void *data)
{
    const struct cox_value value = COX_VECTOR(name, dtype, n, data);
    call->args[call->n++] = value;
}

static struct cox_future *run(struct crew *crew, const char *step,
                              const struct call *call)
{
    struct cox_future *future;
    struct cox_call c = COX_CALL_INIT;
    c.args = call->args;
    c.n_args = call->n;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, step), &c, &future));
    return future;
}

static void succeed(struct crew *crew, const char *step, const struct call *call)
{
    struct cox_future *future = run(crew, step, call);
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
}

/* Asserts that the step fails with `code` of the API, and that the text names
 * `part`. */
static void fail_with(struct crew *crew, const char *step, const struct call *call,
                      int code, const char *part)
{
    struct cox_error error = COX_ERROR_INIT;
    struct cox_future *future = run(crew, step, call);
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(code, error.step_code);
    assert_string_equal(step, error.function);
    if (strstr(error.message, part) == NULL) {
        fail_msg("'%s' does not name '%s'", error.message, part);
    }
    cox_future_free(future);
    assert_code(COX_ESTEP, cox_join(crew->c, -1));
}

static const int64_t gradient = COX_UPDATE_GRADIENT;
static const int64_t add = COX_UPDATE_ADD;
static const int64_t assign = COX_UPDATE_ASSIGN;

static struct call update(const char *variable, const int64_t *op)
{
    struct call call = {.n = 0};
    add_text(&call, "variable", variable);
    add_number(&call, "op", op);
    return call;
}

/* ---- variables */

static struct cox_variable *create(struct crew *crew, const char *name, uint32_t dtype,
                                   uint32_t shards, uint32_t optimizer)
{
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = name;
    spec.dtype = dtype;
    spec.rank = 2;
    spec.shape[0] = 20;
    spec.shape[1] = 3;
    spec.shards = shards;
    spec.optimizer.kind = optimizer;
    spec.optimizer.learning_rate = optimizer == COX_OPTIMIZER_NONE ? 0 : 0.5F;
    assert_code(0, cox_variable_create(crew->c, &spec, &variable));
    return variable;
}

static struct cox_table *create_table(struct crew *crew, const char *name)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    spec.name = name;
    spec.dim = 2;
    spec.optimizer.kind = COX_SGD;
    spec.optimizer.learning_rate = 0.5F;
    spec.initializer.kind = COX_CONSTANT;
    spec.initializer.a = -1;
    assert_code(0, cox_table_create(crew->c, &spec, &table));
    return table;
}

/* ---- what is refused */

TEST(step_is_told_of_a_variable_that_is_not_there)
{
    struct crew crew;
    struct call call = update("nowhere", &add);
    crew_open(&crew, 1, 1, "probe", NULL);
    fail_with(&crew, "update", &call, COX_ENOENT, "'nowhere'");
    fail_with(&crew, "pull", &call, COX_ENOENT, "'nowhere'");
    crew_close(&crew);
}

TEST(step_may_not_update_what_does_not_take_it)
{
    static const float values[60];
    struct crew crew;
    const uint64_t beyond[] = {19, 20};
    const int64_t unknown = 99;
    crew_open(&crew, 1, 1, "probe", NULL);
    (void)create(&crew, "plain", COX_F32, 1, COX_OPTIMIZER_NONE);
    (void)create(&crew, "half", COX_BF16, 1, COX_OPTIMIZER_NONE);
    (void)create(&crew, "whole", COX_I64, 1, COX_OPTIMIZER_NONE);
    struct call call = update("plain", &gradient);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL, "no optimizer");
    fail_with(&crew, "update_blindly", &call, COX_EINVAL, "'plain'");
    call = update("whole", &gradient);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL,
              "no optimizer (those are for F32); cox_step_add adds");
    call = update("half", &add);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL, "BF16");
    call = update("plain", &unknown);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL, "99 is no update");
    call = update("plain", &add);
    add_vector(&call, "keys", COX_I64, 2, beyond);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL, "no row 20");
    fail_with(&crew, "pull", &call, COX_EINVAL, "no row 20");
    const int64_t begin = 18;
    const int64_t count = 3;
    call = update("plain", &add);
    add_number(&call, "begin", &begin);
    add_number(&call, "count", &count);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update", &call, COX_EINVAL, "not 18+3");
    fail_with(&crew, "pull", &call, COX_EINVAL, "not 18+3");
    crew_close(&crew);
}

TEST(step_may_not_touch_a_table_without_keys)
{
    static const float values[4];
    struct crew crew;
    crew_open(&crew, 1, 1, "probe", NULL);
    (void)create_table(&crew, "t");
    struct call call = update("t", &add);
    add_vector(&call, "values", COX_F32, 4, values);
    fail_with(&crew, "update", &call, COX_EINVAL,
              "'t' needs keys (COX_ROWS_LISTED): a step cannot take all rows");
    fail_with(&crew, "pull_without_keys", &call, COX_EINVAL, "'t' and no keys");
    crew_close(&crew);
}

TEST(step_may_give_no_values_only_where_there_are_no_keys)
{
    static const uint64_t keys[2];
    struct crew crew;
    crew_open(&crew, 2, 1, "probe", NULL);
    (void)create(&crew, "plain", COX_F32, 2, COX_OPTIMIZER_NONE);
    (void)create_table(&crew, "t");
    struct call call = update("plain", &add);
    fail_with(&crew, "update", &call, COX_EINVAL, "'plain' has no values");
    fail_with(&crew, "pull_into_nothing", &call, COX_EINVAL, "'plain'");
    call = update("t", &add);
    add_vector(&call, "keys", COX_I64, 0, keys);
    succeed(&crew, "update", &call);
    succeed(&crew, "pull_into_nothing", &call);
    call = update("t", &add);
    add_vector(&call, "keys", COX_I64, 2, keys);
    fail_with(&crew, "update", &call, COX_EINVAL, "'t' has no values");
    fail_with(&crew, "pull_into_nothing", &call, COX_EINVAL, "'t'");
    crew_close(&crew);
}

TEST(step_that_fails_after_pushing_leaves_nothing_applied)
{
    static float values[60];
    static float found[60];
    struct crew crew;
    crew_open(&crew, 3, 1, "probe", NULL);
    struct cox_variable *v = create(&crew, "v", COX_F32, 3, COX_SGD);
    for (size_t i = 0; i < 60; i++) {
        values[i] = 1;
    }
    struct call call = update("v", &gradient);
    add_vector(&call, "values", COX_F32, 60, values);
    fail_with(&crew, "update_and_fail", &call, 42, "line 7 is odd");
    assert_code(0, cox_variable_read(crew.c, v, found, sizeof(found)));
    for (size_t i = 0; i < 60; i++) {
        assert_true(found[i] == 0);
    }
    crew_close(&crew);
}

TEST(step_that_pushes_what_is_not_finite_fails_with_that_and_leaves_nothing_applied)
{
    static float values[60];
    static float found[60];
    struct cox_error error = COX_ERROR_INIT;
    struct crew crew;
    crew_open(&crew, 3, 1, "probe", NULL);
    struct cox_variable *v = create(&crew, "v", COX_F32, 3, COX_SGD);
    values[0] = 1;
    values[50] = NAN;
    struct call call = update("v", &gradient);
    add_vector(&call, "values", COX_F32, 60, values);
    struct cox_future *future = run(&crew, "update", &call);
    assert_code(COX_ENONFINITE, cox_future_wait(future, -1));
    assert_code(0, cox_future_error(future, &error));
    assert_string_equal("step 'update': the gradient of variable 'v', row 16, is not "
                        "finite",
                        error.message);
    cox_future_free(future);
    assert_code(COX_ENONFINITE, cox_join(crew.c, -1));
    values[50] = 0;
    succeed(&crew, "update", &call);
    assert_code(0, cox_variable_read(crew.c, v, found, sizeof(found)));
    assert_true(found[0] == -0.5F);
    crew_close(&crew);
}

TEST(step_returns_up_to_64_results_with_names_of_up_to_127_bytes)
{
    struct crew crew;
    char name[129];
    int64_t n = 64;
    crew_open(&crew, 1, 1, "probe", NULL);
    struct call call = {.n = 0};
    add_number(&call, "n", &n);
    succeed(&crew, "give_many", &call);
    n = 65;
    fail_with(&crew, "give_many", &call, COX_ELIMIT, "64");
    memset(name, 'x', sizeof(name));
    name[128] = '\0';
    call.n = 0;
    add_text(&call, "name", name);
    fail_with(&crew, "give_named", &call, COX_EINVAL, "127");
    name[127] = '\0';
    struct cox_value value;
    call.n = 0;
    add_text(&call, "name", name);
    struct cox_future *future = run(&crew, "give_named", &call);
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, name, &value));
    assert_int_equal(7, *(const int64_t *)value.data);
    cox_future_free(future);
    crew_close(&crew);
}

TEST(step_whose_result_is_refused_fails_though_it_does_not_look)
{
    static const int64_t bytes[] = {((int64_t)1 << 30) + 1, ((int64_t)1 << 32) + 8};
    const int64_t n = 65;
    struct crew crew;
    struct call call = {.n = 0};
    crew_open(&crew, 1, 1, "probe", NULL);
    add_number(&call, "n", &n);
    fail_with(&crew, "give_blindly", &call, COX_ELIMIT, "more than 64 values");
    for (size_t i = 0; i < 2; i++) {
        call.n = 0;
        add_number(&call, "bytes", &bytes[i]);
        fail_with(&crew, "give_blindly", &call, COX_ELIMIT, "1073741824 bytes");
    }
    crew_close(&crew);
}

TEST(step_may_fail_with_the_text_of_its_last_error)
{
    struct crew crew;
    const struct call call = {.n = 0};
    crew_open(&crew, 1, 1, "probe", NULL);
    fail_with(&crew, "fail_with_its_error", &call, 5,
              "it said: no variable is called 'nowhere'");
    crew_close(&crew);
}

/* ---- what it knows */

TEST(step_knows_the_type_and_shape_of_a_variable)
{
    static const char *const names[] = {"dtype", "rank", "rows", "columns"};
    struct crew crew;
    crew_open(&crew, 2, 1, "probe", NULL);
    (void)create(&crew, "v", COX_U8, 2, COX_OPTIMIZER_NONE);
    (void)create_table(&crew, "t");
    const int64_t expected[2][4] = {{COX_U8, 2, 20, 3}, {COX_F32, 1, 2, 0}};
    for (int i = 0; i < 2; i++) {
        struct call call = update(i == 0 ? "v" : "t", &add);
        struct cox_future *future = run(&crew, "describe", &call);
        assert_code(0, cox_future_wait(future, -1));
        for (int j = 0; j < 4; j++) {
            struct cox_value value;
            assert_code(0, cox_future_result(future, names[j], &value));
            assert_int_equal(expected[i][j], *(const int64_t *)value.data);
        }
        cox_future_free(future);
    }
    crew_close(&crew);
}

TEST(step_has_a_seed_of_its_own)
{
    static const char *const names[] = {"seed", "closure", "attempt", "worker"};
    struct crew crew;
    int64_t found[2][4];
    const struct call call = {.n = 0};
    crew_open(&crew, 1, 1, "probe", NULL);
    for (int i = 0; i < 2; i++) {
        struct cox_future *future = run(&crew, "identify", &call);
        assert_code(0, cox_future_wait(future, -1));
        for (int j = 0; j < 4; j++) {
            struct cox_value value;
            assert_code(0, cox_future_result(future, names[j], &value));
            found[i][j] = *(const int64_t *)value.data;
        }
        cox_future_free(future);
    }
    assert_true(found[0][0] != found[1][0]);
    assert_int_equal(found[0][1] + 1, found[1][1]);
    assert_int_equal(1, found[0][2]);
    assert_int_equal(0, found[0][3]);
    crew_close(&crew);
}

/* Long arguments and layouts could travel over different connections, and a layout with
 * many variables takes a while: the arguments must not arrive first. */
TEST(step_with_long_arguments_knows_a_variable_that_was_just_created)
{
    enum { LONG = 70000, N_PLAIN = 400, N = 420 };
    static uint8_t bytes[LONG];
    const int64_t one = 1;
    struct crew crew;
    crew_open(&crew, 1, 1, "probe", NULL);
    for (int i = 0; i < N; i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%0100d", i);
        struct cox_variable *counter = crew_counter(&crew, name);
        if (i >= N_PLAIN) {
            struct call call = update(name, &add);
            add_vector(&call, "values", COX_I64, 1, &one);
            add_vector(&call, "bytes", COX_U8, LONG, bytes);
            succeed(&crew, "update", &call);
            assert_int_equal(1, crew_read(&crew, counter));
        }
    }
    crew_close(&crew);
}

/* ---- pulls */

static void assert_floats(struct cox_future *future, const char *name, size_t n,
                          const float *expected)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, name, &value));
    assert_int_equal(n, value.shape[0]);
    for (size_t i = 0; i < n; i++) {
        if (((const float *)value.data)[i] != expected[i]) {
            fail_msg("%s[%zu] is %g, not %g", name, i,
                     (double)((const float *)value.data)[i], (double)expected[i]);
        }
    }
}

/* d1, d2, d3 in 1, 2, 3 shards (as far as there are ps) and rows of t, in one pull. */
static void pull_all(int n_ps)
{
    enum { N_KEYS = 9, N_THERE = 6 };
    static const uint64_t keys[N_KEYS] = {5, 0, UINT64_MAX, 5, 77, 1234567, 8, 5, 99};
    static const uint64_t there[N_THERE] = {0, 5, 8, 99, 1234567, UINT64_MAX};
    static const char *const names[] = {"d1", "d2", "d3"};
    float dense[3][60];
    float rows[N_THERE * 2];
    float expected[N_KEYS * 2];
    struct crew crew;
    crew_open(&crew, n_ps, 1, "probe", NULL);
    for (int d = 0; d < 3; d++) {
        uint32_t shards = (uint32_t)(d < n_ps ? d + 1 : n_ps);
        struct cox_variable *v =
            create(&crew, names[d], COX_F32, shards, COX_OPTIMIZER_NONE);
        for (int i = 0; i < 60; i++) {
            dense[d][i] = (float)(d * 100 + i);
        }
        assert_code(0, cox_variable_assign(crew.c, v, dense[d], sizeof(dense[d])));
    }
    (void)create_table(&crew, "t");
    struct call call = update("t", &assign);
    for (size_t i = 0; i < (size_t)N_THERE * 2; i++) {
        rows[i] = (float)(there[i / 2] % 1000) + (i % 2 == 1 ? 0.5F : 0);
    }
    add_vector(&call, "keys", COX_I64, N_THERE, there);
    add_vector(&call, "values", COX_F32, (size_t)N_THERE * 2, rows);
    succeed(&crew, "update", &call);
    for (size_t i = 0; i < N_KEYS; i++) {
        bool absent = keys[i] == 77;
        expected[i * 2] = absent ? -1 : (float)(keys[i] % 1000);
        expected[i * 2 + 1] = absent ? -1 : expected[i * 2] + 0.5F;
    }
    call.n = 0;
    add_vector(&call, "keys", COX_I64, N_KEYS, keys);
    struct cox_future *future = run(&crew, "pull_all", &call);
    assert_code(0, cox_future_wait(future, -1));
    for (int d = 0; d < 3; d++) {
        assert_floats(future, names[d], 60, dense[d]);
    }
    assert_floats(future, "t1", (size_t)N_KEYS * 2, expected);
    assert_floats(future, "t2", (size_t)N_KEYS * 2, expected);
    assert_floats(future, "t3", (size_t)N_KEYS * 2, expected);
    cox_future_free(future);
    crew_close(&crew);
}

TEST(step_pulls_shards_and_rows_of_three_ps_in_one_call)
{
    pull_all(3);
}

TEST(step_pulls_shards_and_rows_of_two_ps_in_one_call)
{
    pull_all(2);
}

TEST(step_pulls_everything_of_one_ps_in_one_call)
{
    pull_all(1);
}

TEST(step_pulls_a_variable_alone_straight_into_its_memory)
{
    float values[60];
    const int64_t n = 60;
    struct crew crew;
    crew_open(&crew, 1, 1, "probe", NULL);
    struct cox_variable *v = create(&crew, "v", COX_F32, 1, COX_OPTIMIZER_NONE);
    for (int i = 0; i < 60; i++) {
        values[i] = (float)(i + 1);
    }
    assert_code(0, cox_variable_assign(crew.c, v, values, sizeof(values)));
    struct call call = {.n = 0};
    add_text(&call, "variable", "v");
    add_number(&call, "n", &n);
    struct cox_future *future = run(&crew, "pull", &call);
    assert_code(0, cox_future_wait(future, -1));
    assert_floats(future, "values", 60, values);
    cox_future_free(future);
    crew_close(&crew);
}

/* ---- updates */

static void apply(struct crew *crew, const char *variable, const int64_t *op,
                  const uint64_t *keys, size_t n_keys, const float *values, size_t n)
{
    struct call call = update(variable, op);
    if (keys != NULL) {
        add_vector(&call, "keys", COX_I64, n_keys, keys);
    }
    add_vector(&call, "values", COX_F32, n, values);
    succeed(crew, "update", &call);
}

TEST(step_pushes_adds_and_assigns_dense_variables_over_all_ps)
{
    float values[60];
    float found[60];
    struct crew crew;
    crew_open(&crew, 3, 1, "probe", NULL);
    struct cox_variable *v = create(&crew, "v", COX_F32, 3, COX_SGD);
    for (int i = 0; i < 60; i++) {
        values[i] = (float)i;
    }
    const struct {
        const int64_t *op;
        float factor;
    } rounds[] = {{&gradient, -0.5F}, {&add, 0.5F}, {&add, 1.5F}, {&assign, 1}};
    for (size_t round = 0; round < 4; round++) {
        apply(&crew, "v", rounds[round].op, NULL, 0, values, 60);
        assert_code(0, cox_variable_read(crew.c, v, found, sizeof(found)));
        for (int i = 0; i < 60; i++) {
            assert_true(found[i] == rounds[round].factor * (float)i);
        }
    }
    crew_close(&crew);
}

TEST(step_pushes_adds_and_assigns_rows_over_all_ps_in_order)
{
    static const uint64_t keys[] = {1, 2, 3, 1, 1000, UINT64_MAX};
    static const uint64_t distinct[] = {1, 2, 3, 1000, UINT64_MAX};
    static const float values[] = {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24};
    float found[10];
    struct crew crew;
    crew_open(&crew, 3, 1, "probe", NULL);
    struct cox_table *t = create_table(&crew, "t");
    /* Key 1 comes twice: both gradients count, both additions, the last assignment. */
    const struct {
        const int64_t *op;
        float rows[10];
    } rounds[] = {
        {&gradient, {-9, -11, -4, -5, -6, -7, -10, -11, -12, -13}},
        {&add, {7, 9, 2, 3, 4, 5, 8, 9, 10, 11}},
        {&assign, {14, 16, 6, 8, 10, 12, 18, 20, 22, 24}},
    };
    for (size_t round = 0; round < 3; round++) {
        apply(&crew, "t", rounds[round].op, keys, 6, values, 12);
        assert_code(0, cox_table_read(crew.c, t, distinct, 5, found));
        for (size_t i = 0; i < 10; i++) {
            assert_true(found[i] == rounds[round].rows[i]);
        }
    }
    crew_close(&crew);
}
