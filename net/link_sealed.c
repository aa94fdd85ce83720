/*
 * See link_sealed.h.
 *
 * Cost: one pass over the bytes on each side, which also moves them: from the sender's
 * memory into a record, and from a record to the receiver's. Some records go in one
 * write, so that a system call costs as little as without a seal, and few enough that
 * their bytes stay in the core's cache.
 */
#include "net/link_sealed.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

enum {
    BUFFER_FIRST = 4 * 1024,
    RECORDS = 4, /* long ones in a write */
    /* and a short one, with the head of a frame */
    BUFFER_MAX = (RECORDS + 1) * (COXI_SEAL_BODY_MAX + COXI_SEAL_MORE),
    PIECES_MAX = 8,
};

struct buffer {
    uint8_t *data;
    size_t capacity;
    size_t begin;
    size_t end;
};

struct coxi_sealed {
    struct coxi_sealer *sealer;
    struct buffer out;
    size_t n_plain; /* bytes of the line that are in `out` */
    struct coxi_sealer *opener;
    struct buffer in;
    bool full; /* the last receive has filled `in` */
};

/* Makes the buffer's capacity at least `need`, with its content at the start. */
static int reserve(struct buffer *buffer, size_t need)
{
    size_t left = buffer->end - buffer->begin;
    uint8_t *data = buffer->data;
    size_t capacity = buffer->capacity;
    if (need > capacity) {
        capacity = capacity > 0 ? capacity : BUFFER_FIRST;
        while (capacity < need) {
            capacity *= 2;
        }
        data = malloc(capacity);
        if (data == NULL) {
            return coxi_error_memory("a sealed connection");
        }
    }
    if (left > 0) {
        memmove(data, buffer->data + buffer->begin, left);
    }
    if (data != buffer->data) {
        free(buffer->data);
    }
    *buffer = (struct buffer){data, capacity, 0, left};
    return 0;
}

int coxi_sealed_new(const struct coxi_agreed *agreed, struct coxi_sealed **ret)
{
    const struct coxi_sealing how = {.seal = agreed->seal,
                                     .cipher = agreed->cipher,
                                     .rekey_records = agreed->rekey_records};
    if (agreed->seal == COXI_SEAL_NONE) {
        *ret = NULL;
        return 0;
    }
    struct coxi_sealed *sealed = calloc(1, sizeof(*sealed));
    int r = sealed == NULL ? coxi_error_memory("a sealed connection") : 0;
    r = r == 0 ? coxi_sealer_new(agreed->send_key, &how, &sealed->sealer) : r;
    r = r == 0 ? coxi_sealer_new(agreed->receive_key, &how, &sealed->opener) : r;
    r = r == 0 ? reserve(&sealed->in, BUFFER_FIRST) : r;
    if (r != 0) {
        coxi_sealed_free(sealed);
        return r;
    }
    *ret = sealed;
    return 0;
}

void coxi_sealed_free(struct coxi_sealed *sealed)
{
    if (sealed != NULL) {
        coxi_sealer_free(sealed->sealer);
        coxi_sealer_free(sealed->opener);
        free(sealed->out.data);
        free(sealed->in.data);
        free(sealed);
    }
}

/* ---- sending */

/* The pieces that are to be sealed, and how far they are. */
struct source {
    const nng_iov *pieces;
    unsigned n;
    unsigned at;
    size_t skip; /* bytes of the piece `at` that are done */
};

/*
 * Takes the body of the next record: returns its length, and its pieces. A record ends
 * where a long piece begins: this is mostly a payload, and then the receiver opens its
 * records where it wants the payload.
 */
static size_t take_body(struct source *source, struct iovec body[PIECES_MAX],
                        size_t *ret_n)
{
    size_t len = 0;
    size_t n = 0;
    while (source->at < source->n && len < COXI_SEAL_BODY_MAX) {
        const nng_iov *piece = &source->pieces[source->at];
        size_t part = piece->iov_len - source->skip;
        if (len > 0 && part >= COXI_SEAL_BODY_MAX) {
            break;
        }
        part = part < COXI_SEAL_BODY_MAX - len ? part : COXI_SEAL_BODY_MAX - len;
        if (part > 0) {
            body[n++] = (struct iovec){(uint8_t *)piece->iov_buf + source->skip, part};
        }
        len += part;
        source->skip += part;
        if (source->skip == piece->iov_len) {
            source->at++;
            source->skip = 0;
        }
    }
    *ret_n = n;
    return len;
}

/* How many bytes the records of all these bytes have, or more. */
static size_t bound(const nng_iov *pieces, unsigned n)
{
    size_t sum = 0;
    for (unsigned i = 0; i < n; i++) {
        sum += pieces[i].iov_len +
               COXI_SEAL_MORE * (pieces[i].iov_len / COXI_SEAL_BODY_MAX + 1);
    }
    return sum < BUFFER_MAX ? sum : BUFFER_MAX;
}

int coxi_sealed_put(struct coxi_sealed *sealed, const nng_iov *pieces, unsigned n)
{
    struct buffer *out = &sealed->out;
    struct source source = {.pieces = pieces, .n = n};
    int r = out->end > 0 ? 0 : reserve(out, bound(pieces, n));
    if (r != 0 || out->end > 0) {
        return r;
    }
    for (int i = 0; i <= RECORDS; i++) {
        struct iovec body[PIECES_MAX];
        size_t n_body;
        size_t len = take_body(&source, body, &n_body);
        if (len == 0) {
            break;
        }
        r = coxi_sealer_seal(sealed->sealer, body, n_body, out->data + out->end);
        if (r != 0) {
            return r;
        }
        out->end += len + COXI_SEAL_MORE;
        sealed->n_plain += len;
    }
    return 0;
}

nng_iov coxi_sealed_unsent(const struct coxi_sealed *sealed)
{
    const struct buffer *out = &sealed->out;
    return (nng_iov){out->data + out->begin, out->end - out->begin};
}

size_t coxi_sealed_sent(struct coxi_sealed *sealed, size_t n)
{
    struct buffer *out = &sealed->out;
    size_t n_plain = sealed->n_plain;
    out->begin += n;
    if (out->begin < out->end) {
        return 0;
    }
    out->begin = out->end = 0;
    sealed->n_plain = 0;
    return n_plain;
}

/* ---- receiving */

nng_iov coxi_sealed_room(const struct coxi_sealed *sealed)
{
    const struct buffer *in = &sealed->in;
    return (nng_iov){in->data + in->end, in->capacity - in->end};
}

void coxi_sealed_came(struct coxi_sealed *sealed, size_t n)
{
    sealed->in.end += n;
    sealed->full = sealed->in.end == sealed->in.capacity;
}

int coxi_sealed_next(struct coxi_sealed *sealed, size_t *ret_len)
{
    const struct buffer *in = &sealed->in;
    size_t have = in->end - in->begin;
    size_t len = 0;
    int r = have < COXI_SEAL_HEAD ? 0 : coxi_seal_body_len(in->data + in->begin, &len);
    *ret_len = r == 0 && have >= len + COXI_SEAL_MORE ? len : 0;
    return r;
}

int coxi_sealed_open(struct coxi_sealed *sealed, const nng_iov *pieces, unsigned n)
{
    struct buffer *in = &sealed->in;
    const uint8_t *record = in->data + in->begin;
    struct iovec to[PIECES_MAX];
    size_t len;
    for (unsigned i = 0; i < n; i++) {
        to[i] = (struct iovec){pieces[i].iov_buf, pieces[i].iov_len};
    }
    int r = coxi_seal_body_len(record, &len);
    r = r == 0 ? coxi_sealer_open(sealed->opener, record, to, n) : r;
    if (r == 0) {
        in->begin += len + COXI_SEAL_MORE;
    }
    return r;
}

int coxi_sealed_make_room(struct coxi_sealed *sealed)
{
    struct buffer *in = &sealed->in;
    size_t need = COXI_SEAL_HEAD;
    size_t len;
    if (in->end - in->begin >= COXI_SEAL_HEAD) {
        int r = coxi_seal_body_len(in->data + in->begin, &len);
        if (r != 0) {
            return r;
        }
        need = len + COXI_SEAL_MORE;
    }
    /* A longer buffer saves system calls. */
    if (sealed->full && need <= in->capacity && in->capacity < BUFFER_MAX) {
        need = in->capacity * 2;
    }
    sealed->full = false;
    return reserve(in, need);
}
