/* Distinct keys: compared with a search through all of them. */
#include "common/distinct.h"

#include <stdlib.h>

#include "common/rand.h"
#include "tests/test.h"

enum { KEYS = 5000 };

struct fixture {
    struct coxi_distinct distinct;
    uint64_t keys[KEYS]; /* of `distinct` */
    uint32_t found[KEYS];
};

/* Slots for n keys, in place of those that there are. */
static void make_slots(struct fixture *f, size_t n)
{
    free(f->distinct.slots);
    f->distinct.n_slots = coxi_distinct_slots(n);
    f->distinct.slots = calloc(f->distinct.n_slots, sizeof(struct coxi_maybe));
    assert_non_null(f->distinct.slots);
}

static struct fixture *fixture_new(size_t n)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->distinct.keys = f->keys;
    f->distinct.seed = 12345;
    make_slots(f, n);
    return f;
}

static void fixture_free(struct fixture *f)
{
    free(f->distinct.slots);
    free(f);
}

TEST(distinct_slots_are_a_power_of_two_at_most_half_full)
{
    assert_int_equal(16, coxi_distinct_slots(0));
    assert_int_equal(16, coxi_distinct_slots(8));
    assert_int_equal(32, coxi_distinct_slots(9));
    assert_int_equal(8192, coxi_distinct_slots(4096));
}

TEST(distinct_keys_are_numbered_in_the_order_in_which_they_come)
{
    static const uint64_t keys[] = {7, 0, 7, UINT64_MAX, 0, 8};
    static const uint32_t expected[] = {0, 1, 0, 2, 1, 3};
    struct fixture *f = fixture_new(6);
    coxi_distinct_add(&f->distinct, keys, 6, f->found);
    assert_memory_equal(expected, f->found, sizeof(expected));
    assert_int_equal(4, f->distinct.n);
    assert_true(f->keys[2] == UINT64_MAX && f->keys[3] == 8);
    fixture_free(f);
}

TEST(distinct_keys_stay_when_others_join_and_when_the_slots_are_others)
{
    uint64_t keys[KEYS];
    uint64_t draw = 1;
    struct fixture *f = fixture_new(0);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = coxi_rand(&draw) % (KEYS / 2);
    }
    for (size_t at = 0; at < KEYS; at += 100) {
        make_slots(f, at + 100);
        coxi_distinct_enter(&f->distinct);
        coxi_distinct_add(&f->distinct, keys + at, 100, f->found + at);
    }
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(f->keys[f->found[i]] == keys[i]);
    }
    for (size_t i = 0; i < f->distinct.n; i++) { /* no key is there twice */
        uint32_t at = 0;
        assert_int_equal(1, coxi_distinct_find(&f->distinct, &f->keys[i], 1, &at));
        assert_int_equal(i, at);
    }
    fixture_free(f);
}

TEST(distinct_find_stops_at_the_first_key_that_is_not_there)
{
    static const uint64_t keys[] = {5, 6, 7, 8};
    static const uint64_t wanted[] = {7, 5, 9, 6};
    uint32_t found[4] = {9, 9, 9, 9};
    struct fixture *f = fixture_new(4);
    coxi_distinct_add(&f->distinct, keys, 4, f->found);
    assert_int_equal(2, coxi_distinct_find(&f->distinct, wanted, 4, found));
    assert_true(found[0] == 2 && found[1] == 0 && found[2] == 9);
    assert_int_equal(0, coxi_distinct_find(&f->distinct, wanted, 0, found));
    assert_int_equal(4, f->distinct.n);
    fixture_free(f);
}
