/*
 * See safetensors.h: reads a tensor from its beginning to its end, in little memory.
 *
 * Threads: any. Cost: a buffer of STRETCH bytes, into which the file's bytes are read.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors_internal.h"
#include "common/buffer.h"
#include "common/error.h"

enum { STRETCH = 1 << 20 /* bytes that are read at a time */ };

static int stream_plain(const struct coxi_st_tensor *tensor, coxi_st_take *take,
                        void *arg)
{
    size_t most = tensor->bytes < STRETCH ? tensor->bytes : STRETCH;
    uint8_t *buffer = coxi_aligned_new(most);
    int r = buffer == NULL ? coxi_error_memory("a tensor of a checkpoint") : 0;
    for (uint64_t at = 0, n; r == 0 && at < tensor->bytes; at += n) {
        n = tensor->bytes - at < most ? tensor->bytes - at : most;
        r = coxi_st_read(tensor, at, buffer, n);
        r = r == 0 ? take(arg, buffer, n) : r;
    }
    free(buffer);
    return r;
}

/* Rows on their way to `take`. */
struct rows {
    coxi_st_take *take;
    void *arg;
    size_t row_bytes;
    uint8_t *buffer; /* room for the rows of a stretch */
};

static bool is_kept(const uint64_t *kept, uint64_t row)
{
    return (kept[row / 64] >> (row % 64) & 1) != 0;
}

/* The number of rows in a stretch. */
static uint64_t rows_of_stretch(size_t row_bytes)
{
    return row_bytes < STRETCH ? STRETCH / row_bytes : 1;
}

/* Streams those of one file's rows [first, first + n) that are marked in `kept`. */
static int stream_stretch(struct rows *rows, const struct coxi_st_tensor *tensor,
                          const uint64_t *kept, uint64_t first, uint64_t n)
{
    size_t bytes = rows->row_bytes;
    size_t used = 0;
    int r = coxi_st_read(tensor, first * bytes, rows->buffer, n * bytes);
    for (uint64_t i = 0; r == 0 && i < n; i++) {
        if (is_kept(kept, first + i)) {
            memmove(rows->buffer + used, rows->buffer + i * bytes, bytes);
            used += bytes;
        }
    }
    return r == 0 && used > 0 ? rows->take(rows->arg, rows->buffer, used) : r;
}

static int stream_file(struct rows *rows, const struct coxi_st_tensor *tensor,
                       const uint64_t *kept)
{
    uint64_t most = rows_of_stretch(rows->row_bytes);
    uint64_t all = tensor->shape[0];
    int r = 0;
    for (uint64_t first = 0, n; r == 0 && first < all; first += n) {
        n = all - first < most ? all - first : most;
        r = stream_stretch(rows, tensor, kept, first, n);
    }
    return r;
}

/* Streams a tensor of a table that several files have: the newest file's rows come
 * first. */
static int stream_merged(const struct coxi_st_file *file,
                         const struct coxi_st_tensor *tensor,
                         const struct coxi_st_merged *merged, coxi_st_take *take,
                         void *arg)
{
    struct rows rows = {
        .take = take, .arg = arg, .row_bytes = coxi_st_row_bytes(tensor)};
    rows.buffer = coxi_aligned_new(rows_of_stretch(rows.row_bytes) * rows.row_bytes);
    int r = rows.buffer == NULL ? coxi_error_memory("a table of a checkpoint") : 0;
    for (size_t i = file->n_under; r == 0 && i-- > 0;) {
        const struct coxi_st_tensor *its = coxi_st_find(file->under[i], tensor->name);
        if (its != NULL) {
            r = stream_file(&rows, its, merged->kept[i]);
        }
    }
    free(rows.buffer);
    return r;
}

int coxi_st_stream(const struct coxi_st_file *file, const struct coxi_st_tensor *tensor,
                   coxi_st_take *take, void *arg)
{
    if (tensor->bytes == 0) {
        return 0;
    }
    const struct coxi_st_merged *merged =
        file->merged != NULL ? file->merged[tensor - file->tensors] : NULL;
    return merged != NULL ? stream_merged(file, tensor, merged, take, arg)
                          : stream_plain(tensor, take, arg);
}
