/* The kinds of sources by name: a table of URL schemes; any other name is a path. */
#ifndef COXI_DATA_SOURCES_H
#define COXI_DATA_SOURCES_H

#include <stdbool.h>
#include <stddef.h>

#include "data/source.h"

/* Opens a path, or a URL of a scheme that is known. COX_ENOENT, COX_EIO, COX_EINVAL
 * (a scheme that is not known). */
int coxi_source_open(const char *name, struct coxi_source *ret);

/* Names that were found. Zeroed: none. */
struct coxi_found {
    char **names;
    size_t n;
    size_t room;
};

int coxi_found_take(struct coxi_found *found, char *name); /* also if it fails */
void coxi_found_fini(struct coxi_found *found);

/*
 * The files that a name with a scheme stands for, in the order of their bytes: itself;
 * of s3://BUCKET/KEY with * ? or [ in the key all that match, as of paths. COX_EINVAL: a
 * pattern of another scheme, which cannot list its files. COX_ENOENT: nothing matches.
 * Errors of opening and reading.
 */
int coxi_source_find(const char *pattern, struct coxi_found *ret);

#endif
