/* Shared by the client, its evaluator and the steps of this example. The problem is
 * made up: is a point above a plane? Some of the labels are wrong. */
#ifndef EARLY_STOP_H
#define EARLY_STOP_H

#include <math.h>
#include <stdint.h>

enum {
    DIM = 16,
    /* rows [0, TRAIN_ROWS) are for training, the next ones for testing */
    TRAIN_ROWS = 4000,
    TEST_ROWS = 2000,
    RANGE = 100, /* rows of a step */
};

/* A number in [-1, 1) that depends on `n` alone. */
static inline float example_number(uint64_t n)
{
    n = (n ^ n >> 31) * 0x7fb5d329728ea185;
    n = (n ^ n >> 27) * 0x81dadef4bc2dd44d;
    n ^= n >> 33;
    return (float)((double)(n >> 11) / 4503599627370496.0 - 1);
}

/* Row `row`: its features, the last of which is 1, and its label. */
static inline float example_row(int64_t row, float features[DIM])
{
    float side = 0;
    for (uint64_t i = 0; i < DIM; i++) {
        features[i] = i + 1 == DIM ? 1 : example_number((uint64_t)row * DIM + i);
        side += features[i] * example_number(1000003 + i);
    }
    return side + 2 * example_number((uint64_t)row + 7000001) > 0 ? 1 : 0;
}

static inline float example_score(const float features[DIM], const float w[DIM])
{
    float sum = 0;
    for (int i = 0; i < DIM; i++) {
        sum += features[i] * w[i];
    }
    return 1 / (1 + expf(-sum));
}

static inline double example_loss(float score, float label)
{
    double p = label > 0 ? (double)score : 1 - (double)score;
    return -log(p > 1e-7 ? p : 1e-7);
}

#endif
