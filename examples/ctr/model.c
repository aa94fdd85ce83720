/* See model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>

int model_init(struct model *model, size_t n, int with_factors)
{
    size_t n_factors = with_factors ? MODEL_FACTORS : 0;
    *model = (struct model){.weights = malloc((n + 1) * sizeof(float))};
    if (with_factors) {
        model->factors = malloc((n + 1) * n_factors * sizeof(float));
    }
    return model->weights != NULL && (model->factors != NULL || !with_factors);
}

void model_fini(struct model *model)
{
    free(model->weights);
    free(model->factors);
}

static float value_of(const struct cox_batch *batch, size_t i)
{
    return batch->values != NULL ? batch->values[i] : 1;
}

/* sum[f] = sum_i v_if x_i over the features of row r. Returns sum_if (v_if x_i)^2. */
static float sum_factors(const struct model *model, const struct cox_batch *batch,
                         size_t r, float sum[MODEL_FACTORS])
{
    float squares = 0;
    for (size_t i = batch->begin[r]; i < batch->begin[r + 1]; i++) {
        const float *v = model->factors + i * MODEL_FACTORS;
        for (int f = 0; f < MODEL_FACTORS; f++) {
            float vx = v[f] * value_of(batch, i);
            sum[f] += vx;
            squares += vx * vx;
        }
    }
    return squares;
}

float model_score(const struct model *model, const struct cox_batch *batch, size_t r)
{
    float sum[MODEL_FACTORS] = {0};
    float score = model->bias;
    for (size_t i = batch->begin[r]; i < batch->begin[r + 1]; i++) {
        score += model->weights[i] * value_of(batch, i);
    }
    if (model->factors != NULL) {
        score -= 0.5F * sum_factors(model, batch, r, sum);
    }
    for (int f = 0; f < MODEL_FACTORS; f++) {
        score += 0.5F * sum[f] * sum[f];
    }
    return score;
}

double model_probability(float score)
{
    return 1.0 / (1.0 + exp(-(double)score));
}

double model_loss(float score, float label)
{
    /* log(1 + exp(-z)) for z = score or -score */
    double z = label > 0 ? (double)score : -(double)score;
    return z > 0 ? log1p(exp(-z)) : -z + log1p(exp(z));
}

/* The factors' gradient by the features of row r: its error times the derivative of its
 * score, and the penalty. */
static void factors_gradient(const struct model *model, const struct cox_batch *batch,
                             size_t r, float error, float l2, float *gradient)
{
    float sum[MODEL_FACTORS] = {0};
    (void)sum_factors(model, batch, r, sum);
    for (size_t i = batch->begin[r]; i < batch->begin[r + 1]; i++) {
        float x = value_of(batch, i);
        for (size_t f = 0; f < MODEL_FACTORS; f++) {
            float v = model->factors[i * MODEL_FACTORS + f];
            gradient[i * MODEL_FACTORS + f] = error * x * (sum[f] - v * x) + l2 * v;
        }
    }
}

double model_gradient(const struct model *model, const struct cox_batch *batch,
                      float l2, float factors_l2, struct model *gradient)
{
    double loss = 0;
    gradient->bias = 0;
    for (size_t r = 0; r < batch->n; r++) {
        float label = batch->labels[r] > 0 ? 1 : 0;
        float score = model_score(model, batch, r);
        float error = (float)(model_probability(score) - (double)label);
        loss += model_loss(score, label);
        gradient->bias += error;
        for (size_t i = batch->begin[r]; i < batch->begin[r + 1]; i++) {
            gradient->weights[i] = error * value_of(batch, i) + l2 * model->weights[i];
        }
        if (model->factors != NULL) {
            factors_gradient(model, batch, r, error, factors_l2, gradient->factors);
        }
    }
    return loss;
}
