/*
 * See safetensors.h: computes a file's checksum from pieces in any order.
 *
 * Cost: each byte is read once; 24 bytes for each piece, so pieces should be long.
 * Threads: any for pieces; a lock guards their list.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "checkpoint/safetensors_internal.h"
#include "common/buffer.h"
#include "common/crc.h"
#include "common/error.h"
#include "common/sync.h"

enum {
    AHEAD = 8 << 20,  /* bytes requested from the disk at a time */
    CHUNK = 256 << 10 /* bytes summed at a time; divides AHEAD */
};

struct piece {
    size_t at;
    size_t len;
    uint32_t crc;
};

struct coxi_st_sum {
    const struct coxi_st_file *file;
    struct coxi_mutex lock; /* leaf */
    struct piece *pieces COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
    size_t capacity COXI_GUARDED_BY(lock);
};

int coxi_st_sum_new(const struct coxi_st_file *file, struct coxi_st_sum **ret)
{
    struct coxi_st_sum *sum = calloc(1, sizeof(*sum));
    if (sum == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    sum->file = file;
    coxi_mutex_init(&sum->lock);
    *ret = sum;
    return 0;
}

void coxi_st_sum_free(struct coxi_st_sum *sum)
{
    if (sum != NULL) {
        coxi_mutex_fini(&sum->lock);
        coxi_unshared(&sum->lock);
        free(sum->pieces);
        free(sum);
    }
}

/* When a piece reaches a new stretch of AHEAD bytes, asks the kernel to read the next
 * stretch. Only speed depends on it. */
static void read_ahead(const struct coxi_st_file *file, size_t at, size_t len)
{
    size_t next = coxi_align(at, AHEAD) + AHEAD;
    if (next - AHEAD < at + len && next < file->len) {
        size_t left = file->len - next;
        (void)madvise(file->map + next, left < AHEAD ? left : AHEAD, MADV_WILLNEED);
    }
}

static uint32_t sum_bytes(const struct coxi_st_file *file, size_t at, size_t len)
{
    uint32_t crc = 0;
    for (size_t n = 0; len > 0; at += n, len -= n) {
        n = len < CHUNK ? len : CHUNK;
        read_ahead(file, at, n);
        crc = coxi_crc32(crc, file->map + at, n);
    }
    return crc;
}

/* Makes room for a piece. False: no memory. */
static bool grow(struct coxi_st_sum *sum) COXI_REQUIRES(sum->lock)
{
    size_t capacity = sum->capacity == 0 ? 64 : sum->capacity * 2;
    struct piece *pieces = realloc(sum->pieces, capacity * sizeof(*pieces));
    if (pieces == NULL) {
        return false;
    }
    sum->pieces = pieces;
    sum->capacity = capacity;
    return true;
}

void coxi_st_sum_piece(struct coxi_st_sum *sum, const void *data, size_t len)
{
    size_t at = (size_t)((const uint8_t *)data - sum->file->map);
    struct piece piece = {at, len, sum_bytes(sum->file, at, len)};
    coxi_lock(&sum->lock);
    /* Without memory the piece is not noted; coxi_st_sum_end then reads its bytes
     * again. */
    if (sum->n < sum->capacity || grow(sum)) {
        sum->pieces[sum->n++] = piece;
    }
    coxi_unlock(&sum->lock);
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Adds the next `len` bytes, for which there is no piece. */
static uint32_t add_bytes(const struct coxi_st_file *file, uint32_t crc, size_t at,
                          size_t len)
{
    for (size_t n; len > 0; at += n, len -= n) {
        n = len < AHEAD ? len : AHEAD;
        crc = coxi_crc32_combine(crc, sum_bytes(file, at, n), n);
        coxi_st_drop(file, file->map + at, n);
    }
    return crc;
}

uint32_t coxi_st_sum_end(struct coxi_st_sum *sum)
{
    const struct coxi_st_file *file = sum->file;
    uint32_t crc = 0;
    size_t at = 0;
    coxi_unshared(&sum->lock);
    if (sum->n > 0) {
        qsort(sum->pieces, sum->n, sizeof(*sum->pieces), by_place);
    }
    for (size_t i = 0; i < sum->n; i++) {
        const struct piece *piece = &sum->pieces[i];
        if (piece->at >= at) { /* a piece that overlaps is not needed */
            crc = add_bytes(file, crc, at, piece->at - at);
            crc = coxi_crc32_combine(crc, piece->crc, piece->len);
            at = piece->at + piece->len;
        }
    }
    return add_bytes(file, crc, at, file->len - at);
}
