/* What variables hold, for the coordinator's own use: content_read.c and content_write.c have the
 * public functions, too. */
#ifndef COXI_COORDINATOR_VARIABLES_CONTENT_H
#define COXI_COORDINATOR_VARIABLES_CONTENT_H

#include "coordinator/closures/operation.h"

/* COX_EINVAL if the variable does not have rows [begin, begin + count), or if `bytes` is not their
 * size. */
int coxi_content_check(const struct coxi_variable *v, uint64_t begin, uint64_t count,
                       size_t bytes);

/* Rows [begin, begin + count), in range, of a dense variable, in its own type. Any thread;
 * blocks. COX_EPSLOST; COX_ECLOSED and what else ended the coordinator. */
int coxi_content_read(struct cox_coordinator *c, const struct coxi_variable *v,
                      uint64_t begin, uint64_t count, void *ret_data);

/* What is written: rows [begin, begin + count), in range, of a dense variable; or, as
 * COXI_OP_RATE, a struct coxi_rate for any: begin and count are 0. */
struct coxi_content_write {
    const struct coxi_variable *variable;
    enum coxi_op op;
    uint64_t begin;
    uint64_t count;
    const void *data;
};

/*
 * Writes them. Waits while the replay log is full. What a ps refuses is written nowhere, or
 * the error is COX_EPARTIAL and names the ps that have it. COX_EPSLOST, COX_ECLOSED and what
 * else ended the coordinator: whether it is written is not known.
 */
int coxi_content_update(struct cox_coordinator *c, const struct coxi_content_write *w);

/* The same as operation `closure`, which has begun and is logged; *ret_how: how it is to be
 * ended. */
int coxi_content_write(struct cox_coordinator *c, uint64_t closure,
                       const struct coxi_content_write *w,
                       enum coxi_operation_end *ret_how);

/* What the ps have of a HELD update (base/replay_log.h), when they were asked. */
struct coxi_written {
    uint64_t id;
    uint64_t begin;                  /* its first row */
    const struct coxi_range *ranges; /* the rows that they have */
    size_t n;
    uint64_t n_losses; /* that were known before they were asked */
};

/* The log says from now on that only those rows were written. False: a ps has been lost since
 * they were asked, ask again. Any thread; without recovery nothing happens. */
bool coxi_content_written(struct cox_coordinator *c,
                          const struct coxi_written *written);

#endif
