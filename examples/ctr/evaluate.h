/* The evaluator: a process of its own that scores every checkpoint while training
 * runs. */
#ifndef CTR_EVALUATE_H
#define CTR_EVALUATE_H

#include "options.h"

/*
 * Follows the checkpoint directory until training says that it is over. Reports metrics of
 * each checkpoint (eval.jsonl there). Returns the exit code:
 * 0, 2 (what is wrong with the rows is printed), or 1.
 */
int evaluate(const struct options *options);

struct verdict {
    int n_evaluations;
    double auc; /* of the last one */
    double logloss;
};

/* Prints the evaluator's reports as a table. */
void evaluate_verdict(const struct options *options, struct verdict *ret);

#endif
