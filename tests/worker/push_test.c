/* Pushes of steps: the bytes on the wire, and updates that are refused. */
#include <math.h>
#include <string.h>

#include "common/initializer.h"
#include "tests/test.h"
#include "tests/worker/counted.h"
#include "tests/worker/counted_commits.h"

static const int64_t gradient = COX_UPDATE_GRADIENT;
static const int64_t add = COX_UPDATE_ADD;
static const int64_t assign = COX_UPDATE_ASSIGN;
static const int64_t least = COX_UPDATE_MIN;
static const int64_t most = COX_UPDATE_MAX;

static struct call update(const char *variable, const int64_t *op)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", variable);
    call_number(&call, "op", op);
    return call;
}

/* Asserts the first n floats of a pull of `variable` with `keys`. */
static void assert_pulled(struct rig *rig, uint64_t closure, const char *variable,
                          const uint64_t *keys, size_t n_keys, const float *expected,
                          size_t n)
{
    float found[18];
    assert_true(n <= sizeof(found) / sizeof(*found));
    call_pull(rig, closure, variable, keys, n_keys, found, n);
    for (size_t i = 0; i < n; i++) {
        if (found[i] != expected[i]) {
            fail_msg("%s[%zu] is %g, not %g", variable, i, (double)found[i],
                     (double)expected[i]);
        }
    }
}

TEST(push_sends_each_row_once_with_what_its_equals_come_to)
{
    static const uint64_t keys[] = {5, 5, 7, 5};
    static const float values[] = {1, 2, 30, 40, 5, 6, 7, 8};
    static const struct {
        const int64_t *op;
        float rows[4]; /* expected rows 5 and 7 */
    } rounds[] = {
        {&gradient, {-38, -50, -5, -6}}, {&add, {0, 0, 0, 0}},
        {&assign, {7, 8, 5, 6}},         {&least, {1, 2, 5, 6}},
        {&most, {30, 40, 5, 6}},
    };
    for (uint32_t n_ps = 1; n_ps <= 3; n_ps++) {
        struct rig rig;
        rig_open(&rig, n_ps, 1, 16);
        const struct coxi_variable table = table_of("t", 2);
        const struct coxi_variable dense = dense_of("d", 9, 2);
        (void)rig_create(&rig, &table, 0, 0);
        (void)rig_create(&rig, &dense, 0, n_ps);
        uint64_t closure = 1;
        for (size_t i = 0; i < 10; i++) {
            const char *name = i < 5 ? "t" : "d";
            struct call call = update(name, rounds[i % 5].op);
            call_vector(&call, "keys", COX_I64, 4, keys);
            call_vector(&call, "values", COX_F32, 8, values);
            atomic_store(&commits.bytes, 0);
            (void)call_run(&rig, closure++, "update", &call, 0);
            assert_int_equal(2 * (8 + 8), atomic_load(&commits.bytes));
            assert_pulled(&rig, closure++, name, (const uint64_t[]){5, 7}, 2,
                          rounds[i % 5].rows, 4);
        }
        rig_close(&rig);
    }
}

TEST(push_of_a_slice_sends_that_slice)
{
    struct rig rig;
    rig_open(&rig, 3, 1, 16);
    const struct coxi_variable dense = dense_of("d", 9, 2);
    (void)rig_create(&rig, &dense, 0, 3);
    const float values[] = {1, 2, 3, 4};
    const float expected[18] = {[4] = 1, 2, 3, 4};
    const int64_t begin = 2; /* the last of the first shard, the first of the next */
    const int64_t count = 2;
    struct call call = update("d", &assign);
    call_number(&call, "begin", &begin);
    call_number(&call, "count", &count);
    call_vector(&call, "values", COX_F32, 4, values);
    atomic_store(&commits.bytes, 0);
    struct rig_done done = call_run(&rig, 1, "update", &call, 0);
    assert_int_equal(2, done.head.touched_n);
    assert_int_equal(4 * sizeof(float), atomic_load(&commits.bytes));
    assert_pulled(&rig, 2, "d", NULL, 0, expected, 18);
    rig_close(&rig);
}

/* ---- narrow */

TEST(push_sends_gradients_in_the_wire_type_and_all_else_as_it_is)
{
    static const uint64_t keys[] = {1, 2, 1};
    /* BF16 has 1, but not 256 + 1, which rounds to 256. */
    static const float values[] = {256, 512, 1};
    static const float gradients[] = {-256, -512};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    for (uint32_t i = 0; i < 2; i++) {
        struct coxi_variable v = i == 0 ? table_of("t", 1) : dense_of("d", 4, 1);
        v.wire_dtype = COX_BF16;
        (void)rig_create(&rig, &v, 0, i);
        struct call call = update(v.name, &gradient);
        call_vector(&call, "keys", COX_I64, 3, keys);
        call_vector(&call, "values", COX_F32, 3, values);
        atomic_store(&commits.bytes, 0);
        (void)call_run(&rig, 1 + i * 10, "update", &call, 0);
        assert_int_equal(2 * 8 + 8, atomic_load(&commits.bytes));
        assert_pulled(&rig, 2 + i * 10, v.name, keys, 2, gradients, 2);
        call.args[1] = (struct cox_value)COX_SCALAR("op", COX_I64, &assign);
        (void)call_run(&rig, 3 + i * 10, "update", &call, 0);
        call.args[1] = (struct cox_value)COX_SCALAR("op", COX_I64, &add);
        call.args[3] = (struct cox_value)COX_VECTOR("values", COX_F32, 3,
                                                    ((const float[]){256, 0, 0}));
        (void)call_run(&rig, 4 + i * 10, "update", &call, 0);
        /* A pull rounds the value, but the ps does not: the 1 is still there when 256
         * is subtracted. */
        call.args[3] = (struct cox_value)COX_VECTOR("values", COX_F32, 3,
                                                    ((const float[]){-256, 0, 0}));
        (void)call_run(&rig, 5 + i * 10, "update", &call, 0);
        const float one[] = {1};
        assert_pulled(&rig, 6 + i * 10, v.name, keys, 1, one, 1);
    }
    rig_close(&rig);
}

/* ---- numbers that are not finite */

static void assert_refused(struct rig *rig, uint64_t closure, const struct call *call,
                           const char *part)
{
    const size_t before = atomic_load(&commits.n);
    const struct rig_done done = call_run(rig, closure, "update", call, COX_ENONFINITE);
    assert_int_equal(COX_ENONFINITE, done.head.step_code);
    assert_int_equal(0, done.head.touched_n);
    assert_int_equal(before, atomic_load(&commits.n));
    if (strstr(done.result, part) == NULL || strstr(done.result, "'update'") == NULL) {
        fail_msg("'%s' does not name '%s'", (const char *)done.result, part);
    }
}

TEST(push_of_a_gradient_that_is_not_finite_fails_the_closure_and_names_the_row)
{
    static const uint64_t keys[] = {11, 12, 13, 11};
    static float values[8] = {0};
    struct rig rig;
    rig_open(&rig, 3, 1, 16);
    const struct coxi_variable table = table_of("t", 2);
    const struct coxi_variable dense = dense_of("d", 9, 2);
    (void)rig_create(&rig, &table, 0, 0);
    (void)rig_create(&rig, &dense, 0, 3);
    struct call call = update("t", &gradient);
    call_vector(&call, "keys", COX_I64, 4, keys);
    call_vector(&call, "values", COX_F32, 8, values);
    values[5] = NAN;
    assert_refused(&rig, 1, &call, "table 't', key 13");
    values[5] = 0;
    values[0] = values[6] = 3e38F; /* both are finite, but their sum is not */
    assert_refused(&rig, 2, &call, "table 't', key 11");
    static const uint64_t rows[] = {8, 0};
    static float some[18] = {0, 0, 0, -INFINITY};
    call = update("d", &gradient);
    call_vector(&call, "keys", COX_I64, 2, rows);
    call_vector(&call, "values", COX_F32, 4, some);
    assert_refused(&rig, 3, &call, "variable 'd', row 0");
    memset(some, 0, sizeof(some));
    some[15] = NAN;
    call = update("d", &gradient);
    call_vector(&call, "values", COX_F32, 18, some);
    assert_refused(&rig, 4, &call, "variable 'd', row 7");
    /* The closure fails even if the step ignores the error. Updates that are no
     * gradients are not checked. */
    (void)call_run(&rig, 5, "update_blindly", &call, COX_ENONFINITE);
    call.args[1] = (struct cox_value)COX_SCALAR("op", COX_I64, &add);
    (void)call_run(&rig, 6, "update", &call, 0);
    rig_close(&rig);
}

TEST(push_of_what_overflows_the_wire_type_is_not_finite)
{
    static const float values[] = {0, 65520};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_variable half = dense_of("half", 2, 1);
    struct coxi_variable brain = dense_of("brain", 2, 1);
    half.wire_dtype = COX_F16;
    brain.wire_dtype = COX_BF16;
    (void)rig_create(&rig, &half, 0, 1);
    (void)rig_create(&rig, &brain, 0, 1);
    struct call call = update("half", &gradient);
    call_vector(&call, "values", COX_F32, 2, values);
    assert_refused(&rig, 1, &call, "'half', row 1");
    call = update("brain", &gradient);
    call_vector(&call, "values", COX_F32, 2, values);
    (void)call_run(&rig, 2, "update", &call, 0);
    rig_close(&rig);
}

TEST(push_of_what_overflows_the_state_of_a_rule_is_refused)
{
    static const uint64_t keys[] = {11, 12};
    float values[] = {1, 1.8446743e19F}; /* the last whose square is finite */
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_variable t = table_of("t", 1);
    t.optimizer =
        (struct coxi_optimizer){.kind = COXI_OPTIMIZER_ADAGRAD, .learning_rate = 1};
    (void)rig_create(&rig, &t, 0, 0);
    struct call call = update("t", &gradient);
    call_vector(&call, "keys", COX_I64, 2, keys);
    call_vector(&call, "values", COX_F32, 2, values);
    (void)call_run(&rig, 1, "update", &call, 0);
    values[1] = -1.8446745e19F;
    assert_refused(
        &rig, 2, &call,
        "table 't', key 12, is -1.84467e+19: the state of Adagrad takes less "
        "than 1.84467e+19");
    struct coxi_variable clipped = t;
    clipped.name = "clipped";
    clipped.optimizer.clip_value = 1;
    (void)rig_create(&rig, &clipped, 0, 0);
    call.args[0] = (struct cox_value)COX_VECTOR("variable", COX_U8, 8, "clipped");
    (void)call_run(&rig, 3, "update", &call, 0);
    rig_close(&rig);
}

TEST(push_of_what_is_not_finite_counts_where_that_is_allowed)
{
    static const float values[] = {-INFINITY, 1};
    static const float expected[] = {INFINITY, -1};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_variable v = dense_of("v", 2, 1);
    v.nonfinite = COXI_NONFINITE_ALLOW;
    (void)rig_create(&rig, &v, 0, 1);
    struct call call = update("v", &gradient);
    call_vector(&call, "values", COX_F32, 2, values);
    (void)call_run(&rig, 1, "update", &call, 0);
    assert_pulled(&rig, 2, "v", NULL, 0, expected, 2);
    rig_close(&rig);
}

/* ---- loss scale */

/* A loss scale of 1024, which doubles after `growth_interval` good steps. */
static struct coxi_variable scale_of(float growth_interval)
{
    return (struct coxi_variable){
        .name = "scale",
        .dtype = COX_F32,
        .rank = 1,
        .shape = {1},
        .optimizer = {.kind = COXI_OPTIMIZER_LOSS_SCALE,
                      .growth_factor = 2,
                      .growth_interval = growth_interval},
        .initializer = {.kind = COXI_INIT_CONSTANT, .a = 1024}};
}

TEST(push_to_a_loss_scale_lets_it_shrink_and_grow)
{
    static const struct {
        int64_t overflowed;
        double scale; /* after it */
    } steps[] = {{1, 512}, {0, 512}, {0, 1024}, {0, 1024}, {1, 512}};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable scale = scale_of(2);
    (void)rig_create(&rig, &scale, 0, 1);
    double before = 1024;
    for (uint64_t i = 0; i < 5; i++) {
        struct call call = {.n = 0};
        call_number(&call, "overflowed", &steps[i].overflowed);
        const struct rig_done done = call_run(&rig, i + 1, "scale", &call, 0);
        assert_true(*(const float *)rig_value(&done, "scale").data == (float)before);
        before = steps[i].scale;
    }
    rig_close(&rig);
}

/* A loss scale of 1024 on the first ps, and a counter, whose id it returns; a dense variable and
 * a table on all. */
static uint32_t open_scaled(struct rig *rig, uint32_t n_ps, float rate)
{
    const struct coxi_variable scale = scale_of(100);
    struct coxi_variable w = dense_of("w", 3, 1);
    struct coxi_variable t = table_of("t", 1);
    w.wire_dtype = t.wire_dtype = COX_F16;
    w.optimizer = t.optimizer = (struct coxi_optimizer){
        .kind = COXI_OPTIMIZER_MOMENTUM, .learning_rate = rate, .momentum = 0.5F};
    rig_open(rig, n_ps, 1, 16);
    (void)rig_create(rig, &scale, 0, 1);
    (void)rig_create(rig, &w, 0, n_ps);
    (void)rig_create(rig, &t, 0, 0);
    return rig_counter(rig, "counter", 0);
}

static const int64_t first = 1;
static const int64_t last = 2;

/* The arguments of a step that pushes gradients of three rows, and tells the scale
 * `overflowed`. */
static struct call scaled(const char *variable, const uint64_t *rows,
                          const float *values, const int64_t *tells,
                          const int64_t *overflowed)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", variable);
    call_number(&call, "tells", tells);
    call_number(&call, "overflowed", overflowed);
    call_vector(&call, "values", COX_F32, 3, values);
    if (rows != NULL) {
        call_vector(&call, "keys", COX_I64, 3, rows);
    }
    return call;
}

static void assert_scale(struct rig *rig, uint64_t closure, float expected)
{
    assert_pulled(rig, closure, "scale", NULL, 0, &expected, 1);
}

/* 2^-26 is 0 in F16, but 1024 times that is not. (The rate makes the change large
 * enough for a pull, which is narrow, too.) */
TEST(push_of_scaled_gradients_is_unscaled_behind_the_wire)
{
    static const uint64_t rows[] = {0, 1, 2};
    static const float tiny[] = {0x1p-16F, -0x1p-16F, 0};
    static const float then[] = {-0x1p-10F, 0x1p-10F, 0};
    static const int64_t no = 0;
    struct rig rig;
    (void)open_scaled(&rig, 3, 65536);
    for (uint64_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "w" : "t";
        const struct call call = scaled(name, i == 0 ? NULL : rows, tiny, &last, &no);
        (void)call_run(&rig, 2 * i + 1, "scaled", &call, 0);
        assert_pulled(&rig, 2 * i + 2, name, rows, 3, then, 3);
    }
    rig_close(&rig);
}

/* The step reports the overflow before or after its pushes, or the worker finds it in
 * the wire type: values and momenta do not change, but the counter does. */
TEST(push_of_a_step_that_overflowed_is_skipped_as_a_whole)
{
    static const uint64_t rows[] = {0, 1, 2};
    static const float good[] = {1024, 2048, -1024};
    static const float bad[] = {1, NAN, 3};
    static const float large[] = {65520, 2, 1};
    static const float once[] = {-1, -2, 1};
    static const float twice[] = {-2.5F, -5, 2.5F};
    static const int64_t yes = 1;
    static const int64_t no = 0;
    for (uint64_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "w" : "t";
        const uint64_t *keys = i == 0 ? NULL : rows;
        struct rig rig;
        uint32_t counter = open_scaled(&rig, 3, 1);
        struct call call = scaled(name, keys, bad, &first, &yes);
        struct rig_done done = call_run(&rig, 1, "scaled", &call, 0);
        const uint64_t touched = done.head.touched_n;
        assert_scale(&rig, 2, 512);
        assert_int_equal(1, rig_read(&rig, counter));
        call = scaled(name, keys, (const float[]){512, 1024, -512}, &first, &no);
        done = call_run(&rig, 3, "scaled", &call, 0);
        /* a bad step touches as many ps as a good one */
        assert_int_equal(touched, done.head.touched_n);
        assert_pulled(&rig, 4, name, rows, 3, once, 3);
        call = scaled(name, keys, good, &last, &yes);
        (void)call_run(&rig, 5, "scaled", &call, 0);
        call = scaled(name, keys, large, &last, &no);
        done = call_run(&rig, 6, "scaled", &call, 0);
        assert_int_equal(touched, done.head.touched_n);
        assert_pulled(&rig, 7, name, rows, 3, once, 3);
        assert_scale(&rig, 8, 128);
        call = scaled(name, keys, (const float[]){128, 256, -128}, &last, &no);
        (void)call_run(&rig, 9, "scaled", &call, 0);
        assert_pulled(&rig, 10, name, rows, 3, twice, 3);
        assert_int_equal(5, rig_read(&rig, counter));
        rig_close(&rig);
    }
}

TEST(push_that_overflows_and_tells_no_scale_fails_the_closure)
{
    static const float bad[] = {1, INFINITY, 3};
    static const int64_t no = 0;
    struct rig rig;
    (void)open_scaled(&rig, 1, 1);
    struct call call = scaled("w", NULL, bad, &no, &no);
    struct rig_done done = call_run(&rig, 1, "scaled", &call, COX_ENONFINITE);
    assert_non_null(strstr(done.result, "'w', row 1"));
    call_number(&call, "late", &first);
    call.args[3] =
        (struct cox_value)COX_VECTOR("values", COX_F32, 3, ((const float[]){1, 2, 3}));
    done = call_run(&rig, 2, "scaled", &call, COX_ESTEP);
    assert_non_null(strstr(done.result, "before the first gradient"));
    rig_close(&rig);
}
