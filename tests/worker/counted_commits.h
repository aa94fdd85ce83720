/* Counts commits where the ps receives them. For one file of a test that is linked with
 * --wrap=coxi_store_commit. */
#ifndef COXI_TESTS_WORKER_COUNTED_COMMITS_H
#define COXI_TESTS_WORKER_COUNTED_COMMITS_H

#include <stdatomic.h>

#include "ps/store.h"

static struct {
    atomic_size_t n;
    atomic_size_t bytes;
    atomic_size_t n_updates;
} commits;

int __real_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate);
int __wrap_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate);

int __wrap_coxi_store_commit(struct coxi_store *store, const struct coxi_commit *commit,
                             const void *payload, size_t len,
                             struct coxi_buffer *scratch, bool *ret_duplicate)
{
    atomic_fetch_add(&commits.n, 1);
    atomic_fetch_add(&commits.bytes, len);
    atomic_fetch_add(&commits.n_updates, commit->n_updates);
    return __real_coxi_store_commit(store, commit, payload, len, scratch,
                                    ret_duplicate);
}

#endif
