/* The evaluator: a process of its own that scores every checkpoint while training
 * runs. */
#ifndef CTR_EVALUATE_H
#define CTR_EVALUATE_H

#include <stddef.h>

#include "options.h"

/*
 * Follows <out>/checkpoints until training says that it is over. Writes a line of
 * metrics for each checkpoint to <out>/checkpoints/eval.jsonl. Returns the exit code:
 * 0, 2 (what is wrong with the rows is printed), or 1.
 */
int evaluate(const struct options *options);

/* Prints the evaluator's reports as a table; `line`: the last one. Returns how many
 * there are. */
int evaluate_verdict(const struct options *options, char *line, size_t len);

/* The number that follows "key": in a line of eval.jsonl; 0 if there is none. */
double evaluate_number(const char *line, const char *key);

#endif
