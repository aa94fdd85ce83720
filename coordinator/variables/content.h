/* Reading and writing variables, for the coordinator's own use. content_read.c and
 * content_write.c also have the public functions. */
#ifndef COXI_COORDINATOR_VARIABLES_CONTENT_H
#define COXI_COORDINATOR_VARIABLES_CONTENT_H

#include "coordinator/closures/operation.h"

/* COX_EINVAL if the variable does not have rows [begin, begin + count), or if `bytes`
 * is not their size. */
int coxi_content_check(const struct coxi_variable *v, uint64_t begin, uint64_t count,
                       size_t bytes);

/*
 * Reads rows [begin, begin + count), in range, of a dense variable, in its own type.
 * Any thread; blocks. COX_EPSLOST; COX_ECLOSED and other errors that ended the
 * coordinator.
 */
int coxi_content_read(struct cox_coordinator *c, const struct coxi_variable *v,
                      uint64_t begin, uint64_t count, void *ret_data);

/* Asks all ps, and passes each one's answer to `add`; none of them after an error.
 * Otherwise like coxi_content_read. */
int coxi_content_counts(struct cox_coordinator *c, const struct coxi_count *count,
                        void (*add)(void *arg, const struct coxi_counts *counts),
                        void *arg);

/* A write: rows [begin, begin + count), in range, of a dense variable; or, with
 * COXI_OP_RATE, a struct coxi_rate for any variable: begin and count are 0. */
struct coxi_content_write {
    const struct coxi_variable *variable;
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    const void *data;
};

/*
 * Writes. Waits while the replay log is full. If a ps refuses it, either nothing is
 * written, or the error is COX_EPARTIAL and names the ps that have it. COX_EPSLOST,
 * COX_ECLOSED and other errors that ended the coordinator: it is not known whether it
 * is written.
 */
int coxi_content_update(struct cox_coordinator *c, const struct coxi_content_write *w);

/* The same as operation `closure`, which has begun and is logged; *ret_how: how the
 * operation must be ended. */
int coxi_content_write(struct cox_coordinator *c, struct coxi_closure_id closure,
                       const struct coxi_content_write *w,
                       enum coxi_operation_end *ret_how);

/* The part of a HELD update (base/replay_log.h) that the ps have, as they answered. */
struct coxi_written {
    struct coxi_closure_id id;
    uint64_t begin;                  /* the first row of the update */
    const struct coxi_range *ranges; /* the rows that the ps have */
    size_t n;
    uint64_t n_losses; /* coxi_ps_losses before the ps were asked */
};

/* Makes the log say that only the rows in `written` were written. False: a ps was lost
 * since the ps were asked, so ask again. Any thread; does nothing without recovery. */
bool coxi_content_written(struct cox_coordinator *c,
                          const struct coxi_written *written);

#endif
