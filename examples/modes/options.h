/* The options of the example of modes. */
#ifndef MODES_OPTIONS_H
#define MODES_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "kinds.h"

struct options {
    const char *train; /* NULL: rows are generated */
    const char *test;
    const char *out;
    const char *modes;
    bool chosen[KINDS]; /* what `modes` lists */
    int64_t ps;
    int64_t workers;
    int64_t epochs;
    int64_t batch;  /* rows of a gradient */
    int64_t merged; /* batches in a closure with local steps or accumulation */
    int64_t points; /* of a curve */
    int64_t staleness_max;
    int64_t slow_ms;
    int64_t seed;
    int64_t rows; /* to generate */
    int64_t ids;
    double rate; /* learning rate at first, for the gradient of a row */
    double l2;
    double lambda;
};

/* Fills *ret. Returns 0 to go on, 1 after --help, 2 after printing what is wrong. */
int options_parse(int argc, char **argv, struct options *ret);

#endif
