/* A worker's copies of pulled variables are never older than their version says. */
#include "worker/copies.h"

#include <string.h>

#include "coxswain/types.h"
#include "tests/test.h"

static const struct coxi_shard shards[] = {{0, 0, 3}, {1, 3, 2}};
static const struct coxi_variable variable = {.name = "v",
                                              .dtype = COX_I32,
                                              .rank = 1,
                                              .shape = {5},
                                              .shards = shards,
                                              .n_shards = 2};
static const struct coxi_sight nothing = {0};
static const int32_t older[] = {1, 1, 1};
static const int32_t newer[] = {2, 2, 2};

static void assert_read(struct coxi_copy *copy, size_t shard, uint64_t incarnation,
                        int32_t expected)
{
    int32_t found[3] = {0};
    assert_true(coxi_copy_read(copy, shard, incarnation, &nothing, found));
    for (size_t i = 0; i < shards[shard].count; i++) {
        assert_int_equal(expected, found[i]);
    }
}

TEST(copies_of_shards_have_versions_of_their_own)
{
    struct coxi_copies copies;
    coxi_copies_init(&copies, 20);
    struct coxi_copy *copy = coxi_copies_add(&copies, &variable);
    assert_int_equal(1, coxi_copy_version(copy, 0, 70));
    assert_int_equal(1, coxi_copy_version(copy, 1, 71));
    coxi_copy_write(copy, 1, 71, 9, &nothing, newer);
    assert_int_equal(1, coxi_copy_version(copy, 0, 70));
    assert_int_equal(9, coxi_copy_version(copy, 1, 71));
    coxi_copy_write(copy, 0, 70, 4, &nothing, older);
    assert_read(copy, 0, 70, 1);
    assert_read(copy, 1, 71, 2);
    coxi_copies_fini(&copies);
}

TEST(copy_that_comes_late_does_not_take_the_place_of_a_newer_one)
{
    struct coxi_copies copies;
    coxi_copies_init(&copies, 20);
    struct coxi_copy *copy = coxi_copies_add(&copies, &variable);
    coxi_copy_write(copy, 0, 70, 5, &nothing, newer);
    coxi_copy_write(copy, 0, 70, 4, &nothing, older);
    assert_int_equal(5, coxi_copy_version(copy, 0, 70));
    assert_read(copy, 0, 70, 2);
    coxi_copies_fini(&copies);
}

TEST(copy_of_another_incarnation_counts_for_nothing)
{
    int32_t found[3] = {7, 7, 7};
    struct coxi_copies copies;
    coxi_copies_init(&copies, 20);
    struct coxi_copy *copy = coxi_copies_add(&copies, &variable);
    coxi_copy_write(copy, 0, 70, 50, &nothing, older);
    assert_int_equal(1, coxi_copy_version(copy, 0, 71));
    assert_false(coxi_copy_read(copy, 0, 71, &nothing, found));
    assert_int_equal(7, found[0]);
    /* the versions of a new incarnation begin anew */
    coxi_copy_write(copy, 0, 71, 2, &nothing, newer);
    assert_int_equal(2, coxi_copy_version(copy, 0, 71));
    assert_read(copy, 0, 71, 2);
    coxi_copies_fini(&copies);
}

/* Asserts that a step with the sight takes `expected` from shard 0 of incarnation 70; 0:
 * it has to ask. */
static void assert_taken(struct coxi_copy *copy, uint64_t after, uint64_t view,
                         uint64_t version, int32_t expected)
{
    const struct coxi_sight sight = {after, view};
    int32_t found[3] = {0};
    assert_int_equal(version, coxi_copy_take(copy, 0, 70, &sight, found));
    assert_int_equal(expected, found[2]);
}

TEST(copy_is_taken_by_those_who_see_what_the_one_saw_that_pulled_it)
{
    const struct coxi_sight sight = {100, 8};
    const struct coxi_sight later = {110, 9};
    int32_t found[3];
    struct coxi_copies copies;
    coxi_copies_init(&copies, 20);
    struct coxi_copy *copy = coxi_copies_add(&copies, &variable);
    assert_taken(copy, 0, 0, 0, 0);
    coxi_copy_write(copy, 0, 70, 5, &nothing, older);
    assert_taken(copy, 0, 0, 0, 0); /* nobody may rely on it */
    coxi_copy_write(copy, 0, 70, 6, &sight, newer);
    assert_taken(copy, 100, 8, 6, 2);
    assert_taken(copy, 100, 9, 0, 0);
    assert_taken(copy, 101, 8, 0, 0);
    assert_int_equal(0, coxi_copy_take(copy, 0, 71, &sight, found));
    /* the ps says that it has nothing newer */
    assert_true(coxi_copy_read(copy, 0, 70, &later, found));
    assert_taken(copy, 110, 9, 6, 2);
    assert_taken(copy, 100, 8, 0, 0);
    /* older values come late: the newer ones have all that these show */
    coxi_copy_write(copy, 0, 70, 4, &sight, older);
    assert_taken(copy, 100, 8, 6, 2);
    coxi_copies_fini(&copies);
}

TEST(copies_take_no_more_memory_than_they_may)
{
    struct coxi_copies copies;
    coxi_copies_init(&copies, 45);
    assert_non_null(coxi_copies_add(&copies, &variable));
    assert_non_null(coxi_copies_add(&copies, &variable));
    assert_null(coxi_copies_add(&copies, &variable));
    coxi_copies_fini(&copies);
    coxi_copies_init(&copies, 0);
    assert_null(coxi_copies_add(&copies, &variable));
    coxi_copies_fini(&copies);
}
