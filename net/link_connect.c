/* Makes links by connecting; see link.h. An attempt has an nng dialer and one aio. With
 * a key, both ends prove themselves before the link is made (proving.h). Threads: the
 * callers', and nng's for callbacks. */
#include <assert.h>
#include <errno.h>
#include <nng/nng.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "net/link_internal.h"
#include "net/proving.h"

/* nng initializes itself on first use, but checks without a lock whether it has done
 * so. Therefore we use it once (pthread_once) before all other uses. */
static void use_nng(void)
{
    nng_aio *aio;
    if (nng_aio_alloc(&aio, NULL, NULL) == 0) {
        nng_aio_free(aio);
    }
}

static pthread_once_t nng_used = PTHREAD_ONCE_INIT;

void coxi_use_nng(void)
{
    (void)pthread_once(&nng_used, use_nng);
}

/*
 * ---- connecting
 *
 * nng (1.5) may mistake the poll event that every new socket has for the end of
 * connecting. Then it reports success while connecting still goes on, or will fail.
 * Therefore a stream that has no peer yet is probed with a heartbeat, which can be sent
 * only once the stream is connected. If a handshake comes first, its first message is
 * the probe.
 *
 * States of an attempt: DIALING -> [PROBING, or PROVING] -> done.
 */

struct attempt {
    nng_stream_dialer *dialer;
    nng_stream *stream; /* of a successful dial, until the link takes it */
    nng_aio *aio;
    struct coxi_guard guard; /* without a key: nothing is proved */
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

/* Sets the error to the reason why no connection was made. */
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
    if (attempt->guard.key.kind != COXI_KEY_NONE) {
        return false;
    }
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

static void attempt_end(struct attempt *attempt, int code, struct coxi_link *link)
{
    attempt->done(attempt->arg, code, code != 0 ? coxi_error_text() : "", link);
    attempt_free(attempt);
}

static void on_dialler_proved(void *arg, int code, nng_stream *stream,
                              const struct coxi_agreed *agreed)
{
    struct attempt *attempt = arg;
    struct coxi_link *link = NULL;
    int r = code != 0 ? coxi_error(code, "cannot reach %s: %s", attempt->url,
                                   coxi_error_text())
                      : coxi_link_new(stream, agreed, &link);
    attempt_end(attempt, r, link);
}

/* Starts the handshake; the attempt ends with it. */
static void attempt_prove(struct attempt *attempt)
{
    struct coxi_proving *proving;
    nng_stream *stream = attempt->stream;
    attempt->stream = NULL;
    int r = coxi_proving_new(stream, &attempt->guard, true, on_dialler_proved, attempt,
                             &proving);
    if (r != 0) {
        attempt_end(attempt, r, NULL);
        return;
    }
    coxi_proving_start(proving);
}

static void attempt_callback(void *arg)
{
    struct attempt *attempt = arg;
    struct coxi_link *link = NULL;
    if (attempt_probe(attempt)) {
        return;
    }
    int failed = nng_aio_result(attempt->aio);
    if (failed != 0) {
        attempt_end(attempt, attempt_error(attempt->url, failed), NULL);
        return;
    }
    if (attempt->guard.key.kind != COXI_KEY_NONE) {
        attempt_prove(attempt);
        return;
    }
    nng_stream *stream = attempt->stream;
    attempt->stream = NULL;
    int r = coxi_link_new(stream, NULL, &link);
    attempt_end(attempt, r, link);
}

static int attempt_new(const char *url, const struct coxi_guard *guard, int timeout_ms,
                       struct attempt **ret)
{
    struct attempt *attempt = calloc(1, sizeof(*attempt));
    if (attempt == NULL) {
        return coxi_error_memory("a connection");
    }
    coxi_use_nng();
    (void)snprintf(attempt->url, sizeof(attempt->url), "%s", url);
    int failed = nng_stream_dialer_alloc(&attempt->dialer, url);
    if (failed != 0) {
        attempt->dialer = NULL;
    } else {
        failed = nng_aio_alloc(&attempt->aio, attempt_callback, attempt);
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
    if (guard != NULL) {
        attempt->guard = *guard;
    }
    *ret = attempt;
    return 0;
}

int coxi_link_connect_start(const char *url, const struct coxi_guard *guard,
                            int timeout_ms, coxi_link_connected done, void *arg)
{
    struct attempt *attempt = NULL;
    int r = coxi_url_check(url);
    if (r == 0) {
        r = attempt_new(url, guard, timeout_ms, &attempt);
    }
    if (r != 0) {
        return r;
    }
    attempt->done = done;
    attempt->arg = arg;
    nng_stream_dialer_dial(attempt->dialer, attempt->aio);
    return 0;
}

/* The outcome of an attempt, for the thread that waits for it. */
struct outcome {
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t known;
    bool over COXI_GUARDED_BY(lock);
    int code COXI_GUARDED_BY(lock);
    struct coxi_link *link COXI_GUARDED_BY(lock);
    char text[512] COXI_GUARDED_BY(lock);
};

static void on_outcome(void *arg, int code, const char *text, struct coxi_link *link)
{
    struct outcome *outcome = arg;
    coxi_lock(&outcome->lock);
    outcome->over = true;
    outcome->code = code;
    outcome->link = link;
    (void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
    (void)pthread_cond_signal(&outcome->known);
    coxi_unlock(&outcome->lock);
}

int coxi_link_connect(const char *url, const struct coxi_guard *guard, int timeout_ms,
                      struct coxi_link **ret)
{
    struct outcome outcome = {0};
    coxi_mutex_init(&outcome.lock);
    coxi_cond_init(&outcome.known);
    int r = coxi_link_connect_start(url, guard, timeout_ms, on_outcome, &outcome);
    coxi_lock(&outcome.lock);
    while (r == 0 && !outcome.over) {
        /* The wait ends, because the attempt has a timeout. */
        coxi_wait_for_end(&outcome.known, &outcome.lock);
    }
    if (r == 0 && outcome.code != 0) {
        r = coxi_error(outcome.code, "%s", outcome.text);
    } else if (r == 0) {
        *ret = outcome.link;
    }
    coxi_unlock(&outcome.lock);
    (void)pthread_cond_destroy(&outcome.known);
    coxi_mutex_fini(&outcome.lock);
    return r;
}
