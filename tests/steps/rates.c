/* Steps that push gradients to many variables, and to one row whose rate a test
 * reads. */
#include <stdio.h>

#include <coxswain/step.h>

enum { KEYS = 16, ROWS = 14, DIM = 2, TOUCHED = 4 };

static float gradient(int64_t i, uint64_t row, int column, int64_t k)
{
    return (float)((i * 7 + (int64_t)row * 3 + column * 5 + k) % 11 - 5) / 8;
}

static void fill(int64_t i, int64_t k, const uint64_t *rows, size_t n, float *ret)
{
    for (size_t r = 0; r < n; r++) {
        for (int c = 0; c < DIM; c++) {
            ret[r * DIM + (size_t)c] = gradient(i, rows[r], c, k);
        }
    }
}

/* Pushes gradients to some rows of a table. */
static int push_table(struct cox_step *step, struct cox_variable *t, int64_t i,
                      int64_t k)
{
    uint64_t keys[TOUCHED];
    float g[TOUCHED * DIM];
    for (uint64_t j = 0; j < TOUCHED; j++) {
        keys[j] = ((uint64_t)i * 5 + j * 3 + (uint64_t)k) % KEYS;
    }
    fill(i, k, keys, TOUCHED, g);
    return cox_step_push_rows(step, t, keys, TOUCHED, g);
}

/* Pushes gradients to a dense variable: to all rows, to two listed ones, or to a slice
 * of two. */
static int push_dense(struct cox_step *step, struct cox_variable *d, int64_t i,
                      int64_t k)
{
    uint64_t rows[ROWS];
    float g[ROWS * DIM];
    uint64_t begin = (uint64_t)(i * 5 + k) % (ROWS - 1);
    for (uint64_t r = 0; r < ROWS; r++) {
        rows[r] = i % 3 == 0 ? r : (begin + r * (i % 3 == 1 ? 6 : 1)) % ROWS;
    }
    fill(i, k, rows, ROWS, g);
    const struct cox_rows touched = i % 3 == 0   ? cox_rows_all()
                                    : i % 3 == 1 ? cox_rows_listed(rows, 2)
                                                 : cox_rows_slice(begin, 2);
    return cox_step_update(step, d, COX_UPDATE_GRADIENT, touched, g);
}

/* Pushes step `i`'s gradients to `n` tables t0 ... and `n` dense variables d0 ... */
static int train(struct cox_step *step)
{
    const int64_t *i = cox_step_scalar(step, "i", COX_I64);
    const int64_t *n = cox_step_scalar(step, "n", COX_I64);
    int r = i != NULL && n != NULL ? 0 : cox_step_fail(step, 1, "train needs i and n");
    for (int64_t k = 0; r == 0 && k < *n; k++) {
        char name[32];
        struct cox_variable *v;
        (void)snprintf(name, sizeof(name), "t%d", (int)k);
        r = cox_step_variable(step, name, &v);
        if (r == 0) {
            r = push_table(step, v, *i, k);
        }
        (void)snprintf(name, sizeof(name), "d%d", (int)k);
        if (r == 0) {
            r = cox_step_variable(step, name, &v);
        }
        if (r == 0) {
            r = push_dense(step, v, *i, k);
        }
    }
    return r;
}

/* Pushes the gradient -1 to row `key` of table `rates` (dim 1): with SGD from 0, the
 * row is then its rate. `at`, if given: the schedule's step. */
static int mark(struct cox_step *step)
{
    const int64_t *key = cox_step_scalar(step, "key", COX_I64);
    const int64_t *at = cox_step_scalar(step, "at", COX_I64);
    const float minus_one = -1;
    struct cox_variable *rates;
    int r = key != NULL ? 0 : cox_step_fail(step, 1, "mark needs a key");
    if (r == 0) {
        r = cox_step_variable(step, "rates", &rates);
    }
    if (r == 0) {
        const uint64_t row = (uint64_t)*key;
        r = cox_step_push_rows(step, rates, &row, 1, &minus_one);
    }
    if (r == 0 && at != NULL) {
        cox_step_rate_step(step, (uint64_t)*at);
    }
    return r;
}

COX_STEPS(COX_STEP("train", train), COX_STEP("mark", mark));
