/* Pulls of steps: the bytes on the wire, and when the values arrive. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ps/store.h"
#include "tests/test.h"
#include "tests/worker/counted.h"

/* ---- counted where the ps gets it */

static atomic_size_t asked_bytes; /* keys and row numbers */
static atomic_size_t sent_bytes;  /* values */
static atomic_size_t n_pulls;

int __real_coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                                 const void *list, size_t len,
                                 struct coxi_buffer *ret_versions,
                                 struct coxi_pulling *ret);
int __wrap_coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                                 const void *list, size_t len,
                                 struct coxi_buffer *ret_versions,
                                 struct coxi_pulling *ret);

int __wrap_coxi_store_pull_begin(struct coxi_store *store, const struct coxi_pull *pull,
                                 const void *list, size_t len,
                                 struct coxi_buffer *ret_versions,
                                 struct coxi_pulling *ret)
{
    int r = __real_coxi_store_pull_begin(store, pull, list, len, ret_versions, ret);
    atomic_fetch_add(&n_pulls, 1);
    atomic_fetch_add(&asked_bytes, len);
    atomic_fetch_add(&sent_bytes, r == 0 ? ret->left : 0);
    return r;
}

static void count_anew(void)
{
    atomic_store(&asked_bytes, 0);
    atomic_store(&sent_bytes, 0);
    atomic_store(&n_pulls, 0);
}

/* ---- what steps do */

static const int64_t assign = COX_UPDATE_ASSIGN;

static void set(struct rig *rig, uint64_t closure, const char *variable,
                const uint64_t *keys, size_t n_keys, const float *values, size_t n)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", variable);
    call_number(&call, "op", &assign);
    call_vector(&call, "values", COX_F32, n, values);
    if (keys != NULL) {
        call_vector(&call, "keys", COX_I64, n_keys, keys);
    }
    (void)call_run(rig, closure, "update", &call, 0);
}

/* Pulls with these arguments, and asserts the first n floats. */
static void assert_pulled(struct rig *rig, uint64_t closure, const char *variable,
                          const uint64_t *keys, size_t n_keys, const int64_t *flags,
                          const float *expected, size_t n)
{
    struct call call = {.n = 0};
    const int64_t count = (int64_t)n;
    call_text(&call, "variable", variable);
    call_number(&call, "n", &count);
    call_number(&call, "flags", flags);
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

static const int64_t plain = 0;
static const int64_t cached = COX_PULL_CACHED;

/* Two steps pull all of a variable, one after the other, and look at 2 of its values. */
static void pull_rounds(struct rig *rig, uint64_t closure, const char *variable)
{
    const int64_t n = 2;
    for (uint64_t i = 0; i < 2; i++) {
        struct call call = {.n = 0};
        call_text(&call, "variable", variable);
        call_number(&call, "n", &n);
        call_number(&call, "flags", &plain);
        (void)call_run(rig, closure + i, "pull_big", &call, 0);
    }
}

/* ---- each once */

TEST(pull_asks_for_each_row_once_and_puts_it_wherever_it_is_listed)
{
    enum { N = 300, N_DISTINCT = 9 };
    static float rows[N_DISTINCT * 2];
    static uint64_t keys[N];
    static uint64_t distinct[N_DISTINCT];
    static float expected[N * 2];
    for (size_t i = 0; i < (size_t)N_DISTINCT * 2; i++) {
        rows[i] = (float)i + 1;
        distinct[i / 2] = i / 2;
    }
    for (size_t i = 0; i < N; i++) {
        keys[i] = i * i % N_DISTINCT;
        memcpy(&expected[i * 2], &rows[keys[i] * 2], 2 * sizeof(float));
    }
    const size_t n_listed = 4; /* squares modulo 9 */
    for (uint32_t n_ps = 1; n_ps <= 3; n_ps++) {
        struct rig rig;
        rig_open(&rig, n_ps, 1, 16);
        const struct coxi_variable table = table_of("t", 2);
        const struct coxi_variable dense = dense_of("d", N_DISTINCT, 2);
        (void)rig_create(&rig, &table, 0, 0);
        (void)rig_create(&rig, &dense, 0, n_ps);
        for (uint64_t i = 0; i < 2; i++) {
            const char *name = i == 0 ? "t" : "d";
            set(&rig, 1 + i * 10, name, distinct, N_DISTINCT, rows,
                (size_t)N_DISTINCT * 2);
            count_anew();
            assert_pulled(&rig, 2 + i * 10, name, keys, N, &plain, expected,
                          (size_t)N * 2);
            assert_int_equal(n_listed * 8, atomic_load(&asked_bytes));
            assert_int_equal(n_listed * 8, atomic_load(&sent_bytes));
        }
        rig_close(&rig);
    }
}

/* ---- narrow */

TEST(pull_of_a_variable_with_a_wire_type_takes_half_the_bytes)
{
    static const float values[] = {1, 257, 0.1F, -70000};
    static const float brain[] = {1, 256, 0.10009765625F, -70144};
    static const float half[] = {1, 257, 0.0999755859375F, -INFINITY};
    static const uint64_t keys[] = {3, 0, 1, 2};
    struct rig rig;
    uint64_t closure = 1;
    rig_open(&rig, 2, 1, 16);
    for (uint32_t i = 0; i < 4; i++) {
        static const char *const names[] = {"bt", "bd", "ht", "hd"};
        struct coxi_variable v =
            i % 2 == 0 ? table_of(names[i], 1) : dense_of(names[i], 4, 1);
        v.wire_dtype = i < 2 ? COX_BF16 : COX_F16;
        /* then values that are infinite in F16 are pulled */
        v.nonfinite = COXI_NONFINITE_ALLOW;
        (void)rig_create(&rig, &v, 0, i % 2 == 0 ? 0 : 2);
        set(&rig, closure++, v.name, i % 2 == 0 ? keys : NULL, 4, values, 4);
        count_anew();
        assert_pulled(&rig, closure++, v.name, i % 2 == 0 ? keys : NULL, 4, &plain,
                      i < 2 ? brain : half, 4);
        assert_int_equal(4 * 2, atomic_load(&sent_bytes));
    }
    rig_close(&rig);
}

/* ---- versions */

TEST(pull_that_is_cached_sends_what_has_changed_alone)
{
    enum { N = 6 };
    const float start[N] = {0};
    const float first[N] = {1, 2, 3, 4, 5, 6};
    const float other[N] = {1, 2, 3, 4, 50, 6};
    const uint64_t row = 4; /* of the second shard */
    for (uint32_t wire = 0; wire < 2; wire++) {
        struct rig rig;
        rig_open(&rig, 2, 1, 16);
        struct coxi_variable v = dense_of("v", N, 1);
        v.wire_dtype = wire == 0 ? 0 : COX_BF16;
        size_t size = wire == 0 ? 4 : 2;
        (void)rig_create(&rig, &v, 0, 2);
        count_anew();
        assert_pulled(&rig, 1, "v", NULL, 0, &cached, start, N);
        assert_int_equal(N * size, atomic_load(&sent_bytes));
        assert_pulled(&rig, 2, "v", NULL, 0, &cached, start, N);
        assert_int_equal(N * size, atomic_load(&sent_bytes));
        set(&rig, 3, "v", NULL, 0, first, N);
        assert_pulled(&rig, 4, "v", NULL, 0, &cached, first, N);
        assert_int_equal(2 * N * size, atomic_load(&sent_bytes));
        set(&rig, 5, "v", &row, 1, &other[4], 1);
        assert_pulled(&rig, 6, "v", NULL, 0, &cached, other, N);
        assert_int_equal(5 * N / 2 * size, atomic_load(&sent_bytes));
        assert_pulled(&rig, 7, "v", NULL, 0, &cached, other, N);
        assert_int_equal(5 * N / 2 * size, atomic_load(&sent_bytes));
        assert_pulled(&rig, 8, "v", NULL, 0, &plain, other, N);
        assert_int_equal(7 * N / 2 * size, atomic_load(&sent_bytes));
        rig_close(&rig);
    }
}

TEST(pull_serves_all_steps_of_a_round_that_see_the_same)
{
    enum { N = 6, SMALL = 64 * 1024 / sizeof(float) };
    const float start[N] = {0};
    const float first[N] = {1, 2, 3, 4, 5, 6};
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    const struct coxi_variable v = dense_of("v", N, 1);
    const struct coxi_variable small = dense_of("small", SMALL, 1);
    const struct coxi_variable big = dense_of("big", SMALL + 1, 1);
    (void)rig_create(&rig, &v, 0, 2);
    (void)rig_create(&rig, &small, 0, 1);
    (void)rig_create(&rig, &big, 0, 1);
    rig.round = (struct coxi_round_head){.round = 1000, .view = 5};
    assert_pulled(&rig, 1, "v", NULL, 0, &plain, start, N);
    count_anew();
    assert_pulled(&rig, 2, "v", NULL, 0, &plain, start, N);
    assert_int_equal(0, atomic_load(&n_pulls));
    rig.round = (struct coxi_round_head){0};
    set(&rig, 3, "v", NULL, 0, first, N);
    assert_pulled(&rig, 4, "v", NULL, 0, &plain, first, N);
    assert_int_equal(2, atomic_load(&n_pulls));
    rig.round = (struct coxi_round_head){.round = 1000, .view = 5};
    assert_pulled(&rig, 5, "v", NULL, 0, &plain, start, N);
    rig.round.view = 6; /* one that may see more */
    assert_pulled(&rig, 6, "v", NULL, 0, &plain, first, N);
    assert_pulled(&rig, 7, "v", NULL, 0, &cached, first, N);
    assert_int_equal(4, atomic_load(&n_pulls));
    pull_rounds(&rig, 8, "small");
    assert_int_equal(5, atomic_load(&n_pulls));
    pull_rounds(&rig, 10, "big"); /* more than is copied unasked */
    assert_int_equal(7, atomic_load(&n_pulls));
    rig_close(&rig);
}

/* A step may wait for others to end the round before its own: that is not its time. */
TEST(pull_that_awaits_the_end_of_a_round_does_not_take_the_time_of_its_step)
{
    struct rig rig;
    struct rig_batch batch = {.timeout_ms = 60}; /* less than the ps lets it wait */
    struct call call = {.n = 0};
    const int64_t n = 2;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable v = dense_of("v", 2, 1);
    (void)rig_create(&rig, &v, 0, 1);
    rig.round = (struct coxi_round_head){.round = 1000, .after = 900};
    call_text(&call, "variable", "v");
    call_number(&call, "n", &n);
    call_number(&call, "flags", &plain);
    rig_batch_add(&rig, &batch, 1, 1, "pull_big", call.args, call.n);
    assert_code(0, rig_batch_push(&rig, &batch));
    (void)rig_expect(&rig, 1, COX_ECANCELLED); /* to run again; not COX_EOVERRUN */
    rig_close(&rig);
}

TEST(pull_that_finds_no_room_to_be_cached_is_sent_each_time)
{
    enum { BIG = RIG_CACHE / 4 - 1 };
    const float zeros[3] = {0};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable big = dense_of("big", BIG, 1);
    const struct coxi_variable small = dense_of("small", 2, 1);
    (void)rig_create(&rig, &small, 0, 1);
    (void)rig_create(&rig, &big, 0, 1);
    assert_pulled(&rig, 1, "small", NULL, 0, &cached, zeros, 2);
    count_anew();
    struct call call = {.n = 0};
    const int64_t n = 2;
    call_text(&call, "variable", "big");
    call_number(&call, "n", &n);
    call_number(&call, "flags", &cached);
    for (uint64_t i = 2; i < 4; i++) {
        (void)call_run(&rig, i, "pull_big", &call, 0);
    }
    assert_int_equal(2 * BIG * sizeof(float), atomic_load(&sent_bytes));
    assert_pulled(&rig, 4, "small", NULL, 0, &cached, zeros, 2);
    assert_int_equal(2 * BIG * sizeof(float), atomic_load(&sent_bytes));
    rig_close(&rig);
}

TEST(pull_of_a_part_cannot_be_cached)
{
    const uint64_t row = 0;
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable v = dense_of("v", 2, 1);
    (void)rig_create(&rig, &v, 0, 1);
    struct call call = {.n = 0};
    call_text(&call, "variable", "v");
    call_number(&call, "flags", &cached);
    call_vector(&call, "keys", COX_I64, 1, &row);
    const struct rig_done done = call_run(&rig, 1, "pull", &call, COX_ESTEP);
    assert_int_equal(COX_EINVAL, done.head.step_code);
    rig_close(&rig);
}

/* ---- in two halves */

enum { WAIT_ALL, WAIT_NONE, WAIT_TWICE, WAIT_AFTER_FLUSH }; /* as in steps/probe.c */

static struct call begin(const int64_t *n, const int64_t *how, const uint64_t *keys,
                         size_t n_keys)
{
    struct call call = {.n = 0};
    call_text(&call, "variable", keys != NULL ? "t" : "v");
    call_number(&call, "n", n);
    call_number(&call, "how", how);
    if (keys != NULL) {
        call_vector(&call, "keys", COX_I64, n_keys, keys);
    }
    return call;
}

TEST(pulls_that_are_under_way_together_are_waited_for_in_any_order)
{
    static const uint64_t keys[] = {8, 5, 8};
    static const float rows[] = {80, 50, 80};
    const float values[3] = {7, 8, 9};
    for (uint32_t n_ps = 1; n_ps <= 3; n_ps++) {
        struct rig rig;
        const int64_t n = 8;
        const int64_t how = WAIT_ALL;
        rig_open(&rig, n_ps, 1, 16);
        const struct coxi_variable v = dense_of("v", 3, 1);
        const struct coxi_variable t = table_of("t", 1);
        (void)rig_create(&rig, &v, 0, n_ps);
        (void)rig_create(&rig, &t, 0, 0);
        set(&rig, 1, "v", NULL, 0, values, 3);
        set(&rig, 2, "t", keys, 3, rows, 3);
        for (uint64_t i = 0; i < 2; i++) {
            struct call call = begin(&n, &how, i == 0 ? NULL : keys, 3);
            const struct rig_done done = call_run(&rig, 3 + i, "begin", &call, 0);
            const float *found = rig_value(&done, "values").data;
            for (int k = 0; k < 8; k++) {
                assert_true(found[k] == (i == 0 ? 7 : 80));
            }
        }
        rig_close(&rig);
    }
}

TEST(pulls_that_nobody_waits_for_end_with_the_step)
{
    struct rig rig;
    const int64_t n = 8;
    const int64_t how = WAIT_NONE;
    rig_open(&rig, 2, 1, 16);
    const struct coxi_variable v = dense_of("v", 200, 1);
    (void)rig_create(&rig, &v, 0, 2);
    struct call call = begin(&n, &how, NULL, 0);
    for (uint64_t i = 1; i <= 50; i++) {
        (void)call_run(&rig, i, "begin", &call, 0);
    }
    rig_close(&rig);
}

TEST(pulls_beyond_eight_at_a_time_are_too_many)
{
    struct rig rig;
    const int64_t n = 9;
    const int64_t how = WAIT_ALL;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable v = dense_of("v", 3, 1);
    (void)rig_create(&rig, &v, 0, 1);
    struct call call = begin(&n, &how, NULL, 0);
    const struct rig_done done = call_run(&rig, 1, "begin", &call, COX_ESTEP);
    assert_int_equal(COX_ELIMIT, done.head.step_code);
    rig_close(&rig);
}

TEST(pull_is_waited_for_once)
{
    struct rig rig;
    const int64_t n = 2;
    const int64_t how = WAIT_TWICE;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable v = dense_of("v", 3, 1);
    (void)rig_create(&rig, &v, 0, 1);
    struct call call = begin(&n, &how, NULL, 0);
    const struct rig_done done = call_run(&rig, 1, "begin", &call, COX_ESTEP);
    assert_int_equal(COX_EINVAL, done.head.step_code);
    rig_close(&rig);
}

TEST(pull_that_a_flush_comes_between_is_of_before_it_or_after)
{
    struct rig rig;
    const int64_t n = 3;
    const int64_t how = WAIT_AFTER_FLUSH;
    rig_open(&rig, 1, 1, 16);
    const struct coxi_variable v = dense_of("v", 3, 1);
    (void)rig_create(&rig, &v, 0, 1);
    struct call call = begin(&n, &how, NULL, 0);
    const struct rig_done done = call_run(&rig, 1, "begin", &call, 0);
    const float *found = rig_value(&done, "values").data;
    for (int i = 0; i < 3; i++) {
        assert_true(found[i] == 0 || found[i] == 1);
    }
    const float ones[] = {1, 1, 1};
    assert_pulled(&rig, 2, "v", NULL, 0, &plain, ones, 3);
    rig_close(&rig);
}

TEST(pulls_of_a_ps_that_is_lost_end_and_tell)
{
    struct rig rig;
    const int64_t n = 3;
    const int64_t how = WAIT_ALL;
    rig_open(&rig, 2, 1, 16);
    const struct coxi_variable v = dense_of("v", 4, 1);
    (void)rig_create(&rig, &v, 0, 2);
    rig.lost[1] = true;
    assert_code(0, rig_layout(&rig));
    struct call call = begin(&n, &how, NULL, 0);
    (void)call_run(&rig, 1, "begin", &call, COX_EPSLOST);
    rig_close(&rig);
}
