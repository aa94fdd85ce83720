/* See proving.h. One aio, whose callback is the only one that touches the state, except
 * for what an abort needs. */
#include "net/proving.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/sync.h"
#include "net/link_internal.h"

struct coxi_proving {
    nng_stream *stream;
    /* Held while a send or receive begins, too: one that begins after the stream was
     * closed would not end. Leaf. */
    struct coxi_mutex lock;
    bool aborted COXI_GUARDED_BY(lock);
    /* The handshake has succeeded: the stream is the owner's, and is not closed here. */
    bool given COXI_GUARDED_BY(lock);
    atomic_bool late; /* its time has passed */
    nng_aio *aio;
    struct coxi_handshake *handshake;
    bool dialled;
    bool sending;
    const uint8_t *out;
    size_t out_len;
    size_t sent;
    uint8_t in[COXI_HANDSHAKE_MAX];
    size_t received;
    uint64_t begin_ms;
    uint64_t end_ms;
    coxi_proved done;
    void *arg;
};

/* Sets the error for a send or receive of the handshake that has failed. */
static int transport_error(const struct coxi_proving *proving, int nng_code)
{
    int code = coxi_link_error(nng_code);
    if (proving->dialled && proving->sending && proving->sent == 0) {
        return coxi_error(code == COX_ECLOSED ? COX_EREFUSED : code, "%s",
                          coxi_link_reason(nng_code)); /* no connection was made */
    }
    if (code == COX_ETIMEDOUT || atomic_load(&proving->late)) {
        return coxi_error(proving->dialled ? COX_ETIMEDOUT : COX_EDENIED,
                          "the peer has not proved within %d ms that it has "
                          "the run's key",
                          (int)(proving->end_ms - proving->begin_ms));
    }
    return coxi_error(COX_EDENIED, "the peer has ended the handshake: it has another "
                                   "key, or none, or it has just ended");
}

static void proving_free(struct coxi_proving *proving)
{
    coxi_handshake_free(proving->handshake);
    /* nng_aio_free would wait for the callback, in which this may run */
    nng_aio_reap(proving->aio);
    coxi_mutex_fini(&proving->lock);
    free(proving);
}

static void finish(struct coxi_proving *proving, int code)
{
    proving->done(proving->arg, code, code == 0 ? proving->stream : NULL,
                  coxi_handshake_agreed(proving->handshake));
    if (code != 0) {
        nng_stream_free(proving->stream);
    }
    proving_free(proving);
}

/* Starts the next send or, if everything is sent, the next receive; false: neither is
 * needed. */
static bool go_on(struct coxi_proving *proving)
{
    size_t need = coxi_handshake_need(proving->handshake);
    uint64_t now = coxi_now_ms();
    nng_iov iov;
    proving->sending = proving->sent < proving->out_len;
    if (proving->sending) {
        iov.iov_buf = (void *)(uintptr_t)(proving->out + proving->sent);
        iov.iov_len = proving->out_len - proving->sent;
    } else {
        iov.iov_buf = proving->in + proving->received;
        iov.iov_len = need - proving->received;
    }
    if (iov.iov_len == 0) {
        return false;
    }
    nng_aio_set_timeout(proving->aio, !proving->dialled ? NNG_DURATION_INFINITE
                                      : now < proving->end_ms
                                          ? (nng_duration)(proving->end_ms - now)
                                          : NNG_DURATION_ZERO);
    (void)nng_aio_set_iov(proving->aio, 1, &iov);
    if (proving->sending) {
        nng_stream_send(proving->stream, proving->aio);
    } else {
        nng_stream_recv(proving->stream, proving->aio);
    }
    return true;
}

/* Counts the n bytes that were sent or received; gives a complete message to the
 * handshake. */
static int take_moved(struct coxi_proving *proving, size_t n)
{
    if (proving->sending) {
        proving->sent += n;
        return 0;
    }
    proving->received += n;
    if (proving->received < coxi_handshake_need(proving->handshake)) {
        return 0;
    }
    proving->received = 0;
    int r = coxi_handshake_take(proving->handshake, proving->in);
    proving->out = coxi_handshake_out(proving->handshake, &proving->out_len);
    proving->sent = 0;
    return r;
}

/* If a send or receive has begun, its callback waits for the lock before it ends the
 * handshake and frees everything. */
static void go_on_or_finish(struct coxi_proving *proving, int r)
{
    coxi_lock(&proving->lock);
    if (r == 0 && proving->aborted) {
        r = coxi_error(COX_EDENIED, "the handshake was ended early");
    }
    bool over = r != 0 || !go_on(proving);
    proving->given = over && r == 0;
    coxi_unlock(&proving->lock);
    if (over) {
        finish(proving, r);
    }
}

static void on_moved(void *arg)
{
    struct coxi_proving *proving = arg;
    int failed = nng_aio_result(proving->aio);
    go_on_or_finish(proving, failed != 0
                                 ? transport_error(proving, failed)
                                 : take_moved(proving, nng_aio_count(proving->aio)));
}

int coxi_proving_new(nng_stream *stream, const struct coxi_guard *guard, bool dialled,
                     int timeout_ms, coxi_proved done, void *arg,
                     struct coxi_proving **ret)
{
    struct coxi_proving *proving = calloc(1, sizeof(*proving));
    int r = proving == NULL || nng_aio_alloc(&proving->aio, on_moved, proving) != 0
                ? coxi_error_memory("a connection")
                : 0;
    if (r == 0) {
        r = dialled ? coxi_handshake_dial(guard, &proving->handshake)
                    : coxi_handshake_accept(guard, &proving->handshake);
    }
    if (r != 0) {
        if (proving != NULL) {
            nng_aio_free(proving->aio);
        }
        free(proving);
        nng_stream_free(stream);
        return r;
    }
    coxi_mutex_init(&proving->lock);
    proving->stream = stream;
    proving->dialled = dialled;
    proving->done = done;
    proving->arg = arg;
    proving->out = coxi_handshake_out(proving->handshake, &proving->out_len);
    proving->begin_ms = coxi_now_ms();
    proving->end_ms = proving->begin_ms + (uint64_t)timeout_ms;
    *ret = proving;
    return 0;
}

void coxi_proving_start(struct coxi_proving *proving)
{
    go_on_or_finish(proving, 0);
}

void coxi_proving_expire(struct coxi_proving *proving)
{
    if (coxi_now_ms() >= proving->end_ms && !atomic_exchange(&proving->late, true)) {
        coxi_proving_abort(proving);
    }
}

void coxi_proving_abort(struct coxi_proving *proving)
{
    coxi_lock(&proving->lock);
    proving->aborted = true;
    if (!proving->given) {
        nng_stream_close(proving->stream);
        nng_aio_cancel(proving->aio);
    }
    coxi_unlock(&proving->lock);
}
