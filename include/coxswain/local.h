/*
 * What a step does with several batches before it pushes: accumulated gradients, and
 * local steps. Include <coxswain/step.h> instead of this file.
 *
 * Threads, codes and texts are as for all functions of a step.
 */
#ifndef COXSWAIN_LOCAL_H
#define COXSWAIN_LOCAL_H

#include "coxswain/step_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * ---- accumulation: one gradient for several batches (docs/modes.md)
 *
 *   for each batch of the step: cox_step_accumulate(step, variable, rows, gradient);
 *   cox_step_push_accumulated(step, 1.0F / n_batches);
 */

/*
 * Adds a gradient to the sum that the step keeps for this variable, in F32, in the
 * worker's memory. `gradient` has the values of one row after the other, and is copied.
 * Rows may be listed more than once, and be other ones in each call. Nothing is pushed
 * before cox_step_push_accumulated, cox_step_flush or the step's return 0. A step that
 * fails, or whose worker dies, leaves nothing.
 *
 * COX_EINVAL: the variable takes no gradients, does not have the rows, or is a loss
 * scale. COX_ELIMIT: the step keeps more than the worker's --step-rows-max: 4 bytes a
 * number, and 24 for each distinct listed row. After an error the closure fails, even
 * if the step returns 0: a step must not flush because its memory is full, as it would
 * flush in another place on a worker with more of it.
 */
static inline int cox_step_accumulate(struct cox_step *step,
                                      struct cox_variable *variable,
                                      struct cox_rows rows, const float *gradient)
{
    return step->api->accumulate(step, variable, &rows, gradient);
}

/*
 * Pushes the sums, each multiplied by `scale`, as one gradient of each variable: the
 * optimizer makes one step, and each row goes over the wire once, in the variable's wire
 * type. Then the sums are empty. 1 pushes the sum of the batches' gradients; 1.0F / K
 * their mean over K batches. (PyTorch sums; Keras's gradient_accumulation_steps and
 * PaddlePaddle's gradient merge take the mean.) The gradients are in the order of
 * updates as if they were pushed by this call.
 *
 * cox_step_flush, and the return of a step, push what was not pushed before, with scale
 * 1. COX_EINVAL: `scale` is not finite. Other errors: those of cox_step_update.
 */
static inline int cox_step_push_accumulated(struct cox_step *step, float scale)
{
    return step->api->push_accumulated(step, scale);
}

/*
 * ---- local steps: the step trains on copies, and pushes by how much these have changed
 * (docs/modes.md)
 *
 *   for each batch of the step:
 *       cox_local_pull(step, pulls, n_pulls);
 *       cox_local_step(step, variable, rows, gradient);
 *   cox_local_push(step, 1);
 *
 * Local SGD: Stich: Local SGD converges fast and communicates little, ICLR 2019. What a
 * local step does is the variable's own rule (coxswain.h), with state that begins as
 * that of a new variable and ends with the copies. The ps add the differences to their
 * values; their own optimizer state stays as it is.
 */

/*
 * Like cox_step_pull, but the rows stay in the worker's memory as the step's local
 * copies. Rows that have a copy already are read from it, with what local steps have
 * done to them; only the others are pulled. So a step may pull the rows of one batch
 * after the other. COX_PULL_CACHED counts if a variable's first pull is of all of it.
 *
 * Copies live until cox_local_push, or until the step returns. A later attempt of the
 * closure begins with new ones.
 *
 * COX_EINVAL: as for cox_step_pull; or the variable has no optimizer, is a loss scale,
 * or has FTRL, whose values follow from state that only the ps have. COX_ELIMIT: the
 * step keeps more than the worker's --step-rows-max: for each number 8 bytes and 4 for
 * each number of its state, for each row 1 byte, and 24 if rows are listed. After an
 * error, also one of those of cox_step_pull, the closure does not succeed, even if the
 * step returns 0.
 */
static inline int cox_local_pull(struct cox_step *step, const struct cox_pull *pulls,
                                 size_t n_pulls)
{
    return step->api->local_pull(step, pulls, n_pulls);
}

/*
 * Sets the learning rate of the local steps of a variable from now until
 * cox_local_push, instead of the rate and the schedule with which it was created. A
 * rate that the client has set since then (cox_variable_set_rate) is known to the ps
 * only. Take the rate from the arguments. COX_EINVAL: there is no copy of the variable;
 * or the rate is negative or not finite. After an error the closure fails.
 */
static inline int cox_local_rate(struct cox_step *step, struct cox_variable *variable,
                                 float learning_rate)
{
    return step->api->local_rate(step, variable, learning_rate);
}

/*
 * Applies a gradient to the local copies of rows: one step of the rule. If a row is
 * listed more than once, its gradients are summed first. Rows that are not among `rows`
 * stay as they are, with their state. The schedule's s is the closure's place, the same
 * for all local steps of the step; clip_norm bounds the norm of a table row's gradient,
 * or of the whole gradient of a dense variable in this call; Adam's t counts the local
 * steps of the copy (of the row, for a table).
 *
 * COX_EINVAL: a row has no copy; the step has asked for a loss scale. COX_ENONFINITE:
 * as for cox_step_update, before anything is changed. After an error the closure fails,
 * even if the step returns 0.
 */
static inline int cox_local_step(struct cox_step *step, struct cox_variable *variable,
                                 struct cox_rows rows, const float *gradient)
{
    return step->api->local_step(step, variable, &rows, gradient);
}

/*
 * Collects an update of all variables with copies: adds `scale` times (value now -
 * value as it was pulled) to the rows that a local step has changed (COX_UPDATE_ADD),
 * each row once, as F32 whatever the wire type. Then there are no copies. The additions
 * count exactly once, with all else that the step collects. Call cox_step_flush before
 * the step pulls again, so that it sees them.
 *
 * `scale` 1 adds the whole difference. 1.0F / n, where n workers make local steps at a
 * time, makes the sum of their differences the mean: so does local SGD, and
 * PaddlePaddle's geo mode (it divides by the number of trainers). See docs/modes.md.
 *
 * COX_EINVAL: `scale` is not finite. COX_ENONFINITE: a difference is infinite or NaN,
 * and the variable does not allow that. A step that made local steps and returns 0
 * without this call fails with COX_EINVAL.
 */
static inline int cox_local_push(struct cox_step *step, float scale)
{
    return step->api->local_push(step, scale);
}

#ifdef __cplusplus
}
#endif
#endif
