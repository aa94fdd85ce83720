/* See inflater.h. zlib checks the length and checksum of each member. */
#include "data/inflater.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <zlib.h>

#include "common/error.h"

enum { GZIP_ONLY = 16 + MAX_WBITS, INPUT_BYTES = 128 << 10 };

struct coxi_inflater {
    z_stream z;
    bool in_member; /* a member has begun */
    bool any;       /* a member has ended */
    bool ended;     /* the source has no more bytes */
    uint8_t input[INPUT_BYTES];
};

int coxi_inflater_new(struct coxi_inflater **ret)
{
    struct coxi_inflater *inflater = calloc(1, sizeof(*inflater));
    if (inflater == NULL || inflateInit2(&inflater->z, GZIP_ONLY) != Z_OK) {
        free(inflater);
        return coxi_error_memory("a compressed file");
    }
    *ret = inflater;
    return 0;
}

void coxi_inflater_free(struct coxi_inflater *inflater)
{
    if (inflater != NULL) {
        (void)inflateEnd(&inflater->z);
        free(inflater);
    }
}

static int refill(struct coxi_inflater *inflater, const struct coxi_source *source,
                  uint64_t *next)
{
    size_t got = 0;
    int r = coxi_source_read(source, *next, inflater->input, INPUT_BYTES, &got);
    if (r == 0) {
        *next += got;
        inflater->ended = got < INPUT_BYTES;
        inflater->z.next_in = inflater->input;
        inflater->z.avail_in = (uInt)got;
    }
    return r;
}

/* Between members: passes zeros behind the first one. True: the next member begins. */
static bool next_member(struct coxi_inflater *inflater)
{
    z_stream *z = &inflater->z;
    while (inflater->any && z->avail_in > 0 && *z->next_in == 0) {
        z->next_in++;
        z->avail_in--;
    }
    inflater->in_member = z->avail_in > 0;
    return inflater->in_member && inflateReset(z) == Z_OK;
}

static int malformed(const struct coxi_inflater *inflater,
                     const struct coxi_source *source, uint64_t next, const char *why)
{
    return coxi_error(COX_EFORMAT, "%s:%" PRIu64 ": %s", source->name,
                      next - inflater->z.avail_in, why);
}

/* One call of inflate. */
static int inflate_some(struct coxi_inflater *inflater,
                        const struct coxi_source *source, uint64_t next)
{
    const char *why;
    switch (inflate(&inflater->z, Z_NO_FLUSH)) {
    case Z_STREAM_END:
        inflater->in_member = false;
        inflater->any = true;
        return 0;
    case Z_OK:
    case Z_BUF_ERROR: /* it wants more input or room */
        return 0;
    case Z_MEM_ERROR:
        return coxi_error_memory(source->name);
    default:
        why = inflater->z.msg;
        return malformed(inflater, source, next, why != NULL ? why : "no gzip data");
    }
}

int coxi_inflater_read(struct coxi_inflater *inflater, const struct coxi_source *source,
                       uint64_t *next, void *to, size_t len, size_t *ret_len)
{
    z_stream *z = &inflater->z;
    int r = 0;
    z->next_out = to;
    z->avail_out = (uInt)len;
    while (r == 0 && z->avail_out > 0) {
        if (z->avail_in == 0 && !inflater->ended) {
            r = refill(inflater, source, next);
        } else if (inflater->in_member) {
            bool starved = z->avail_in == 0;
            uInt room = z->avail_out;
            r = inflate_some(inflater, source, *next);
            if (r == 0 && starved && inflater->in_member && z->avail_out == room) {
                r = malformed(inflater, source, *next, "ends within its gzip data");
            }
        } else if (!next_member(inflater) && inflater->ended) {
            r = inflater->any
                    ? 0
                    : malformed(inflater, source, *next, "empty, and no gzip file");
            break;
        }
    }
    *ret_len = len - z->avail_out;
    return r;
}
