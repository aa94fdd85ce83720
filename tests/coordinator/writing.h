/*
 * A write of the client's own in parts, so that a test can hold it at any moment that a checkpoint, a
 * loss or another write may meet: it has begun, some of its rows are written, it has ended, or its
 * client has died.
 */
#ifndef COXI_TESTS_COORDINATOR_WRITING_H
#define COXI_TESTS_COORDINATOR_WRITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/closures/operation.h"

struct writing {
    struct cox_coordinator *c;
    struct cox_variable *variable;
    struct coxi_operation *operation;
    enum coxi_operation_end how; /* it is to end, as far as its rows are written */
};

/* Begins an assignment of all rows, or of a rate: it has an id, and no ps has been asked. */
void writing_begin(struct writing *w, struct cox_coordinator *c,
                   struct cox_variable *variable, const void *data);
void writing_begin_rate(struct writing *w, struct cox_coordinator *c,
                        struct cox_variable *variable, float rate);

/* Makes ps `ps` refuse it. */
void writing_refuse(const struct writing *w, uint32_t ps);

/* Makes ps `ps` refuse the client's next operation. */
void writing_refuse_next(struct cox_coordinator *c, uint32_t ps);

/* Writes rows; returns what cox_variable_assign would. */
int writing_rows(struct writing *w, uint64_t begin, uint64_t count, const void *rows);

/* Has the log say that only these rows were written: each is a first row and a count. */
void writing_narrow(const struct writing *w, const uint64_t ranges[][2], size_t n);

/* It ends as its rows say; or it is given up by a client that has died (`dies`). */
void writing_end(struct writing *w, bool dies);

#endif
