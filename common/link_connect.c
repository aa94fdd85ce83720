/*
 * Connecting and listening: how links come to be. Each attempt and each listener owns
 * an nng dialer or listener and one aio. Threads: callers', and nng's for the
 * callbacks.
 */
#include <assert.h>
#include <nng/nng.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/link.h"
#include "common/link_internal.h"

/* ---- connecting */

struct attempt {
    nng_stream_dialer *dialer;
    nng_aio *aio;
    coxi_link_connected done;
    void *arg;
    char url[160];
};

static void attempt_free(struct attempt *attempt)
{
    /* Reaped: this may run inside the aio's own callback. */
    if (attempt->aio != NULL) {
        nng_aio_reap(attempt->aio);
    }
    nng_stream_dialer_free(attempt->dialer);
    free(attempt);
}

/* Why no connection came about, as one error. */
static int attempt_error(const char *url, int nng_code)
{
    int code = coxi_link_error(nng_code);
    assert(code != 0);
    return coxi_error(code == COX_ECLOSED ? COX_EREFUSED : code, "cannot reach %s: %s",
                      url, nng_strerror(nng_code));
}

static int attempt_result(struct attempt *attempt, struct coxi_link **ret)
{
    int failed = nng_aio_result(attempt->aio);
    if (failed != 0) {
        return attempt_error(attempt->url, failed);
    }
    return coxi_link_new(nng_aio_get_output(attempt->aio, 0), ret);
}

static void attempt_callback(void *arg)
{
    struct attempt *attempt = arg;
    struct coxi_link *link = NULL;
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
    /* Only tcp knows it; without it small frames wait for acknowledgements (Nagle). */
    (void)nng_stream_dialer_set_bool(attempt->dialer, NNG_OPT_TCP_NODELAY, true);
    nng_aio_set_timeout(attempt->aio, timeout_ms);
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

struct coxi_listener {
    nng_stream_listener *listener;
    nng_aio *aio;
    coxi_listener_accepted accepted;
    void *arg;
    bool resting;
    char url[160];
};

enum { ACCEPT_REST_MS = 50 };

static void accept_callback(void *arg)
{
    struct coxi_listener *listener = arg;
    int failed = nng_aio_result(listener->aio);
    if (failed == NNG_ECLOSED || failed == NNG_ECANCELED) {
        return;
    }
    if (failed != 0) {
        /* Out of descriptors, say: what is wrong may last, so do not spin. */
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

/* Where the port of "tcp://host:0" begins, with its colon: at the end where none is. */
static char *port_of(char *url)
{
    char *host = strstr(url, "://");
    char *bracket = strrchr(url, ']'); /* of an IPv6 address, which has colons, too */
    char *colon = strrchr(bracket != NULL ? bracket : host + 3, ':');
    return colon != NULL ? colon : url + strlen(url);
}

/* "tcp://host:0" becomes the port that was found; other addresses stay. */
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
    if (listener->aio != NULL) {
        nng_aio_stop(listener->aio);
        nng_aio_free(listener->aio);
    }
    if (listener->listener != NULL) {
        nng_stream_listener_free(listener->listener);
    }
    free(listener);
}

int coxi_listener_open(const char *url, coxi_listener_accepted accepted, void *arg,
                       struct coxi_listener **ret)
{
    struct coxi_listener *listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return coxi_error_memory("a listener");
    }
    listener->accepted = accepted;
    listener->arg = arg;
    int failed = nng_stream_listener_alloc(&listener->listener, url);
    if (failed != 0) {
        listener->listener = NULL;
    } else {
        (void)nng_stream_listener_set_bool(listener->listener, NNG_OPT_TCP_NODELAY,
                                           true);
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
    *ret = listener;
    return 0;
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
