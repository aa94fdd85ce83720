/* See lifecycle.h. */
#include "tests/ps/lifecycle.h"

#include <math.h>

#include "common/initializer.h"
#include "coxswain/types.h"
#include "tests/test.h"

const struct coxi_initializer lifecycle_uniform = {COXI_INIT_UNIFORM, -1, 1, 42};

struct coxi_variable lifecycle_variable(uint32_t dim, struct coxi_lifecycle lifecycle)
{
    return (struct coxi_variable){
        .name = "t",
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {dim},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1},
        .initializer = lifecycle_uniform,
        .lifecycle = lifecycle};
}

struct coxi_table *lifecycle_table(const struct coxi_variable *v)
{
    struct coxi_table *table;
    assert_code(0, coxi_variable_check(v, 1));
    assert_code(0, coxi_table_new(v, NULL, &table));
    return table;
}

void lifecycle_begin(struct lifecycle_work *work, enum coxi_op op, uint64_t first,
                     size_t n)
{
    work->change = (struct coxi_table_change){.op = op,
                                              .draw = first,
                                              .keys = work->keys,
                                              .n = n,
                                              .values = work->values,
                                              .rows = work->rows};
    assert_true(n <= LIFECYCLE_CHANGE_MAX);
    for (size_t i = 0; i < n; i++) {
        work->keys[i] = first + i;
    }
    for (size_t i = 0; i < (size_t)LIFECYCLE_CHANGE_MAX * LIFECYCLE_WIDE; i++) {
        work->values[i] = 1;
    }
}

void lifecycle_apply(struct coxi_table *table, enum coxi_op op, uint64_t first,
                     size_t n)
{
    struct lifecycle_work work;
    lifecycle_begin(&work, op, first, n);
    assert_code(0, coxi_table_resolve(table, &work.change));
    coxi_table_update(table, &work.change);
}

void lifecycle_push(struct coxi_table *table, uint64_t first, size_t n)
{
    lifecycle_apply(table, COXI_OP_GRADIENT, first, n);
}

float lifecycle_moved(struct coxi_table *table, uint64_t key)
{
    float initial;
    float found;
    coxi_initializer_row(&lifecycle_uniform, key, &initial, 1);
    coxi_table_pull(table, &key, 1, &found);
    return roundf((found - initial) * 100) / 100;
}

bool lifecycle_has(struct coxi_table *table, uint64_t key)
{
    struct coxi_table_counters before;
    struct coxi_table_counters after;
    float row[LIFECYCLE_WIDE];
    coxi_table_counts(table, &before);
    coxi_table_pull(table, &key, 1, row);
    coxi_table_counts(table, &after);
    assert_int_equal(before.lookups + 1, after.lookups);
    return after.hits > before.hits;
}
