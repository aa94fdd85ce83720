/* See trace_get.h. */
#include "cli/trace_get.h"

#include <curl/curl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/watcher.h"
#include "common/clock.h"
#include "common/error.h"
#include "http/http.h"
#include "objects/web.h"

enum {
    TURN_MS = 100,
    CONNECT_MS = 2000,
    /* without a byte for so long, the client is stuck: it waits for its ps and workers for
     * 5 s at the beginning, and for 5 s at the end */
    SILENT_MS = 20000,
};

struct answer {
    const struct coxi_trace_get *get;
    CURL *easy;
    int code;          /* of `take` */
    char refusal[512]; /* what the client says instead of a trace */
    size_t refusal_len;
    uint64_t heard_ms; /* when bytes came */
};

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct answer *answer = arg;
    size_t len = size * n;
    answer->heard_ms = coxi_now_ms();
    if (coxi_web_status(answer->easy) == 200) {
        answer->code = answer->get->take(answer->get->arg, bytes, len);
        return answer->code == 0 ? len : 0;
    }
    size_t room = sizeof(answer->refusal) - 1 - answer->refusal_len;
    size_t kept = len < room ? len : room;
    memcpy(answer->refusal + answer->refusal_len, bytes, kept);
    answer->refusal_len += kept;
    return len;
}

/* Runs the request until its end. *ret: how it has ended. */
static int run(struct answer *answer, CURLM *multi, CURLcode *ret)
{
    int running = 1;
    int left;
    answer->heard_ms = coxi_now_ms();
    while (running > 0) {
        if (curl_multi_perform(multi, &running) != CURLM_OK) {
            return coxi_error_memory("a request");
        }
        if (!answer->get->goes_on(answer->get->arg)) {
            return coxi_error(COX_ECANCELLED, "interrupted");
        }
        if (coxi_now_ms() - answer->heard_ms > SILENT_MS) {
            *ret = CURLE_OPERATION_TIMEDOUT;
            return 0;
        }
        if (running > 0) {
            (void)curl_multi_poll(multi, NULL, 0, TURN_MS, NULL);
        }
    }
    const CURLMsg *message = curl_multi_info_read(multi, &left);
    *ret = message != NULL ? message->data.result : CURLE_OUT_OF_MEMORY;
    return 0;
}

/* Makes the client's words a line of plain text. */
static const char *refusal_of(struct answer *answer)
{
    answer->refusal[answer->refusal_len] = '\0';
    answer->refusal[strcspn(answer->refusal, "\r\n")] = '\0';
    coxi_watcher_plain(answer->refusal);
    return answer->refusal;
}

/* The result of a request that has ended. */
static int judge(struct answer *answer, CURLcode code)
{
    const char *url = answer->get->url;
    long status = coxi_web_status(answer->easy);
    if (answer->code != 0) {
        return answer->code;
    }
    if (status == 404) {
        return coxi_error(
            COX_EIO,
            "%s gives no trace: only the client of a run that goes on does, "
            "and not if it is of an older version",
            url);
    }
    if (status != 0 && status != 200) {
        return coxi_error(status == 409 ? COX_EBUSY : COX_EIO, "no trace of %s: %s",
                          url, refusal_of(answer));
    }
    if (status == 0) {
        return coxi_error(COX_EIO, "nobody answers at %s: %s", url,
                          curl_easy_strerror(code));
    }
    return code == CURLE_OK ? 0
                            : coxi_error(COX_ECLOSED, "the trace breaks off: %s",
                                         curl_easy_strerror(code));
}

static bool set_options(struct answer *answer, const char *url,
                        const struct curl_slist *headers)
{
    CURL *easy = answer->easy;
    const struct coxi_web_limits limits = {.connect_ms = CONNECT_MS};
    bool set = coxi_web_set(easy, &limits);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, answer);
    return set && curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK &&
           /* a client gives traces to its own host only */
           curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers) == CURLE_OK;
}

int coxi_trace_get(const struct coxi_trace_get *get)
{
    struct answer answer = {.get = get, .easy = coxi_web_take()};
    CURLM *multi = curl_multi_init();
    struct curl_slist *headers = curl_slist_append(NULL, COXI_HTTP_WORK_HEADER ": 1");
    CURLcode code = CURLE_OK;
    char url[512];
    (void)snprintf(url, sizeof(url), "%s/api/trace?seconds=%d", get->url, get->seconds);
    int r = 0;
    if (answer.easy == NULL || multi == NULL || headers == NULL ||
        !set_options(&answer, url, headers) ||
        curl_multi_add_handle(multi, answer.easy) != CURLM_OK) {
        r = coxi_error_memory("a request");
    }
    if (r == 0) {
        r = run(&answer, multi, &code);
        (void)curl_multi_remove_handle(multi, answer.easy);
    }
    r = r == 0 ? judge(&answer, code) : r;
    coxi_web_give(answer.easy);
    (void)curl_multi_cleanup(multi);
    curl_slist_free_all(headers);
    return r;
}
