/*
 * See safetensors.h: computes a file's checksum from pieces in any order.
 *
 * Cost: each byte is read once; 24 bytes for each piece, so pieces should be long.
 * Threads: any for pieces; a lock guards their list.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "checkpoint/place.h"
#include "checkpoint/safetensors_internal.h"
#include "common/buffer.h"
#include "common/crc.h"
#include "common/error.h"
#include "common/sync.h"
#include "schema/check.h"

enum {
    AHEAD = 8 << 20,  /* bytes requested from the disk at a time */
    CHUNK = 256 << 10 /* bytes read and summed at a time; divides AHEAD */
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
        coxi_place_expect(&file->source, next, AHEAD);
    }
}

/* Reads bytes of the file and adds them to *crc, while they are in the caches. */
static int read_summed(const struct coxi_st_file *file, uint64_t at, uint8_t *to,
                       size_t len, uint32_t *crc)
{
    size_t most = coxi_st_is_remote(file) ? len : CHUNK;
    int r = 0;
    for (size_t n = 0; r == 0 && len > 0; at += n, to += n, len -= n) {
        n = len < most ? len : most;
        read_ahead(file, at, n);
        r = coxi_st_read_file(file, at, to, n);
        *crc = r == 0 ? coxi_crc32(*crc, to, n) : *crc;
    }
    return r;
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

int coxi_st_sum_read(struct coxi_st_sum *sum, const struct coxi_st_tensor *tensor,
                     uint64_t at, void *to, size_t len)
{
    COXI_CHECK(tensor->file == sum->file && at <= tensor->bytes &&
               len <= tensor->bytes - at);
    struct piece piece = {tensor->at + at, len, 0};
    int r = read_summed(sum->file, piece.at, to, len, &piece.crc);
    if (r != 0) {
        return r;
    }
    coxi_lock(&sum->lock);
    /* Without memory the piece is not noted; coxi_st_sum_end then reads its bytes
     * again. */
    if (sum->n < sum->capacity || grow(sum)) {
        sum->pieces[sum->n++] = piece;
    }
    coxi_unlock(&sum->lock);
    return 0;
}

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a;
    const struct piece *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Adds the next `len` bytes, for which there is no piece. `buffer`: CHUNK bytes. */
static int add_bytes(const struct coxi_st_file *file, uint8_t *buffer, uint32_t *crc,
                     size_t at, size_t len)
{
    int r = 0;
    for (size_t n; r == 0 && len > 0; at += n, len -= n) {
        n = len < CHUNK ? len : CHUNK;
        r = read_summed(file, at, buffer, n, crc);
    }
    return r;
}

static int join_pieces(struct coxi_st_sum *sum, uint8_t *buffer, uint32_t *ret)
{
    const struct coxi_st_file *file = sum->file;
    uint32_t crc = 0;
    size_t at = 0;
    int r = 0;
    coxi_unshared(&sum->lock);
    if (sum->n > 0) {
        qsort(sum->pieces, sum->n, sizeof(*sum->pieces), by_place);
    }
    for (size_t i = 0; r == 0 && i < sum->n; i++) {
        const struct piece *piece = &sum->pieces[i];
        if (piece->at >= at) { /* a piece that overlaps is not needed */
            r = add_bytes(file, buffer, &crc, at, piece->at - at);
            crc = coxi_crc32_combine(crc, piece->crc, piece->len);
            at = piece->at + piece->len;
        }
    }
    if (r == 0) {
        r = add_bytes(file, buffer, &crc, at, file->len - at);
    }
    *ret = crc;
    return r;
}

int coxi_st_sum_end(struct coxi_st_sum *sum, uint32_t *ret)
{
    uint32_t crc = 0;
    uint8_t *buffer = malloc(CHUNK);
    if (buffer == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = join_pieces(sum, buffer, &crc);
    free(buffer);
    if (r == 0) {
        *ret = crc;
    }
    return r;
}
