/*
 * The file of a trace that comes piece by piece. It gets its name only when it is whole, so
 * nobody finds half a file, and a file that was there stays if the trace fails. One thread.
 */
#ifndef COXI_CLI_TRACE_FILE_H
#define COXI_CLI_TRACE_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { COXI_TRACE_TAIL = 8192 };

struct coxi_trace_file {
    const char *path;
    FILE *file;
    char temporary[PATH_MAX];
    uint64_t bytes;
    uint64_t n_entries;             /* whole ones, but the last */
    uint64_t cut;                   /* those end here; 0: there are none */
    uint64_t n_lost;                /* spans, as the trace's last entry says */
    char tail[COXI_TRACE_TAIL + 1]; /* the last bytes */
    size_t tail_len;
};

/* Prepares to write `path` (borrowed). COX_EIO, COX_EINVAL: it is no regular file. */
int coxi_trace_file_open(struct coxi_trace_file *file, const char *path);

/* Adds some bytes. COX_EIO. */
int coxi_trace_file_add(struct coxi_trace_file *file, const void *bytes, size_t len);

/*
 * Gives the file its name, and ends its use. `is_cut`: no more came, so first makes
 * whole what there is. COX_ENOENT: nothing is there; COX_EIO: the trace has failed, or the
 * file cannot be written. Then there is no file.
 */
int coxi_trace_file_end(struct coxi_trace_file *file, bool is_cut);

/* Ends its use and removes it. Does nothing after _end. */
void coxi_trace_file_drop(struct coxi_trace_file *file);

#endif
