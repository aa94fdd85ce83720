/*
 * Buckets: records that are put at random into temporary files, each of which fits into
 * memory, so that all of them can be shuffled. Taking the buckets one by one, each
 * shuffled, gives every order of all records with the same probability.
 *
 * Main thread.
 */
#ifndef COXI_CLI_BUCKETS_H
#define COXI_CLI_BUCKETS_H

#include <stddef.h>
#include <stdint.h>

#include "coxswain/batch.h"

struct coxi_buckets;

/* Makes a directory for them, `near`.buckets-*. So many records as `bytes` bytes have,
 * with `memory` bytes to shuffle them in. COX_EIO, COX_ENOMEM. */
int coxi_buckets_new(const char *near, uint64_t bytes, uint64_t memory, uint64_t seed,
                     struct coxi_buckets **ret);

/* Their directory, in which the caller may put files of its own. */
const char *coxi_buckets_dir(const struct coxi_buckets *buckets);

/* Removes them, and all that is in their directory. Takes NULL. */
void coxi_buckets_free(struct coxi_buckets *buckets);

int coxi_buckets_add(struct coxi_buckets *buckets, const void *record, size_t len);

/* After the last record: replaces the records at hand with a bucket's, shuffled. They stay
 * until the next call. COX_EEOF: no bucket is left; COX_ELIMIT: one does not fit into
 * memory. */
int coxi_buckets_take(struct coxi_buckets *buckets, const struct cox_bytes **ret,
                      size_t *ret_n);

#endif
