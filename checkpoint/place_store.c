/*
 * See place_internal.h: long files as objects of a store. A sink and a source own the client
 * that they use.
 *
 * A root is "s3://BUCKET/PREFIX": objects beneath it have a URL that begins with it. Names
 * like ".." are refused by the client (objects/s3.h), so no URL leads out of it.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/place_internal.h"
#include "checkpoint/stored.h"
#include "common/crc.h"
#include "common/error.h"
#include "common/file.h"

enum { FETCH_BYTES = 8 << 20 };

static int check_root(const char *root, const char *path)
{
    size_t len = root != NULL ? strlen(root) : 0;
    while (len > 0 && root[len - 1] == '/') {
        len--;
    }
    return root == NULL || (strncmp(path, root, len) == 0 && path[len] == '/')
               ? 0
               : coxi_error(COX_EIO, "%s does not lie beneath the checkpoint root %s",
                            path, root);
}

/* ---- a sink */

struct sink {
    struct coxi_s3 *s3;
    struct coxi_file_sink upload;
};

static int sink_write(void *arg, uint64_t at, const void *data, size_t len)
{
    struct sink *sink = arg;
    return coxi_stored_code(sink->upload.write(sink->upload.arg, at, data, len));
}

static void sink_free(struct sink *sink)
{
    coxi_s3_close(sink->s3);
    free(sink);
}

static int sink_finish(void *arg)
{
    struct sink *sink = arg;
    int r = coxi_stored_code(sink->upload.finish(sink->upload.arg));
    sink_free(sink);
    return r;
}

static void sink_abandon(void *arg)
{
    struct sink *sink = arg;
    sink->upload.abandon(sink->upload.arg);
    sink_free(sink);
}

int coxi_place_store_create(const char *root, const char *path, uint64_t bytes,
                            struct coxi_file_sink *ret)
{
    const char *key = NULL;
    int r = check_root(root, path);
    if (r != 0) {
        return r;
    }
    struct sink *sink = calloc(1, sizeof(*sink));
    if (sink == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    r = coxi_stored_open(path, &sink->s3, &key);
    if (r == 0) {
        r = coxi_stored_code(coxi_s3_upload(sink->s3, key, bytes, &sink->upload));
    }
    if (r != 0) {
        sink_free(sink);
        return r;
    }
    *ret = (struct coxi_file_sink){sink_write, sink_finish, sink_abandon, sink};
    return 0;
}

/* ---- a source */

struct source {
    struct coxi_s3 *s3;
    struct coxi_file_source object;
};

static int source_read(void *arg, uint64_t at, void *to, size_t len)
{
    const struct source *source = arg;
    return coxi_stored_code(source->object.read(source->object.arg, at, to, len));
}

static void source_free(struct source *source)
{
    coxi_s3_source_close(&source->object);
    coxi_s3_close(source->s3);
    free(source);
}

int coxi_place_store_open(const char *root, const char *path, uint64_t bytes,
                          struct coxi_file_source *ret)
{
    const char *key = NULL;
    int r = check_root(root, path);
    if (r != 0) {
        return r;
    }
    struct source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    r = coxi_stored_open(path, &source->s3, &key);
    if (r == 0) {
        r = coxi_stored_code(coxi_s3_source(source->s3, key, bytes, &source->object));
    }
    if (r != 0) {
        source_free(source);
        return r;
    }
    *ret = (struct coxi_file_source){source_read, source};
    return 0;
}

void coxi_place_store_close(struct coxi_file_source *source)
{
    source_free(source->arg);
}

/* ---- copies */

/* A new file without a name. */
static int make_nameless(int *ret)
{
    const char *dir = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
    char path[PATH_MAX];
    dir = dir != NULL && *dir != '\0' ? dir : "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && coxi_path(path, "%s/coxswain-XXXXXX", dir) == 0) {
        fd = mkostemp(path, O_CLOEXEC); /* not every file system knows O_TMPFILE */
        if (fd >= 0) {
            (void)unlink(path);
        }
    }
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot make a file in %s", dir);
    }
    *ret = fd;
    return 0;
}

static int copy(const struct coxi_file_source *from, const char *path, uint64_t bytes,
                int fd, uint32_t *ret_crc32)
{
    uint32_t crc = 0;
    uint8_t *piece = malloc(FETCH_BYTES);
    int r = piece == NULL ? coxi_error_memory("a checkpoint file") : 0;
    for (uint64_t at = 0, n; r == 0 && at < bytes; at += n) {
        n = bytes - at < FETCH_BYTES ? bytes - at : FETCH_BYTES;
        r = from->read(from->arg, at, piece, (size_t)n);
        if (r == 0 && coxi_fd_write(fd, piece, (size_t)n) != 0) {
            r = coxi_error_errno(COX_EIO, "cannot copy %s to $TMPDIR or /tmp", path);
        }
        crc = r == 0 ? coxi_crc32(crc, piece, (size_t)n) : crc;
    }
    free(piece);
    *ret_crc32 = crc;
    return r;
}

int coxi_place_fetch(const char *path, uint64_t bytes, struct coxi_file_source *ret,
                     uint32_t *ret_crc32)
{
    struct coxi_file_source from = {0};
    int fd = -1;
    uint32_t crc = 0;
    int r = coxi_place_store_open(NULL, path, bytes, &from);
    if (r != 0) {
        return r;
    }
    r = make_nameless(&fd);
    r = r == 0 ? copy(&from, path, bytes, fd, &crc) : r;
    coxi_place_store_close(&from);
    if (r != 0 && fd >= 0) {
        (void)close(fd);
    }
    r = r == 0 ? coxi_place_file_adopt(fd, path, ret) : r;
    if (r == 0) {
        *ret_crc32 = crc;
    }
    return r;
}
