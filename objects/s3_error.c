/* What is told of requests for S3 that failed (s3_internal.h). Threads: any. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "objects/s3_internal.h"

enum { ENDPOINT_MAX = 200 };

void coxi_s3_name_object(const struct coxi_s3 *s3,
                         const struct coxi_s3_request *request, char *ret, size_t room)
{
    const char *key = request->key != NULL ? request->key : "";
    (void)snprintf(ret, room, "cannot %s %s%s%s", request->doing, s3->url,
                   key[0] != '\0' ? "/" : "", key);
}

static bool has_code(const struct coxi_s3_answer *answer, const char *code)
{
    return strcmp(answer->code, code) == 0;
}

/* What status 404 means. It may also be said of a key, or of an address that is no store's.
 * An answer to HEAD has no body, so nothing more is known. */
static int code_of_missing(const struct coxi_s3_request *request,
                           const struct coxi_s3_answer *answer)
{
    return has_code(answer, "NoSuchBucket") ? COX_EINVAL
           : has_code(answer, "NoSuchKey") || has_code(answer, "NoSuchUpload") ||
                   strcmp(request->method, "HEAD") == 0
               ? COX_ENOENT
               : COX_EIO;
}

int coxi_s3_code_of(const struct coxi_s3_request *request,
                    const struct coxi_s3_answer *answer)
{
    switch (answer->status) {
    case 404:
        return code_of_missing(request, answer);
    case 412:
        return COX_ECONFLICT;
    case 416:
        return COX_EFORMAT;
    case 401:
    case 403:
        return COX_EDENIED;
    case 501:
        return COX_EREFUSED;
    case 301:
    case 302:
    case 307:
    case 308:
        return COX_EINVAL;
    default:
        return has_code(answer, "ExpiredToken") || has_code(answer, "InvalidToken")
                   ? COX_EDENIED
                   : COX_EIO;
    }
}

/* ---- answers */

/* The permission that a request needs. */
static const char *permission_of(const struct coxi_s3_request *request)
{
    const char *query = request->query != NULL ? request->query : "";
    if (request->key == NULL) {
        return strstr(query, "uploads=") != NULL ? "s3:ListBucketMultipartUploads"
                                                 : "s3:ListBucket";
    }
    if (strcmp(request->method, "DELETE") == 0) {
        return query[0] != '\0' ? "s3:AbortMultipartUpload" : "s3:DeleteObject";
    }
    return strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0
               ? "s3:PutObject"
               : "s3:GetObject (or s3:ListBucket, if there is no such object)";
}

/* What the user can do. */
static const char *hint_of(const struct coxi_s3_answer *answer)
{
    static const struct {
        const char *code;
        const char *hint;
    } hints[] = {
        {"NoSuchBucket", ": make the bucket first"},
        {"InvalidAccessKeyId", ": the store does not know AWS_ACCESS_KEY_ID"},
        {"SignatureDoesNotMatch", ": AWS_SECRET_ACCESS_KEY is wrong, or AWS_REGION"},
        {"ExpiredToken", ": the credentials have expired"},
        {"InvalidToken", ": AWS_SESSION_TOKEN is wrong"},
        {"RequestTimeTooSkewed", ": the clock of this host is wrong"},
        {"AuthorizationHeaderMalformed", ": is AWS_REGION the bucket's?"},
        {"PermanentRedirect", ": the bucket is in another region; set AWS_REGION"},
    };
    for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
        if (has_code(answer, hints[i].code)) {
            return hints[i].hint;
        }
    }
    return answer->status / 100 == 3
               ? ": redirects are not followed; set AWS_REGION, or "
                 "AWS_ENDPOINT_URL"
               : "";
}

static void tell_answer(const struct coxi_s3_request *request,
                        const struct coxi_s3_answer *answer, char *ret, size_t room)
{
    char code[COXI_S3_CODE_MAX + 3] = "";
    bool denied = answer->status == 403 &&
                  (answer->code[0] == '\0' || has_code(answer, "AccessDenied"));
    if (answer->code[0] != '\0') {
        (void)snprintf(code, sizeof(code), " (%s)", answer->code);
    }
    (void)snprintf(ret, room, "HTTP status %ld%s%s%s", answer->status, code,
                   denied ? ": the credentials lack the permission " : hint_of(answer),
                   denied ? permission_of(request) : "");
}

/* ---- requests without an answer */

/* The scheme, host and port that are asked; not a user and password. */
static void name_endpoint(const struct coxi_s3 *s3, char ret[ENDPOINT_MAX])
{
    const char *host = strstr(s3->base, "://");
    host = host != NULL ? host + 3 : s3->base;
    int scheme = (int)(host - s3->base);
    size_t len = strcspn(host, "/");
    for (const char *at; (at = memchr(host, '@', len)) != NULL;) {
        len -= (size_t)(at + 1 - host);
        host = at + 1;
    }
    (void)snprintf(ret, ENDPOINT_MAX, "%.*s%.*s", scheme, s3->base,
                   len < ENDPOINT_MAX ? (int)len : ENDPOINT_MAX, host);
}

void coxi_s3_tell_cause(const struct coxi_s3_try *try, char *ret, size_t room)
{
    char endpoint[ENDPOINT_MAX];
    name_endpoint(try->s3, endpoint);
    if (try->code != 0) {
        (void)snprintf(ret, room, "%s", try->text);
    } else if (try->curl == CURLE_OK) {
        tell_answer(try->request, try->answer, ret, room);
    } else if (try->curl == CURLE_ABORTED_BY_CALLBACK) {
        (void)snprintf(ret, room, "no answer from %s", endpoint);
    } else if (try->curl == CURLE_OPERATION_TIMEDOUT && try->answer->status == 0) {
        (void)snprintf(ret, room, "no answer from %s: %s", endpoint, try->text);
    } else if (try->curl == CURLE_SSL_CONNECT_ERROR) {
        (void)snprintf(ret, room, "%s (%s: does it speak https?)", try->text, endpoint);
    } else {
        bool distrusts = try->curl == CURLE_PEER_FAILED_VERIFICATION ||
                         try->curl == CURLE_SSL_CACERT_BADFILE;
        (void)snprintf(ret, room, "%s (%s)%s", try->text, endpoint,
                       distrusts ? coxi_aws_ca_hint : "");
    }
}
