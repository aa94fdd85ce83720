/* See npz.h. The sizes and the checksum of an entry are known only at its end. So its
 * header is written with a hole first, which is filled in then. */
#include "cli/npz.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "common/buffer.h"
#include "common/error.h"

enum {
    CHUNK = 64 * 1024,
    ENTRY_NAME_MAX = 4000, /* bytes, so that PATH_MAX and zip's 16 bits hold it */
    ENTRY_PART_MAX = 250,  /* bytes between slashes, so that NAME_MAX holds it */
    ZIP_VERSION = 45,      /* the first version with zip64 */
    ZIP_UTF8 = 1 << 11,
    /* 1980-01-01, because equal contents must give equal files */
    ZIP_DATE = (1 << 5) + 1,
    ZIP_UNIX = 3 << 8,
    ZIP_EXTRA64 = 1,
};

struct coxi_npz {
    FILE *file;
    char *path;
    bool deflate;
    struct coxi_buffer directory; /* the directory at the end of the file */
    uint64_t n_entries;
    /* the entry that is being written, if there is one: */
    char *name;
    uint64_t offset; /* of its header */
    uint64_t len;    /* bytes before compression */
    uint64_t packed; /* bytes after compression */
    uLong crc;
    z_stream stream;
    uint8_t out[CHUNK];
};

/* ---- bytes */

static int fail(const struct coxi_npz *npz)
{
    return coxi_error_errno(COX_EIO, "cannot write %s", npz->path);
}

static int put(struct coxi_npz *npz, const void *data, size_t len)
{
    return fwrite(data, 1, len, npz->file) == len ? 0 : fail(npz);
}

/* Little-endian, like all machines here (checkpoint/safetensors relies on it, too). */
static void add(struct coxi_buffer *buffer, uint64_t n, size_t len)
{
    (void)coxi_buffer_append_raw(buffer, &n, len);
}

/* The fields that all headers of entries have, from the version to the checksum. */
static void add_entry(struct coxi_buffer *buffer, const struct coxi_npz *npz)
{
    add(buffer, ZIP_VERSION, 2);
    add(buffer, ZIP_UTF8, 2);
    add(buffer, npz->deflate ? Z_DEFLATED : 0, 2);
    add(buffer, 0, 2);
    add(buffer, ZIP_DATE, 2);
    add(buffer, npz->crc, 4);
    add(buffer, UINT32_MAX, 4); /* both sizes are in the extra field */
    add(buffer, UINT32_MAX, 4);
    add(buffer, strlen(npz->name), 2);
}

/* ---- entries */

static int put_header(struct coxi_npz *npz)
{
    struct coxi_buffer header = {0};
    int r = coxi_buffer_reserve(&header, 128 + strlen(npz->name));
    if (r == 0) {
        add(&header, 0x04034b50, 4);
        add_entry(&header, npz);
        add(&header, 20, 2);
        (void)coxi_buffer_append_raw(&header, npz->name, strlen(npz->name));
        add(&header, ZIP_EXTRA64, 2);
        add(&header, 16, 2);
        add(&header, npz->len, 8);
        add(&header, npz->packed, 8);
        r = put(npz, header.data, header.len);
    }
    coxi_buffer_fini(&header);
    return r;
}

/* Adds the entry to the directory. */
static int add_to_directory(struct coxi_npz *npz)
{
    struct coxi_buffer *directory = &npz->directory;
    int r = coxi_buffer_reserve(directory, 128 + strlen(npz->name));
    if (r != 0) {
        return r;
    }
    add(directory, 0x02014b50, 4);
    add(directory, ZIP_UNIX | ZIP_VERSION, 2);
    add_entry(directory, npz);
    add(directory, 28, 2);
    add(directory, 0, 2); /* comment, disk, kind */
    add(directory, 0, 2);
    add(directory, 0, 2);
    add(directory, 0100644u << 16, 4);
    add(directory, UINT32_MAX, 4);
    (void)coxi_buffer_append_raw(directory, npz->name, strlen(npz->name));
    add(directory, ZIP_EXTRA64, 2);
    add(directory, 24, 2);
    add(directory, npz->len, 8);
    add(directory, npz->packed, 8);
    add(directory, npz->offset, 8);
    npz->n_entries++;
    return 0;
}

/* Passes input to zlib; with `flush`, takes all output that it has. */
static int deflate_some(struct coxi_npz *npz, int flush)
{
    int r = 0;
    do {
        npz->stream.next_out = npz->out;
        npz->stream.avail_out = CHUNK;
        (void)deflate(&npz->stream, flush);
        size_t len = CHUNK - npz->stream.avail_out;
        npz->packed += len;
        r = put(npz, npz->out, len);
    } while (r == 0 && npz->stream.avail_out == 0);
    return r;
}

int coxi_npz_write(struct coxi_npz *npz, const void *data, size_t len)
{
    const uint8_t *at = data;
    int r = 0;
    npz->crc = crc32_z(npz->crc, at, len);
    npz->len += len;
    if (!npz->deflate) {
        npz->packed += len;
        return put(npz, at, len);
    }
    while (r == 0 && len > 0) {
        uInt n = len < CHUNK ? (uInt)len : CHUNK;
        npz->stream.next_in = (Bytef *)(uintptr_t)at;
        npz->stream.avail_in = n;
        r = deflate_some(npz, Z_NO_FLUSH);
        at += n;
        len -= n;
    }
    return r;
}

/* Ends the current entry, if there is one. */
static int end_entry(struct coxi_npz *npz)
{
    int r = 0;
    if (npz->name == NULL) {
        return 0;
    }
    if (npz->deflate) {
        r = deflate_some(npz, Z_FINISH);
        (void)deflateEnd(&npz->stream);
    }
    if (r == 0 && fseeko(npz->file, (off_t)npz->offset, SEEK_SET) != 0) {
        r = fail(npz);
    }
    if (r == 0) {
        r = put_header(npz);
    }
    if (r == 0 && fseeko(npz->file, 0, SEEK_END) != 0) {
        r = fail(npz);
    }
    if (r == 0) {
        r = add_to_directory(npz);
    }
    free(npz->name);
    npz->name = NULL;
    return r;
}

/* True if a program that unpacks the archive makes a file of that name below its own
 * directory. The name may come from a checkpoint of somebody else. */
static bool is_safe(const char *name)
{
    size_t len = 0;
    for (const char *part = name;; part += len + 1) {
        len = strcspn(part, "/");
        if (len == 0 || len > ENTRY_PART_MAX || strncmp(part, ".", len) == 0 ||
            strncmp(part, "..", len) == 0) {
            return false;
        }
        for (size_t i = 0; i < len; i++) {
            if (iscntrl((unsigned char)part[i]) || part[i] == '\\') {
                return false;
            }
        }
        if (part[len] == '\0') {
            return (size_t)(part - name) + len <= ENTRY_NAME_MAX;
        }
    }
}

static int begin_entry(struct coxi_npz *npz, const char *name)
{
    if (!is_safe(name)) {
        return coxi_error(
            COX_EINVAL,
            "'%.200s' cannot be the name of an array in an npz: its parts "
            "must be names of files; export it as safetensors",
            name);
    }
    int r = end_entry(npz);
    off_t offset = ftello(npz->file);
    if (r == 0 && offset < 0) {
        r = fail(npz);
    }
    if (r != 0) {
        return r;
    }
    memset(&npz->stream, 0, sizeof(npz->stream));
    /* Window bits below 0: no zlib header, because zip has its own. */
    if (npz->deflate && deflateInit2(&npz->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                                     -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        return coxi_error_memory("compression");
    }
    if (asprintf(&npz->name, "%s.npy", name) < 0) {
        npz->name = NULL;
        (void)deflateEnd(&npz->stream);
        return coxi_error_memory("an archive");
    }
    npz->offset = (uint64_t)offset;
    npz->len = 0;
    npz->packed = 0;
    npz->crc = crc32_z(0, NULL, 0);
    return put_header(npz);
}

int coxi_npz_begin(struct coxi_npz *npz, const char *name, const char *descr,
                   uint32_t rank, const uint64_t *shape)
{
    enum { PREFIX = 10, ALIGNMENT = 64 };
    static const uint8_t magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    char header[512];
    int r = begin_entry(npz, name);
    if (r != 0) {
        return r;
    }
    size_t used = PREFIX;
    used +=
        (size_t)snprintf(header + used, sizeof(header) - used,
                         "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (uint32_t i = 0; i < rank; i++) {
        used += (size_t)snprintf(header + used, sizeof(header) - used, "%" PRIu64 ", ",
                                 shape[i]);
    }
    used += (size_t)snprintf(header + used, sizeof(header) - used, "), }");
    size_t len = coxi_align(used + 1, ALIGNMENT);
    memset(header + used, ' ', len - used);
    header[len - 1] = '\n';
    memcpy(header, magic, sizeof(magic));
    uint16_t dictionary = (uint16_t)(len - PREFIX);
    memcpy(header + 8, &dictionary, sizeof(dictionary));
    return coxi_npz_write(npz, header, len);
}

/* ---- the file */

int coxi_npz_create(const char *path, bool deflate, struct coxi_npz **ret)
{
    struct coxi_npz *npz = calloc(1, sizeof(*npz));
    char *copy = strdup(path);
    FILE *file = npz != NULL && copy != NULL ? fopen(path, "we") : NULL;
    if (file == NULL) {
        int r = npz != NULL && copy != NULL
                    ? coxi_error_errno(COX_EIO, "cannot create %s", path)
                    : coxi_error_memory("an archive");
        free(npz);
        free(copy);
        return r;
    }
    npz->file = file;
    npz->path = copy;
    npz->deflate = deflate;
    *ret = npz;
    return 0;
}

static int put_directory(struct coxi_npz *npz)
{
    struct coxi_buffer *end = &npz->directory;
    off_t at = ftello(npz->file);
    uint64_t len = end->len;
    int r = coxi_buffer_reserve(end, 128);
    if (at < 0 || r != 0) {
        return r != 0 ? r : fail(npz);
    }
    add(end, 0x06064b50, 4);
    add(end, 44, 8); /* bytes of this record that follow */
    add(end, ZIP_UNIX | ZIP_VERSION, 2);
    add(end, ZIP_VERSION, 2);
    add(end, 0, 8); /* disks */
    add(end, npz->n_entries, 8);
    add(end, npz->n_entries, 8);
    add(end, len, 8);
    add(end, (uint64_t)at, 8);
    add(end, 0x07064b50, 4); /* the place of that record */
    add(end, 0, 4);
    add(end, (uint64_t)at + len, 8);
    add(end, 1, 4);
    add(end, 0x06054b50, 4); /* the old record, which points to the new one */
    add(end, 0, 4);
    add(end, UINT32_MAX, 4);
    add(end, UINT64_MAX, 8);
    add(end, 0, 2);
    return put(npz, end->data, end->len);
}

int coxi_npz_finish(struct coxi_npz *npz)
{
    int r = end_entry(npz);
    if (r == 0) {
        r = put_directory(npz);
    }
    if (r == 0 && (fflush(npz->file) != 0 || fsync(fileno(npz->file)) != 0)) {
        r = fail(npz);
    }
    coxi_npz_abandon(npz);
    return r;
}

void coxi_npz_abandon(struct coxi_npz *npz)
{
    if (npz == NULL) {
        return;
    }
    if (npz->name != NULL && npz->deflate) {
        (void)deflateEnd(&npz->stream);
    }
    (void)fclose(npz->file);
    coxi_buffer_fini(&npz->directory);
    free(npz->name);
    free(npz->path);
    free(npz);
}
