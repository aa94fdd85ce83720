/* A progress bar on standard error, if that is a terminal: percent, rate, and the time
 * that is left. Main thread. */
#ifndef COXI_CLI_DATA_PROGRESS_H
#define COXI_CLI_DATA_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct coxi_progress {
    bool on;
    const char *what; /* "counting" */
    const char *unit; /* NULL: bytes */
    uint64_t total;   /* 0: not known */
    uint64_t done;    /* of earlier files */
    uint64_t begun_ns;
    uint64_t drawn_ns;
};

void coxi_progress_begin(struct coxi_progress *progress, const char *what,
                         uint64_t total);

/* Draws at most ten times a second; `done` of `total`. */
void coxi_progress_show(struct coxi_progress *progress, uint64_t done);

/* Removes the bar, so that other text can be printed; the next _show draws it again. */
void coxi_progress_clear(struct coxi_progress *progress);

/* The bytes of all these files, as far as they can be looked at: a total for bars. */
uint64_t coxi_progress_bytes(char *const *files, size_t n);

#endif
