/*
 * See etcd.h. One thread runs libcurl: a request at a time, with what the watch tells
 * received meanwhile into a buffer, from which coxi_etcd_wait takes line by line.
 *
 * Invariants: an answer, and what is unread of the watch, have at most ANSWER_MAX bytes.
 * A watch belongs to the endpoint and to the token with which it was begun.
 */
#include "cluster/etcd.h"

#include <curl/curl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/etcd_json.h"
#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "objects/web.h"

enum {
    ANSWER_MAX = 4 << 20,
    PASSWORD_MAX = 4096,
    POLL_MS = 1000,
};

/* A request and its answer. */
struct transfer {
    CURL *easy;
    char *body; /* of the request */
    struct curl_slist *headers;
    struct coxi_buffer in;
    bool under_way;
    bool whole; /* the answer has ended */
    CURLcode code;
    char text[CURL_ERROR_SIZE];
};

struct coxi_etcd {
    const struct coxi_etcd_settings *settings;
    char endpoints[COXI_ETCD_ENDPOINTS_MAX][256];
    size_t n_endpoints;
    size_t at; /* the current one */
    int timeout_ms;
    char *password;
    char *token; /* NULL: none yet, or not needed */
    CURLM *multi;
    struct transfer request;
    struct transfer watch;
    size_t read; /* bytes of watch.in that were taken */
    char own_host[64];
    atomic_bool woken;
    atomic_bool aborted;
};

/* ---- transfers */

static size_t on_body(char *bytes, size_t size, size_t n, void *arg)
{
    struct transfer *transfer = arg;
    size_t len = size * n;
    return transfer->in.len + len <= ANSWER_MAX &&
                   coxi_buffer_append_raw(&transfer->in, bytes, len) == 0
               ? len
               : 0;
}

/* Without a file for CAINFO, libcurl's own stays. */
static bool set_tls(CURL *easy, const struct coxi_etcd_settings *settings)
{
    return (settings->ca_file == NULL ||
            curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca_file) == CURLE_OK) &&
           curl_easy_setopt(easy, CURLOPT_SSLCERT, settings->cert_file) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SSLKEY, settings->key_file) == CURLE_OK;
}

/* True: all of it is set. */
static bool set_options(struct coxi_etcd *etcd, struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    /* a watch may say nothing for long */
    const struct coxi_web_limits limits = {.connect_ms = etcd->timeout_ms};
    bool set = coxi_web_set(easy, &limits);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->text);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    return set && set_tls(easy, etcd->settings);
}

static void transfer_end(struct coxi_etcd *etcd, struct transfer *transfer)
{
    if (transfer->under_way) {
        (void)curl_multi_remove_handle(etcd->multi, transfer->easy);
        transfer->under_way = false;
    }
    free(transfer->body);
    transfer->body = NULL;
}

static int add_header(struct transfer *transfer, const char *name, const char *value)
{
    return coxi_web_add_header(&transfer->headers, name, value)
               ? 0
               : coxi_error_memory("a request");
}

/* Begins a request. Takes `body`. */
static int transfer_begin(struct coxi_etcd *etcd, struct transfer *transfer,
                          const char *path, json_t *body)
{
    char url[320];
    (void)snprintf(url, sizeof(url), "%s/v3/%s", etcd->endpoints[etcd->at], path);
    transfer_end(etcd, transfer);
    transfer->body = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    transfer->in.len = 0;
    transfer->whole = false;
    transfer->text[0] = '\0';
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    int r = transfer->body == NULL ? coxi_error_memory("a request") : 0;
    r = r == 0 ? add_header(transfer, "Content-Type", "application/json") : r;
    if (r == 0 && etcd->token != NULL) {
        r = add_header(transfer, "Authorization", etcd->token);
    }
    if (r == 0) {
        (void)curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, transfer->body);
        (void)curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, transfer->headers);
        transfer->under_way =
            curl_easy_setopt(transfer->easy, CURLOPT_URL, url) == CURLE_OK &&
            curl_multi_add_handle(etcd->multi, transfer->easy) == CURLM_OK;
        r = transfer->under_way ? 0 : coxi_error_memory("a request");
    }
    return r;
}

/* Notes which transfers have ended. */
static void reap(struct coxi_etcd *etcd)
{
    int left;
    const CURLMsg *message;
    while ((message = curl_multi_info_read(etcd->multi, &left)) != NULL) {
        char *of = NULL;
        if (message->msg == CURLMSG_DONE &&
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of) ==
                CURLE_OK) {
            struct transfer *transfer = (struct transfer *)(void *)of;
            transfer->whole = true;
            transfer->code = message->data.result;
        }
    }
}

/* Lets libcurl work, for a moment, or until something happens; false: it is `until_ms`.
 * `awaited` may be NULL. */
static bool work(struct coxi_etcd *etcd, const struct transfer *awaited,
                 uint64_t until_ms)
{
    int running;
    uint64_t now = coxi_now_ms();
    uint64_t left = now < until_ms ? until_ms - now : 0;
    (void)curl_multi_perform(etcd->multi, &running);
    reap(etcd);
    if (left > 0 && (awaited == NULL || !awaited->whole)) {
        (void)curl_multi_poll(etcd->multi, NULL, 0,
                              left < POLL_MS ? (int)left : POLL_MS, NULL);
    }
    return left > 0;
}

/* ---- requests */

static int tell_aborted(void)
{
    return coxi_error(COX_ECANCELLED, "etcd is not asked any more");
}

/* What has become of a transfer that did not end well. */
static int explain(const struct coxi_etcd *etcd, const struct transfer *transfer)
{
    const char *endpoint = etcd->endpoints[etcd->at];
    if (transfer->whole && transfer->code == CURLE_WRITE_ERROR) {
        return coxi_error(COX_ELIMIT, "etcd at %s sends more than %d bytes", endpoint,
                          ANSWER_MAX);
    }
    return coxi_error(COX_EIO, "etcd at %s: %s", endpoint,
                      !transfer->whole             ? "no answer in time"
                      : transfer->text[0] != '\0'  ? transfer->text
                      : transfer->code != CURLE_OK ? curl_easy_strerror(transfer->code)
                                                   : "it has ended the watch");
}

static void note_own_host(struct coxi_etcd *etcd)
{
    char *host = NULL;
    if (curl_easy_getinfo(etcd->request.easy, CURLINFO_LOCAL_IP, &host) == CURLE_OK &&
        host != NULL && *host != '\0') {
        (void)snprintf(etcd->own_host, sizeof(etcd->own_host), "%s", host);
    }
}

/* Reads the answer of a request that has ended. *ret is for json_decref. */
static int read_answer(struct coxi_etcd *etcd, const char *path, bool *ret_stale,
                       bool *ret_open, json_t **ret)
{
    const struct transfer *request = &etcd->request;
    const char *body = (const char *)request->in.data;
    long status = 0;
    (void)curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        char text[COXI_ERROR_TEXT_MAX];
        int r =
            coxi_etcd_json_error(body, request->in.len, status, ret_stale, ret_open);
        (void)snprintf(text, sizeof(text), "%s", coxi_error_text());
        return coxi_error(r, "etcd at %s: %s", etcd->endpoints[etcd->at], text);
    }
    json_t *answer =
        request->in.len > 0 ? json_loadb(body, request->in.len, 0, NULL) : NULL;
    if (!json_is_object(answer)) {
        json_decref(answer);
        return coxi_error(COX_EIO, "etcd at %s: its answer to %s is no JSON object",
                          etcd->endpoints[etcd->at], path);
    }
    note_own_host(etcd);
    *ret = answer;
    return 0;
}

/* Asks once. Takes `body`. */
static int ask(struct coxi_etcd *etcd, const char *path, json_t *body, bool *ret_stale,
               bool *ret_open, json_t **ret)
{
    struct transfer *request = &etcd->request;
    uint64_t end_ms = coxi_now_ms() + (uint64_t)etcd->timeout_ms;
    int r = transfer_begin(etcd, request, path, body);
    while (r == 0 && !request->whole && work(etcd, request, end_ms)) {
        r = atomic_load(&etcd->aborted) ? tell_aborted() : 0;
    }
    if (r == 0 && (!request->whole || request->code != CURLE_OK)) {
        r = explain(etcd, request);
    }
    r = r == 0 ? read_answer(etcd, path, ret_stale, ret_open, ret) : r;
    transfer_end(etcd, request);
    return r;
}

/* Gets a token for the password. An etcd without users wants none. */
static int login(struct coxi_etcd *etcd)
{
    json_t *answer = NULL;
    bool stale = false;
    bool open = false;
    int r = ask(etcd, "auth/authenticate",
                coxi_etcd_json_login(etcd->settings->user, etcd->password), &stale,
                &open, &answer);
    if (r != 0) {
        return open ? 0 : r;
    }
    const char *token = json_string_value(json_object_get(answer, "token"));
    etcd->token = token != NULL ? strdup(token) : NULL;
    json_decref(answer);
    return etcd->token != NULL ? 0
                               : coxi_error(COX_EIO, "etcd at %s gives no token",
                                            etcd->endpoints[etcd->at]);
}

static void forget_token(struct coxi_etcd *etcd)
{
    free(etcd->token);
    etcd->token = NULL;
}

/* Asks, with a new token if there is none, or if etcd does not know the old one any
 * more. Takes `body`. */
static int call(struct coxi_etcd *etcd, const char *path, json_t *body, json_t **ret)
{
    int r = 0;
    for (int i = 0; i < 2; i++) {
        bool stale = false;
        bool open = false;
        if (etcd->token == NULL && etcd->password != NULL) {
            r = login(etcd);
        }
        if (r == 0) {
            r = ask(etcd, path, json_incref(body), &stale, &open, ret);
        }
        if (r == 0 || !stale || etcd->password == NULL) {
            break;
        }
        forget_token(etcd);
        r = i == 0 ? 0 : r;
    }
    json_decref(body);
    return r;
}

int coxi_etcd_grant(struct coxi_etcd *etcd, int64_t ttl_s, int64_t *ret_lease)
{
    json_t *answer;
    int r = call(etcd, "lease/grant", coxi_etcd_json_grant(ttl_s), &answer);
    if (r != 0) {
        return r;
    }
    int64_t lease = coxi_etcd_json_number(answer, "ID");
    json_decref(answer);
    if (lease <= 0) {
        return coxi_error(COX_EIO, "etcd at %s grants a lease without an id",
                          etcd->endpoints[etcd->at]);
    }
    *ret_lease = lease;
    return 0;
}

/* To an expired lease the gateway answers with success, but without its time to live. */
int coxi_etcd_keep(struct coxi_etcd *etcd, int64_t lease)
{
    json_t *answer;
    int r = call(etcd, "lease/keepalive", coxi_etcd_json_lease(lease), &answer);
    if (r != 0) {
        return r;
    }
    int64_t ttl_s = coxi_etcd_json_number(json_object_get(answer, "result"), "TTL");
    json_decref(answer);
    return ttl_s > 0 ? 0 : coxi_error(COX_ENOENT, "the lease in etcd has expired");
}

int coxi_etcd_revoke(struct coxi_etcd *etcd, int64_t lease)
{
    json_t *answer = NULL;
    int r = call(etcd, "lease/revoke", coxi_etcd_json_lease(lease), &answer);
    json_decref(answer);
    return r == COX_ENOENT ? 0 : r;
}

int coxi_etcd_list(struct coxi_etcd *etcd, const char *key, bool all,
                   struct coxi_etcd_list *ret)
{
    json_t *answer;
    int r = call(etcd, "kv/range", coxi_etcd_json_range(key, all, 0), &answer);
    if (r == 0) {
        r = coxi_etcd_json_list(answer, ret);
        json_decref(answer);
    }
    return r;
}

int coxi_etcd_put(struct coxi_etcd *etcd, const char *key, const char *value,
                  int64_t lease, int64_t revision)
{
    json_t *answer;
    int r =
        call(etcd, "kv/txn", coxi_etcd_json_put(key, value, lease, revision), &answer);
    if (r != 0) {
        return r;
    }
    bool done = json_is_true(json_object_get(answer, "succeeded"));
    json_decref(answer);
    return done ? 0 : coxi_error(COX_ECONFLICT, "%s has changed in etcd", key);
}

/* ---- the watch */

int coxi_etcd_watch(struct coxi_etcd *etcd, const char *key, bool all, int64_t revision)
{
    etcd->read = 0;
    return transfer_begin(etcd, &etcd->watch, "watch",
                          coxi_etcd_json_range(key, all, revision));
}

/* Takes the lines that have come. COX_ETIMEDOUT: none of them tells anything. */
static int take_lines(struct coxi_etcd *etcd, int64_t revision)
{
    struct coxi_buffer *in = &etcd->watch.in;
    int r = COX_ETIMEDOUT;
    while (r == COX_ETIMEDOUT && etcd->read < in->len) {
        const char *line = (const char *)in->data + etcd->read;
        const char *end = memchr(line, '\n', in->len - etcd->read);
        if (end == NULL) {
            break;
        }
        size_t len = (size_t)(end - line);
        etcd->read += len + 1;
        r = len > 0 ? coxi_etcd_json_event(line, len, revision) : r;
    }
    if (in->len > 0 && etcd->read > 0) {
        memmove(in->data, in->data + etcd->read, in->len - etcd->read);
        in->len -= etcd->read;
        etcd->read = 0;
    }
    return r;
}

int coxi_etcd_wait(struct coxi_etcd *etcd, int64_t revision, int timeout_ms)
{
    uint64_t end_ms = coxi_now_ms() + (uint64_t)timeout_ms;
    bool goes_on = true;
    for (;;) {
        int r = take_lines(etcd, revision);
        if (r != COX_ETIMEDOUT) {
            return r;
        }
        if (etcd->watch.whole) {
            return explain(etcd, &etcd->watch);
        }
        if (atomic_load(&etcd->aborted)) {
            return tell_aborted();
        }
        if (!goes_on || atomic_exchange(&etcd->woken, false)) {
            return COX_ETIMEDOUT;
        }
        goes_on = work(etcd, &etcd->watch, end_ms);
    }
}

void coxi_etcd_pause(struct coxi_etcd *etcd, int ms)
{
    uint64_t end_ms = coxi_now_ms() + (uint64_t)ms;
    while (!atomic_exchange(&etcd->woken, false) && !atomic_load(&etcd->aborted) &&
           work(etcd, NULL, end_ms)) {
    }
}

/* ---- life */

void coxi_etcd_limit(struct coxi_etcd *etcd, int timeout_ms)
{
    etcd->timeout_ms = timeout_ms;
}

bool coxi_etcd_next(struct coxi_etcd *etcd)
{
    transfer_end(etcd, &etcd->watch);
    forget_token(etcd);
    etcd->at = (etcd->at + 1) % etcd->n_endpoints;
    return etcd->at != 0;
}

const char *coxi_etcd_endpoint(const struct coxi_etcd *etcd)
{
    return etcd->endpoints[etcd->at];
}

const char *coxi_etcd_own_host(const struct coxi_etcd *etcd)
{
    return etcd->own_host;
}

void coxi_etcd_wake(struct coxi_etcd *etcd)
{
    atomic_store(&etcd->woken, true);
    (void)curl_multi_wakeup(etcd->multi);
}

void coxi_etcd_abort(struct coxi_etcd *etcd, bool aborts)
{
    atomic_store(&etcd->aborted, aborts);
    (void)curl_multi_wakeup(etcd->multi);
}

static int split_endpoints(struct coxi_etcd *etcd)
{
    for (const char *at = etcd->settings->endpoints; at != NULL;) {
        const char *comma = strchr(at, ',');
        size_t len = comma != NULL ? (size_t)(comma - at) : strlen(at);
        if (etcd->n_endpoints == COXI_ETCD_ENDPOINTS_MAX ||
            len >= sizeof(etcd->endpoints[0])) {
            return coxi_error(COX_EINVAL, "an address of etcd is too long: %.64s...",
                              at);
        }
        memcpy(etcd->endpoints[etcd->n_endpoints++], at, len);
        at = comma != NULL ? comma + 1 : NULL;
    }
    return 0;
}

static int read_password(struct coxi_etcd *etcd)
{
    uint8_t *bytes;
    size_t len;
    const char *path = etcd->settings->password_file;
    if (path == NULL) {
        return 0;
    }
    int r = coxi_file_read(path, PASSWORD_MAX, &bytes, &len);
    if (r != 0) {
        return coxi_error(COX_EINVAL, "the password of etcd's user: %s",
                          coxi_error_text());
    }
    while (len > 0 && (bytes[len - 1] == '\n' || bytes[len - 1] == '\r')) {
        len--;
    }
    etcd->password = strndup((const char *)bytes, len);
    free(bytes);
    return etcd->password == NULL ? coxi_error_memory("a password")
           : len == 0 ? coxi_error(COX_EINVAL, "%s has no password in it", path)
                      : 0;
}

int coxi_etcd_new(const struct coxi_etcd_settings *settings, int timeout_ms,
                  struct coxi_etcd **ret)
{
    coxi_web_begin();
    struct coxi_etcd *etcd = calloc(1, sizeof(*etcd));
    if (etcd == NULL) {
        return coxi_error_memory("a client of etcd");
    }
    etcd->settings = settings;
    etcd->timeout_ms = timeout_ms;
    int r = split_endpoints(etcd);
    r = r == 0 ? read_password(etcd) : r;
    if (r == 0) {
        etcd->multi = curl_multi_init();
        etcd->request.easy = curl_easy_init();
        etcd->watch.easy = curl_easy_init();
        if (etcd->multi == NULL || etcd->request.easy == NULL ||
            etcd->watch.easy == NULL || !set_options(etcd, &etcd->request) ||
            !set_options(etcd, &etcd->watch)) {
            r = coxi_error_memory("a client of etcd");
        }
    }
    if (r != 0) {
        coxi_etcd_free(etcd);
        return r;
    }
    *ret = etcd;
    return 0;
}

static void transfer_free(struct coxi_etcd *etcd, struct transfer *transfer)
{
    transfer_end(etcd, transfer);
    curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    coxi_buffer_fini(&transfer->in);
}

void coxi_etcd_free(struct coxi_etcd *etcd)
{
    if (etcd == NULL) {
        return;
    }
    transfer_free(etcd, &etcd->request);
    transfer_free(etcd, &etcd->watch);
    (void)curl_multi_cleanup(etcd->multi);
    forget_token(etcd);
    if (etcd->password != NULL) {
        explicit_bzero(etcd->password, strlen(etcd->password));
    }
    free(etcd->password);
    free(etcd);
}
