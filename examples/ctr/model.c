/* See model.h. */
#include "model.h"

#include <math.h>
#include <stdlib.h>
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

struct scored {
    float score;
    float label;
};

static int by_score(const void *a, const void *b)
{
    float x = ((const struct scored *)a)->score;
    float y = ((const struct scored *)b)->score;
    return (x > y) - (x < y);
}

double model_auc(const float *scores, const float *labels, size_t n)
{
    struct scored *sorted = malloc((n + 1) * sizeof(*sorted));
    double ranks = 0;
    double positives = 0;
    if (sorted == NULL) {
        return NAN;
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = (struct scored){scores[i], labels[i]};
        positives += labels[i] > 0;
    }
    qsort(sorted, n, sizeof(*sorted), by_score);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        double positive_ties = 0;
        while (end < n && sorted[end].score == sorted[i].score) {
            positive_ties += sorted[end++].label > 0;
        }
        ranks += positive_ties * ((double)(i + end + 1) / 2); /* ranks from 1 */
        i = end;
    }
    free(sorted);
    double negatives = (double)n - positives;
    if (positives == 0 || negatives == 0) {
        return 0.5;
    }
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}
