/* Requests for S3 that are sent until they are answered (s3_internal.h). */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "objects/s3_internal.h"
#include "objects/web.h"

enum { POLL_MS = 100 };

bool coxi_s3_is_cancelled(const struct coxi_s3 *s3)
{
    return atomic_load(&s3->cancelled) || coxi_disk_gives_up();
}

/* ---- errors */

static void name_object(const struct coxi_s3 *s3, const struct coxi_s3_request *request,
                        char *ret, size_t room)
{
    const char *key = request->key != NULL ? request->key : "";
    (void)snprintf(ret, room, "cannot %s %s%s%s", request->doing, s3->url,
                   key[0] != '\0' ? "/" : "", key);
}

static bool has_code(const struct coxi_s3_answer *answer, const char *code)
{
    return strcmp(answer->code, code) == 0;
}

static int code_of(const struct coxi_s3_answer *answer)
{
    switch (answer->status) {
    case 404:
        return has_code(answer, "NoSuchBucket") ? COX_EINVAL : COX_ENOENT;
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
        {"AccessDenied",
         ": the credentials lack a permission (s3:GetObject, s3:PutObject, "
         "s3:DeleteObject, s3:ListBucket, s3:AbortMultipartUpload)"},
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

static int explain(const struct coxi_s3 *s3, const struct coxi_s3_request *request,
                   const struct coxi_s3_answer *answer)
{
    char what[COXI_S3_KEY_MAX + 300];
    char code[COXI_S3_CODE_MAX + 3] = "";
    name_object(s3, request, what, sizeof(what));
    if (answer->code[0] != '\0') {
        (void)snprintf(code, sizeof(code), " (%s)", answer->code);
    }
    return coxi_error(code_of(answer), "%s: HTTP status %ld%s%s", what, answer->status,
                      code, hint_of(answer));
}

/* ---- tries */

/* A call that is under way. */
struct asking {
    struct coxi_s3_try try;
    struct coxi_aws_keys keys; /* of the last try */
    uint64_t end_ms;           /* the deadline */
    int failed;                /* tries in a row */
};

/* True: the credentials have changed since the last try. */
static bool renew(struct asking *asking)
{
    struct coxi_aws_keys keys = {0};
    const struct coxi_aws_keys *old = &asking->keys;
    if (coxi_aws_credentials_get(asking->try.s3->credentials, &keys) != 0) {
        return false;
    }
    bool same = old->id != NULL && strcmp(keys.id, old->id) == 0 &&
                strcmp(keys.secret, old->secret) == 0 &&
                (keys.token == NULL) == (old->token == NULL) &&
                (keys.token == NULL || strcmp(keys.token, old->token) == 0);
    coxi_aws_keys_fini(&asking->keys);
    asking->keys = keys;
    return !same;
}

/* An error that another try may not meet. */
static bool may_pass(struct asking *asking)
{
    static const char *const passing[] = {
        "RequestTimeout",   "SlowDown",
        "InternalError",    "ServiceUnavailable",
        "OperationAborted", "ConditionalRequestConflict",
        "Throttling",       "RequestLimitExceeded"};
    const struct coxi_s3_answer *answer = asking->try.answer;
    if (asking->try.curl != CURLE_OK) {
        return coxi_web_may_pass((CURLcode)asking->try.curl);
    }
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++) {
        if (has_code(answer, passing[i])) {
            return true;
        }
    }
    return coxi_web_status_may_pass(answer->status) ||
           (code_of(answer) == COX_EDENIED && renew(asking));
}

/* Waits before the next try; false: there is none. */
static bool pause_after(struct asking *asking)
{
    struct coxi_s3 *s3 = asking->try.s3;
    uint64_t end_ms = coxi_now_ms() +
                      (uint64_t)coxi_web_pause_ms(asking->failed, s3->limits.pause_ms);
    if (end_ms >= asking->end_ms) {
        return false;
    }
    coxi_lock(&s3->lock);
    while (!coxi_s3_is_cancelled(s3) && coxi_now_ms() < end_ms) {
        uint64_t left = end_ms - coxi_now_ms();
        struct timespec until = coxi_deadline(left < POLL_MS ? (int)left : POLL_MS);
        (void)coxi_wait_until(&s3->cancel, &s3->lock, &until);
    }
    coxi_unlock(&s3->lock);
    return !coxi_s3_is_cancelled(s3);
}

/* The error of a call whose tries have ended. */
static int give_up(const struct asking *asking)
{
    const struct coxi_s3_try *try = &asking->try;
    char what[COXI_S3_KEY_MAX + 300];
    char after[48] = "";
    name_object(try->s3, try->request, what, sizeof(what));
    if (coxi_s3_is_cancelled(try->s3)) {
        return coxi_error(COX_ECANCELLED, "%s: it was given up", what);
    }
    if (try->code != 0) {
        return coxi_error(try->code, "%s: %s", what, try->text);
    }
    if (asking->failed > 1) {
        (void)snprintf(after, sizeof(after), ", in %d tries", asking->failed);
    }
    if (try->curl != CURLE_OK) {
        bool late = coxi_now_ms() >= asking->end_ms;
        return coxi_error(late                               ? COX_ETIMEDOUT
                          : try->curl == CURLE_OUT_OF_MEMORY ? COX_ENOMEM
                                                             : COX_EIO,
                          "%s: %s%s", what, try->text, after);
    }
    return explain(try->s3, try->request, try->answer);
}

/* What a good answer with a part means: 1: there is more to ask for. */
static int judge_part(const struct coxi_s3_try *try)
{
    const struct coxi_s3_request *request = try->request;
    if (request->to == NULL || try->got == request->to_len) {
        return 0;
    }
    if (request->at + try->got >= try->answer->bytes) {
        return coxi_error(COX_EFORMAT, "cannot read %s/%s: it has only %llu bytes",
                          try->s3->url, request->key,
                          (unsigned long long)try->answer->bytes);
    }
    return 1;
}

/* Sends the request once. 1: it is to be sent again. */
static int ask_once(struct asking *asking)
{
    struct coxi_s3_try *try = &asking->try;
    uint64_t now = coxi_now_ms();
    size_t before = try->got;
    try->keys = &asking->keys;
    try->timeout_ms = now < asking->end_ms ? (int)(asking->end_ms - now) : 1;
    coxi_s3_try(try);
    asking->failed = try->got > before ? 1 : asking->failed + 1;
    if (try->code != 0 || coxi_s3_is_cancelled(try->s3)) {
        return give_up(asking);
    }
    if (try->curl == CURLE_OK && try->answer->status / 100 == 2 &&
        try->answer->code[0] == '\0') {
        int r = judge_part(try);
        return r == 1 && asking->failed >= try->s3->limits.tries ? give_up(asking) : r;
    }
    if (!may_pass(asking) || asking->failed >= try->s3->limits.tries ||
        !pause_after(asking)) {
        return give_up(asking);
    }
    return 1;
}

int coxi_s3_ask(struct coxi_s3 *s3, const struct coxi_s3_request *request,
                struct coxi_s3_answer *answer)
{
    size_t mib =
        (request->len >> 20) + (request->to != NULL ? request->to_len >> 20 : 0);
    struct asking asking = {.try = {.s3 = s3, .request = request, .answer = answer},
                            .end_ms = coxi_now_ms() + (uint64_t)s3->limits.call_ms +
                                      mib * 1000};
    int r = coxi_s3_digest(&asking.try);
    r = r == 0 ? coxi_aws_credentials_get(s3->credentials, &asking.keys) : r;
    if (r == 0 && coxi_s3_is_cancelled(s3)) {
        r = give_up(&asking);
    }
    if (r == 0) {
        do {
            r = ask_once(&asking);
        } while (r == 1);
    }
    coxi_aws_keys_fini(&asking.keys);
    return r;
}
