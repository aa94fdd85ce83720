/*
 * See source_http.h. The first request takes the head of the file, whose headers tell
 * its size: servers of signed addresses do not answer HEAD. The head is kept for
 * coxi_source_mark, which comes next.
 *
 * Cost: a request for each PIECE_BYTES, however short the reads are, because a request
 * takes a way there and back. Shorter reads are copied from the piece that is kept.
 */
#include "data/source_http.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "data/name.h"
#include "data/s3.h"

enum { PIECE_BYTES = 1 << 20 };

struct remote {
    struct coxi_http *http;
    bool begun; /* the head is here */
    size_t head_len;
    uint8_t head[COXI_HEAD_BYTES];
    /* the piece that was read last; NULL: none yet */
    uint8_t *piece;
    uint64_t piece_at;
    size_t piece_len;
};

static const struct coxi_http_limits *limits; /* NULL: the usual ones */

void coxi_source_http_limits(const struct coxi_http_limits *given)
{
    limits = given;
}

static int begin(struct remote *remote)
{
    size_t len = 0;
    int r = coxi_http_read(remote->http, 0, remote->head, sizeof(remote->head), &len);
    remote->head_len = r == 0 ? len : 0;
    remote->begun = r == 0;
    return r;
}

/* Copies what a part of the file that is kept has of the range. */
static size_t copy_kept(const uint8_t *kept, uint64_t kept_at, size_t kept_len,
                        uint64_t offset, void *to, size_t len)
{
    if (offset < kept_at || offset - kept_at >= kept_len) {
        return 0;
    }
    size_t from = (size_t)(offset - kept_at);
    size_t n = kept_len - from < len ? kept_len - from : len;
    memcpy(to, kept + from, n);
    return n;
}

/* Reads the piece that begins at `offset`. */
static int read_piece(struct remote *remote, uint64_t offset)
{
    remote->piece = remote->piece != NULL ? remote->piece : malloc(PIECE_BYTES);
    if (remote->piece == NULL) {
        return coxi_error_memory("a piece of a file");
    }
    size_t len = 0;
    int r = coxi_http_read(remote->http, offset, remote->piece, PIECE_BYTES, &len);
    remote->piece_at = offset;
    remote->piece_len = r == 0 ? len : 0;
    return r;
}

static int remote_read(void *self, uint64_t offset, void *to, size_t len,
                       size_t *ret_len)
{
    struct remote *remote = self;
    uint8_t *at = to;
    size_t got = copy_kept(remote->head, 0, remote->head_len, offset, to, len);
    if (got < len) {
        got += copy_kept(remote->piece, remote->piece_at, remote->piece_len,
                         offset + got, at + got, len - got);
    }
    size_t left = len - got;
    size_t more = 0;
    int r = 0;
    if (left >= PIECE_BYTES) {
        r = coxi_http_read(remote->http, offset + got, at + got, left, &more);
    } else if (left > 0) {
        r = read_piece(remote, offset + got);
        more = copy_kept(remote->piece, remote->piece_at, remote->piece_len,
                         offset + got, at + got, left);
    }
    if (r == 0) {
        *ret_len = got + more;
    }
    return r;
}

static int remote_stat(void *self, struct coxi_file_mark *ret)
{
    struct remote *remote = self;
    int r = remote->begun ? 0 : begin(remote);
    if (r == 0) {
        const struct coxi_http_file file = coxi_http_file(remote->http);
        ret->bytes = file.bytes;
        ret->changed_ns = file.version;
    }
    return r;
}

static void remote_cancel(void *self)
{
    struct remote *remote = self;
    coxi_http_cancel(remote->http);
}

static void remote_close(void *self)
{
    struct remote *remote = self;
    coxi_http_free(remote->http);
    free(remote->piece);
    free(remote);
}

static const struct coxi_source_kind kind = {.read = remote_read,
                                             .stat = remote_stat,
                                             .close = remote_close,
                                             .cancel = remote_cancel,
                                             .piece = PIECE_BYTES};

/* Takes the address. */
static int open_address(const char *name, struct coxi_http_address *address,
                        struct coxi_source *ret)
{
    struct remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL) {
        coxi_http_address_fini(address);
        return coxi_error_memory("a web file");
    }
    int r = coxi_http_new(name, address, limits, &remote->http);
    r = r == 0 ? coxi_source_init(&kind, remote, name, ret) : r;
    if (r != 0) {
        remote_close(remote);
    }
    return r;
}

int coxi_source_open_http(const char *url, struct coxi_source *ret)
{
    struct coxi_http_address address = {.redirected = true};
    const char *host = strstr(url, "://") + 3;
    size_t len = strcspn(host, "/?#");
    if (len == 0 || memchr(host, '@', len) != NULL) {
        return coxi_error(COX_EINVAL,
                          len == 0 ? "%s: it has no host"
                                   : "%s: a name may have no password",
                          coxi_name_shown(url).text);
    }
    address.url = strdup(url);
    return address.url != NULL ? open_address(url, &address, ret)
                               : coxi_error_memory("a web file");
}

int coxi_source_open_s3(const char *name, struct coxi_source *ret)
{
    struct coxi_http_address address = {0};
    int r = coxi_name_s3_address(name, &address);
    return r == 0 ? open_address(name, &address, ret) : r;
}
