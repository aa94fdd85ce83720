/* The options of the click model's program. */
#ifndef CTR_OPTIONS_H
#define CTR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *role; /* "client" or "evaluator" */
    const char *train;
    const char *valid;
    const char *out;
    const char *checkpoint_dir; /* <out>/checkpoints, or as given */
    const char *model;          /* "lr" or "fm" */
    const char *source;         /* who reads the rows: "worker" or "client" */
    int ps;
    int workers;
    int epochs;
    int checkpoints; /* in an epoch */
    int batch;       /* rows of a gradient */
    double learning_rate;
    double accumulator;
    double l2;
    double factors_rate;
    double factors_l2;
    uint64_t seed;
    bool resume;
    int64_t rows; /* rows to generate, if no files are given */
    int ids;      /* of each field of theirs */
    double pairs; /* how much pairs of ids count in them */
};

/*
 * Fills *ret. Returns 0 to go on, 1 after --help, 2 after printing what is wrong.
 * `name` is the program's.
 */
int options_parse(int argc, char **argv, struct options *ret);

#endif
