/*
 * Writing checkpoints, and the place where a restarted program goes on. The options
 * that make the library write checkpoints by itself are in options.h (checkpoint_dir
 * and below); load.h reads a checkpoint of another run. Include <coxswain/coxswain.h>
 * instead of this file.
 */
#ifndef COXSWAIN_CHECKPOINT_H
#define COXSWAIN_CHECKPOINT_H

#include "coxswain/types.h"

#ifdef __cplusplus
extern "C" {
/* cox_progress is the name of a struct and of a function on purpose */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

struct cox_coordinator;

struct cox_checkpoint_options {
    size_t size;
    int final; /* 1: training is over; evaluators end after this checkpoint */
    int full;  /* 1: a whole checkpoint, even with checkpoint_incremental */
};
#define COX_CHECKPOINT_OPTIONS_INIT COX_INIT(cox_checkpoint_options)

/*
 * Writes a checkpoint of all variables and tables to the checkpoint directory. A
 * variable is in it if it was created before the call. Each ps is saved as of one
 * moment. Closures may run meanwhile; for an exact cut call cox_join first. `options`
 * NULL: defaults. *ret_number (may be NULL): its number, from 1. Then old checkpoints
 * are deleted as the options say (checkpoint_keep), except those that somebody reads: a
 * later call deletes them.
 *
 * Once LATEST durably names the checkpoint, this returns 0, even if a later step fails.
 * COX_ENOENT: the run has no checkpoint directory. COX_EIO: nothing of the checkpoint
 * is left. COX_ECANCELLED: an error has cancelled calls before the cursor, and a client
 * that went on from this checkpoint would skip them; schedule a call with a cursor,
 * then save again. COX_EPSLOST, COX_EFENCED.
 */
COX_API int cox_checkpoint_save(struct cox_coordinator *c,
                                const struct cox_checkpoint_options *options,
                                uint64_t *ret_number);

/* The error of the last checkpoint that a trigger or the replay log asked for
 * (docs/checkpoints.md); 0: it did not fail. After a failure, the library tries again
 * when the next checkpoint is due. */
COX_API int cox_checkpoint_error(struct cox_coordinator *c);

/*
 * Where the program goes on. A program that is started again with the same checkpoint
 * directory goes on from the newest checkpoint: cox_open sets every ps back to it, even
 * if they hold later values. Calls that the previous client scheduled after that
 * checkpoint do not count any more. `cursor` is the cursor of the last call that the
 * checkpoint covers and that has one; schedule the calls after it again. Calls without
 * a cursor, and cancelled calls, do not change it. A call without a cursor that was
 * scheduled after that one may be in the checkpoint or not, so give a cursor to each
 * call that has to count exactly once (docs/checkpoints.md shows the loop).
 *
 * Some calls that the checkpoint covers may be missing on some ps. They run again by
 * themselves as soon as the program schedules or joins something; before that the
 * program must load the modules and make the resources that it had. An error that
 * cancels the program's calls does not cancel these.
 *
 * Writes of the previous client (cox_variable_assign and the like) that some ps lacks
 * keep their place among those calls: each is written when the calls before it are
 * done. The program's own calls, reads and writes wait for that. If one of those calls
 * needs a function that is not loaded, reads and writes fail with COX_ENOENT, which
 * names it. Variables, tables and metrics attach (cox_variable_create). Futures end
 * with their client.
 */
struct cox_progress {
    size_t size;
    /* How often the run's client has been started; 1 without a checkpoint directory */
    uint64_t generation;
    /* The checkpoint that cox_open went on from; 0: none, the run begins anew */
    uint64_t checkpoint;
    /* The highest id that the checkpoint covers; 0: none. It is not a count of calls,
     * because the client's own writes (create, assign, add, rate, load, reset) take
     * ids, too. To go on, use `cursor` */
    uint64_t closure;
    /* The cursor of the last call with one that the checkpoint covers; 0: none */
    uint64_t cursor;
    /* How many calls up to there run again */
    uint64_t rerun;
};
#define COX_PROGRESS_INIT COX_INIT(cox_progress)

/* As of cox_open; it does not change. */
COX_API int cox_progress(const struct cox_coordinator *c, struct cox_progress *ret);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif
