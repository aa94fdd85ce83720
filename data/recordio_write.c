/* See recordio_write.h. A chunk is collected in memory. */
#include "data/recordio_write.h"

#include <stdlib.h>
#include <string.h>

#include "common/buffer.h"
#include "common/crc.h"
#include "common/error.h"
#include "common/file.h"
#include "data/codec.h"
#include "data/part.h"
#include "data/recordio.h"
#include "data/stream.h"

struct coxi_recordio_writer {
    struct coxi_part part;
    uint32_t codec;
    size_t chunk_bytes;
    struct coxi_buffer records; /* of the chunk, with their lengths */
    struct coxi_buffer encoded;
    uint32_t n;
};

static void writer_free(struct coxi_recordio_writer *writer)
{
    coxi_buffer_fini(&writer->records);
    coxi_buffer_fini(&writer->encoded);
    free(writer);
}

int coxi_recordio_create(const char *path, uint32_t codec, size_t chunk_bytes,
                         struct coxi_recordio_writer **ret)
{
    struct coxi_recordio_writer *writer = calloc(1, sizeof(*writer));
    if (writer == NULL) {
        return coxi_error_memory(path);
    }
    writer->codec = codec;
    writer->chunk_bytes = chunk_bytes > 0 ? chunk_bytes : COXI_RECORDIO_CHUNK;
    int r = coxi_part_open(path, &writer->part);
    if (r != 0) {
        writer_free(writer);
        return r;
    }
    *ret = writer;
    return 0;
}

static int write_all(const struct coxi_recordio_writer *writer, const void *bytes,
                     size_t len)
{
    return coxi_fd_write(writer->part.fd, bytes, len) == 0
               ? 0
               : coxi_part_cannot_write(&writer->part);
}

static int write_chunk(struct coxi_recordio_writer *writer)
{
    const struct coxi_buffer *payload = &writer->records;
    if (writer->n == 0) {
        return 0;
    }
    if (writer->codec != COXI_CODEC_NONE) {
        writer->encoded.len = 0;
        int r = coxi_codec_encode(writer->codec, writer->records.data,
                                  writer->records.len, &writer->encoded);
        if (r != 0) {
            return r;
        }
        payload = &writer->encoded;
    }
    const struct coxi_recordio_head head = {
        .magic = COXI_RECORDIO_MAGIC,
        .crc = coxi_crc32(0, payload->data, payload->len),
        .codec = writer->codec,
        .bytes = (uint32_t)payload->len,
        .records = writer->n};
    int r = write_all(writer, &head, sizeof(head));
    r = r == 0 ? write_all(writer, payload->data, payload->len) : r;
    writer->records.len = 0;
    writer->n = 0;
    return r;
}

int coxi_recordio_add(struct coxi_recordio_writer *writer, const void *record,
                      size_t len)
{
    uint32_t length = (uint32_t)len;
    int r = 0;
    if (len > COXI_RECORD_MAX / 2) {
        return coxi_error(COX_ELIMIT, "%s: a record of %zu bytes; the limit is %zu",
                          writer->part.path, len, COXI_RECORD_MAX / 2);
    }
    if (writer->records.len + sizeof(length) + len > writer->chunk_bytes) {
        r = write_chunk(writer);
    }
    r = r == 0 ? coxi_buffer_append_raw(&writer->records, &length, sizeof(length)) : r;
    if (r != 0) {
        return r;
    }
    r = coxi_buffer_append_raw(&writer->records, record, len);
    if (r != 0) {
        writer->records.len -= sizeof(length);
        return r;
    }
    writer->n++;
    return 0;
}

int coxi_recordio_finish(struct coxi_recordio_writer *writer)
{
    if (writer == NULL) {
        return 0;
    }
    int r = write_chunk(writer);
    r = r == 0 ? coxi_part_finish(&writer->part) : r;
    coxi_recordio_abandon(writer);
    return r;
}

void coxi_recordio_abandon(struct coxi_recordio_writer *writer)
{
    if (writer != NULL) {
        coxi_part_abandon(&writer->part);
        writer_free(writer);
    }
}
