/*
 * RecordIO, as PaddlePaddle has it: chunks end to end, and nothing else. A chunk is
 *
 *     u32 magic | u32 crc32 of the stored payload | u32 codec | u32 stored bytes |
 *     u32 records | payload
 *
 * and its payload, decoded, for each record: u32 length | bytes. All integers are
 * little-endian. A file without chunks is valid, and so is a record without bytes.
 */
#ifndef COXI_DATA_RECORDIO_H
#define COXI_DATA_RECORDIO_H

#include <stdint.h>

#define COXI_RECORDIO_MAGIC 0x01020304u

enum { COXI_RECORDIO_HEAD = 20 };

struct coxi_recordio_head {
    uint32_t magic;
    uint32_t crc;
    uint32_t codec; /* enum coxi_codec */
    uint32_t bytes;
    uint32_t records;
};
_Static_assert(sizeof(struct coxi_recordio_head) == COXI_RECORDIO_HEAD, "as in files");

#endif
