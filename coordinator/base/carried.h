/*
 * What has come of a file that travels in pieces, in any order: which bytes, and their
 * checksum. Adjacent pieces are joined, so it needs memory for the gaps only. Pure;
 * single-threaded.
 */
#ifndef COXI_COORDINATOR_BASE_CARRIED_H
#define COXI_COORDINATOR_BASE_CARRIED_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed: nothing has come. */
struct coxi_carried {
    struct coxi_carried_part *parts; /* in the order of their offsets */
    size_t n;
    size_t capacity;
};

void coxi_carried_fini(struct coxi_carried *carried);

/* These bytes have come. COX_EPROTO: some of them had come before, or there are too many
 * gaps; COX_ENOMEM. */
int coxi_carried_add(struct coxi_carried *carried, uint64_t at, const void *data,
                     size_t len);

/* The file's length and crc32. COX_EPROTO: there are gaps. */
int coxi_carried_sum(const struct coxi_carried *carried, uint64_t *ret_bytes,
                     uint32_t *ret_crc32);

#endif
