/*
 * Parts of files from web servers: GET with a byte range, over a kept connection
 * (libcurl). Requests that time out, are cut off, or that the server asks to repeat
 * (408, 429, 5xx) are sent again, from the byte that is missing, after a pause.
 *
 * Bounds: every request ends, because it fails if it cannot connect within connect_ms or
 * gets less than 1 KiB/s for stall_s; at most `tries` in a row are without success.
 *
 * Threads: one at a time; coxi_http_cancel: any.
 */
#ifndef COXI_DATA_HTTP_H
#define COXI_DATA_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "objects/aws.h"

struct coxi_http_limits {
    int connect_ms;
    int stall_s;
    int tries;
    int pause_ms; /* before the second try; it doubles from try to try */
};

/* What a file's name stands for. */
struct coxi_http_address {
    char *url;
    char *signs; /* NULL, or how requests are signed: of CURLOPT_AWS_SIGV4 */
    struct coxi_aws_keys keys;
    bool redirected; /* follow up to 5 redirects */
    bool is_s3;      /* AWS_CA_BUNDLE counts */
};

void coxi_http_address_fini(struct coxi_http_address *address); /* takes zeros */

struct coxi_http;

/* Takes the address, also if it fails. `name` is for messages. `limits` NULL: the usual
 * ones. COX_ENOMEM. */
int coxi_http_new(const char *name, struct coxi_http_address *address,
                  const struct coxi_http_limits *limits, struct coxi_http **ret);
void coxi_http_free(struct coxi_http *http); /* takes NULL */

/* What an answer told of the whole file. */
struct coxi_http_file {
    uint64_t bytes;
    uint64_t version; /* of ETag, or else Last-Modified; 0: it has neither */
};

/*
 * Reads at most `len` bytes (not 0) at `offset`; *ret_len is less than `len` only if the
 * file ends there. All answers must be of one file (size and version): COX_ECONFLICT.
 * COX_ENOENT: 404 or 410. COX_EIO: any other failure; also a server that ignores ranges,
 * unless the whole file has at most `len` bytes. COX_ECANCELLED.
 */
int coxi_http_read(struct coxi_http *http, uint64_t offset, void *to, size_t len,
                   size_t *ret_len);

/* The file, as the first answer has told. Before: zeros. */
struct coxi_http_file coxi_http_file(const struct coxi_http *http);

/* Reads an answer of at most `max` bytes as a whole, and appends it. COX_ELIMIT, and
 * the errors of coxi_http_read. */
int coxi_http_read_all(struct coxi_http *http, size_t max, struct coxi_buffer *to);

/* Reads that are under way, and later ones, fail soon with COX_ECANCELLED. */
void coxi_http_cancel(struct coxi_http *http);

#endif
