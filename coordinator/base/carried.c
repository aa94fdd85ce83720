/*
 * See carried.h. Invariant: the parts are sorted, and between two of them is at least one
 * byte that has not come.
 */
#include "coordinator/base/carried.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/crc.h"
#include "common/error.h"

/* A ps writes a few tensors at a time, each from its beginning to its end. */
enum { PARTS_MAX = 1 << 16 };

struct coxi_carried_part {
    uint64_t at;
    uint64_t len;
    uint32_t crc;
};

void coxi_carried_fini(struct coxi_carried *carried)
{
    free(carried->parts);
    *carried = (struct coxi_carried){0};
}

/* How many parts begin at `at` or before. */
static size_t count_before(const struct coxi_carried *carried, uint64_t at)
{
    size_t low = 0;
    size_t high = carried->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (carried->parts[middle].at <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int make_room(struct coxi_carried *carried)
{
    if (carried->n < carried->capacity) {
        return 0;
    }
    if (carried->n == PARTS_MAX) {
        return coxi_error(COX_EPROTO, "the pieces of a shard leave %d gaps", PARTS_MAX);
    }
    size_t capacity = carried->capacity == 0 ? 16 : carried->capacity * 2;
    struct coxi_carried_part *parts =
        realloc(carried->parts, capacity * sizeof(*parts));
    if (parts == NULL) {
        return coxi_error_memory("the pieces of a checkpoint");
    }
    carried->parts = parts;
    carried->capacity = capacity;
    return 0;
}

static void join(struct coxi_carried_part *part, const struct coxi_carried_part *next)
{
    part->crc = coxi_crc32_combine(part->crc, next->crc, next->len);
    part->len += next->len;
}

static int add(struct coxi_carried *carried, const struct coxi_carried_part *part)
{
    size_t i = count_before(carried, part->at);
    struct coxi_carried_part *parts = carried->parts;
    bool joins = i > 0 && parts[i - 1].at + parts[i - 1].len == part->at;
    if ((i > 0 && parts[i - 1].at + parts[i - 1].len > part->at) ||
        (i < carried->n && parts[i].at - part->at < part->len)) {
        return coxi_error(COX_EPROTO,
                          "a piece of %" PRIu64 " bytes at %" PRIu64
                          " has come in part before",
                          part->len, part->at);
    }
    if (joins) {
        join(&parts[i - 1], part);
    } else {
        int r = make_room(carried);
        if (r != 0) {
            return r;
        }
        parts = carried->parts;
        memmove(&parts[i + 1], &parts[i], (carried->n++ - i) * sizeof(*parts));
        parts[i++] = *part;
    }
    if (i < carried->n && parts[i - 1].at + parts[i - 1].len == parts[i].at) {
        join(&parts[i - 1], &parts[i]);
        memmove(&parts[i], &parts[i + 1], (--carried->n - i) * sizeof(*parts));
    }
    return 0;
}

int coxi_carried_add(struct coxi_carried *carried, uint64_t at, const void *data,
                     size_t len)
{
    const struct coxi_carried_part part = {at, len, coxi_crc32(0, data, len)};
    if (len > INT64_MAX || at > INT64_MAX - len) {
        return coxi_error(COX_EPROTO, "no file has a byte %" PRIu64, at);
    }
    return len > 0 ? add(carried, &part) : 0;
}

int coxi_carried_sum(const struct coxi_carried *carried, uint64_t *ret_bytes,
                     uint32_t *ret_crc32)
{
    if (carried->n > 1 || (carried->n == 1 && carried->parts[0].at != 0)) {
        return coxi_error(COX_EPROTO,
                          "bytes of a shard are missing: %" PRIu64 " to %" PRIu64,
                          carried->parts[0].at != 0 ? 0 : carried->parts[0].len,
                          carried->parts[carried->parts[0].at != 0 ? 0 : 1].at);
    }
    *ret_bytes = carried->n > 0 ? carried->parts[0].len : 0;
    *ret_crc32 = carried->n > 0 ? carried->parts[0].crc : 0;
    return 0;
}
