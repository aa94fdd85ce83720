/* A shard to which a test pushes gradients. */
#ifndef COXI_TESTS_PS_SUBJECT_H
#define COXI_TESTS_PS_SUBJECT_H

#include "coxswain/types.h"
#include "ps/dense.h"
#include "tests/ps/rows.h"
#include "tests/test.h"

/* A shard of `rows` rows with `columns` columns, all 0. */
struct subject {
    struct coxi_shard shard;
    struct coxi_variable variable;
    struct coxi_dense *dense;
};

static inline void subject_open(struct subject *s,
                                const struct coxi_optimizer *optimizer, uint64_t rows,
                                uint64_t columns)
{
    s->shard = (struct coxi_shard){.count = rows};
    s->variable = (struct coxi_variable){.name = "v",
                                         .dtype = COX_F32,
                                         .rank = 2,
                                         .shape = {rows, columns},
                                         .shards = &s->shard,
                                         .n_shards = 1,
                                         .optimizer = *optimizer};
    assert_code(0, coxi_variable_check(&s->variable, 1));
    assert_code(0, coxi_dense_new(&s->variable, &s->shard, NULL, &s->dense));
}

static inline void push(struct subject *s, const float *gradient)
{
    update_rows(s->dense, 0, s->shard.count, COXI_OP_GRADIENT, gradient);
}

#endif
