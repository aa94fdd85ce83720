/*
 * A write of the client, in steps, so that a test can stop it wherever a checkpoint, a
 * loss or another write may meet it: it has begun, some of its rows are written, it has
 * ended, or its client has died.
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
    /* how to end the operation, from the rows written so far */
    enum coxi_operation_end how;
};

/* Begins an assignment of all rows, or of a rate: it has an id, and no ps was asked
 * yet. */
void writing_begin(struct writing *w, struct cox_coordinator *c,
                   struct cox_variable *variable, const void *data);
void writing_begin_rate(struct writing *w, struct cox_coordinator *c,
                        struct cox_variable *variable, float rate);

/* Makes ps `ps` refuse the write. */
void writing_refuse(const struct writing *w, uint32_t ps);

/* Makes ps `ps` refuse the client's next operation. */
void writing_refuse_next(struct cox_coordinator *c, uint32_t ps);

/* Writes rows; returns what cox_variable_assign would. */
int writing_rows(struct writing *w, uint64_t begin, uint64_t count, const void *rows);

/* Makes the log say that only these rows were written; each range is a first row and a
 * count. */
void writing_narrow(const struct writing *w, const uint64_t ranges[][2], size_t n);

/* Ends the write according to the rows that were written; `dies`: as if its client had
 * died. */
void writing_end(struct writing *w, bool dies);

#endif
