/* Checkpoints without a call of the program: by closures, by time, by SIGTERM, for the
 * replay log. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_TRIGGER_H
#define COXI_COORDINATOR_CHECKPOINTS_TRIGGER_H

#include "coordinator/coordinator.h"

/* The state at the last checkpoint: nothing has happened since if the numbers are still
 * the same. */
struct coxi_saved {
    uint64_t settled;
    uint64_t next_id;
    bool final; /* the program said that it was its last checkpoint */
};

/* coxi_trigger_new is called first in cox_open; coxi_trigger_free in cox_close, when no
 * other call can come. */
int coxi_trigger_new(struct cox_coordinator *c);
void coxi_trigger_free(struct cox_coordinator *c);

/* COX_EINVAL: the options ask for checkpoints but name no directory. */
int coxi_trigger_check(const struct cox_options *options);

/*
 * coxi_trigger_begin, before the loop runs: handles SIGTERM, if the options ask for it.
 * coxi_trigger_start, when the cluster is ready: starts the thread, if there is a
 * checkpoint directory. coxi_trigger_stop, before the ps are released: ends the thread,
 * after the checkpoint that it may be writing; safe if the thread was never started.
 */
int coxi_trigger_begin(struct cox_coordinator *c);
int coxi_trigger_start(struct cox_coordinator *c);
void coxi_trigger_stop(struct cox_coordinator *c);

/*
 * For a close with a deadline, before coxi_trigger_stop. coxi_trigger_let_save lets the
 * thread write the checkpoint that SIGTERM or (with `close`) checkpoint_at_close asks
 * for; coxi_trigger_end tells the thread to end. Both wait until `until`;
 * coxi_trigger_end returns true if the thread has ended.
 */
void coxi_trigger_let_save(struct cox_coordinator *c, const struct timespec *until,
                           bool close);
bool coxi_trigger_end(struct cox_coordinator *c, const struct timespec *until);

/* The result of the checkpoint that the close began with; 0 if there was none. */
int coxi_trigger_close_code(struct cox_coordinator *c);

/* Checks whether a checkpoint is due. Loop. */
void coxi_trigger_tick(struct cox_coordinator *c);

/*
 * coxi_trigger_count: a checkpoint is about to be tried; the triggers count from here
 * on. *ret: the state it will cover. coxi_trigger_saved: that checkpoint is saved. Any
 * thread.
 */
void coxi_trigger_count(struct cox_coordinator *c, struct coxi_saved *ret);
void coxi_trigger_saved(struct cox_coordinator *c, const struct coxi_saved *saved);

#endif
