/*
 * A reader: the batches of one task. A thread of its own reads and decodes ahead of its
 * user. Memory: prefetch + 2 batches, or more if together they have less than 4 MiB;
 * if records are mixed also shuffle_window records; and the blocks of the file that
 * these point into.
 *
 * The order of records depends on the task alone. If shuffle_window is W, the task's
 * first W records are mixed by its seed and handed out, then the next W.
 *
 * Threads: one at a time, besides the reader's own; coxi_reader_cancel: any.
 */
#ifndef COXI_DATA_READER_H
#define COXI_DATA_READER_H

#include "coxswain/batch.h"
#include "data/source.h"
#include "data/task.h"

struct coxi_reader;

/*
 * Borrows the task until close. Takes the source; a failure closes it, too. Does not wait
 * for the source. COX_EINVAL: this build does not have the format. COX_ENOMEM.
 */
int coxi_reader_open(const struct coxi_task *task, struct coxi_source *source,
                     struct coxi_reader **ret);

/* The next batch, valid until the next call. Waits for the source. COX_EEOF: none is
 * left. COX_ECONFLICT: the file is not the task's any more. COX_EFORMAT, COX_ECHECKSUM,
 * COX_EIO, COX_ELIMIT: the text has file, offset and reason. COX_ECANCELLED, and errors
 * of the source. Errors repeat. */
int coxi_reader_next(struct coxi_reader *reader, struct cox_batch *ret);

/* What was read so far. `records` are those handed out; the others may be ahead. */
void coxi_reader_counts(struct coxi_reader *reader, struct coxi_reader_counts *ret);

/* From now on the reader waits no longer for the source: coxi_reader_next fails soon with
 * COX_ECANCELLED, perhaps after batches that were read ahead. */
void coxi_reader_cancel(struct coxi_reader *reader);

/* Ends the thread, wherever it is: no batch comes any more. COX_ECONFLICT: the file has
 * changed since its reading began; coxi_reader_next tells that at the end only. */
int coxi_reader_end(struct coxi_reader *reader);

/* Ends the thread, too. Takes NULL. */
void coxi_reader_close(struct coxi_reader *reader);

#endif
