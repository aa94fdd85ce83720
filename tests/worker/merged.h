/* Runs the steps of module `merge` in a rig. For tests linked with coxi_rig. */
#ifndef COXI_TESTS_WORKER_MERGED_H
#define COXI_TESTS_WORKER_MERGED_H

#include "tests/steps/merge.h"
#include "tests/test.h"
#include "tests/worker/counted.h"

/* Batches of gradients for one variable. */
struct batches {
    const char *variable;
    const int64_t *sizes; /* rows of each batch */
    size_t n;             /* batches */
    const int64_t *forms; /* NULL: all are listed */
    const uint64_t *keys; /* or numbers of rows; NULL: none is listed or a slice */
    const float *values;
    int64_t width;      /* numbers of a row */
    const float *scale; /* NULL: not pushed by the step */
    const float *rate;  /* or NULL */
};

/* The argument `name` is 1. */
static inline void call_flag(struct call *call, const char *name)
{
    static const int64_t one = 1;
    call_number(call, name, &one);
}

static inline struct call merged_call(const struct batches *batches,
                                      const int64_t *mode)
{
    struct call call = {.n = 0};
    size_t rows = 0;
    for (size_t i = 0; i < batches->n; i++) {
        rows += (size_t)batches->sizes[i];
    }
    call_text(&call, "variable", batches->variable);
    call_number(&call, "mode", mode);
    call_number(&call, "width", &batches->width);
    call_vector(&call, "sizes", COX_I64, batches->n, batches->sizes);
    call_vector(&call, "values", COX_F32, rows * (size_t)batches->width,
                batches->values);
    if (batches->keys != NULL) {
        call_vector(&call, "keys", COX_I64, rows, batches->keys);
    }
    if (batches->forms != NULL) {
        call_vector(&call, "forms", COX_I64, batches->n, batches->forms);
    }
    if (batches->scale != NULL) {
        call.args[call.n++] =
            (struct cox_value)COX_SCALAR("scale", COX_F32, batches->scale);
    }
    if (batches->rate != NULL) {
        call.args[call.n++] =
            (struct cox_value)COX_SCALAR("rate", COX_F32, batches->rate);
    }
    return call;
}

/* Runs `batches` in that mode. */
static inline struct rig_done merged_run(struct rig *rig, uint64_t closure,
                                         const struct batches *batches, int64_t mode,
                                         int code)
{
    const struct call call = merged_call(batches, &mode);
    return call_run(rig, closure, "batches", &call, code);
}

/* Pulls n numbers of rows of a variable (keys NULL: all rows). */
static inline void merged_pull(struct rig *rig, uint64_t closure, const char *variable,
                               const uint64_t *keys, size_t n_keys, float *ret,
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
    const struct cox_value values = rig_value(&done, "values");
    assert_int_equal(n, values.shape[0]);
    memcpy(ret, values.data, n * sizeof(float));
}

/* Asserts these numbers within a relative error of 1e-6 (`exact`: the same bits). */
static inline void assert_floats(const float *expected, const float *found, size_t n,
                                 bool exact)
{
    for (size_t i = 0; i < n; i++) {
        float error =
            found[i] > expected[i] ? found[i] - expected[i] : expected[i] - found[i];
        float size = expected[i] < 0 ? -expected[i] : expected[i];
        float most = exact ? 0 : 1e-6F * (size > 1 ? size : 1);
        if (!(error <= most)) {
            fail_msg("number %zu is %.9g, not %.9g", i, (double)found[i],
                     (double)expected[i]);
        }
    }
}

#endif
