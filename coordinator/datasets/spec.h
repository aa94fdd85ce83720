/*
 * The spec of a data set, with its defaults filled in, and its packed form in
 * manifests: the fields on which tasks and their records depend.
 *
 * Threads: any.
 */
#ifndef COXI_COORDINATOR_DATASETS_SPEC_H
#define COXI_COORDINATOR_DATASETS_SPEC_H

#include "coxswain/dataset.h"
#include "data/decoding.h"

struct coxi_spec {
    struct coxi_decoding decoding;
    uint32_t source;
    uint32_t batch_size;
    uint64_t task_bytes;
    uint32_t shuffle;
    uint32_t shuffle_window;
    uint64_t seed;

    /* ---- not in the packed form: another client may choose them anew */
    uint64_t epochs;
    uint32_t prefetch;
    uint32_t failures_max;
    int timeout_floor_ms;
    uint64_t failed_max;
};

/* Checks a spec of this version's form, and fills in the defaults. The names of columns
 * stay the caller's. COX_EINVAL. */
int coxi_spec_check(const struct cox_dataset_spec *given, struct coxi_spec *ret);

/* COX_ENOMEM. */
int coxi_spec_pack(const struct coxi_spec *spec, struct coxi_buffer *to);

/* Names of columns stay in the bytes; the other fields get their defaults. Release the
 * decoding with coxi_decoding_fini. COX_EFORMAT, COX_ENOMEM. */
int coxi_spec_unpack(const void *bytes, size_t len, struct coxi_spec *ret);

/* "batch_size is 10, not 20": the packed fields in which `a` differs from `b`. */
void coxi_spec_differ(const struct coxi_spec *a, const struct coxi_spec *b, char *ret,
                      size_t len);

#endif
