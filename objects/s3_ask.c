/*
 * Requests for S3 that are sent until they are answered (s3_internal.h). Time ends the
 * tries, not their number: an outage of a store that refuses connections is as long as
 * one of a store that is silent.
 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/disk.h"
#include "common/error.h"
#include "objects/s3_internal.h"
#include "objects/web.h"

enum { POLL_MS = 100, PAUSE_MAX_MS = 4000 };

bool coxi_s3_is_cancelled(const struct coxi_s3 *s3)
{
    return atomic_load(&s3->cancelled) || coxi_disk_gives_up();
}

/* ---- tries */

/* A call that is under way. */
struct asking {
    struct coxi_s3_try try;
    struct coxi_aws_keys keys; /* of the last try */
    uint64_t begun_ms;
    uint64_t end_ms; /* the deadline */
    int failed;      /* tries in a row */
    int tries;       /* in all */
    char cause[512]; /* why the last try failed; "": none has */
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
    const struct coxi_s3_try *try = &asking->try;
    const struct coxi_s3_answer *answer = try->answer;
    if (try->curl != CURLE_OK) {
        return coxi_web_may_pass((CURLcode)try->curl);
    }
    for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++) {
        if (strcmp(answer->code, passing[i]) == 0) {
            return true;
        }
    }
    return coxi_web_status_may_pass(answer->status) ||
           (coxi_s3_code_of(try->request, answer) == COX_EDENIED && renew(asking));
}

/* Waits before the next try; false: there is none. */
static bool pause_after(struct asking *asking)
{
    struct coxi_s3 *s3 = asking->try.s3;
    uint64_t end_ms =
        coxi_now_ms() +
        (uint64_t)coxi_web_pause_ms(asking->failed, s3->limits.pause_ms, PAUSE_MAX_MS);
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

/* Notes why a try has failed. One that was cut short because the call is given up says
 * less than the one before. */
static void note_cause(struct asking *asking)
{
    const struct coxi_s3_try *try = &asking->try;
    if (try->curl != CURLE_ABORTED_BY_CALLBACK || try->code != 0 ||
        asking->cause[0] == '\0') {
        coxi_s3_tell_cause(try, asking->cause, sizeof(asking->cause));
    }
}

/* The error of a call that was cancelled, or whose thread gives up. */
static int tell_cancelled(const struct asking *asking, const char *what)
{
    return asking->cause[0] == '\0'
               ? coxi_error(COX_ECANCELLED,
                            "%s: it was given up before the store was asked", what)
               : coxi_error(COX_ECANCELLED,
                            "%s: it was given up after %llu ms, %d %s: %s", what,
                            (unsigned long long)(coxi_now_ms() - asking->begun_ms),
                            asking->tries, asking->tries == 1 ? "try" : "tries",
                            asking->cause);
}

/* The error of a call whose tries have ended. `late`: because its time is over. */
static int give_up(const struct asking *asking, bool late)
{
    const struct coxi_s3_try *try = &asking->try;
    char what[COXI_S3_KEY_MAX + 300];
    char after[64] = "";
    coxi_s3_name_object(try->s3, try->request, what, sizeof(what));
    if (coxi_s3_is_cancelled(try->s3)) {
        return tell_cancelled(asking, what);
    }
    if (try->code == 0 && asking->failed > 1) {
        (void)snprintf(after, sizeof(after), ", in %d tries, %llu ms", asking->failed,
                       (unsigned long long)(coxi_now_ms() - asking->begun_ms));
    }
    int code = try->code != 0                     ? try->code
               : try->curl == CURLE_OUT_OF_MEMORY ? COX_ENOMEM
               : late                             ? COX_ETIMEDOUT
               : try->curl == CURLE_OK ? coxi_s3_code_of(try->request, try->answer)
                                       : COX_EIO;
    return coxi_error(code, "%s: %s%s", what, asking->cause, after);
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

static bool has_tries(const struct asking *asking)
{
    int tries = asking->try.s3->limits.tries;
    return tries == 0 || asking->failed < tries;
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
    asking->tries++;
    asking->failed = try->got > before ? 1 : asking->failed + 1;
    bool good = try->code == 0 && try->curl == CURLE_OK &&
                try->answer->status / 100 == 2 && try->answer->code[0] == '\0';
    if (good && !coxi_s3_is_cancelled(try->s3)) {
        int r = judge_part(try);
        if (r != 1 || has_tries(asking)) {
            return r;
        }
    }
    note_cause(asking);
    if (good || try->code != 0 || coxi_s3_is_cancelled(try->s3) || !may_pass(asking) ||
        !has_tries(asking)) {
        return give_up(asking,
                       try->curl != CURLE_OK && coxi_now_ms() >= asking->end_ms);
    }
    return pause_after(asking) ? 1 : give_up(asking, true);
}

int coxi_s3_ask(struct coxi_s3 *s3, const struct coxi_s3_request *request,
                struct coxi_s3_answer *answer)
{
    size_t mib =
        (request->len >> 20) + (request->to != NULL ? request->to_len >> 20 : 0);
    int most_ms = s3->limits.call_ms;
    if (request->most_ms > 0 && request->most_ms < most_ms) {
        most_ms = request->most_ms;
    }
    struct asking asking = {.try = {.s3 = s3, .request = request, .answer = answer},
                            .begun_ms = coxi_now_ms()};
    asking.end_ms = asking.begun_ms + (uint64_t)most_ms + mib * 1000;
    int r = coxi_s3_digest(&asking.try);
    r = r == 0 ? coxi_aws_credentials_get(s3->credentials, &asking.keys) : r;
    if (r == 0 && coxi_s3_is_cancelled(s3)) {
        r = give_up(&asking, false);
    }
    if (r == 0) {
        do {
            r = ask_once(&asking);
        } while (r == 1);
    }
    coxi_aws_keys_fini(&asking.keys);
    return r;
}
