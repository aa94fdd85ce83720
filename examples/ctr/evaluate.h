/* The evaluator: a process of its own that scores every checkpoint while training
 * runs. */
#ifndef CTR_EVALUATE_H
#define CTR_EVALUATE_H

#include "options.h"

/*
 * Follows <out>/checkpoints until training says that it is over. Writes a line of
 * metrics for each checkpoint to <out>/checkpoints/eval.jsonl. Returns the exit code:
 * 0, 2 (what is wrong with the rows is printed), or 1.
 */
int evaluate(const struct options *options);

#endif
