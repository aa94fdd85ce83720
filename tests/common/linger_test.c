/* Polling before a wait. */
#include "common/linger.h"

#include "tests/test.h"

static const struct coxi_linger_limits limits = {1000, 4000, true};

struct looked {
    int n;
    int found_at; /* 0: never */
};

static bool look(void *arg)
{
    struct looked *looked = arg;
    looked->n++;
    return looked->found_at != 0 && looked->n >= looked->found_at;
}

TEST(linger_finds_what_is_there_with_one_look)
{
    struct coxi_linger linger = {0};
    struct looked looked = {.found_at = 1};
    assert_true(coxi_linger(&linger, &limits, look, &looked));
    assert_int_equal(1, looked.n);
}

/* The second poll succeeds even on a slow machine. */
TEST(linger_waits_for_what_comes_soon)
{
    struct coxi_linger linger = {0};
    const struct coxi_linger_limits patient = {UINT32_MAX, UINT32_MAX, true};
    struct looked looked = {.found_at = 3};
    assert_true(coxi_linger(&linger, &patient, look, &looked));
    assert_int_equal(3, looked.n);
}

TEST(linger_looks_longer_while_that_helps_but_not_without_end)
{
    struct coxi_linger linger = {0};
    for (int i = 0; i < 10; i++) {
        struct looked looked = {.found_at = 1};
        assert_true(coxi_linger(&linger, &limits, look, &looked));
        assert_true(linger.ns <= limits.most_ns);
    }
    assert_int_equal(limits.most_ns, linger.ns);
}

TEST(linger_that_finds_nothing_looks_once_in_64_times)
{
    struct coxi_linger linger = {0};
    struct looked looked = {0};
    int n_looks = 0;
    while (linger.n < 1 || linger.ns > 0) { /* the first ones grow shorter */
        assert_false(coxi_linger(&linger, &limits, look, &looked));
    }
    for (int i = 0; i < 128; i++) {
        int before = looked.n;
        linger.ns = 0; /* as after a look that was long enough in vain */
        assert_false(coxi_linger(&linger, &limits, look, &looked));
        n_looks += looked.n > before;
    }
    assert_int_equal(2, n_looks);
}
