/* How many shards a variable has, and which ps get them. */
#include "coordinator/variables/partition.h"

#include <string.h>

#include "common/layout.h"
#include "tests/test.h"

enum { KIB = 1024 };

/* Rows of 1 KiB each: sizes are easy to read. */
static struct coxi_variable of_rows(uint64_t rows)
{
    return (struct coxi_variable){.name = "v",
                                  .kind = COXI_KIND_DENSE,
                                  .dtype = COX_F32,
                                  .rank = 2,
                                  .shape = {rows, 256}};
}

static uint32_t count(const struct cox_variable_spec *spec, uint64_t rows,
                      uint32_t n_ps)
{
    struct coxi_variable v = of_rows(rows);
    uint32_t n = 0;
    assert_code(0, coxi_partition_count(spec, &v, n_ps, &n));
    return n;
}

TEST(a_number_of_shards_that_is_asked_for_is_made_where_it_can_be)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.shards = 4;
    assert_int_equal(4, count(&spec, 10, 4));
    assert_int_equal(4, count(&spec, 10, 9));
    assert_int_equal(3, count(&spec, 10, 3)); /* not more shards than ps */
    assert_int_equal(2, count(&spec, 2, 9));  /* nor than rows */
}

TEST(shards_have_256_kib_or_more_unless_told_otherwise)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    assert_int_equal(1, count(&spec, 1, 8));
    assert_int_equal(1, count(&spec, 511, 8));
    assert_int_equal(2, count(&spec, 512, 8));
    assert_int_equal(3, count(&spec, 3 * 256 + 255, 8));
    assert_int_equal(8, count(&spec, 1 << 20, 8));
    spec.shard_min_bytes = 2 * KIB;
    assert_int_equal(1, count(&spec, 3, 8));
    assert_int_equal(4, count(&spec, 9, 8));
    spec.shard_min_bytes = 1;
    assert_int_equal(5, count(&spec, 5, 8));
}

TEST(shards_are_as_few_as_stay_below_the_maximum)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.shard_max_bytes = 4 * KIB;
    assert_int_equal(1, count(&spec, 4, 8));
    assert_int_equal(2, count(&spec, 5, 8));
    assert_int_equal(8, count(&spec, 32, 8));
    spec.shard_max_bytes = 4 * KIB + 1023; /* a row is not split */
    assert_int_equal(2, count(&spec, 5, 8));
}

TEST(a_maximum_that_cannot_be_kept_is_einval)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct coxi_variable v = of_rows(33);
    uint32_t n = 77;
    spec.name = "v";
    spec.shard_max_bytes = 4 * KIB;
    assert_code(COX_EINVAL, coxi_partition_count(&spec, &v, 8, &n));
    assert_error_names("'v'");
    assert_error_names("more ps");
    spec.shard_max_bytes = KIB - 1;
    assert_code(COX_EINVAL, coxi_partition_count(&spec, &v, 8, &n));
    assert_error_names("1024 bytes");
    assert_int_equal(77, n);
}

TEST(shards_go_to_the_ps_with_the_least_load)
{
    const uint64_t load[] = {30, 10, 20, 10, 40};
    struct coxi_shard shards[5];
    coxi_partition_place(load, 5, 5, shards);
    static const uint64_t order[] = {1, 3, 2, 0, 4};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(order[i], shards[i].ps);
    }
    coxi_partition_place(load, 5, 2, shards);
    assert_int_equal(1, shards[0].ps);
    assert_int_equal(3, shards[1].ps);
}

TEST(the_state_of_an_optimizer_is_load_too)
{
    struct coxi_variable v = of_rows(10);
    struct coxi_shard shards[2];
    coxi_shards_div(10, 2, shards);
    v.shards = shards;
    v.n_shards = 2;
    assert_int_equal(5 * KIB, coxi_partition_load(&v, 1));
    v.optimizer.kind = COXI_OPTIMIZER_ADAGRAD;
    assert_int_equal(10 * KIB, coxi_partition_load(&v, 1));
    v.optimizer.kind = COXI_OPTIMIZER_ADAM;
    assert_int_equal(15 * KIB, coxi_partition_load(&v, 1));
}
