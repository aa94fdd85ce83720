/*
 * How long a program waits for peers that come up or come back. How long that takes depends
 * on where it is deployed (a node that pulls an image, say), so the environment may say it
 * where the program does not. Any thread.
 */
#ifndef COXI_COMMON_PATIENCE_H
#define COXI_COMMON_PATIENCE_H

#include <stdbool.h>
#include <stddef.h>

struct coxi_patience_field {
    const char *variable;
    int *ms;       /* a field of options: below 0 is no limit */
    bool must_end; /* there has to be a limit */
};

/* Fills in fields that are 0 from their variables, if those are set and not empty.
 * COX_EINVAL: one is neither a number of milliseconds from 1, nor -1 where that may be. */
int coxi_patience_fill(const struct coxi_patience_field *all, size_t n);

#endif
