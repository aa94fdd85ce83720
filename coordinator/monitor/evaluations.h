/*
 * Takes over what evaluators report: lines that they append to eval.jsonl in the
 * checkpoint directory (coxswain/evaluator.h) become records of the history, one of kind
 * `eval` and one scalar for each score, whose source is "eval" and whose step is the
 * highest closure that the checkpoint has settled. One thread.
 */
#ifndef COXI_COORDINATOR_MONITOR_EVALUATIONS_H
#define COXI_COORDINATOR_MONITOR_EVALUATIONS_H

#include "checkpoint/records.h"

struct coxi_evaluations;

/* The records go to `records`. `dir`: the checkpoint directory; NULL: there is none, and
 * nothing is reported. COX_ENOMEM. */
int coxi_evaluations_new(const char *dir, struct coxi_records *records,
                         struct coxi_evaluations **ret);
void coxi_evaluations_free(struct coxi_evaluations *evaluations); /* takes NULL */

/* Takes note of a record of the run so far: which closure a checkpoint has, and how far
 * eval.jsonl was taken over. Pass them in their order, before the first
 * coxi_evaluations_take. */
void coxi_evaluations_load(struct coxi_evaluations *evaluations,
                           const struct coxi_record *record);

/* Takes note of a new record: which closure a checkpoint has. */
void coxi_evaluations_note(struct coxi_evaluations *evaluations,
                           const struct coxi_record *record);

/* Skips what eval.jsonl has already: it is of another run. */
void coxi_evaluations_skip(struct coxi_evaluations *evaluations);

/* Takes over what was reported since the last call. A file that has become shorter, or was
 * removed, is another one: it is read from its beginning. */
void coxi_evaluations_take(struct coxi_evaluations *evaluations);

/* The next call takes over all that is there: a store is not asked each time. */
void coxi_evaluations_hurry(struct coxi_evaluations *evaluations);

#endif
