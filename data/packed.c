/* See packed.h. */
#include "data/packed.h"

#include <string.h>

enum { BITS = 7, MORE = 1 << BITS, NUMBER_BYTES = 10 };

static void put(struct coxi_packer *packer, const void *bytes, size_t len)
{
    if (packer->code == 0) {
        packer->code = coxi_buffer_append_raw(packer->to, bytes, len);
    }
}

void coxi_pack_number(struct coxi_packer *packer, uint64_t n)
{
    uint8_t bytes[NUMBER_BYTES];
    size_t len = 0;
    while (n >= MORE) {
        bytes[len++] = (uint8_t)(n | MORE);
        n >>= BITS;
    }
    bytes[len++] = (uint8_t)n;
    put(packer, bytes, len);
}

void coxi_pack_float(struct coxi_packer *packer, float x)
{
    put(packer, &x, sizeof(x));
}

void coxi_pack_text(struct coxi_packer *packer, const char *text)
{
    const char *known = text != NULL ? text : "";
    put(packer, known, strlen(known) + 1);
}

uint64_t coxi_unpack_number(struct coxi_unpacker *unpacker, uint64_t most)
{
    uint64_t n = 0;
    bool ended = false;
    for (unsigned shift = 0; !ended && shift < 64 && unpacker->at < unpacker->end;
         shift += BITS) {
        uint8_t byte = *unpacker->at++;
        uint64_t bits = byte & (MORE - 1);
        ended = byte < MORE;
        if (shift == 63 && bits > 1) {
            break;
        }
        n |= bits << shift;
    }
    unpacker->bad = unpacker->bad || !ended || n > most;
    return unpacker->bad ? 0 : n;
}

float coxi_unpack_float(struct coxi_unpacker *unpacker)
{
    float x = 0;
    unpacker->bad = unpacker->bad || (size_t)(unpacker->end - unpacker->at) < sizeof(x);
    if (!unpacker->bad) {
        memcpy(&x, unpacker->at, sizeof(x));
        unpacker->at += sizeof(x);
    }
    return x;
}

const char *coxi_unpack_text(struct coxi_unpacker *unpacker, size_t most)
{
    size_t left = (size_t)(unpacker->end - unpacker->at);
    const char *text = (const char *)unpacker->at;
    const char *end = left > 0 ? memchr(text, '\0', left) : NULL;
    unpacker->bad = unpacker->bad || end == NULL || (size_t)(end - text) > most;
    if (unpacker->bad) {
        return "";
    }
    unpacker->at = (const uint8_t *)end + 1;
    return text;
}
