/*
 * The scalars of a run for TensorBoard, in two of its runs: <dir>/train has what steps and
 * the program have logged, <dir>/eval the scores of evaluators. Their step is a closure's
 * id, or the step that the program has given.
 *
 * TensorBoard draws points in the order in which they come. Closures do not end in the
 * order of their ids, so a point of a step waits until all closures before it are settled,
 * but at most 10 s. When a client goes on from a checkpoint, TensorBoard is told to forget
 * what is repeated (its own rules for restarts, event_file.h).
 *
 * One thread at a time.
 */
#ifndef COXI_COORDINATOR_MONITOR_TENSORBOARD_H
#define COXI_COORDINATOR_MONITOR_TENSORBOARD_H

#include "checkpoint/record.h"

struct coxi_tensorboard;

/*
 * Begins files in `dir`. A client that goes on from a checkpoint says with `repeated` what
 * it does again, and with `history` where metrics.jsonl is: points that are not repeated,
 * but that TensorBoard forgets with the others, are written again; *ret_left_out: how many
 * of them find no place, because nothing can be written. `repeated` NULL: the run begins.
 * COX_EIO: the history cannot be read. COX_ENOMEM. A directory that cannot be written is an
 * error of coxi_tensorboard_flush.
 */
int coxi_tensorboard_new(const char *dir, const char *history,
                         const struct coxi_repeated *repeated, uint64_t *ret_left_out,
                         struct coxi_tensorboard **ret);
void coxi_tensorboard_free(struct coxi_tensorboard *board); /* takes NULL */

/* Adds the scalar of a record. COX_EIO: too many wait, because nothing can be written. */
int coxi_tensorboard_add(struct coxi_tensorboard *board,
                         const struct coxi_record *record);

/* Writes points of steps below `settled`, and others that have waited for long; `all`:
 * all of them. COX_EIO: they are tried again by the next call. */
int coxi_tensorboard_flush(struct coxi_tensorboard *board, uint64_t settled, bool all);

#endif
