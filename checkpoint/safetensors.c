/*
 * See safetensors.h: reads files. safetensors_write.c writes them; safetensors_stream.c
 * reads a tensor piece by piece. Cost: opening reads the whole file once for its crc32.
 * Threads: one thread at a time until the file is open.
 */
#include "checkpoint/safetensors_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/beneath.h"
#include "common/crc.h"
#include "common/dtype.h"
#include "common/error.h"

enum {
    HEADER_MAX = 100000000,
    SUM_BYTES = 4 << 20, /* bytes that are summed before their memory is given back */
};

static bool get_u64(const json_t *value, uint64_t *ret)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *ret = (uint64_t)json_integer_value(value);
    return true;
}

/* Bytes of an element; 0: a type that only other programs write. */
static size_t dtype_size(const char *name)
{
    return strcmp(name, "U64") == 0 ? sizeof(uint64_t)
                                    : coxi_dtype_size(coxi_dtype_parse(name));
}

size_t coxi_st_row_bytes(const struct coxi_st_tensor *tensor)
{
    size_t bytes = dtype_size(tensor->dtype);
    for (uint32_t i = 1; i < tensor->rank; i++) {
        bytes *= tensor->shape[i];
    }
    return bytes;
}

/* Reads the shape, which must fit the type and the bytes. */
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
    /* The element size of an unknown type follows from the tensor's bytes. */
    uint64_t size = elements > 0 ? ret->bytes / elements : 1;
    size_t known = dtype_size(ret->dtype);
    return elements * size == ret->bytes && size <= 8 &&
           (elements == 0 || (known != 0 ? size == known : size > 0));
}

/* Reads one entry of the header. */
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

/* Fills file->tensors; returns what is wrong, or NULL. */
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

static int map_file(const char *root, const char *path, uint64_t bytes,
                    struct coxi_st_file *file)
{
    struct stat st;
    int fd = -1;
    int r = coxi_beneath_open(root, path, &fd);
    if (r != 0) {
        return r;
    }
    if (fstat(fd, &st) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot read %s", path);
        (void)close(fd);
        return r;
    }
    if ((uint64_t)st.st_size != bytes || bytes == 0) {
        (void)close(fd);
        return coxi_error(COX_EFORMAT, "%s has %lld bytes where %llu belong", path,
                          (long long)st.st_size, (unsigned long long)bytes);
    }
    void *map = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    r = map == MAP_FAILED ? coxi_error_errno(COX_EIO, "cannot read %s", path) : 0;
    (void)close(fd);
    if (r == 0) {
        file->map = map;
        file->len = bytes;
    }
    return r;
}

/* The checksum of the whole file. Gives the memory of bytes back as soon as it has read
 * them. */
static uint32_t sum_file(const struct coxi_st_file *file)
{
    uint32_t crc = 0;
    for (size_t at = 0, n; at < file->len; at += n) {
        n = file->len - at < SUM_BYTES ? file->len - at : SUM_BYTES;
        crc = coxi_crc32(crc, file->map + at, n);
        coxi_st_drop(file, file->map + at, n);
    }
    return crc;
}

int coxi_st_open(const char *path, uint64_t bytes, const uint32_t *crc32,
                 struct coxi_st_file **ret)
{
    return coxi_st_open_beneath(NULL, path, bytes, crc32, ret);
}

int coxi_st_open_beneath(const char *root, const char *path, uint64_t bytes,
                         const uint32_t *crc32, struct coxi_st_file **ret)
{
    struct coxi_st_file *file = calloc(1, sizeof(*file));
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = map_file(root, path, bytes, file);
    if (r == 0 && crc32 != NULL) {
        uint32_t found = sum_file(file);
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
        for (size_t i = 0; i < file->n_under; i++) {
            coxi_st_close(file->under[i]);
        }
        for (size_t i = 0; i < file->n_memory; i++) {
            free(file->memory[i]);
        }
        json_decref(file->header);
        free(file->merged);
        free(file->under);
        free(file->memory);
        free(file->tensors);
        free(file);
    }
}
