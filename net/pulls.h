/*
 * Reads the values of variables from all their ps at once, for clients and for readers
 * (evaluator/reader.c).
 *
 * Threads: any; blocks.
 */
#ifndef COXI_NET_PULLS_H
#define COXI_NET_PULLS_H

#include <stdatomic.h>

#include "common/layout.h"
#include "net/ps_client.h"

/* All members are borrowed. */
struct coxi_pull_from {
    struct coxi_session session;
    _Atomic(struct coxi_psc *) *ps;
    uint32_t n_ps;
    int timeout_ms; /* for each answer; 0: the ps clients' */
};

/* Rows [begin, begin + count), which must exist, of a dense variable, in its own type.
 * COX_EPSLOST, COX_EFENCED, COX_ENOENT: errors of the ps; COX_ETIMEDOUT; COX_ENOMEM. */
int coxi_pull_rows(const struct coxi_pull_from *from, const struct coxi_variable *v,
                   uint64_t begin, uint64_t count, void *ret_data);

/* The rows of n_keys keys of a table, in the order of the keys. Errors as above. */
int coxi_pull_keys(const struct coxi_pull_from *from, const struct coxi_variable *v,
                   const uint64_t *keys, size_t n_keys, float *ret_rows);

#endif
