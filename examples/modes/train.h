/* Trains the model in one mode, on a cluster of its own, and scores it now and then. */
#ifndef MODES_TRAIN_H
#define MODES_TRAIN_H

#include <stddef.h>
#include <stdint.h>

#include "kinds.h"
#include "options.h"
#include "rows.h"

/* What all modes have in common. */
struct work {
    const struct options *options;
    const char *train; /* an absolute path */
    const struct rows *test;
    const int32_t *order; /* the numbers of the rows to train on, epoch after epoch */
    size_t n_order;
};

struct point {
    double examples;
    double seconds; /* of training, without the scoring */
    double loss;    /* of the test rows */
    double auc;
};

struct curve {
    const struct kind *kind; /* NULL: it was not trained */
    struct point *points;
    size_t n;
    double staleness;  /* of the weights' gradients, on average; NAN: there are none */
    uint64_t left_out; /* gradients dropped, and closures too late for their round */
};

/* Returns 0, or the program's exit code after it has printed what is wrong. `ret` begins
 * as zeros. Free with curve_fini in both cases. */
int train(const struct work *work, const struct kind *kind, struct curve *ret);
void curve_fini(struct curve *curve);

#endif
