/*
 * See http.h. A connection outlives its source: handles of libcurl keep connections for the
 * next source (objects/web), because each task opens its file anew.
 *
 * An answer is judged before its first byte is taken: a wrong range, or the range of
 * another version of the file, never gets into the caller's memory.
 */
#include "data/http.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/sync.h"
#include "data/name.h"
#include "objects/web.h"

enum {
    REDIRECTS_MAX = 5,
    PROGRESS_BYTES = 64 << 10, /* a try that got so many is a success */
    REASON_MAX = 512,
    PAUSE_MAX_MS = 10000, /* between tries */
    EXCESS_MAX = 1 << 20, /* bytes of answers that are errors or redirects */
};

static const struct coxi_http_limits usual_limits = {10000, 30, 5, 200};

struct coxi_http {
    char *name;
    struct coxi_http_address address;
    struct coxi_http_limits limits;
    CURL *easy;
    struct curl_slist *headers;
    struct coxi_http_file file;
    bool known; /* `file` is */
    atomic_bool cancelled;
    struct coxi_mutex lock; /* leaf; for the condition only */
    pthread_cond_t cancel;
    char curl_text[CURL_ERROR_SIZE];
};

/* A request and what came of it. */
struct answer {
    struct coxi_http *http;
    uint64_t offset;
    uint8_t *to;
    size_t len;
    size_t got;
    struct coxi_buffer *all; /* takes the answer as a whole, up to len bytes; or NULL */
    bool begun;              /* this try's status and headers were judged */
    bool taken;              /* its body goes to the caller */
    uint64_t skip;           /* so many bytes of it come before the range */
    int code;                /* not 0: the request has failed, for good */
    char text[REASON_MAX];
    char body[REASON_MAX]; /* the beginning of a body that says why */
    size_t body_len;
};

/* ---- judging answers */

/* Notes why the request has failed. */
__attribute__((format(printf, 3, 4))) static int fail(struct answer *answer, int code,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(answer->text, sizeof(answer->text), format, args);
    va_end(args);
    coxi_web_make_plain(answer->text);
    answer->code = code;
    return code;
}

/* A number that tells versions of the file apart; 0: the server gives none. */
static uint64_t version_of(CURL *easy)
{
    const char *tag = coxi_web_header(easy, "ETag");
    const char *date = coxi_web_header(easy, "Last-Modified");
    if (tag != NULL) {
        uint64_t hash = coxi_hash_bytes(tag, strlen(tag)).low;
        return hash != 0 ? hash : 1;
    }
    time_t seconds = date != NULL ? curl_getdate(date, NULL) : -1;
    return seconds > 0 ? (uint64_t)seconds * 1000000000u : 0;
}

/* Notes size and version, or compares them with those of the first answer. */
static int note_file(struct answer *answer, uint64_t bytes)
{
    struct coxi_http *http = answer->http;
    const struct coxi_http_file file = {bytes, version_of(http->easy)};
    if (!http->known) {
        http->file = file;
        http->known = true;
        return 0;
    }
    if (file.bytes != http->file.bytes) {
        return fail(answer, COX_ECONFLICT,
                    "changed while it was read: it has %" PRIu64
                    " bytes, and had %" PRIu64,
                    file.bytes, http->file.bytes);
    }
    if (http->file.version == 0) {
        http->file.version = file.version;
    }
    return file.version == http->file.version ||
                   coxi_web_status(http->easy) == 416 /* has none */
               ? 0
               : fail(answer, COX_ECONFLICT,
                      "changed while it was read: its ETag or Last-Modified differs");
}

/* 206: the body is a part. */
static int judge_part(struct answer *answer)
{
    uint64_t first;
    uint64_t last;
    uint64_t bytes;
    uint64_t wanted = answer->offset + answer->got;
    const char *range = coxi_web_header(answer->http->easy, "Content-Range");
    if (!coxi_web_parse_range(range, &first, &last, &bytes) || first != wanted ||
        last - first >= answer->len - answer->got) {
        return fail(answer, COX_EIO,
                    "the server was asked for %zu bytes at %" PRIu64
                    " and answers with '%s'",
                    answer->len - answer->got, wanted,
                    range != NULL ? range : "no Content-Range");
    }
    answer->taken = true;
    return note_file(answer, bytes);
}

/* 200: the body is the whole file, though a part was asked for. */
static int judge_whole(struct answer *answer)
{
    curl_off_t len = -1;
    (void)curl_easy_getinfo(answer->http->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T,
                            &len);
    if (answer->all == NULL && (len < 0 || (uint64_t)len > answer->len)) {
        return fail(answer, COX_EIO,
                    "the server answers with the whole file when asked for a part: it "
                    "must know byte ranges");
    }
    answer->taken = true;
    answer->skip = answer->offset + answer->got;
    return answer->all != NULL ? 0 : note_file(answer, (uint64_t)len);
}

/* 416: the file ends before the range. */
static int judge_end(struct answer *answer)
{
    uint64_t first;
    uint64_t last;
    uint64_t bytes;
    const char *range = coxi_web_header(answer->http->easy, "Content-Range");
    if (!coxi_web_parse_range(range, &first, &last, &bytes) || last != 0 ||
        bytes > answer->offset + answer->got) {
        return fail(answer, COX_EIO, "the server has no bytes at %" PRIu64,
                    answer->offset + answer->got);
    }
    return note_file(answer, bytes);
}

/* Judges status and headers, at the first byte of the body or at the end. */
static int judge(struct answer *answer)
{
    long status = coxi_web_status(answer->http->easy);
    if (answer->begun) {
        return answer->code;
    }
    answer->begun = true;
    return status == 206 && answer->all == NULL   ? judge_part(answer)
           : status == 200                        ? judge_whole(answer)
           : status == 416 && answer->all == NULL ? judge_end(answer)
                                                  : 0;
}

/* ---- libcurl's callbacks */

static int take(struct answer *answer, const uint8_t *bytes, size_t len)
{
    size_t skipped = answer->skip < len ? (size_t)answer->skip : len;
    answer->skip -= skipped;
    bytes += skipped;
    len -= skipped;
    if (answer->len - answer->got < len) {
        return fail(answer, answer->all != NULL ? COX_ELIMIT : COX_EIO,
                    "the server sends more than %zu bytes", answer->len);
    }
    if (answer->all != NULL && coxi_buffer_append_raw(answer->all, bytes, len) != 0) {
        return fail(answer, COX_ENOMEM, "out of memory");
    }
    if (answer->all == NULL && len > 0) {
        memcpy(answer->to + answer->got, bytes, len);
    }
    answer->got += len;
    return 0;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct answer *answer = arg;
    size_t len = size * n;
    if (judge(answer) != 0) {
        return 0;
    }
    if (answer->taken) {
        return take(answer, (const uint8_t *)bytes, len) == 0 ? len : 0;
    }
    size_t room = sizeof(answer->body) - 1 - answer->body_len;
    size_t kept = len < room ? len : room;
    memcpy(answer->body + answer->body_len, bytes, kept);
    answer->body_len += kept;
    return len;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down,
                       curl_off_t up_total, curl_off_t up)
{
    (void)down_total, (void)up_total, (void)up;
    struct answer *answer = arg;
    if (down > EXCESS_MAX && (uint64_t)down - EXCESS_MAX > answer->len) {
        return fail(answer, COX_EIO, "the server sends an answer without an end");
    }
    return atomic_load(&answer->http->cancelled);
}

/* ---- requests */

static bool is_answered(const struct answer *answer, long status)
{
    return status == 200 || (answer->all == NULL && (status == 206 || status == 416));
}

/* Sends a request once, for the bytes that are missing. */
static CURLcode try_once(struct answer *answer)
{
    CURL *easy = answer->http->easy;
    char range[64];
    answer->begun = answer->taken = false;
    answer->skip = 0;
    answer->body_len = 0;
    if (answer->all != NULL) {
        answer->all->len -= answer->got;
        answer->got = 0;
    }
    (void)snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64,
                   answer->offset + answer->got, answer->offset + answer->len - 1);
    (void)curl_easy_setopt(easy, CURLOPT_RANGE, answer->all == NULL ? range : NULL);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, answer);
    answer->http->curl_text[0] = '\0';
    CURLcode code = curl_easy_perform(easy);
    if (code == CURLE_OK) {
        (void)judge(answer); /* an answer without a body */
    }
    return code;
}

/* The <Code> of an answer of S3, or "". */
static void name_reason(struct answer *answer, char ret[REASON_MAX])
{
    static const char tag[] = "<Code>";
    answer->body[answer->body_len] = '\0';
    const char *begin = strstr(answer->body, tag);
    int len = begin != NULL ? (int)strcspn(begin + strlen(tag), "<") : 0;
    ret[0] = '\0';
    if (len > 0) {
        (void)snprintf(ret, REASON_MAX, " (%.*s)", len, begin + strlen(tag));
        coxi_web_make_plain(ret);
    }
}

/* The error of a request that is not repeated, after `tries`. */
static int explain(struct answer *answer, CURLcode code, long status, int tries)
{
    struct coxi_http *http = answer->http;
    char after[48] = "";
    char reason[REASON_MAX];
    if (tries > 1) {
        (void)snprintf(after, sizeof(after), ", in %d tries", tries);
    }
    coxi_web_make_plain(http->curl_text);
    if (code != CURLE_OK) {
        bool distrusts =
            code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
        return coxi_error(
            COX_EIO, "cannot read %s: %s%s%s", http->name,
            http->curl_text[0] != '\0' ? http->curl_text : curl_easy_strerror(code),
            after, distrusts && http->address.is_s3 ? coxi_aws_ca_hint : "");
    }
    name_reason(answer, reason);
    return coxi_error(status == 404 || status == 410 ? COX_ENOENT : COX_EIO,
                      "cannot read %s: HTTP status %ld%s%s", http->name, status, reason,
                      after);
}

/* Waits before try `n` + 1: longer from try to try; not all peers for equally long. */
static void pause_after(struct coxi_http *http, int n)
{
    struct timespec until =
        coxi_deadline(coxi_web_pause_ms(n, http->limits.pause_ms, PAUSE_MAX_MS));
    coxi_lock(&http->lock);
    while (!atomic_load(&http->cancelled) &&
           coxi_wait_until(&http->cancel, &http->lock, &until)) {
    }
    coxi_unlock(&http->lock);
}

/* Sends a request until it is answered. */
static int fetch(struct answer *answer)
{
    struct coxi_http *http = answer->http;
    int failed = 0;
    for (;;) {
        size_t before = answer->got;
        CURLcode code = try_once(answer);
        long status = coxi_web_status(http->easy);
        if (atomic_load(&http->cancelled)) {
            return coxi_error(COX_ECANCELLED, "%s: its reader was closed", http->name);
        }
        if (answer->code != 0) {
            return coxi_error(answer->code, "%s: %s", http->name, answer->text);
        }
        if (code == CURLE_OK && is_answered(answer, status)) {
            return 0;
        }
        failed = answer->got >= before + PROGRESS_BYTES ? 1 : failed + 1;
        if ((code == CURLE_OK ? !coxi_web_status_may_pass(status)
                              : !coxi_web_may_pass(code)) ||
            failed >= http->limits.tries) {
            return explain(answer, code, status, failed);
        }
        pause_after(http, failed);
    }
}

int coxi_http_read(struct coxi_http *http, uint64_t offset, void *to, size_t len,
                   size_t *ret_len)
{
    struct answer answer = {.http = http, .offset = offset, .to = to, .len = len};
    int r = 0;
    bool more = offset <= INT64_MAX - len;
    while (r == 0 && more && answer.got < len &&
           (!http->known || offset + answer.got < http->file.bytes)) {
        size_t before = answer.got;
        r = fetch(&answer);
        more = answer.got > before;
    }
    if (r == 0 && answer.got < len && offset + answer.got < http->file.bytes) {
        r = coxi_error(COX_EIO, "cannot read %s: the server sends no bytes at %" PRIu64,
                       http->name, offset + answer.got);
    }
    if (r == 0) {
        *ret_len = answer.got;
    }
    return r;
}

int coxi_http_read_all(struct coxi_http *http, size_t max, struct coxi_buffer *to)
{
    struct answer answer = {.http = http, .len = max, .all = to};
    return fetch(&answer);
}

struct coxi_http_file coxi_http_file(const struct coxi_http *http)
{
    return http->file;
}

void coxi_http_cancel(struct coxi_http *http)
{
    coxi_lock(&http->lock);
    atomic_store(&http->cancelled, true);
    (void)pthread_cond_broadcast(&http->cancel);
    coxi_unlock(&http->lock);
}

/* ---- life */

void coxi_http_address_fini(struct coxi_http_address *address)
{
    free(address->url);
    free(address->signs);
    coxi_aws_keys_fini(&address->keys);
    *address = (struct coxi_http_address){0};
}

/* The signature covers these headers, too. */
static bool set_signature(struct coxi_http *http)
{
    static const char empty[] = /* SHA-256 of no bytes: the body */
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const struct coxi_http_address *address = &http->address;
    CURL *easy = http->easy;
    return address->signs == NULL ||
           (curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, address->signs) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_USERNAME, address->keys.id) == CURLE_OK &&
            curl_easy_setopt(easy, CURLOPT_PASSWORD, address->keys.secret) ==
                CURLE_OK &&
            coxi_web_add_header(&http->headers, "x-amz-content-sha256", empty) &&
            (address->keys.token == NULL ||
             coxi_web_add_header(&http->headers, "x-amz-security-token",
                                 address->keys.token)));
}

/* libcurl follows nothing but what is set here. True: all of it is set. */
static bool set_options(struct coxi_http *http)
{
    CURL *easy = http->easy;
    const struct coxi_http_address *address = &http->address;
    bool sealed = strncmp(address->url, "https:", 6) == 0;
    long redirects = address->redirected;
    const struct coxi_web_limits limits = {http->limits.connect_ms,
                                           http->limits.stall_s};
    const char *ca_file = address->is_s3 ? coxi_aws_ca_file() : NULL;
    bool set = coxi_web_set(easy, &limits) &&
               (ca_file == NULL ||
                curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file) == CURLE_OK);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->curl_text);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, redirects);
    (void)curl_easy_setopt(easy, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    return set && curl_easy_setopt(easy, CURLOPT_URL, address->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR,
                            sealed ? "https" : "http,https") == CURLE_OK &&
           set_signature(http) &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers) == CURLE_OK;
}

int coxi_http_new(const char *name, struct coxi_http_address *address,
                  const struct coxi_http_limits *limits, struct coxi_http **ret)
{
    struct coxi_http *http = calloc(1, sizeof(*http));
    if (http == NULL) {
        coxi_http_address_fini(address);
        return coxi_error_memory("a web file");
    }
    http->address = *address;
    *address = (struct coxi_http_address){0};
    http->limits = limits != NULL ? *limits : usual_limits;
    coxi_mutex_init(&http->lock);
    coxi_cond_init(&http->cancel);
    http->name = strdup(name);
    if (http->name != NULL) {
        coxi_name_hide(http->name);
    }
    http->easy = coxi_web_take();
    if (http->name == NULL || http->easy == NULL || !set_options(http)) {
        coxi_http_free(http);
        return coxi_error_memory("a web file");
    }
    *ret = http;
    return 0;
}

void coxi_http_free(struct coxi_http *http)
{
    if (http == NULL) {
        return;
    }
    coxi_web_give(http->easy);
    curl_slist_free_all(http->headers);
    coxi_http_address_fini(&http->address);
    coxi_mutex_fini(&http->lock);
    (void)pthread_cond_destroy(&http->cancel);
    free(http->name);
    free(http);
}
