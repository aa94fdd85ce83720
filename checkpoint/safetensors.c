/*
 * See safetensors.h: reads files. safetensors_write.c writes them; safetensors_stream.c
 * reads a tensor piece by piece. Cost: opening reads the whole file once for its crc32.
 * Threads: one thread at a time until the file is open.
 */
#include "checkpoint/safetensors_internal.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/place.h"
#include "common/buffer.h"
#include "common/crc.h"
#include "common/dtype.h"
#include "common/error.h"
#include "schema/check.h"

enum {
    HEADER_MAX = 100000000,
    SUM_BYTES = 1 << 20, /* bytes that are read and summed at a time */
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
        .file = file,
        .at = data_at + begin,
    };
    return parse_shape(json_object_get(entry, "shape"), ret);
}

static int by_place(const void *a, const void *b)
{
    const struct coxi_st_tensor *x = a;
    const struct coxi_st_tensor *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Fills file->tensors, which has room; returns what is wrong, or NULL. */
static const char *parse_tensors(struct coxi_st_file *file, size_t data_at)
{
    const char *name;
    json_t *entry;
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
    qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), by_place);
    uint64_t next = data_at;
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (file->tensors[i].at != next) {
            return "its tensors leave a hole or overlap";
        }
        next += file->tensors[i].bytes;
    }
    return next == file->len ? NULL : "its length is not what its header says";
}

/* Reads the header's text, `len` bytes; *ret: what is wrong, or NULL. */
static int parse_header(struct coxi_st_file *file, uint64_t len, const char **ret)
{
    char *text = malloc(len + 1);
    if (text == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = coxi_st_read_file(file, sizeof(len), text, len);
    if (r == 0) {
        file->header = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
        file->tensors =
            calloc(json_object_size(file->header) + 1, sizeof(*file->tensors));
        r = file->tensors == NULL ? coxi_error_memory("a checkpoint file") : 0;
    }
    if (r == 0) {
        *ret = json_is_object(file->header) ? parse_tensors(file, sizeof(len) + len)
                                            : "its header is no JSON object";
    }
    free(text);
    return r;
}

static int read_header(struct coxi_st_file *file)
{
    uint64_t len = 0;
    const char *wrong = NULL;
    int r = 0;
    if (file->len < sizeof(len)) {
        wrong = "it is too short";
    } else {
        r = coxi_st_read_file(file, 0, &len, sizeof(len));
    }
    if (r == 0 && wrong == NULL) {
        if (len > HEADER_MAX || len > file->len - sizeof(len)) {
            wrong = "its header is too long";
        } else {
            r = parse_header(file, len, &wrong);
        }
    }
    return r == 0 && wrong != NULL
               ? coxi_error(COX_EFORMAT, "%s: %s", file->path, wrong)
               : r;
}

static int set_path(struct coxi_st_file *file, const char *path, uint64_t bytes)
{
    file->len = bytes;
    file->path = strdup(path);
    return file->path != NULL ? 0 : coxi_error_memory("a checkpoint file");
}

static int open_file(const char *root, const char *path, uint64_t bytes,
                     struct coxi_st_file *file)
{
    int r = coxi_place_open(root, path, bytes, &file->source);
    file->owns_source = r == 0;
    return r == 0 && bytes == 0 ? coxi_error(COX_EFORMAT, "%s has no bytes", path) : r;
}

static int damaged(const struct coxi_st_file *file, uint32_t crc, uint32_t belongs)
{
    return coxi_error(COX_ECHECKSUM, "%s is damaged: crc32 %08x where %08x belongs",
                      file->path, crc, belongs);
}

/* Compares the checksum of the whole file. */
static int check_sum(const struct coxi_st_file *file, uint32_t belongs)
{
    uint32_t crc = 0;
    uint8_t *piece = malloc(SUM_BYTES);
    int r = piece == NULL ? coxi_error_memory("a checkpoint file") : 0;
    for (size_t at = 0, n; r == 0 && at < file->len; at += n) {
        n = file->len - at < SUM_BYTES ? file->len - at : SUM_BYTES;
        r = coxi_st_read_file(file, at, piece, n);
        crc = r == 0 ? coxi_crc32(crc, piece, n) : crc;
    }
    free(piece);
    return r != 0 || crc == belongs ? r : damaged(file, crc, belongs);
}

struct coxi_st_file *coxi_st_file_new(void)
{
    return calloc(1, sizeof(struct coxi_st_file));
}

int coxi_st_open(const char *path, uint64_t bytes, const uint32_t *crc32,
                 struct coxi_st_file **ret)
{
    return coxi_st_open_beneath(NULL, path, bytes, crc32, ret);
}

int coxi_st_open_beneath(const char *root, const char *path, uint64_t bytes,
                         const uint32_t *crc32, struct coxi_st_file **ret)
{
    struct coxi_st_file *file = coxi_st_file_new();
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = open_file(root, path, bytes, file);
    r = r == 0 ? set_path(file, path, bytes) : r;
    if (r == 0 && crc32 != NULL) {
        r = check_sum(file, *crc32);
    }
    if (r == 0) {
        r = read_header(file);
    }
    if (r != 0) {
        coxi_st_close(file);
        return r;
    }
    *ret = file;
    return 0;
}

int coxi_st_open_copy(const char *path, uint64_t bytes, uint32_t crc32,
                      struct coxi_st_file **ret)
{
    uint32_t crc = 0;
    struct coxi_st_file *file = coxi_st_file_new();
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    int r = set_path(file, path, bytes);
    r = r == 0 ? coxi_place_fetch(path, bytes, &file->source, &crc) : r;
    file->owns_source = r == 0;
    if (r == 0 && crc != crc32) {
        r = damaged(file, crc, crc32);
    }
    r = r == 0 ? read_header(file) : r;
    if (r != 0) {
        coxi_st_close(file);
        return r;
    }
    *ret = file;
    return 0;
}

int coxi_st_open_from(const struct coxi_file_source *source, const char *name,
                      uint64_t bytes, struct coxi_st_file **ret)
{
    struct coxi_st_file *file = coxi_st_file_new();
    if (file == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    file->source = *source;
    file->len = bytes;
    file->path = strdup(name);
    int r =
        file->path == NULL ? coxi_error_memory("a checkpoint file") : read_header(file);
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

bool coxi_st_is_remote(const struct coxi_st_file *file)
{
    return file->owns_source && coxi_place_in_store(file->path);
}

const char *coxi_st_metadata(const struct coxi_st_file *file, const char *key)
{
    return json_string_value(
        json_object_get(json_object_get(file->header, "__metadata__"), key));
}

/* ---- data */

int coxi_st_read_file(const struct coxi_st_file *file, uint64_t at, void *to,
                      size_t len)
{
    return file->source.read(file->source.arg, at, to, len);
}

int coxi_st_read(const struct coxi_st_tensor *tensor, uint64_t at, void *to, size_t len)
{
    COXI_CHECK(at <= tensor->bytes && len <= tensor->bytes - at);
    if (tensor->data != NULL && len > 0) {
        memcpy(to, (const uint8_t *)tensor->data + at, len);
        return 0;
    }
    COXI_CHECK(len == 0 || tensor->file != NULL);
    return len == 0 ? 0 : coxi_st_read_file(tensor->file, tensor->at + at, to, len);
}

int coxi_st_read_all(const struct coxi_st_tensor *tensor, void **ret)
{
    void *all = coxi_aligned_new(tensor->bytes + 1);
    if (all == NULL) {
        return coxi_error_memory("a tensor of a checkpoint");
    }
    int r = coxi_st_read(tensor, 0, all, tensor->bytes);
    if (r != 0) {
        free(all);
        return r;
    }
    *ret = all;
    return 0;
}

void coxi_st_close(struct coxi_st_file *file)
{
    if (file != NULL) {
        if (file->owns_source) {
            coxi_place_close(&file->source);
        }
        for (size_t i = 0; i < file->n_under; i++) {
            coxi_st_close(file->under[i]);
        }
        for (size_t i = 0; i < file->n_memory; i++) {
            free(file->memory[i]);
        }
        json_decref(file->header);
        free(file->path);
        free(file->merged);
        free(file->under);
        free(file->memory);
        free(file->tensors);
        free(file);
    }
}
