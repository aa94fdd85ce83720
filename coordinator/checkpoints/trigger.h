/* Checkpoints that nobody calls for: by closures, by time, by SIGTERM, for the replay log. */
#ifndef COXI_COORDINATOR_CHECKPOINTS_TRIGGER_H
#define COXI_COORDINATOR_CHECKPOINTS_TRIGGER_H

#include "coordinator/coordinator.h"

/* What the last checkpoint has: nothing has happened since while these are the same. */
struct coxi_saved {
    uint64_t settled;
    uint64_t next_id;
    bool final; /* the program has said that it was the last */
};

/* In cox_open, before anything else of it; in cox_close, when nobody calls anything any more. */
int coxi_trigger_new(struct cox_coordinator *c);
void coxi_trigger_free(struct cox_coordinator *c);

/* COX_EINVAL: the options want checkpoints and no directory is given. */
int coxi_trigger_check(const struct cox_options *options);

/*
 * Before the loop runs: takes the signal, if that is asked for. When the cluster is there:
 * starts the thread, if there is anything to wait for. Before the ps are released: ends it,
 * after the checkpoint that it may be writing; takes one that was never begun.
 */
int coxi_trigger_begin(struct cox_coordinator *c);
int coxi_trigger_start(struct cox_coordinator *c);
void coxi_trigger_stop(struct cox_coordinator *c);

/* Before that, for a close with a deadline: lets a checkpoint be written that SIGTERM wants, or
 * (`close`) checkpoint_at_close; asks the thread to end. Both wait until `until`; true: it has
 * ended. */
void coxi_trigger_let_save(struct cox_coordinator *c, const struct timespec *until,
                           bool close);
bool coxi_trigger_end(struct cox_coordinator *c, const struct timespec *until);

/* How the checkpoint that a close began with went; 0 where there was none. */
int coxi_trigger_close_code(struct cox_coordinator *c);

/* Looks whether one is due. Loop. */
void coxi_trigger_tick(struct cox_coordinator *c);

/* One is to be written now, or is tried: from here on what the next one waits for is
 * counted. *ret: what it will have. Then it is there. Any thread. */
void coxi_trigger_count(struct cox_coordinator *c, struct coxi_saved *ret);
void coxi_trigger_saved(struct cox_coordinator *c, const struct coxi_saved *saved);

#endif
