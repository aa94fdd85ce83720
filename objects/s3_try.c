/*
 * A request for S3, sent once (s3_internal.h).
 *
 * libcurl signs. Its signatures are right only if the URL has the form in which they are
 * made: all but unreserved bytes escaped, parameters sorted and each with a "="
 * (older versions sign them as they are), and the body's digest in a header of ours. No
 * header is suppressed ("Expect:"), because it would be signed as if it were sent.
 *
 * A body is sent with two digests at most: its MD5 (Content-MD5), and over plain HTTP its
 * SHA-256, which the signature covers. Over TLS the signature does without, as in
 * Amazon's own clients. Without MD5 (FIPS) it is always the SHA-256.
 */
#include <curl/curl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/disk.h"
#include "common/error.h"
#include "objects/s3_internal.h"
#include "objects/web.h"

enum {
    ERROR_BODY_MAX = 64 << 10,
    EXCESS_MAX =
        1 << 20, /* bytes that an answer may have too many before it is ended */
};

/* ---- digests */

static void to_hex(const unsigned char *bytes, size_t len, char *ret)
{
    for (size_t i = 0; i < len; i++) {
        (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
    }
}

int coxi_s3_digest(struct coxi_s3_try *try)
{
    static const char none[] = /* the SHA-256 of no bytes */
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const struct coxi_s3_request *request = try->request;
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    (void)snprintf(try->digest, sizeof(try->digest), "%s", none);
    if (request->len == 0) {
        return 0;
    }
    if (EVP_Digest(request->body, request->len, sum, &n, EVP_md5(), NULL) == 1) {
        (void)EVP_EncodeBlock((unsigned char *)try->md5, sum, (int)n);
        if (try->s3->sealed) {
            (void)snprintf(try->digest, sizeof(try->digest), "UNSIGNED-PAYLOAD");
            return 0;
        }
    }
    if (EVP_Digest(request->body, request->len, sum, &n, EVP_sha256(), NULL) != 1) {
        return coxi_error_memory("a digest");
    }
    to_hex(sum, n, try->digest);
    return 0;
}

int coxi_s3_mark(char ret[COXI_S3_MARK_MAX])
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
        return coxi_error(COX_EIO, "there is no randomness");
    }
    to_hex(bytes, sizeof(bytes), ret);
    return 0;
}

/* ---- libcurl's callbacks */

/* Notes why the request has failed for good; libcurl then ends it. */
__attribute__((format(printf, 3, 4))) static size_t
fail(struct coxi_s3_try *try, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(try->text, sizeof(try->text), format, args);
    va_end(args);
    coxi_web_make_plain(try->text);
    try->code = code;
    return 0;
}

/* What a callback needs. */
struct transfer {
    struct coxi_s3_try *try;
    CURL *easy;
    size_t came; /* bytes of this try's body */
};

static void copy_header(CURL *easy, const char *name, char *ret, size_t room)
{
    const char *value = coxi_web_header(easy, name);
    if (value != NULL && strlen(value) < room) {
        (void)snprintf(ret, room, "%s", value);
        coxi_web_make_plain(ret);
    }
}

/* Judges the headers of a part, before its first byte is taken. */
static bool judge_part(struct coxi_s3_try *try, CURL *easy)
{
    uint64_t first = 0;
    uint64_t last = 0;
    uint64_t wanted = try->request->at + try->got;
    char etag[COXI_S3_ETAG_MAX] = "";
    const char *range = coxi_web_header(easy, "Content-Range");
    if (coxi_web_status(easy) != 206 ||
        !coxi_web_parse_range(range, &first, &last, &try->answer->bytes) ||
        first != wanted || last < first ||
        last - first >= try->request->to_len - try->got) {
        (void)fail(try, COX_EIO,
                   "the server was asked for %zu bytes at %" PRIu64
                   " and answers with '%s'",
                   try->request->to_len - try->got, wanted,
                   range != NULL ? range : "no Content-Range");
        return false;
    }
    copy_header(easy, "ETag", etag, sizeof(etag));
    if (try->first_etag[0] == '\0') {
        memcpy(try->first_etag, etag, sizeof(etag));
    }
    if (strcmp(try->first_etag, etag) != 0) {
        (void)fail(try, COX_ECONFLICT, "it changed while it was read");
        return false;
    }
    return true;
}

static size_t take_part(struct transfer *transfer, const char *bytes, size_t len)
{
    struct coxi_s3_try *try = transfer->try;
    if (transfer->came == 0 && !judge_part(try, transfer->easy)) {
        return 0;
    }
    if (len > try->request->to_len - try->got) {
        return fail(try, COX_EIO, "the server sends more than was asked for");
    }
    memcpy(try->request->to + try->got, bytes, len);
    try->got += len;
    return len;
}

/* Keeps a body, or the beginning of an error's. */
static size_t take_whole(struct coxi_s3_try *try, const char *bytes, size_t len,
                         bool good)
{
    struct coxi_buffer *body = &try->answer->body;
    size_t max = good ? try->request->max : ERROR_BODY_MAX;
    size_t room = body->len < max ? max - body->len : 0;
    if (len > room && good) {
        return fail(try, COX_ELIMIT, "it has more than %zu bytes", max);
    }
    return coxi_buffer_append_raw(body, bytes, len < room ? len : room) == 0
               ? len
               : fail(try, COX_ENOMEM, "out of memory");
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *transfer = arg;
    struct coxi_s3_try *try = transfer->try;
    size_t len = size * n;
    bool good = coxi_web_status(transfer->easy) / 100 == 2;
    size_t took = good && try->request->to != NULL ? take_part(transfer, bytes, len)
                                                   : take_whole(try, bytes, len, good);
    transfer->came += len;
    return took;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down,
                       curl_off_t up_total, curl_off_t up)
{
    (void)down_total, (void)up_total, (void)up;
    const struct transfer *transfer = arg;
    const struct coxi_s3_request *request = transfer->try->request;
    size_t most = request->to != NULL ? request->to_len : request->max;
    if (down > EXCESS_MAX && (uint64_t)down - EXCESS_MAX > most) {
        (void)fail(transfer->try, COX_EIO, "the server sends an answer without an end");
        return 1;
    }
    return coxi_s3_is_cancelled(transfer->try->s3);
}

/* ---- a request */

static bool set_url(const struct coxi_s3_try *try, CURL *easy)
{
    const struct coxi_s3_request *request = try->request;
    struct coxi_buffer url = {0};
    int r = coxi_buffer_printf(&url, "%s/", try->s3->base);
    if (r == 0 && request->key != NULL) {
        r = coxi_aws_append_escaped(&url, try->s3->prefix, "/");
        r = r == 0 ? coxi_aws_append_escaped(&url, request->key, "/") : r;
    }
    if (r == 0 && request->query != NULL) {
        r = coxi_buffer_printf(&url, "?%s", request->query);
    }
    r = r == 0 ? coxi_buffer_append_raw(&url, "", 1) : r;
    bool set = r == 0 && curl_easy_setopt(easy, CURLOPT_URL, url.data) == CURLE_OK;
    coxi_buffer_fini(&url);
    return set;
}

/* The signature covers these. */
static bool add_headers(const struct coxi_s3_try *try, struct curl_slist **to)
{
    const struct coxi_s3_request *request = try->request;
    const char *match = request->match;
    if (match == NULL && try->got > 0 && try->first_etag[0] != '\0') {
        match = try->first_etag;
    }
    return coxi_web_add_header(to, "x-amz-content-sha256", try->digest) &&
           (try->keys->token == NULL ||
            coxi_web_add_header(to, "x-amz-security-token", try->keys->token)) &&
           (match == NULL || coxi_web_add_header(to, "If-Match", match)) &&
           (!request->if_absent || coxi_web_add_header(to, "If-None-Match", "*")) &&
           (request->mark == NULL ||
            coxi_web_add_header(to, COXI_S3_MARK_HEADER, request->mark)) &&
           (try->md5[0] == '\0' || coxi_web_add_header(to, "Content-MD5", try->md5)) &&
           (request->body == NULL ||
            coxi_web_add_header(to, "Content-Type", "application/octet-stream"));
}

/* True: the method, the body and the range are set. */
static bool set_method(const struct coxi_s3_try *try, CURL *easy)
{
    const struct coxi_s3_request *request = try->request;
    if (request->to != NULL) {
        char range[64];
        (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64,
                       request->at + try->got, request->at + request->to_len - 1);
        return curl_easy_setopt(easy, CURLOPT_RANGE, range) == CURLE_OK;
    }
    if (strcmp(request->method, "HEAD") == 0) {
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    }
    if (request->body != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)request->len);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
    }
    return strcmp(request->method, "GET") == 0 ||
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK;
}

static bool set_all(struct transfer *transfer, char *error)
{
    const struct coxi_s3_try *try = transfer->try;
    const struct coxi_s3 *s3 = try->s3;
    CURL *easy = transfer->easy;
    const struct coxi_web_limits limits = {
        s3->limits.connect_ms, try->request->is_silent ? 0 : s3->limits.stall_s};
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)try->timeout_ms);
    return coxi_web_set(easy, &limits) &&
           (s3->ca_file == NULL ||
            curl_easy_setopt(easy, CURLOPT_CAINFO, s3->ca_file) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, s3->signs) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_USERNAME, try->keys->id) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PASSWORD, try->keys->secret) == CURLE_OK &&
           set_url(try, easy) && set_method(try, easy);
}

static void read_head(struct coxi_s3_try *try, CURL *easy)
{
    struct coxi_s3_answer *answer = try->answer;
    curl_off_t len = -1;
    answer->status = coxi_web_status(easy);
    copy_header(easy, "ETag", answer->etag, sizeof(answer->etag));
    copy_header(easy, COXI_S3_MARK_HEADER, answer->mark, sizeof(answer->mark));
    const char *date = coxi_web_header(easy, "Date");
    time_t date_s = date != NULL ? curl_getdate(date, NULL) : -1;
    answer->date_s = date_s > 0 ? (int64_t)date_s : 0;
    (void)curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &len);
    if (try->request->to == NULL && len >= 0) {
        answer->bytes = (uint64_t)len;
    }
    if (answer->status / 100 != 2 || strcmp(try->request->method, "POST") == 0) {
        coxi_s3_error_code(answer->body.data, answer->body.len, answer->code);
    }
}

static void run(struct coxi_s3_try *try, CURL *easy)
{
    struct transfer transfer = {.try = try, .easy = easy};
    struct curl_slist *headers = NULL;
    char error[CURL_ERROR_SIZE] = "";
    try->curl = CURLE_OUT_OF_MEMORY;
    if (add_headers(try, &headers) && set_all(&transfer, error) &&
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK) {
        try->curl = curl_easy_perform(easy);
        read_head(try, easy);
    }
    if (try->code == 0 && try->curl != CURLE_OK) {
        (void)snprintf(try->text, sizeof(try->text), "%s",
                       error[0] != '\0' ? error : curl_easy_strerror(try->curl));
        coxi_web_make_plain(try->text);
    }
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
}

void coxi_s3_try(struct coxi_s3_try *try)
{
    struct coxi_s3_answer *answer = try->answer;
    CURL *easy = coxi_web_take();
    answer->status = 0;
    answer->bytes = 0;
    answer->date_s = 0;
    answer->code[0] = answer->etag[0] = answer->mark[0] = '\0';
    answer->body.len = 0;
    try->curl = CURLE_OUT_OF_MEMORY;
    try->text[0] = '\0';
    if (easy != NULL) {
        run(try, easy);
    }
    coxi_web_give(easy);
}
