/* Restores a table's rows from a snapshot's file, by several threads (ps/restore.c). */
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

/*
 * Takes the registry (read) if this restore is still under way. Otherwise the registry
 * is not held: COX_EFENCED (the run was forgotten), COX_EPSLOST (the restore was
 * abandoned). Any thread.
 */
int coxi_restore_enter(struct coxi_restoring *restoring)
    COXI_ACQUIRES_SHARED_IF_0(restoring->store->registry);
void coxi_restore_leave(struct coxi_restoring *restoring)
    COXI_RELEASES_ANY(restoring->store->registry);

/* Loads all of the rows into the table of `part`, and adds their bytes to the checksum.
 * Errors of coxi_restore_enter; COX_ENOMEM, COX_ELIMIT. */
int coxi_restore_rows(struct coxi_restoring *restoring, size_t part,
                      const struct coxi_table_rows *rows);

#endif
