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
    struct coxi_mutex lock;  /* leaf */
    bool aborted COXI_GUARDED_BY(lock);
    struct coxi_proving *proving COXI_GUARDED_BY(lock); /* NULL: not yet */
    int timeout_ms;                                     /* -1: none */
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
    coxi_mutex_fini(&attempt->lock);
    coxi_key_wipe(&attempt->guard.key);
    free(attempt);
}

/* Sets the error to the reason why no connection was made. */
static int attempt_error(const char *url, int nng_code)
{
    int code = coxi_link_error(nng_code);
    assert(code != 0);
    return coxi_error(code == COX_ECLOSED ? COX_EREFUSED : code, "cannot reach %s: %s",
                      url, coxi_link_reason(nng_code));
}

/* The time that is left of the attempt's, at most `most`. */
static int left_of(const struct attempt *attempt, int most)
{
    uint64_t end_ms = attempt->start_ms + (uint64_t)attempt->timeout_ms;
    uint64_t now = coxi_now_ms();
    uint64_t left = now < end_ms ? end_ms - now : 0;
    return attempt->timeout_ms < 0 || left > (uint64_t)most ? most : (int)left;
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
        nng_aio_set_timeout(attempt->aio, left_of(attempt, attempt->timeout_ms));
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
    int r = coxi_proving_new(stream, &attempt->guard, true,
                             left_of(attempt, COXI_PROVING_MS), on_dialler_proved,
                             attempt, &proving);
    if (r != 0) {
        attempt_end(attempt, r, NULL);
        return;
    }
    coxi_lock(&attempt->lock);
    attempt->proving = proving;
    if (attempt->aborted) {
        coxi_proving_abort(proving);
    }
    coxi_unlock(&attempt->lock);
    coxi_proving_start(proving);
}

/* Ends the attempt soon. Not after its `done` has returned. */
static void attempt_abort(struct attempt *attempt)
{
    coxi_lock(&attempt->lock);
    attempt->aborted = true;
    if (attempt->proving != NULL) {
        coxi_proving_abort(attempt->proving);
    }
    coxi_unlock(&attempt->lock);
    nng_aio_cancel(attempt->aio);
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
    coxi_mutex_init(&attempt->lock);
    (void)snprintf(attempt->url, sizeof(attempt->url), "%s", url);
    int failed = nng_stream_dialer_alloc(&attempt->dialer, url);
    if (failed != 0) {
        attempt->dialer = NULL;
    } else {
        failed = nng_aio_alloc(&attempt->aio, attempt_callback, attempt);
    }
    if (failed != 0) {
        nng_stream_dialer_free(attempt->dialer);
        coxi_mutex_fini(&attempt->lock);
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
        attempt->guard.seal = coxi_seal_at(url, guard->seal);
    }
    *ret = attempt;
    return 0;
}

static int attempt_make(const char *url, const struct coxi_guard *guard, int timeout_ms,
                        coxi_link_connected done, void *arg, struct attempt **ret)
{
    int r = coxi_url_check(url);
    if (r == 0) {
        r = attempt_new(url, guard, timeout_ms, ret);
    }
    if (r == 0) {
        (*ret)->done = done;
        (*ret)->arg = arg;
    }
    return r;
}

int coxi_link_connect_start(const char *url, const struct coxi_guard *guard,
                            int timeout_ms, coxi_link_connected done, void *arg)
{
    struct attempt *attempt = NULL;
    int r = attempt_make(url, guard, timeout_ms, done, arg, &attempt);
    if (r == 0) {
        nng_stream_dialer_dial(attempt->dialer, attempt->aio);
    }
    return r;
}

/* ---- with a thread that waits for the outcome */

struct coxi_dial {
    struct coxi_mutex lock; /* comes before the attempt's */
    pthread_cond_t known;
    struct attempt *attempt COXI_GUARDED_BY(lock); /* NULL: none is under way */
    bool aborted COXI_GUARDED_BY(lock);
    int code COXI_GUARDED_BY(lock);
    struct coxi_link *link COXI_GUARDED_BY(lock);
    char text[512] COXI_GUARDED_BY(lock);
};

static void dial_init(struct coxi_dial *dial)
{
    coxi_mutex_init(&dial->lock);
    coxi_cond_init(&dial->known);
}

static void dial_fini(struct coxi_dial *dial)
{
    (void)pthread_cond_destroy(&dial->known);
    coxi_mutex_fini(&dial->lock);
}

int coxi_dial_new(struct coxi_dial **ret)
{
    struct coxi_dial *dial = calloc(1, sizeof(*dial));
    if (dial == NULL) {
        return coxi_error_memory("a connection");
    }
    dial_init(dial);
    *ret = dial;
    return 0;
}

void coxi_dial_free(struct coxi_dial *dial)
{
    if (dial != NULL) {
        dial_fini(dial);
        free(dial);
    }
}

void coxi_dial_begin(struct coxi_dial *dial)
{
    coxi_lock(&dial->lock);
    dial->aborted = false;
    coxi_unlock(&dial->lock);
}

void coxi_dial_abort(struct coxi_dial *dial)
{
    if (dial == NULL) {
        return;
    }
    coxi_lock(&dial->lock);
    dial->aborted = true;
    if (dial->attempt != NULL) {
        attempt_abort(dial->attempt);
    }
    coxi_unlock(&dial->lock);
}

static void on_outcome(void *arg, int code, const char *text, struct coxi_link *link)
{
    struct coxi_dial *dial = arg;
    coxi_lock(&dial->lock);
    dial->attempt = NULL;
    dial->code = code;
    dial->link = link;
    (void)snprintf(dial->text, sizeof(dial->text), "%s", text);
    (void)pthread_cond_signal(&dial->known);
    coxi_unlock(&dial->lock);
}

int coxi_dial_link(struct coxi_dial *dial, const char *url,
                   const struct coxi_guard *guard, int timeout_ms,
                   struct coxi_link **ret)
{
    struct attempt *attempt = NULL;
    int r = attempt_make(url, guard, timeout_ms, on_outcome, dial, &attempt);
    if (r != 0) {
        return r;
    }
    coxi_lock(&dial->lock);
    dial->attempt = attempt;
    nng_stream_dialer_dial(attempt->dialer, attempt->aio);
    if (dial->aborted) {
        attempt_abort(attempt);
    }
    while (dial->attempt != NULL) {
        /* The wait ends, because the attempt has a timeout. */
        coxi_wait_for_end(&dial->known, &dial->lock);
    }
    if (dial->code == 0) {
        *ret = dial->link;
    } else if (dial->aborted) {
        r = coxi_error(COX_ECANCELLED, "the connection to %s is not wanted any more",
                       url);
    } else {
        r = coxi_error(dial->code, "%s", dial->text);
    }
    coxi_unlock(&dial->lock);
    return r;
}

int coxi_link_connect(const char *url, const struct coxi_guard *guard, int timeout_ms,
                      struct coxi_link **ret)
{
    struct coxi_dial dial = {0};
    dial_init(&dial);
    int r = coxi_dial_link(&dial, url, guard, timeout_ms, ret);
    dial_fini(&dial);
    return r;
}
