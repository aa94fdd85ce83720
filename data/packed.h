/*
 * Numbers and texts in few bytes, for tasks and for specs of data sets: a number takes
 * seven bits a byte, lowest first, and a text ends with its NUL. Both ends have the
 * same list of fields; a version at the front tells when it changes.
 *
 * Threads: any.
 */
#ifndef COXI_DATA_PACKED_H
#define COXI_DATA_PACKED_H

#include <stdbool.h>

#include "common/buffer.h"

/* Appends to a buffer. After COX_ENOMEM (`code`) it appends nothing more. */
struct coxi_packer {
    struct coxi_buffer *to;
    int code;
};

void coxi_pack_number(struct coxi_packer *packer, uint64_t n);
void coxi_pack_float(struct coxi_packer *packer, float x);
void coxi_pack_text(struct coxi_packer *packer, const char *text); /* NULL: "" */

/* Takes from bytes that may come from a peer or a file. After the first field that does
 * not fit (`bad`) every number is 0 and every text "". */
struct coxi_unpacker {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

/* A number of at most `most`. */
uint64_t coxi_unpack_number(struct coxi_unpacker *unpacker, uint64_t most);
float coxi_unpack_float(struct coxi_unpacker *unpacker);
/* A text within the bytes, of at most `most` bytes without its NUL. */
const char *coxi_unpack_text(struct coxi_unpacker *unpacker, size_t most);

#endif
