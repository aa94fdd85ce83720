/*
 * The history of a run on disk: <run directory>/metrics.jsonl, one record a line
 * (checkpoint/record.h). One client of the run appends to it; anybody may read it
 * meanwhile and afterwards. The run directory is the checkpoint directory, or without one
 * the directory for logs.
 *
 * A client that is killed may leave a line that is cut. Readers skip what is no record, and
 * the next client cuts such a line off. A run that does not go on from a checkpoint begins
 * its file anew; the file of the run before stays as metrics.jsonl.old.
 */
#ifndef COXI_CHECKPOINT_HISTORY_FILE_H
#define COXI_CHECKPOINT_HISTORY_FILE_H

#include "checkpoint/records.h"

/* ---- reading */

/*
 * Calls `each` for the records of the kinds (a sum of COXI_RECORDS_OF). A record that is
 * passed lives during the call. Lines of other kinds cost little: about 500 MB a second, if
 * the file is in memory. Any thread. COX_ENOENT: there is no file; COX_EIO, COX_ENOMEM.
 */
int coxi_history_each(const char *dir, unsigned kinds,
                      void (*each)(void *arg, const struct coxi_record *record),
                      void *arg);

/* The same for scalars whose number and step are at least these. The lines of others cost
 * little, too. */
int coxi_history_scalars(const char *dir, uint64_t seq_min, uint64_t step_min,
                         void (*each)(void *arg, const struct coxi_record *record),
                         void *arg);

/*
 * The history of a run of which this process is not the client: one that is over, or that
 * goes on. coxi_history_open reads the file (of a file of more than 64 MiB its end),
 * coxi_history_update what was appended since, also after the run has begun its file anew.
 * One thread at a time may update; the records may be read by any thread (records.h).
 * COX_ENOENT: there is no file; COX_EFORMAT: it has lines, and none is a record; COX_EIO,
 * COX_ENOMEM.
 */
struct coxi_history;

int coxi_history_open(const char *dir, struct coxi_history **ret);
int coxi_history_update(struct coxi_history *history);
struct coxi_records *coxi_history_records(struct coxi_history *history);
void coxi_history_close(struct coxi_history *history); /* takes NULL */

/* Adds the records of the file (of a file of more than 64 MiB: of its end) to `records`,
 * without those that a later client of the run has repeated. Errors as above. */
int coxi_history_load(const char *dir, struct coxi_records *records);

/* ---- writing: one thread at a time */

/* A zeroed one with fd -1 is not open. */
struct coxi_history_file {
    int fd;
    uint64_t len; /* bytes of whole lines */
    bool is_cut;  /* a part of a line follows them, which could not be cut off */
};

/* Opens the file to append to it, cuts a line off that is not complete, and makes the file
 * if it is missing. COX_EIO. */
int coxi_history_file_open(const char *dir, struct coxi_history_file *ret);

/* Renames a file that exists to metrics.jsonl.old. COX_EIO. */
int coxi_history_file_retire(const char *dir);

/* Appends whole lines: all of them or nothing, so that the file stays whole if the disk is
 * full. COX_EIO. */
int coxi_history_file_append(struct coxi_history_file *file, const void *lines,
                             size_t len);

void coxi_history_file_close(struct coxi_history_file *file);

#endif
