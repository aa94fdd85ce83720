/*
 * The history of the run: everything that a page, a tool or TensorBoard shows, as records
 * (checkpoint/records.h) in memory and in metrics.jsonl. All rooms may add to it; the room
 * monitor/ writes it to disk and samples.
 *
 * A client has a history if it has a run directory (checkpoint_dir, else log_dir) and
 * cox_options.history is not -1, or if it has tensorboard_dir or http. Otherwise adding does
 * nothing, and costs a branch.
 */
#ifndef COXI_COORDINATOR_BASE_HISTORY_H
#define COXI_COORDINATOR_BASE_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/record.h"
#include "coxswain/event.h"

struct cox_coordinator;

/* The directory of metrics.jsonl; NULL: there is none. */
const char *coxi_history_dir(const struct cox_coordinator *c);

/* True if each second is sampled: there is such a directory, or the client serves pages. */
bool coxi_history_is_sampled(const struct cox_coordinator *c);

/* Makes the history, if the options ask for one; before anything is added. COX_ENOMEM. */
int coxi_history_new(struct cox_coordinator *c);
void coxi_history_free(struct cox_coordinator *c);

/*
 * Adds a record of kind `kind`. `fields`: its members besides seq, t and kind, as JSON
 * without braces; texts from outside were escaped (common/json_text.h). `lasting`: it is
 * written to disk, too. A record for which there is no memory is dropped. Never waits for
 * a disk; any thread, with any lock held.
 */
void coxi_history_add(struct cox_coordinator *c, enum coxi_record_kind kind,
                      const char *fields, bool lasting);

/* The same for a scalar. COX_ELIMIT: the name is too long, or one too many; COX_ENOMEM. */
int coxi_history_scalar(struct cox_coordinator *c,
                        const struct coxi_record_scalar *scalar);

/* The same for an event. `left_out`: how many of its code were left out before it. */
void coxi_history_event(struct cox_coordinator *c, const struct cox_event *event,
                        uint64_t left_out);

/* The same for a checkpoint that is complete. */
struct coxi_history_checkpoint {
    uint64_t number;
    uint64_t closure; /* the highest that is settled in it */
    uint64_t seq;     /* of the newest record when it was cut */
    uint64_t bytes;
    double seconds; /* that it took */
};

void coxi_history_checkpoint(struct cox_coordinator *c,
                             const struct coxi_history_checkpoint *checkpoint);

/*
 * Appends the records after number `seq` as lines of JSON, oldest first, at least one and
 * about `most` bytes; *ret_seq: the number of the last one. If nothing is appended, there
 * is nothing newer than *ret_seq. Any thread, without a lock. COX_ENOMEM. Without a
 * history: nothing, and 0.
 */
int coxi_history_since(struct cox_coordinator *c, uint64_t seq, size_t most,
                       struct coxi_buffer *out, uint64_t *ret_seq);

/* The number of the newest record; 0: there is none. */
uint64_t coxi_history_last(struct cox_coordinator *c);

#endif
