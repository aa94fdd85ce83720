/*
 * See safetensors.h. Cost: writing is one pass through a 1 MiB buffer, crc32 on the
 * way; opening reads the whole file once for its crc32. Threads: a file is
 * single-threaded.
 */
#include "common/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/buffer.h"
#include "common/dtype.h"
#include "common/error.h"

enum { HEADER_MAX = 100000000, WRITE_BUFFER = 1 << 20 };

/* ---- writing */

struct coxi_st_writer {
    int fd;
    char *path;
    uint64_t expected;
    uint64_t written; /* with what is in the buffer */
    bool failed;      /* what is on disk lacks something */
    uLong crc;
    size_t used;
    uint8_t buffer[WRITE_BUFFER];
};

static int flush(struct coxi_st_writer *writer, const uint8_t *data, size_t len)
{
    writer->crc = crc32_z(writer->crc, data, len);
    while (len > 0) {
        ssize_t n = write(writer->fd, data, len);
        if (n < 0 && errno != EINTR) {
            writer->failed = true;
            return coxi_error_errno(COX_EIO, "cannot write %s", writer->path);
        }
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

int coxi_st_write(struct coxi_st_writer *writer, const void *data, size_t len)
{
    writer->written += len;
    if (len <= sizeof(writer->buffer) - writer->used) {
        memcpy(writer->buffer + writer->used, data, len);
        writer->used += len;
        return 0;
    }
    int r = flush(writer, writer->buffer, writer->used);
    writer->used = 0;
    if (r != 0) {
        return r;
    }
    if (len >= sizeof(writer->buffer)) {
        return flush(writer, data, len);
    }
    memcpy(writer->buffer, data, len);
    writer->used = len;
    return 0;
}

static int add_metadata(const struct coxi_st_metadata *metadata, size_t n,
                        json_t *header)
{
    json_t *pairs = json_object();
    (void)json_object_set_new(header, "__metadata__", pairs);
    for (size_t i = 0; i < n; i++) {
        if (json_object_set_new(pairs, metadata[i].key,
                                json_string(metadata[i].value)) != 0) {
            return coxi_error(COX_EINVAL, "metadata '%s' is not UTF-8",
                              metadata[i].key);
        }
    }
    return 0;
}

/* Adds a tensor whose data begins at *offset, which moves on to its end. */
static int add_tensor(const struct coxi_st_tensor *tensor, uint64_t *offset,
                      json_t *header)
{
    uint64_t end = *offset + tensor->bytes;
    json_t *shape = json_array();
    for (uint32_t d = 0; d < tensor->rank; d++) {
        (void)json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d]));
    }
    json_t *entry =
        json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype, "shape", shape,
                  "data_offsets", (json_int_t)*offset, (json_int_t)end);
    if (json_object_get(header, tensor->name) != NULL) {
        json_decref(entry);
        return coxi_error(COX_EINVAL, "the name '%s' is taken", tensor->name);
    }
    if (json_object_set_new(header, tensor->name, entry) != 0) {
        return coxi_error(COX_EINVAL, "the name '%s' is not UTF-8", tensor->name);
    }
    *offset = end;
    return 0;
}

/* The header as text, padded with spaces to a multiple of 8; *ret is for free(). */
static int header_text(const struct coxi_st_tensor *tensors, size_t n,
                       const struct coxi_st_metadata *metadata, size_t n_metadata,
                       char **ret)
{
    json_t *header = json_object();
    uint64_t offset = 0;
    int r = add_metadata(metadata, n_metadata, header);
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = add_tensor(&tensors[i], &offset, header);
    }
    char *text = r == 0 ? json_dumps(header, JSON_COMPACT) : NULL;
    size_t len = text != NULL ? strlen(text) : 0;
    size_t padded = coxi_align(len, 8);
    char *longer = text != NULL ? realloc(text, padded + 1) : NULL;
    json_decref(header);
    if (longer == NULL) {
        free(text);
        return r != 0 ? r : coxi_error_memory("a checkpoint file");
    }
    memset(longer + len, ' ', padded - len);
    longer[padded] = '\0';
    *ret = longer;
    return 0;
}

int coxi_st_create(const char *path, const struct coxi_st_tensor *tensors, size_t n,
                   const struct coxi_st_metadata *metadata, size_t n_metadata,
                   struct coxi_st_writer **ret)
{
    struct coxi_st_writer *writer = malloc(sizeof(*writer));
    char *header = NULL;
    int r = header_text(tensors, n, metadata, n_metadata, &header);
    if (r != 0 || writer == NULL) {
        r = r != 0 ? coxi_error(r, "cannot create %s: %s", path, coxi_error_text())
                   : coxi_error_memory("a checkpoint file");
        goto fail;
    }
    uint64_t header_len = strlen(header);
    writer->expected = sizeof(header_len) + header_len;
    writer->written = 0;
    writer->failed = false;
    writer->used = 0;
    writer->crc = crc32_z(0, NULL, 0);
    for (size_t i = 0; i < n; i++) {
        writer->expected += tensors[i].bytes;
    }
    writer->path = strdup(path);
    writer->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (writer->path == NULL || writer->fd < 0) {
        r = coxi_error_errno(COX_EIO, "cannot create %s", path);
        free(writer->path);
        goto fail;
    }
    r = coxi_st_write(writer, &header_len, sizeof(header_len));
    if (r == 0) {
        r = coxi_st_write(writer, header, header_len);
    }
    if (r != 0) {
        free(header);
        coxi_st_abandon(writer);
        return r;
    }
    free(header);
    *ret = writer;
    return 0;
fail:
    free(writer);
    free(header);
    return r;
}

int coxi_st_finish(struct coxi_st_writer *writer, uint64_t *ret_bytes,
                   uint32_t *ret_crc32)
{
    int r = writer->failed ? coxi_error(COX_EIO, "cannot write %s", writer->path)
                           : flush(writer, writer->buffer, writer->used);
    if (r == 0 && writer->written != writer->expected) {
        r = coxi_error(COX_EIO, "%s: %llu bytes written where the header says %llu",
                       writer->path, (unsigned long long)writer->written,
                       (unsigned long long)writer->expected);
    }
    if (r == 0 && fsync(writer->fd) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot write %s to disk", writer->path);
    }
    if (r != 0) {
        coxi_st_abandon(writer);
        return r;
    }
    *ret_bytes = writer->written;
    *ret_crc32 = (uint32_t)writer->crc;
    (void)close(writer->fd);
    free(writer->path);
    free(writer);
    return 0;
}

void coxi_st_abandon(struct coxi_st_writer *writer)
{
    if (writer != NULL) {
        (void)close(writer->fd);
        (void)unlink(writer->path);
        free(writer->path);
        free(writer);
    }
}

/* ---- reading */

struct coxi_st_file {
    uint8_t *map;
    size_t len;
    json_t *header; /* owns the tensors' names and the metadata */
    struct coxi_st_tensor *tensors;
    size_t n_tensors;
};

static bool get_u64(const json_t *value, uint64_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

/* Bytes of an element of the types that we write; 0 of those that others may. */
static size_t dtype_size(const char *name)
{
    return strcmp(name, "U64") == 0 ? sizeof(uint64_t)
                                    : coxi_dtype_size(coxi_dtype_parse(name));
}

/* The shape, which must fit the type and the bytes. */
static bool parse_shape(const json_t *shape, struct coxi_st_tensor *ret)
{
    uint64_t elements = 1;
    ret->rank = (uint32_t)json_array_size(shape);
    if (!json_is_array(shape) || ret->rank > COX_RANK_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < ret->rank; i++) {
        if (!get_u64(json_array_get(shape, i), &ret->shape[i]) ||
            __builtin_mul_overflow(elements, ret->shape[i], &elements)) {
            return false;
        }
    }
    /* Types we do not know: their size follows from the bytes. */
    uint64_t size = elements > 0 ? ret->bytes / elements : 1;
    size_t known = dtype_size(ret->dtype);
    return elements * size == ret->bytes && size <= 8 &&
           (elements == 0 || (known != 0 ? size == known : size > 0));
}

/* One entry of the header. */
static bool parse_tensor(const struct coxi_st_file *file, size_t data_at,
                         const char *name, json_t *entry, struct coxi_st_tensor *ret)
{
    json_t *dtype = json_object_get(entry, "dtype");
    json_t *offsets = json_object_get(entry, "data_offsets");
    uint64_t begin = 0;
    uint64_t end = 0;
    if (!json_is_string(dtype) || json_array_size(offsets) != 2 ||
        !get_u64(json_array_get(offsets, 0), &begin) ||
        !get_u64(json_array_get(offsets, 1), &end) || begin > end ||
        end > file->len - data_at) {
        return false;
    }
    *ret = (struct coxi_st_tensor){
        .name = name,
        .dtype = json_string_value(dtype),
        .bytes = end - begin,
        .data = file->map + data_at + begin,
    };
    return parse_shape(json_object_get(entry, "shape"), ret);
}

static int by_data(const void *a, const void *b)
{
    const struct coxi_st_tensor *x = a;
    const struct coxi_st_tensor *y = b;
    if (x->data != y->data) {
        return (const uint8_t *)x->data < (const uint8_t *)y->data ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Fills file->tensors; what is wrong, or NULL. */
static const char *parse_tensors(struct coxi_st_file *file, size_t data_at)
{
    const char *name;
    json_t *entry;
    file->tensors = calloc(json_object_size(file->header) + 1, sizeof(*file->tensors));
    if (file->tensors == NULL) {
        return "out of memory";
    }
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            continue;
        }
        if (!parse_tensor(file, data_at, name, entry,
                          &file->tensors[file->n_tensors])) {
            return "an entry of its header is malformed";
        }
        file->n_tensors++;
    }
    qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), by_data);
    const uint8_t *next = file->map + data_at;
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (file->tensors[i].data != next) {
            return "its tensors leave a hole or overlap";
        }
        next += file->tensors[i].bytes;
    }
    return next == file->map + file->len ? NULL
                                         : "its length is not what its header says";
}

static const char *parse_header(struct coxi_st_file *file)
{
    uint64_t header_len = 0;
    if (file->len < sizeof(header_len)) {
        return "it is too short";
    }
    memcpy(&header_len, file->map, sizeof(header_len));
    if (header_len > HEADER_MAX || header_len > file->len - sizeof(header_len)) {
        return "its header is too long";
    }
    file->header = json_loadb((const char *)file->map + sizeof(header_len), header_len,
                              JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(file->header)) {
        return "its header is no JSON object";
    }
    return parse_tensors(file, sizeof(header_len) + header_len);
}

static int map_file(const char *path, uint64_t bytes, struct coxi_st_file *file)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0) {
        int r = coxi_error_errno(COX_EIO, "cannot read %s", path);
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    if ((uint64_t)st.st_size != bytes || bytes == 0) {
        (void)close(fd);
        return coxi_error(COX_EFORMAT, "%s has %lld bytes where %llu belong", path,
                          (long long)st.st_size, (unsigned long long)bytes);
    }
    void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int r = map == MAP_FAILED ? coxi_error_errno(COX_EIO, "cannot read %s", path) : 0;
    (void)close(fd);
    if (r == 0) {
        file->map = map;
        file->len = bytes;
    }
    return r;
}

int coxi_st_open(const char *path, uint64_t bytes, const uint32_t *crc32,
                 struct coxi_st_file **ret)
{
    struct coxi_st_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = map_file(path, bytes, file);
    if (r == 0 && crc32 != NULL) {
        uint32_t found = (uint32_t)crc32_z(crc32_z(0, NULL, 0), file->map, file->len);
        if (found != *crc32) {
            r = coxi_error(COX_ECHECKSUM,
                           "%s is damaged: crc32 %08x where %08x belongs", path, found,
                           *crc32);
        }
    }
    if (r == 0) {
        const char *wrong = parse_header(file);
        r = wrong != NULL ? coxi_error(COX_EFORMAT, "%s: %s", path, wrong) : 0;
    }
    if (r != 0) {
        coxi_st_close(file);
        return r;
    }
    *ret = file;
    return 0;
}

size_t coxi_st_count(const struct coxi_st_file *file)
{
    return file->n_tensors;
}

const struct coxi_st_tensor *coxi_st_at(const struct coxi_st_file *file, size_t i)
{
    return &file->tensors[i];
}

const struct coxi_st_tensor *coxi_st_find(const struct coxi_st_file *file,
                                          const char *name)
{
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (strcmp(file->tensors[i].name, name) == 0) {
            return &file->tensors[i];
        }
    }
    return NULL;
}

const char *coxi_st_metadata(const struct coxi_st_file *file, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(file->header, "__metadata__"), key));
}

void coxi_st_close(struct coxi_st_file *file)
{
    if (file != NULL) {
        if (file->map != NULL) {
            (void)munmap(file->map, file->len);
        }
        json_decref(file->header);
        free(file->tensors);
        free(file);
    }
}
