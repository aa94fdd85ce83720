/* Steps that pull and push as training does. */
#include <stdlib.h>

#include <coxswain/step.h>

enum { ROWS_MAX = 4096 };

/* Pushes gradients of 1 to the rows `keys` of table `t` (dim 2) and to all of dense `w`
 * (f32). */
static int push_ones(struct cox_step *step)
{
    const struct cox_value *keys = cox_step_argument(step, "keys");
    struct cox_variable *t;
    struct cox_variable *w;
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    if (keys == NULL || keys->shape[0] > ROWS_MAX) {
        return cox_step_fail(step, 1, "push_ones needs up to %d keys", ROWS_MAX);
    }
    int r = cox_step_variable(step, "t", &t);
    if (r == 0) {
        r = cox_step_variable(step, "w", &w);
    }
    if (r == 0) {
        r = cox_step_shape(step, w, &dtype, &rank, shape);
    }
    if (r != 0) {
        return r;
    }
    size_t n_rows = keys->shape[0] * 2;
    size_t n = n_rows > shape[0] ? n_rows : shape[0];
    float *ones = malloc((n + 1) * sizeof(*ones));
    if (ones == NULL) {
        return cox_step_fail(step, 2, "out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        ones[i] = 1;
    }
    r = cox_step_push_rows(step, t, (const uint64_t *)keys->data, keys->shape[0], ones);
    if (r == 0) {
        r = cox_step_push(step, w, ones);
    }
    free(ones);
    return r;
}

/* Returns the rows `keys` of `t` as "rows" and all of `w` as "w", in one pull. */
static int pull_all(struct cox_step *step)
{
    static float rows[ROWS_MAX * 2];
    static float w[ROWS_MAX];
    const struct cox_value *keys = cox_step_argument(step, "keys");
    struct cox_pull pulls[2] = {{.values = rows}, {.values = w}};
    uint32_t dtype;
    uint32_t rank;
    uint64_t shape[COX_RANK_MAX];
    if (keys == NULL || keys->shape[0] > ROWS_MAX) {
        return cox_step_fail(step, 1, "pull_all needs up to %d keys", ROWS_MAX);
    }
    pulls[0].rows = cox_rows_listed((const uint64_t *)keys->data, keys->shape[0]);
    int r = cox_step_variable(step, "t", &pulls[0].variable);
    if (r == 0) {
        r = cox_step_variable(step, "w", &pulls[1].variable);
    }
    if (r == 0) {
        r = cox_step_shape(step, pulls[1].variable, &dtype, &rank, shape);
    }
    if (r == 0 && shape[0] > ROWS_MAX) {
        return cox_step_fail(step, 3, "w has more than %d elements", ROWS_MAX);
    }
    if (r == 0) {
        r = cox_step_pull(step, pulls, 2);
    }
    if (r != 0) {
        return r;
    }
    struct cox_value results[2] = {
        COX_VECTOR("rows", COX_F32, keys->shape[0] * 2, rows),
        COX_VECTOR("w", COX_F32, shape[0], w),
    };
    r = cox_step_return(step, &results[0]);
    return r != 0 ? r : cox_step_return(step, &results[1]);
}

/* Counts an example of weight 2 and value `value`, right by a score of 0.9 and wrong by one
 * of 0.2, in the metrics "mean", "count" and "auc". */
static int score(struct cox_step *step)
{
    static const char *const names[3] = {"mean", "count", "auc"};
    static const float labels[2] = {1, 0};
    static const float scores[2] = {0.9F, 0.2F};
    const double *value = cox_step_scalar(step, "value", COX_F64);
    struct cox_variable *metrics[3];
    int r = value != NULL ? 0 : cox_step_fail(step, 1, "score needs a value");
    for (int i = 0; r == 0 && i < 3; i++) {
        r = cox_step_variable(step, names[i], &metrics[i]);
    }
    if (r == 0) {
        r = cox_step_metric_add(step, metrics[0], *value, 2);
    }
    if (r == 0) {
        r = cox_step_metric_add(step, metrics[1], 0, 2);
    }
    return r == 0 ? cox_step_metric_auc(step, metrics[2], labels, scores, 2) : r;
}

/* Pushes the gradient (1, `value`) to row 7 of table `t` (dim 2), and 1 to the first
 * row of `w`. */
static int push_value(struct cox_step *step)
{
    const uint64_t key = 7;
    const float one = 1;
    const double *value = cox_step_scalar(step, "value", COX_F64);
    struct cox_variable *t;
    struct cox_variable *w;
    int r = value != NULL ? 0 : cox_step_fail(step, 1, "push_value needs a value");
    if (r == 0) {
        r = cox_step_variable(step, "t", &t);
    }
    if (r == 0) {
        r = cox_step_variable(step, "w", &w);
    }
    if (r == 0) {
        r = cox_step_update(step, w, COX_UPDATE_GRADIENT, cox_rows_slice(0, 1), &one);
    }
    if (r == 0) {
        const float gradient[2] = {1, (float)*value};
        r = cox_step_push_rows(step, t, &key, 1, gradient);
    }
    return r;
}

COX_STEPS(COX_STEP("score", score), COX_STEP("push_value", push_value),
          COX_STEP("push_ones", push_ones), COX_STEP("pull_all", pull_all));
