/*
 * See safetensors.h: reads a tensor from its beginning to its end, in little memory.
 *
 * Pages of a memory map count as the process's memory until they are unmapped.
 * Therefore a reader that goes through a large file gives back what it has read.
 * Dropping pages loses nothing: the map is never written, and the kernel reads a page
 * again if it is needed.
 *
 * Threads: any. Cost: no copy for a tensor that lies in one file; for a table of
 * several files one copy of each row, in a buffer of STRETCH bytes.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/safetensors_internal.h"
#include "common/error.h"

enum { STRETCH = 1 << 20 /* bytes that are read before they are dropped */ };

/* ---- giving memory back */

static bool is_mapped(const struct coxi_st_file *file, const uint8_t *at)
{
    return file->map != NULL && at >= file->map && at < file->map + file->len;
}

void coxi_st_drop(const struct coxi_st_file *file, const void *data, size_t len)
{
    const uint8_t *at = data;
    const struct coxi_st_file *its = is_mapped(file, at) ? file : NULL;
    for (size_t i = 0; its == NULL && i < file->n_under; i++) {
        its = is_mapped(file->under[i], at) ? file->under[i] : NULL;
    }
    if (its == NULL) {
        return;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t begin = (size_t)(at - its->map);
    size_t end = begin + len;
    begin -= begin % page;
    end -= end == its->len ? 0 : end % page;
    if (begin < end) {
        (void)madvise(its->map + begin, end - begin, MADV_DONTNEED);
    }
}

/* ---- tensors */

static int stream_plain(const struct coxi_st_file *file,
                        const struct coxi_st_tensor *tensor, coxi_st_take *take,
                        void *arg)
{
    const uint8_t *data = tensor->data;
    int r = 0;
    for (uint64_t at = 0, n; r == 0 && at < tensor->bytes; at += n) {
        n = tensor->bytes - at < STRETCH ? tensor->bytes - at : STRETCH;
        r = take(arg, data + at, n);
        coxi_st_drop(file, data + at, n);
    }
    return r;
}

/* Rows on their way to `take`. */
struct rows {
    coxi_st_take *take;
    void *arg;
    size_t row_bytes;
    uint8_t *buffer; /* room for the rows of a stretch */
    size_t used;
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
static int stream_stretch(struct rows *rows, const uint8_t *data, const uint64_t *kept,
                          uint64_t first, uint64_t n)
{
    size_t bytes = rows->row_bytes;
    rows->used = 0;
    for (uint64_t i = first; i < first + n; i++) {
        if (is_kept(kept, i)) {
            memcpy(rows->buffer + rows->used, data + i * bytes, bytes);
            rows->used += bytes;
        }
    }
    return rows->used > 0 ? rows->take(rows->arg, rows->buffer, rows->used) : 0;
}

static int stream_file(struct rows *rows, const struct coxi_st_file *file,
                       const struct coxi_st_tensor *tensor, const uint64_t *kept)
{
    uint64_t most = rows_of_stretch(rows->row_bytes);
    const uint8_t *data = tensor->data;
    uint64_t all = tensor->shape[0];
    int r = 0;
    for (uint64_t first = 0, n; r == 0 && first < all; first += n) {
        n = all - first < most ? all - first : most;
        r = stream_stretch(rows, data, kept, first, n);
        coxi_st_drop(file, data + first * rows->row_bytes, n * rows->row_bytes);
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
    rows.buffer = malloc(rows_of_stretch(rows.row_bytes) * rows.row_bytes);
    int r = rows.buffer == NULL ? coxi_error_memory("a table of a checkpoint") : 0;
    for (size_t i = file->n_under; r == 0 && i-- > 0;) {
        const struct coxi_st_tensor *its = coxi_st_find(file->under[i], tensor->name);
        if (its != NULL) {
            r = stream_file(&rows, file->under[i], its, merged->kept[i]);
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
                          : stream_plain(file, tensor, take, arg);
}
