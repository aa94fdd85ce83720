/* What steps push: what of it goes over the wire, and what may not. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "common/initializer.h"
#include "ps/store.h"
#include "tests/test.h"
#include "tests/worker/counted.h"

/* ---- counted where the ps gets it */

static atomic_size_t n_commits;
static atomic_size_t commit_bytes;

int __real_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate);
int __wrap_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate);

int __wrap_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate)
{
    atomic_fetch_add(&n_commits, 1);
    atomic_fetch_add(&commit_bytes, len);
    return __real_coxi_store_commit(store, commit, payload, len, scratch,
                                    ret_duplicate);
}

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

/* The first n floats of what a pull of `variable` with `keys` brings. */
static void assert_pulled(struct rig *rig, uint64_t closure, const char *variable,
                          const uint64_t *keys, size_t n_keys, const float *expected,
                          size_t n)
{
    struct call call = {.n = 0};
    const int64_t count = (int64_t)n;
    call_text(&call, "variable", variable);
    call_number(&call, "n", &count);
    if (keys != NULL) {
        call_vector(&call, "keys", COX_I64, n_keys, keys);
    }
    const struct rig_done done = call_run(rig, closure, "pull", &call, 0);
    const float *found = rig_value(&done, "values").data;
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
        float rows[4]; /* of 5 and 7 */
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
            atomic_store(&commit_bytes, 0);
            (void)call_run(&rig, closure++, "update", &call, 0);
            assert_int_equal(2 * (8 + 8), atomic_load(&commit_bytes));
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
    atomic_store(&commit_bytes, 0);
    struct rig_done done = call_run(&rig, 1, "update", &call, 0);
    assert_int_equal(2, done.head.touched_n);
    assert_int_equal(4 * sizeof(float), atomic_load(&commit_bytes));
    assert_pulled(&rig, 2, "d", NULL, 0, expected, 18);
    rig_close(&rig);
}

/* ---- narrow */

TEST(push_sends_gradients_in_the_wire_type_and_all_else_as_it_is)
{
    static const uint64_t keys[] = {1, 2, 1};
    /* 256 + 1 is no BF16, and rounds to 256; alone 1 is one. */
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
        atomic_store(&commit_bytes, 0);
        (void)call_run(&rig, 1 + i * 10, "update", &call, 0);
        assert_int_equal(2 * 8 + 8, atomic_load(&commit_bytes));
        assert_pulled(&rig, 2 + i * 10, v.name, keys, 2, gradients, 2);
        call.args[1] = (struct cox_value)COX_SCALAR("op", COX_I64, &assign);
        (void)call_run(&rig, 3 + i * 10, "update", &call, 0);
        call.args[1] = (struct cox_value)COX_SCALAR("op", COX_I64, &add);
        call.args[3] = (struct cox_value)COX_VECTOR("values", COX_F32, 3,
                                                    ((const float[]){256, 0, 0}));
        (void)call_run(&rig, 4 + i * 10, "update", &call, 0);
        /* Pulled it is rounded; that it is not where it is, a difference shows. */
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
    const size_t before = atomic_load(&n_commits);
    const struct rig_done done = call_run(rig, closure, "update", call, COX_ENONFINITE);
    assert_int_equal(COX_ENONFINITE, done.head.step_code);
    assert_int_equal(0, done.head.touched_n);
    assert_int_equal(before, atomic_load(&n_commits));
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
    values[0] = values[6] = 3e38F; /* finite, but not their sum */
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
    /* Whatever the step makes of it, and for updates that are no gradients not at all. */
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

TEST(push_to_a_loss_scale_lets_it_shrink_and_grow)
{
    static const struct {
        int64_t overflowed;
        double scale; /* after it */
    } steps[] = {{1, 512}, {0, 512}, {0, 1024}, {0, 1024}, {1, 512}};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable scale = {
        .name = "scale",
        .dtype = COX_F32,
        .rank = 1,
        .shape = {1},
        .optimizer = {.kind = COXI_OPTIMIZER_LOSS_SCALE,
                      .growth_factor = 2,
                      .growth_interval = 2},
        .initializer = {.kind = COXI_INIT_CONSTANT, .a = 1024}};
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
