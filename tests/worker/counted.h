/* Variables and closures for tests of what a step's calls send. */
#ifndef COXI_TESTS_WORKER_COUNTED_H
#define COXI_TESTS_WORKER_COUNTED_H

#include <string.h>

#include "common/initializer.h"
#include "tests/test.h"
#include "tests/worker/rig.h"

/* The arguments of a closure. */
struct call {
    struct cox_value args[12];
    size_t n;
};

static inline void call_text(struct call *call, const char *name, const char *text)
{
    uint64_t n = 0;
    while (text[n++] != '\0') {
    }
    call->args[call->n++] = (struct cox_value)COX_VECTOR(name, COX_U8, n, text);
}

static inline void call_number(struct call *call, const char *name,
                               const int64_t *number)
{
    call->args[call->n++] = (struct cox_value)COX_SCALAR(name, COX_I64, number);
}

static inline void call_vector(struct call *call, const char *name, uint32_t dtype,
                               size_t n, const void *data)
{
    call->args[call->n++] = (struct cox_value)COX_VECTOR(name, dtype, n, data);
}

/* Runs a step as closure `id`; asserts that it ends with `code`. */
static inline struct rig_done call_run(struct rig *rig, uint64_t id, const char *step,
                                       const struct call *call, int code)
{
    rig_push(rig, id, 1, step, call->args, call->n);
    return rig_expect(rig, id, code);
}

/* Pulls n numbers of rows of a variable (keys NULL: all rows), by step "pull". */
static inline void call_pull(struct rig *rig, uint64_t id, const char *variable,
                             const uint64_t *keys, size_t n_keys, float *ret, size_t n)
{
    struct call call = {.n = 0};
    const int64_t count = (int64_t)n;
    call_text(&call, "variable", variable);
    call_number(&call, "n", &count);
    if (keys != NULL) {
        call_vector(&call, "keys", COX_I64, n_keys, keys);
    }
    const struct rig_done done = call_run(rig, id, "pull", &call, 0);
    const struct cox_value values = rig_value(&done, "values");
    assert_int_equal(n, values.shape[0]);
    memcpy(ret, values.data, n * sizeof(float));
}

/* A dense variable of rows x columns F32, and a table, both with SGD at rate 1. */
static inline struct coxi_variable dense_of(const char *name, uint64_t rows,
                                            uint64_t columns)
{
    return (struct coxi_variable){
        .name = name,
        .dtype = COX_F32,
        .rank = 2,
        .shape = {rows, columns},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1}};
}

static inline struct coxi_variable table_of(const char *name, uint64_t dim)
{
    return (struct coxi_variable){
        .name = name,
        .kind = COXI_KIND_TABLE,
        .dtype = COX_F32,
        .rank = 1,
        .shape = {dim},
        .optimizer = {.kind = COXI_OPTIMIZER_SGD, .learning_rate = 1}};
}

/* The loss scale "scale", which begins at 8. */
static inline struct coxi_variable scale_of_8(void)
{
    return (struct coxi_variable){.name = "scale",
                                  .dtype = COX_F32,
                                  .rank = 1,
                                  .shape = {1},
                                  .initializer = {.kind = COXI_INIT_CONSTANT, .a = 8},
                                  .optimizer = {.kind = COXI_OPTIMIZER_LOSS_SCALE,
                                                .growth_factor = 2,
                                                .growth_interval = 2000}};
}

#endif
