/* Files in memory, as sources. */
#ifndef COXI_TESTS_DATA_MEMORY_H
#define COXI_TESTS_DATA_MEMORY_H

#include "data/source.h"

struct memory_file {
    const uint8_t *data; /* NULL: each byte is 'x' */
    uint64_t len;
    uint64_t line; /* not 0: each line-th byte is a newline, if there is no `data` */
    uint64_t changed_ns;
    uint64_t changes_at;       /* not 0: a read from here on changes the file */
    struct memory_file *index; /* NULL: there is none beside it */
};

/* Borrows the file until the source is closed. COX_ENOMEM. */
int memory_source(struct memory_file *file, const char *name, struct coxi_source *ret);

#endif
