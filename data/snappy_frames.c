/* See snappy_frames.h. Two passes: the first one reads lengths only. */
#include "data/snappy_frames.h"

#include <snappy-c.h>
#include <stdbool.h>
#include <string.h>

#include "common/crc32c.h"
#include "common/error.h"
#include "data/stream.h"

enum {
    COMPRESSED = 0x00,
    PLAIN = 0x01,
    SKIPPABLE = 0x80, /* this type and all above it */
    IDENTIFIER = 0xff,
    HEAD = 4,
    CRC = 4,
    DATA_MAX = 65536,
};

static const uint8_t identifier[] = {IDENTIFIER, 6, 0, 0, 's', 'N', 'a', 'P', 'p', 'Y'};

struct frame {
    uint8_t type;
    const uint8_t *data; /* behind its crc, if it has one */
    size_t len;
    uint32_t crc;   /* of data chunks */
    size_t decoded; /* bytes; 0 for chunks without data */
};

static int malformed(const char *reason)
{
    return coxi_error(COX_EFORMAT, "its Snappy frames: %s", reason);
}

static bool is_identifier(const uint8_t *at, size_t left)
{
    return left >= sizeof(identifier) &&
           memcmp(at, identifier, sizeof(identifier)) == 0;
}

/* The data of a data chunk: its crc and its decoded length. */
static int look_at_data(struct frame *frame)
{
    if (frame->len < CRC) {
        return malformed("no checksum");
    }
    memcpy(&frame->crc, frame->data, CRC);
    frame->data += CRC;
    frame->len -= CRC;
    frame->decoded = frame->len;
    if (frame->type == COMPRESSED &&
        snappy_uncompressed_length((const char *)frame->data, frame->len,
                                   &frame->decoded) != SNAPPY_OK) {
        return malformed("no length");
    }
    return frame->decoded <= DATA_MAX ? 0 : malformed("more than 65536 bytes");
}

/* Takes the next chunk of [*at, end). */
static int take(const uint8_t **at, const uint8_t *end, struct frame *ret)
{
    const uint8_t *p = *at;
    if (end - p < HEAD) {
        return malformed("cut off");
    }
    *ret = (struct frame){.type = p[0],
                          .data = p + HEAD,
                          .len = (size_t)p[1] | (size_t)p[2] << 8 | (size_t)p[3] << 16};
    if ((size_t)(end - ret->data) < ret->len) {
        return malformed("cut off");
    }
    *at = ret->data + ret->len;
    if (ret->type == COMPRESSED || ret->type == PLAIN) {
        return look_at_data(ret);
    }
    if (ret->type == IDENTIFIER && !is_identifier(p, (size_t)(end - p))) {
        return malformed("another identifier");
    }
    return ret->type >= SKIPPABLE ? 0 : malformed("an unknown type");
}

int coxi_snappy_length(const uint8_t *data, size_t len, size_t *ret)
{
    const uint8_t *at = data;
    size_t bytes = 0;
    if (!is_identifier(data, len)) {
        return malformed("no identifier");
    }
    while (at < data + len) {
        struct frame frame;
        int r = take(&at, data + len, &frame);
        if (r != 0) {
            return r;
        }
        bytes += frame.decoded;
        if (bytes > COXI_RECORD_MAX) {
            return coxi_error(COX_ELIMIT, "decodes to more than %zu MiB",
                              COXI_RECORD_MAX >> 20);
        }
    }
    *ret = bytes;
    return 0;
}

static int decode_frame(const struct frame *frame, uint8_t *to)
{
    size_t len = frame->decoded;
    if (frame->type == PLAIN) {
        memcpy(to, frame->data, len);
    } else if (snappy_uncompress((const char *)frame->data, frame->len, (char *)to,
                                 &len) != SNAPPY_OK) {
        return malformed("damaged data");
    }
    return coxi_crc32c_masked(coxi_crc32c(0, to, len)) == frame->crc
               ? 0
               : coxi_error(COX_ECHECKSUM, "its Snappy frames: a checksum differs");
}

int coxi_snappy_decode(const uint8_t *data, size_t len, uint8_t *to)
{
    const uint8_t *at = data;
    int r = 0;
    while (r == 0 && at < data + len) {
        struct frame frame;
        r = take(&at, data + len, &frame);
        if (r == 0 && frame.decoded > 0) {
            r = decode_frame(&frame, to);
            to += frame.decoded;
        }
    }
    return r;
}

/* Appends one data chunk: plain if Snappy saves less than an eighth, as its own writers
 * do. */
static int encode_frame(const uint8_t *data, size_t len, struct coxi_buffer *to)
{
    size_t most = snappy_max_compressed_length(len);
    uint32_t crc = coxi_crc32c_masked(coxi_crc32c(0, data, len));
    int r = coxi_buffer_reserve(to, HEAD + CRC + most);
    if (r != 0) {
        return r;
    }
    uint8_t *head = to->data + to->len;
    uint8_t *room = head + HEAD + CRC;
    size_t used = most;
    bool packed =
        snappy_compress((const char *)data, len, (char *)room, &used) == SNAPPY_OK &&
        used < len - len / 8;
    if (!packed) {
        memcpy(room, data, len);
        used = len;
    }
    size_t all = used + CRC;
    head[0] = packed ? COMPRESSED : PLAIN;
    head[1] = (uint8_t)all;
    head[2] = (uint8_t)(all >> 8);
    head[3] = (uint8_t)(all >> 16);
    memcpy(head + HEAD, &crc, CRC);
    to->len += HEAD + all;
    return 0;
}

int coxi_snappy_encode(const uint8_t *data, size_t len, struct coxi_buffer *to)
{
    int r = coxi_buffer_append_raw(to, identifier, sizeof(identifier));
    for (size_t done = 0, n; r == 0 && done < len; done += n) {
        n = len - done < DATA_MAX ? len - done : DATA_MAX;
        r = encode_frame(data + done, n, to);
    }
    return r;
}
