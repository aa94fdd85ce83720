/*
 * The click model: logistic regression, or a factorization machine (Rendle, ICDM 2010)
 *
 *   score(x) = bias + sum_i w_i x_i
 *              + 1/2 sum_f ((sum_i v_if x_i)^2 - sum_i v_if^2 x_i^2)
 *
 * A feature's parameters are one row of a table: w, and for the factorization machine
 * the MODEL_FACTORS values of v.
 */
#ifndef BENCH_CLICK_MODEL_H
#define BENCH_CLICK_MODEL_H

#include <stdint.h>

#include "bench/click_rows.h"

enum { MODEL_FACTORS = 8, MODEL_LR_DIM = 1, MODEL_FM_DIM = 1 + MODEL_FACTORS };

/* The score of row r; `weights` has a row of `dim` floats for each key of `rows`. */
float model_score(const struct rows *rows, size_t r, const float *weights, uint32_t dim,
                  float bias);

/*
 * The gradient of the summed log loss of all rows, plus l2 / 2 * |weights|^2 over the
 * rows of the table that occur. Fills `gradients` (like weights) and *ret_bias; returns
 * the sum of the rows' log losses before the update.
 */
double model_gradient(const struct rows *rows, const float *weights, uint32_t dim,
                      float bias, float l2, float *gradients, float *ret_bias);

/* 1 / (1 + exp(-score)), and the log loss of a label, both without overflow. */
double model_probability(float score);
double model_loss(float score, float label);

#endif
