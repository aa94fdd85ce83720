/*
 * The click model: logistic regression, or a factorization machine (Rendle, ICDM 2010)
 *
 *   score(x) = bias + sum_i w_i x_i
 *              + 1/2 sum_f ((sum_i v_if x_i)^2 - sum_i v_if^2 x_i^2)
 *
 * w_i is a row of the table "weights"; the MODEL_FACTORS values of v_i are a row of the
 * table "factors", which logistic regression does not have.
 */
#ifndef CTR_MODEL_H
#define CTR_MODEL_H

#include <stddef.h>

#include <coxswain/batch.h>

enum { MODEL_FACTORS = 8 };

/* Parameters or gradients for the features of a batch: feature i of it has weights[i],
 * and MODEL_FACTORS factors from factors[i * MODEL_FACTORS] on. */
struct model {
    float bias;
    float *weights;
    float *factors; /* NULL: logistic regression */
};

/* Memory for n features; 0: there is none left. Free with model_fini in any case. */
int model_init(struct model *model, size_t n, int with_factors);
void model_fini(struct model *model);

/* The score of row r of the batch. */
float model_score(const struct model *model, const struct cox_batch *batch, size_t r);

/*
 * The gradient of the summed log loss of all rows. Each feature of a row also adds l2 / 2
 * times its squared weight to the loss, and factors_l2 / 2 times its squared factors: so
 * the more often a feature occurs, the more both its data and its penalty count. Returns
 * the sum of the rows' log losses before the update.
 */
double model_gradient(const struct model *model, const struct cox_batch *batch,
                      float l2, float factors_l2, struct model *gradient);

/* 1 / (1 + exp(-score)), and the log loss of a label, both without overflow. */
double model_probability(float score);
double model_loss(float score, float label);

#endif
