/* Counts commits where the ps receives them. For one file of a test that is linked with
 * --wrap=coxi_store_commit. */
#ifndef COXI_TESTS_WORKER_COUNTED_COMMITS_H
#define COXI_TESTS_WORKER_COUNTED_COMMITS_H

#include <stdatomic.h>

#include "ps/store.h"
#include "tests/worker/counted.h"

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

/* Asserts that a step fails with `code` and a text that has `part`, and commits
 * nothing. */
static inline void call_fails(struct rig *rig, uint64_t closure, const char *step,
                              const struct call *call, int code, const char *part)
{
    const size_t before = atomic_load(&commits.n);
    const struct rig_done done = call_run(rig, closure, step, call, code);
    if (strstr(done.result, part) == NULL) {
        fail_msg("\"%s\" does not name %s", (const char *)done.result, part);
    }
    assert_int_equal(before, atomic_load(&commits.n));
}

#endif
