/* See click_model.h. */
#include "bench/click_model.h"

#include <math.h>
#include <string.h>

float model_score(const struct rows *rows, size_t r, const float *weights, uint32_t dim,
                  float bias)
{
    float score = bias;
    float sum[MODEL_FACTORS] = {0};
    float squares = 0;
    for (size_t i = rows->begin[r]; i < rows->begin[r + 1]; i++) {
        const float *row = weights + (size_t)rows->slots[i] * dim;
        float x = rows->values[i];
        score += row[0] * x;
        for (uint32_t f = 1; f < dim; f++) {
            float vx = row[f] * x;
            sum[f - 1] += vx;
            squares += vx * vx;
        }
    }
    for (uint32_t f = 1; f < dim; f++) {
        score += 0.5F * sum[f - 1] * sum[f - 1];
    }
    return score - 0.5F * squares;
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

/* Adds what row r contributes: its error times the derivative of its score. */
static void add_gradient(const struct rows *rows, size_t r, const float *weights,
                         uint32_t dim, float error, float *gradients)
{
    float sum[MODEL_FACTORS] = {0};
    for (size_t i = rows->begin[r]; dim > 1 && i < rows->begin[r + 1]; i++) {
        const float *row = weights + (size_t)rows->slots[i] * dim;
        for (uint32_t f = 1; f < dim; f++) {
            sum[f - 1] += row[f] * rows->values[i];
        }
    }
    for (size_t i = rows->begin[r]; i < rows->begin[r + 1]; i++) {
        const float *row = weights + (size_t)rows->slots[i] * dim;
        float *gradient = gradients + (size_t)rows->slots[i] * dim;
        float x = rows->values[i];
        gradient[0] += error * x;
        for (uint32_t f = 1; f < dim; f++) {
            gradient[f] += error * x * (sum[f - 1] - row[f] * x);
        }
    }
}

double model_gradient(const struct rows *rows, const float *weights, uint32_t dim,
                      float bias, float l2, float *gradients, float *ret_bias)
{
    double loss = 0;
    float bias_gradient = 0;
    for (size_t i = 0; i < rows->n_keys * dim; i++) {
        gradients[i] = l2 * weights[i];
    }
    for (size_t r = 0; r < rows->n_rows; r++) {
        float score = model_score(rows, r, weights, dim, bias);
        float error = (float)(model_probability(score) - (double)rows->labels[r]);
        loss += model_loss(score, rows->labels[r]);
        bias_gradient += error;
        add_gradient(rows, r, weights, dim, error, gradients);
    }
    *ret_bias = bias_gradient;
    return loss;
}
