/*
 * Inflates a gzip file: one member, or several behind each other (as `cat a.gz b.gz`
 * makes them), and zeros that pad the last one.
 *
 * Threads: one at a time.
 */
#ifndef COXI_DATA_INFLATER_H
#define COXI_DATA_INFLATER_H

#include "data/source.h"

struct coxi_inflater;

int coxi_inflater_new(struct coxi_inflater **ret);
void coxi_inflater_free(struct coxi_inflater *inflater);

/* Inflates `len` bytes, fewer only at the end. *next is the place in the source.
 * COX_EFORMAT: the text has the file and the offset. COX_EIO, COX_ENOMEM. */
int coxi_inflater_read(struct coxi_inflater *inflater, const struct coxi_source *source,
                       uint64_t *next, void *to, size_t len, size_t *ret_len);

#endif
