/*
 * Bad records: malformed or damaged places of a file, which end the task with an error
 * or are left out and counted, as the data set wants it.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_BAD_H
#define COXI_DATA_BAD_H

#include <stdbool.h>
#include <stdint.h>

#include "data/task.h"

struct coxi_bad_records {
    const char *file;
    bool leaves_out; /* otherwise they are errors */
    /* bad, first_bad, first_reason: the damaged places so far; a damaged chunk is one */
    struct coxi_reader_counts counts;
    /* NULL, or told of every record that is left out */
    void (*on_left_out)(void *arg, uint64_t offset, const char *reason);
    void *arg;
};

/* Notes a bad record at `offset`. 0: go on behind it; otherwise `code`, and the error's
 * text is "FILE:OFFSET: reason". */
int coxi_bad_record(struct coxi_bad_records *bad, int code, uint64_t offset,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
