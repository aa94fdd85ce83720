/*
 * Makes links, by connecting and by listening. Each attempt and each listener owns an
 * nng dialer or listener and one aio. Threads: the callers', and nng's for callbacks.
 */
#include <assert.h>
#include <errno.h>
#include <nng/nng.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/unforked.h"
#include "net/link.h"
#include "net/link_internal.h"

/* nng initializes itself on first use, and checks without a lock whether it has done
 * so. Therefore one use is made to come before all others. */
static void use_nng(void)
{
    nng_aio *aio;
    if (nng_aio_alloc(&aio, NULL, NULL) == 0) {
        nng_aio_free(aio);
    }
}

static pthread_once_t nng_used = PTHREAD_ONCE_INIT;

/*
 * ---- connecting
 *
 * nng (1.5) may mistake the poll event that every new socket has for the end of
 * connecting. Then it reports success while connecting still goes on, or will fail.
 * Therefore a stream that has no peer yet is probed with a heartbeat, which leaves when
 * there is one.
 *
 * States of an attempt: DIALING -> [PROBING] -> done.
 */

struct attempt {
    nng_stream_dialer *dialer;
    nng_stream *stream; /* of a successful dial, until the link takes it */
    nng_aio *aio;
    int timeout_ms;
    uint64_t start_ms;
    coxi_link_connected done;
    void *arg;
    char url[160];
};

static void attempt_free(struct attempt *attempt)
{
    /* nng_aio_reap, not _free, because this may run inside the aio's own callback. */
    if (attempt->aio != NULL) {
        nng_aio_reap(attempt->aio);
    }
    nng_stream_free(attempt->stream);
    nng_stream_dialer_free(attempt->dialer);
    free(attempt);
}

/* Sets the reason why no connection was made as the error. */
static int attempt_error(const char *url, int nng_code)
{
    int code = coxi_link_error(nng_code);
    assert(code != 0);
    return coxi_error(code == COX_ECLOSED ? COX_EREFUSED : code, "cannot reach %s: %s",
                      url, nng_strerror(nng_code));
}

/* After the dial: true if the stream is being probed; then the aio's callback runs
 * again. */
static bool attempt_probe(struct attempt *attempt)
{
    static const struct coxi_prefix beat = {COXI_LINK_MAGIC, 0, 0};
    nng_iov iov = {(void *)(uintptr_t)&beat, sizeof(beat)};
    nng_sockaddr peer;
    if (attempt->stream != NULL || nng_aio_result(attempt->aio) != 0) {
        return false;
    }
    attempt->stream = nng_aio_get_output(attempt->aio, 0);
    if (nng_stream_get_addr(attempt->stream, NNG_OPT_REMADDR, &peer) !=
        NNG_ESYSERR + ENOTCONN) {
        return false;
    }
    if (attempt->timeout_ms >= 0) {
        uint64_t spent_ms = coxi_now_ms() - attempt->start_ms;
        uint64_t timeout_ms = (uint64_t)attempt->timeout_ms;
        nng_aio_set_timeout(attempt->aio, spent_ms < timeout_ms
                                              ? (nng_duration)(timeout_ms - spent_ms)
                                              : 0);
    }
    (void)nng_aio_set_iov(attempt->aio, 1, &iov);
    nng_stream_send(attempt->stream, attempt->aio);
    return true;
}

static int attempt_result(struct attempt *attempt, struct coxi_link **ret)
{
    int failed = nng_aio_result(attempt->aio);
    if (failed != 0) {
        return attempt_error(attempt->url, failed);
    }
    nng_stream *stream = attempt->stream;
    attempt->stream = NULL;
    return coxi_link_new(stream, ret);
}

static void attempt_callback(void *arg)
{
    struct attempt *attempt = arg;
    struct coxi_link *link = NULL;
    if (attempt_probe(attempt)) {
        return;
    }
    int code = attempt_result(attempt, &link);
    attempt->done(attempt->arg, code, code != 0 ? coxi_error_text() : "", link);
    attempt_free(attempt);
}

static int attempt_new(const char *url, int timeout_ms, void (*callback)(void *),
                       struct attempt **ret)
{
    struct attempt *attempt = calloc(1, sizeof(*attempt));
    if (attempt == NULL) {
        return coxi_error_memory("a connection");
    }
    (void)pthread_once(&nng_used, use_nng);
    (void)snprintf(attempt->url, sizeof(attempt->url), "%s", url);
    int failed = nng_stream_dialer_alloc(&attempt->dialer, url);
    if (failed != 0) {
        attempt->dialer = NULL;
    } else {
        failed = nng_aio_alloc(&attempt->aio, callback, attempt);
    }
    if (failed != 0) {
        free(attempt);
        return attempt_error(url, failed);
    }
    /* Only tcp has this option; without it small frames wait for acknowledgements
     * (Nagle). */
    (void)nng_stream_dialer_set_bool(attempt->dialer, NNG_OPT_TCP_NODELAY, true);
    nng_aio_set_timeout(attempt->aio, timeout_ms);
    attempt->timeout_ms = timeout_ms;
    attempt->start_ms = coxi_now_ms();
    *ret = attempt;
    return 0;
}

int coxi_link_connect(const char *url, int timeout_ms, struct coxi_link **ret)
{
    struct attempt *attempt;
    int r = attempt_new(url, timeout_ms, NULL, &attempt);
    if (r != 0) {
        return r;
    }
    nng_stream_dialer_dial(attempt->dialer, attempt->aio);
    nng_aio_wait(attempt->aio);
    if (attempt_probe(attempt)) {
        nng_aio_wait(attempt->aio);
    }
    r = attempt_result(attempt, ret);
    attempt_free(attempt);
    return r;
}

int coxi_link_connect_start(const char *url, int timeout_ms, coxi_link_connected done,
                            void *arg)
{
    struct attempt *attempt;
    int r = attempt_new(url, timeout_ms, attempt_callback, &attempt);
    if (r != 0) {
        return r;
    }
    attempt->done = done;
    attempt->arg = arg;
    nng_stream_dialer_dial(attempt->dialer, attempt->aio);
    return 0;
}

/* ---- listening */

#define IPC "ipc://"

struct coxi_listener {
    nng_stream_listener *listener;
    nng_aio *aio;
    coxi_listener_accepted accepted;
    void *arg;
    bool resting;
    struct coxi_unforked unforked;
    char url[160];
};

enum {
    ACCEPT_REST_MS = 50,
    SOCKET_MODE = 0600,
    CLAIM_MS = 1000, /* how long an address may be in use before that is an error */
    CLAIM_REST_MS = 20,
};

static void accept_callback(void *arg)
{
    struct coxi_listener *listener = arg;
    int failed = nng_aio_result(listener->aio);
    if (failed == NNG_ECLOSED || failed == NNG_ECANCELED) {
        return;
    }
    if (failed != 0) {
        /* The cause (no free descriptors, say) may last, so do not spin. */
        listener->resting = true;
        nng_sleep_aio(ACCEPT_REST_MS, listener->aio);
        return;
    }
    struct coxi_link *link;
    if (listener->resting) {
        listener->resting = false;
    } else if (coxi_link_new(nng_aio_get_output(listener->aio, 0), &link) == 0) {
        listener->accepted(listener->arg, link);
    }
    nng_stream_listener_accept(listener->listener, listener->aio);
}

/* The place of the port in "tcp://host:0", with its colon; the end if there is none. */
static char *port_of(char *url)
{
    char *host = strstr(url, "://");
    /* of an IPv6 address, which contains colons, too */
    char *bracket = strrchr(url, ']');
    char *colon = strrchr(bracket != NULL ? bracket : host + 3, ':');
    return colon != NULL ? colon : url + strlen(url);
}

/* Replaces the port 0 in "tcp://host:0" by the port that was found; other addresses
 * stay. */
static void set_url(struct coxi_listener *listener, const char *url)
{
    (void)snprintf(listener->url, sizeof(listener->url), "%s", url);
    int port = 0;
    if (strncmp(url, "ipc:", 4) == 0 ||
        nng_stream_listener_get_int(listener->listener, NNG_OPT_TCP_BOUND_PORT,
                                    &port) != 0) {
        return;
    }
    char *at = port_of(listener->url);
    size_t used = (size_t)(at - listener->url);
    (void)snprintf(at, sizeof(listener->url) - used, ":%d", port);
}

static void listener_free(struct coxi_listener *listener)
{
    coxi_unforked_drop(&listener->unforked);
    if (listener->aio != NULL) {
        nng_aio_stop(listener->aio);
        nng_aio_free(listener->aio);
    }
    if (listener->listener != NULL) {
        nng_stream_listener_free(listener->listener);
    }
    free(listener);
}

/*
 * nng removes whatever is at the path of an ipc address if nobody listens there, also a
 * regular file. So this lets it have only a socket of this user. COX_EADDRESS.
 */
static int check_path(const char *url)
{
    struct stat st;
    if (strncmp(url, IPC, strlen(IPC)) != 0 || lstat(url + strlen(IPC), &st) != 0 ||
        (S_ISSOCK(st.st_mode) && st.st_uid == geteuid())) {
        return 0;
    }
    return coxi_error(COX_EADDRESS, "cannot listen at %s: %s is there already", url,
                      S_ISSOCK(st.st_mode) ? "another user's socket"
                                           : "something that is no socket");
}

int coxi_listener_open(const char *url, coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret)
{
    int r = check_path(url);
    struct coxi_listener *listener = r == 0 ? calloc(1, sizeof(*listener)) : NULL;
    if (listener == NULL) {
        return r != 0 ? r : coxi_error_memory("a listener");
    }
    (void)pthread_once(&nng_used, use_nng);
    listener->accepted = accepted;
    listener->arg = arg;
    int failed = nng_stream_listener_alloc(&listener->listener, url);
    if (failed != 0) {
        listener->listener = NULL;
    } else {
        (void)nng_stream_listener_set_bool(listener->listener, NNG_OPT_TCP_NODELAY,
                                           true);
        /* of ipc only; whatever the umask, nobody else may connect */
        (void)nng_stream_listener_set_int(listener->listener, NNG_OPT_IPC_PERMISSIONS,
                                          SOCKET_MODE);
        failed = nng_aio_alloc(&listener->aio, accept_callback, listener);
    }
    if (failed == 0) {
        failed = nng_stream_listener_listen(listener->listener);
    }
    if (failed != 0) {
        listener_free(listener);
        return coxi_error(failed == NNG_EADDRINUSE ? COX_EAGAIN : COX_EADDRESS,
                          "cannot listen at %s: %s", url, nng_strerror(failed));
    }
    set_url(listener, url);
    listener->unforked.url = listener->url;
    coxi_unforked_hold(&listener->unforked);
    *ret = listener;
    return 0;
}

/* Checks the part after "tcp://": a host without several colons, and a port. */
static int check_host_and_port(const char *url, const char *host)
{
    const char *bracket = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = strchr(bracket != NULL ? bracket : host, ':');
    size_t digits = colon != NULL ? strspn(colon + 1, "0123456789") : 0;
    if (colon == NULL || colon[1] == '\0') {
        return coxi_error(COX_EADDRESS, "'%s' has no port: an address is host:port",
                          url);
    }
    if (bracket == NULL && strchr(colon + 1, ':') != NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' has several colons: write an IPv6 address in brackets, "
                          "[::1]:port",
                          url);
    }
    if (colon == host || strcspn(host, "/ ") < (size_t)(colon - host)) {
        return coxi_error(COX_EADDRESS, "'%s' has no host: an address is host:port",
                          url);
    }
    if (colon[1 + digits] != '\0') {
        return coxi_error(COX_EADDRESS, "'%s': the port '%s' is no number", url,
                          colon + 1);
    }
    if (digits > 5 || strtol(colon + 1, NULL, 10) > UINT16_MAX) {
        return coxi_error(COX_EADDRESS, "'%s': the port %s is above %d", url, colon + 1,
                          UINT16_MAX);
    }
    return 0;
}

int coxi_url_check(const char *url)
{
    const char *rest = strstr(url, "://");
    size_t scheme = rest != NULL ? (size_t)(rest - url) : 0;
    if (rest == NULL) {
        return coxi_error(COX_EADDRESS,
                          "'%s' is no address: it is like tcp://host:port or "
                          "ipc:///path",
                          url);
    }
    if (strlen(url) > COXI_URL_MAX) {
        return coxi_error(COX_EADDRESS, "'%s' is longer than %d bytes", url,
                          COXI_URL_MAX);
    }
    if (strncmp(url, "ipc://", 6) == 0) {
        return url[6] == '/' && url[7] != '\0'
                   ? 0
                   : coxi_error(COX_EADDRESS,
                                "'%s' has no path: it is like ipc:///path", url);
    }
    if (strncmp(url, "tcp://", 6) == 0 || strncmp(url, "tls+tcp://", 10) == 0) {
        return check_host_and_port(url, rest + 3);
    }
    return coxi_error(COX_EADDRESS,
                      "'%s': there is no transport '%.*s': an address is like "
                      "tcp://host:port or ipc:///path",
                      url, (int)scheme, url);
}

int coxi_url_from(const char *address, char ret[COXI_URL_MAX + 1])
{
    char url[COXI_URL_MAX + 1];
    bool is_url = strstr(address, "://") != NULL;
    int r = strlen(address) + strlen("tcp://") > COXI_URL_MAX
                ? coxi_error(COX_EADDRESS, "'%s' is longer than %d bytes", address,
                             COXI_URL_MAX)
                : 0;
    if (r == 0) {
        (void)snprintf(url, sizeof(url), "%s%s", is_url ? "" : "tcp://", address);
        r = is_url ? coxi_url_check(url) : check_host_and_port(address, address);
    }
    if (r == 0) {
        memcpy(ret, url, sizeof(url));
    }
    return r;
}

bool coxi_url_is_local(const char *url)
{
    static const char numbers[] = "tcp://127.";
    static const char *const prefixes[] = {"ipc://",
                                           "tcp://localhost:", "tcp://[::1]:"};
    if (strncmp(url, numbers, strlen(numbers)) == 0) {
        /* Only numbers: a host called 127.example.org may be anywhere. */
        return url[strlen(numbers) + strspn(url + strlen(numbers), "0123456789.")] ==
               ':';
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
        if (strncmp(url, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

int coxi_listener_claim(const char *url, coxi_listener_accepted accepted, void *arg,
                        struct coxi_listener **ret)
{
    int r = coxi_listener_open(url, accepted, arg, ret);
    for (int waited_ms = 0; r == COX_EAGAIN && waited_ms < CLAIM_MS;
         waited_ms += CLAIM_REST_MS) {
        (void)poll(NULL, 0, CLAIM_REST_MS);
        r = coxi_listener_open(url, accepted, arg, ret);
    }
    return r != COX_EAGAIN
               ? r
               : coxi_error(COX_EADDRESS,
                            "%s is in use: end the process that listens there, or "
                            "listen at another address (port 0 is any free one)",
                            url);
}

void coxi_listener_start(struct coxi_listener *listener)
{
    nng_stream_listener_accept(listener->listener, listener->aio);
}

const char *coxi_listener_url(const struct coxi_listener *listener)
{
    return listener->url;
}

void coxi_listener_close(struct coxi_listener *listener)
{
    if (listener != NULL) {
        nng_stream_listener_close(listener->listener);
        listener_free(listener);
    }
}
