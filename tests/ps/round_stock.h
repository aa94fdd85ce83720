/* A round of four closures on a store for tests. */
#ifndef COXI_TESTS_PS_ROUND_STOCK_H
#define COXI_TESTS_PS_ROUND_STOCK_H

#include "coxswain/types.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { FIRST = 101, ROUND = 105, MEMBERS = ROUND - FIRST };

/* A dense variable of `n` floats with an optimizer. */
static inline uint32_t dense(struct stock *s, const char *name, uint32_t kind,
                             float rate, uint32_t wire_dtype, uint64_t n)
{
    struct coxi_shard shard = {.count = n};
    struct coxi_variable variable = {
        .name = name,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {n},
        .shards = &shard,
        .n_shards = 1,
        .wire_dtype = wire_dtype,
        .optimizer = {.kind = kind,
                      .learning_rate = rate,
                      .momentum = kind == COXI_OPTIMIZER_MOMENTUM ? .9F : 0},
    };
    return stock_create(s, &variable);
}

/* Begins a commit of a closure of the round. */
static inline void begin(const struct stock *s, uint64_t closure, uint32_t attempt,
                         struct stock_commit *ret)
{
    stock_begin(s, closure, ret);
    ret->head.attempt = attempt;
    ret->head.round = ROUND;
}

/* Commits a gradient for the first n numbers of a variable in the round. */
static inline int push(struct stock *s, uint64_t closure, uint32_t attempt,
                       uint32_t variable, const float *gradient, uint64_t n,
                       bool *ret_duplicate)
{
    struct stock_commit commit;
    begin(s, closure, attempt, &commit);
    stock_add(&commit, variable, COXI_OP_GRADIENT, 0, n, gradient, n * sizeof(float));
    return stock_commit(s, &commit, ret_duplicate);
}

/* As clients end rounds: each ps has an end of its own. */
static const uint32_t ps_0[] = {0};

/* Ends the round; commits of `n_waiting` closures that count should wait. */
static inline int end_with(struct stock *s, const struct coxi_round_part parts[MEMBERS],
                           uint32_t n_waiting, bool *ret_duplicate)
{
    struct stock_commit commit;
    stock_begin(s, ROUND, &commit);
    commit.head.touched = ps_0;
    commit.head.n_touched = 1;
    stock_add(&commit, 0, COXI_OP_ROUND, FIRST, MEMBERS, parts,
              MEMBERS * sizeof(*parts));
    commit.head.n_waiting = n_waiting;
    return stock_commit(s, &commit, ret_duplicate);
}

/* Ends the round: all four count, by `factor`, and `n_waiting` have commits. */
static inline void end_these(struct stock *s, float factor, uint32_t n_waiting)
{
    struct coxi_round_part parts[MEMBERS];
    for (size_t i = 0; i < MEMBERS; i++) {
        parts[i] = (struct coxi_round_part){1, factor};
    }
    bool duplicate = true;
    assert_code(0, end_with(s, parts, n_waiting, &duplicate));
    assert_false(duplicate);
}

static inline void end_all(struct stock *s, float factor)
{
    end_these(s, factor, MEMBERS);
}

#endif
