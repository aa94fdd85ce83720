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

/* Four batches of a width of 3, of which one is empty. */
enum { MERGED_BATCHES = 4, MERGED_ROWS = 12, MERGED_NUMBERS = MERGED_ROWS * 3 };

static const int64_t merged_sizes[MERGED_BATCHES] = {5, 1, 0, 6};

/* Their numbers, from -1 to 1. */
static inline const float *merged_gradients(void)
{
    static float values[MERGED_NUMBERS];
    uint64_t state = 4;
    for (size_t i = 0; i < MERGED_NUMBERS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        values[i] = (float)((double)(state >> 40) / 0x1p23 - 1);
    }
    return values;
}

/* Two batches: the gradient 1 twice, for row 3 of table "t". */
static const uint64_t merged_rows[] = {3, 3};
static const int64_t merged_each[] = {1, 1};
static const float merged_ones[] = {1, 1};
static const struct batches merged_two = {.variable = "t",
                                          .sizes = merged_each,
                                          .n = 2,
                                          .keys = merged_rows,
                                          .values = merged_ones,
                                          .width = 1};

/* Opens a rig of one worker with the module. */
static inline void merged_open(struct rig *rig, uint32_t n_ps)
{
    rig_open(rig, n_ps, 1, 16);
    assert_code(0, rig_load(rig, 1, "merge", true));
}

/* The same with one ps, and table "t" of one number a row, with SGD at rate 1. */
static inline void merged_open_one(struct rig *rig)
{
    const struct coxi_variable table = table_of("t", 1);
    merged_open(rig, 1);
    (void)rig_create(rig, &table, 0, 0);
}

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

/* The value of row 3 of table "t", which has one number a row. */
static inline float merged_value(struct rig *rig, uint64_t closure)
{
    const uint64_t row = 3;
    float found = 0;
    call_pull(rig, closure, "t", &row, 1, &found, 1);
    return found;
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
