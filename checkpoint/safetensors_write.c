/*
 * See safetensors.h: writes files. Each tensor is a stream with its own place in the
 * file, checksum and buffer, so tensors can be written side by side. A full buffer goes
 * to the sink (place.h) at once. The file's checksum is computed from those of the
 * header and the streams.
 *
 * Cost: one copy, with the crc32 on the way; 1 MiB for each tensor that is begun and
 * not complete. Threads: a writer is single-threaded.
 */
#include "checkpoint/safetensors.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/crc.h"
#include "common/error.h"

enum { WRITE_BUFFER = 1 << 20 };

/* A tensor that is being written. */
struct stream {
    uint64_t at;    /* offset in the file of the buffer's first byte */
    uint64_t bytes; /* of the whole tensor */
    uint64_t left;  /* bytes of the tensor that have not come yet */
    uint32_t crc;   /* of the bytes in the file */
    uint8_t *buffer;
    size_t used;
};

struct coxi_st_writer {
    struct coxi_file_sink sink; /* without `write`: it was given back */
    char *path;
    struct stream *streams;
    size_t n_streams;
    size_t next; /* the current tensor of coxi_st_write */
    uint64_t header_bytes;
    uint32_t header_crc;
    bool failed; /* a part of the file could not be written */
};

static int write_at(struct coxi_st_writer *writer, const void *data, size_t len,
                    uint64_t at)
{
    int r = writer->sink.write(writer->sink.arg, at, data, len);
    writer->failed = writer->failed || r != 0;
    return r;
}

static int flush(struct coxi_st_writer *writer, struct stream *stream,
                 const uint8_t *data, size_t len)
{
    stream->crc = coxi_crc32(stream->crc, data, len);
    int r = write_at(writer, data, len, stream->at);
    stream->at += len;
    return r;
}

/* Writes the buffer; frees it if no more bytes will come. */
static int flush_buffer(struct coxi_st_writer *writer, struct stream *stream)
{
    int r = flush(writer, stream, stream->buffer, stream->used);
    stream->used = 0;
    if (stream->left == 0) {
        free(stream->buffer);
        stream->buffer = NULL;
    }
    return r;
}

static size_t buffer_bytes(const struct stream *stream)
{
    return stream->bytes < WRITE_BUFFER ? (size_t)stream->bytes : WRITE_BUFFER;
}

/* Takes as many bytes as fit in the buffer. */
static int put_some(struct coxi_st_writer *writer, struct stream *stream,
                    const uint8_t *data, size_t len, size_t *ret_n)
{
    size_t room = buffer_bytes(stream);
    if (stream->used == 0 && len >= room) {
        stream->left -= room;
        *ret_n = room;
        return flush(writer, stream, data, room);
    }
    if (stream->buffer == NULL) {
        stream->buffer = malloc(room);
        if (stream->buffer == NULL) {
            writer->failed = true;
            return coxi_error_memory("a checkpoint file");
        }
    }
    size_t n = len < room - stream->used ? len : room - stream->used;
    memcpy(stream->buffer + stream->used, data, n);
    stream->used += n;
    stream->left -= n;
    *ret_n = n;
    return stream->used == room || stream->left == 0 ? flush_buffer(writer, stream) : 0;
}

int coxi_st_put(struct coxi_st_writer *writer, size_t tensor, const void *data,
                size_t len)
{
    struct stream *stream = &writer->streams[tensor];
    const uint8_t *from = data;
    int r = 0;
    if (len > stream->left) {
        writer->failed = true;
        return coxi_error(COX_EIO, "%s: a tensor of %llu bytes has more", writer->path,
                          (unsigned long long)stream->bytes);
    }
    while (r == 0 && len > 0) {
        size_t n = 0;
        r = put_some(writer, stream, from, len, &n);
        from += n;
        len -= n;
    }
    return r;
}

int coxi_st_write(struct coxi_st_writer *writer, const void *data, size_t len)
{
    const uint8_t *from = data;
    int r = 0;
    while (r == 0 && len > 0) {
        while (writer->next < writer->n_streams &&
               writer->streams[writer->next].left == 0) {
            writer->next++;
        }
        if (writer->next == writer->n_streams) {
            writer->failed = true;
            return coxi_error(COX_EIO, "%s: there is more than its tensors",
                              writer->path);
        }
        uint64_t left = writer->streams[writer->next].left;
        size_t n = len < left ? len : (size_t)left;
        r = coxi_st_put(writer, writer->next, from, n);
        from += n;
        len -= n;
    }
    return r;
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

/* Adds a tensor whose data begins at *offset, and moves *offset to its end. */
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

/* Computes the place of each tensor after the header. */
static int make_streams(struct coxi_st_writer *writer,
                        const struct coxi_st_tensor *tensors, size_t n)
{
    uint64_t at = writer->header_bytes;
    writer->streams = calloc(n + 1, sizeof(*writer->streams));
    if (writer->streams == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    for (size_t i = 0; i < n; i++) {
        writer->streams[i] = (struct stream){
            .at = at, .bytes = tensors[i].bytes, .left = tensors[i].bytes};
        at += tensors[i].bytes;
    }
    writer->n_streams = n;
    return 0;
}

/* Abandons the sink, if it is still there. */
static void writer_free(struct coxi_st_writer *writer)
{
    for (size_t i = 0; i < writer->n_streams; i++) {
        free(writer->streams[i].buffer);
    }
    if (writer->sink.write != NULL) {
        writer->sink.abandon(writer->sink.arg);
    }
    free(writer->streams);
    free(writer->path);
    free(writer);
}

static int write_header(struct coxi_st_writer *writer, const char *header)
{
    uint64_t len = strlen(header);
    writer->header_crc = coxi_crc32(0, &len, sizeof(len));
    writer->header_crc = coxi_crc32(writer->header_crc, header, len);
    int r = write_at(writer, &len, sizeof(len), 0);
    return r == 0 ? write_at(writer, header, len, sizeof(len)) : r;
}

int coxi_st_create(const char *path, const struct coxi_st_tensor *tensors, size_t n,
                   const struct coxi_st_metadata *metadata, size_t n_metadata,
                   struct coxi_st_writer **ret)
{
    return coxi_st_create_beneath(NULL, path, tensors, n, metadata, n_metadata, ret);
}

/* Makes a writer without a sink. */
static int writer_new(const char *path, const struct coxi_st_tensor *tensors, size_t n,
                      const char *header, struct coxi_st_writer **ret)
{
    struct coxi_st_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return coxi_error_memory("a checkpoint file");
    }
    writer->header_bytes = sizeof(uint64_t) + strlen(header);
    writer->path = strdup(path);
    int r = writer->path == NULL ? coxi_error_memory("a checkpoint file")
                                 : make_streams(writer, tensors, n);
    if (r != 0) {
        writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

/* Does everything that can fail before the file is made. */
static int prepare(const char *path, const struct coxi_st_tensor *tensors, size_t n,
                   const struct coxi_st_metadata *metadata, size_t n_metadata,
                   char **ret_header, struct coxi_st_writer **ret)
{
    char *header = NULL;
    int r = header_text(tensors, n, metadata, n_metadata, &header);
    if (r != 0) {
        return coxi_error(r, "cannot create %s: %s", path, coxi_error_text());
    }
    r = writer_new(path, tensors, n, header, ret);
    if (r != 0) {
        free(header);
        return r;
    }
    *ret_header = header;
    return 0;
}

/* Of the whole file. */
static uint64_t bytes_of(const struct coxi_st_writer *writer)
{
    uint64_t bytes = writer->header_bytes;
    for (size_t i = 0; i < writer->n_streams; i++) {
        bytes += writer->streams[i].bytes;
    }
    return bytes;
}

/* Takes the sink and the header's text. */
static int begin_file(struct coxi_st_writer *writer, const struct coxi_file_sink *sink,
                      char *header, struct coxi_st_writer **ret)
{
    writer->sink = *sink;
    int r = write_header(writer, header);
    free(header);
    if (r != 0) {
        writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

int coxi_st_create_in(const struct coxi_file_sink *sink, const char *name,
                      const struct coxi_st_tensor *tensors, size_t n,
                      const struct coxi_st_metadata *metadata, size_t n_metadata,
                      struct coxi_st_writer **ret)
{
    char *header;
    struct coxi_st_writer *writer;
    int r = prepare(name, tensors, n, metadata, n_metadata, &header, &writer);
    if (r != 0) {
        sink->abandon(sink->arg);
        return r;
    }
    return begin_file(writer, sink, header, ret);
}

int coxi_st_create_beneath(const char *root, const char *path,
                           const struct coxi_st_tensor *tensors, size_t n,
                           const struct coxi_st_metadata *metadata, size_t n_metadata,
                           struct coxi_st_writer **ret)
{
    char *header;
    struct coxi_st_writer *writer;
    struct coxi_file_sink sink;
    int r = prepare(path, tensors, n, metadata, n_metadata, &header, &writer);
    if (r != 0) {
        return r;
    }
    r = coxi_place_create(root, path, bytes_of(writer), &sink);
    if (r != 0) {
        writer_free(writer);
        free(header);
        return r;
    }
    return begin_file(writer, &sink, header, ret);
}

/* Computes the checksum of the header and all streams in order; COX_EIO if a stream is
 * not complete. */
static int finish_streams(const struct coxi_st_writer *writer, uint64_t *ret_bytes,
                          uint32_t *ret_crc32)
{
    uint64_t bytes = writer->header_bytes;
    uint32_t crc = writer->header_crc;
    for (size_t i = 0; i < writer->n_streams; i++) {
        const struct stream *stream = &writer->streams[i];
        if (stream->left > 0) {
            return coxi_error(COX_EIO, "%s: a tensor of %llu bytes lacks %llu",
                              writer->path, (unsigned long long)stream->bytes,
                              (unsigned long long)stream->left);
        }
        crc = coxi_crc32_combine(crc, stream->crc, stream->bytes);
        bytes += stream->bytes;
    }
    *ret_bytes = bytes;
    *ret_crc32 = crc;
    return 0;
}

int coxi_st_finish(struct coxi_st_writer *writer, uint64_t *ret_bytes,
                   uint32_t *ret_crc32)
{
    uint64_t bytes = 0;
    uint32_t crc32 = 0;
    int r = writer->failed ? coxi_error(COX_EIO, "cannot write %s", writer->path)
                           : finish_streams(writer, &bytes, &crc32);
    if (r == 0) {
        r = writer->sink.finish(writer->sink.arg);
        writer->sink.write = NULL;
    }
    writer_free(writer);
    if (r != 0) {
        return r;
    }
    *ret_bytes = bytes;
    *ret_crc32 = crc32;
    return 0;
}

void coxi_st_abandon(struct coxi_st_writer *writer)
{
    if (writer != NULL) {
        writer_free(writer);
    }
}
