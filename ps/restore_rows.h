/* A table's rows out of a snapshot's file, by several threads (ps/restore.c). */
#ifndef COXI_PS_RESTORE_ROWS_H
#define COXI_PS_RESTORE_ROWS_H

#include "common/safetensors.h"
#include "ps/store_internal.h"

/* Loads all of the rows into the part's table, and adds what they are made of to the sum.
 * While nobody else does anything with it. COX_ENOMEM, COX_ELIMIT. */
int coxi_restore_rows(struct coxi_st_sum *sum, const struct coxi_part *part,
                      const struct coxi_table_rows *rows);

#endif
