/* A table's rows out of a snapshot's file, by several threads (ps/restore.c). */
#ifndef COXI_PS_RESTORE_ROWS_H
#define COXI_PS_RESTORE_ROWS_H

#include "checkpoint/safetensors.h"
#include "ps/store_internal.h"

/* A restore under way. */
struct coxi_restoring {
    struct coxi_store *store;
    const struct coxi_restore *request;
    const struct coxi_st_file *file;
    struct coxi_st_sum *sum;
};

/* The registry (read), where what is being restored is still there; COX_EFENCED (the run was
 * forgotten), COX_EPSLOST (it was abandoned): the registry is not held. Any thread. */
int coxi_restore_enter(struct coxi_restoring *restoring);
void coxi_restore_leave(struct coxi_restoring *restoring);

/* Loads all of the rows into the table of that part, and adds what they are made of to the
 * sum. As coxi_restore_enter; COX_ENOMEM, COX_ELIMIT. */
int coxi_restore_rows(struct coxi_restoring *restoring, size_t part,
                      const struct coxi_table_rows *rows);

#endif
