/* See buckets.h. A bucket's file has for each record u32 length | bytes. */
#include "cli/buckets.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/error.h"
#include "common/file.h"
#include "common/rand.h"

enum { BUCKETS_MAX = 512, BUFFER_MAX = 64 << 10 };

struct bucket {
    int fd;
    uint64_t bytes; /* in the file and in the buffer */
    uint64_t n;
    struct coxi_buffer buffer;
};

struct coxi_buckets {
    uint64_t memory;
    uint64_t rng;
    size_t n;
    size_t next; /* to take */
    size_t buffer_bytes;
    struct bucket *all;
    struct coxi_buffer bytes; /* of the bucket at hand */
    struct cox_bytes *records;
    char dir[PATH_MAX];
};

static int open_bucket(const struct coxi_buckets *buckets, size_t i)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s/%zu", buckets->dir, i);
    if (r != 0) {
        return r;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot write %s", path);
    }
    buckets->all[i].fd = fd;
    return 0;
}

static int make_directory(struct coxi_buckets *buckets, const char *near)
{
    char path[PATH_MAX];
    int r = coxi_path(path, "%s.buckets-XXXXXX", near);
    if (r == 0 && mkdtemp(path) == NULL) {
        r = coxi_error_errno(COX_EIO, "cannot make the directory %s", path);
    }
    if (r == 0) {
        memcpy(buckets->dir, path, sizeof(path));
    }
    return r;
}

/* Buckets differ in size, and each record at hand takes a few bytes more. */
static size_t how_many(uint64_t bytes, uint64_t memory)
{
    uint64_t n = bytes / (memory / 3 + 1) + 1;
    return n < BUCKETS_MAX ? (size_t)n : BUCKETS_MAX;
}

int coxi_buckets_new(const char *near, uint64_t bytes, uint64_t memory, uint64_t seed,
                     struct coxi_buckets **ret)
{
    struct coxi_buckets *buckets = calloc(1, sizeof(*buckets));
    size_t n = how_many(bytes, memory);
    struct bucket *all = calloc(n, sizeof(*all));
    if (buckets == NULL || all == NULL) {
        free(buckets);
        free(all);
        return coxi_error_memory("buckets");
    }
    buckets->memory = memory;
    buckets->rng = seed;
    buckets->n = n;
    buckets->all = all;
    buckets->buffer_bytes =
        memory / 2 / n < BUFFER_MAX ? (size_t)(memory / 2 / n) : BUFFER_MAX;
    for (size_t i = 0; i < n; i++) {
        all[i].fd = -1;
    }
    int r = make_directory(buckets, near);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = open_bucket(buckets, i);
    }
    if (r != 0) {
        coxi_buckets_free(buckets);
        return r;
    }
    *ret = buckets;
    return 0;
}

const char *coxi_buckets_dir(const struct coxi_buckets *buckets)
{
    return buckets->dir;
}

void coxi_buckets_free(struct coxi_buckets *buckets)
{
    if (buckets == NULL) {
        return;
    }
    for (size_t i = 0; i < buckets->n; i++) {
        if (buckets->all[i].fd >= 0) {
            (void)close(buckets->all[i].fd);
        }
        coxi_buffer_fini(&buckets->all[i].buffer);
    }
    if (buckets->dir[0] != '\0') {
        coxi_directory_remove(buckets->dir);
    }
    coxi_buffer_fini(&buckets->bytes);
    free(buckets->records);
    free(buckets->all);
    free(buckets);
}

static int flush(const struct coxi_buckets *buckets, struct bucket *bucket)
{
    int r = coxi_fd_write(bucket->fd, bucket->buffer.data, bucket->buffer.len);
    bucket->buffer.len = 0;
    return r == 0 ? 0 : coxi_error_errno(COX_EIO, "cannot write in %s", buckets->dir);
}

int coxi_buckets_add(struct coxi_buckets *buckets, const void *record, size_t len)
{
    struct bucket *bucket = &buckets->all[coxi_rand(&buckets->rng) % buckets->n];
    uint32_t length = (uint32_t)len; /* at most COXI_RECORD_MAX */
    int r = coxi_buffer_append_raw(&bucket->buffer, &length, sizeof(length));
    r = r == 0 ? coxi_buffer_append_raw(&bucket->buffer, record, len) : r;
    bucket->bytes += sizeof(length) + len;
    bucket->n++;
    return r == 0 && bucket->buffer.len >= buckets->buffer_bytes
               ? flush(buckets, bucket)
               : r;
}

/* Reads a whole bucket, and lets its file and buffer go. */
static int load(struct coxi_buckets *buckets, struct bucket *bucket)
{
    int r = flush(buckets, bucket);
    coxi_buffer_fini(&bucket->buffer);
    if (r == 0 &&
        bucket->bytes + bucket->n * sizeof(struct cox_bytes) > buckets->memory) {
        return coxi_error(COX_ELIMIT,
                          "a part of %" PRIu64 " bytes does not fit into memory; give "
                          "more --memory",
                          bucket->bytes);
    }
    buckets->bytes.len = 0;
    r = r == 0 ? coxi_buffer_reserve(&buckets->bytes, (size_t)bucket->bytes + 1) : r;
    if (r == 0 && coxi_fd_read_at(bucket->fd, 0, buckets->bytes.data,
                                  (size_t)bucket->bytes) != (ssize_t)bucket->bytes) {
        r = coxi_error_errno(COX_EIO, "cannot read in %s", buckets->dir);
    }
    if (r == 0 && ftruncate(bucket->fd, 0) != 0) { /* the disk may be needed */
        r = coxi_error_errno(COX_EIO, "cannot write in %s", buckets->dir);
    }
    return r;
}

/* Finds the records, each at a random place among those before it. */
static void shuffle(struct coxi_buckets *buckets, uint64_t n)
{
    const uint8_t *at = buckets->bytes.data;
    struct cox_bytes *records = buckets->records;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t length;
        memcpy(&length, at, sizeof(length));
        uint64_t j = coxi_rand(&buckets->rng) % (i + 1);
        records[i] = records[j];
        records[j] = (struct cox_bytes){at + sizeof(length), length};
        at += sizeof(length) + length;
    }
}

int coxi_buckets_take(struct coxi_buckets *buckets, const struct cox_bytes **ret,
                      size_t *ret_n)
{
    if (buckets->next == buckets->n) {
        return COX_EEOF;
    }
    struct bucket *bucket = &buckets->all[buckets->next++];
    free(buckets->records);
    buckets->records = calloc((size_t)bucket->n + 1, sizeof(*buckets->records));
    if (buckets->records == NULL) {
        return coxi_error_memory("records");
    }
    int r = load(buckets, bucket);
    if (r != 0) {
        return r;
    }
    shuffle(buckets, bucket->n);
    *ret = buckets->records;
    *ret_n = (size_t)bucket->n;
    return 0;
}
