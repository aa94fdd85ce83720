/* A handshake that is aborted: before its end, and in the moment of its end. */
#include "net/proving.h"

#include <stdio.h>

#include "common/sync.h"
#include "net/link_internal.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

static const struct coxi_key run_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 3}};

/* One end of a connection. */
struct end {
    struct coxi_guard guard;
    struct coxi_proving *proving;
    bool aborts; /* when its handshake has succeeded */
    struct coxi_mutex lock;
    pthread_cond_t over;
    bool is_over;
    int code;
    nng_stream *stream;
};

static void done(void *arg, int code, nng_stream *stream,
                 const struct coxi_agreed *agreed)
{
    struct end *end = arg;
    (void)agreed;
    if (end->aborts && code == 0) {
        coxi_proving_abort(end->proving);
    }
    coxi_lock(&end->lock);
    end->code = code;
    end->stream = stream;
    end->is_over = true;
    (void)pthread_cond_signal(&end->over);
    coxi_unlock(&end->lock);
}

static void end_init(struct end *end, enum coxi_role role, nng_stream *stream)
{
    *end = (struct end){.guard = {.key = run_key, .self = {role, 0, 5}}};
    coxi_mutex_init(&end->lock);
    coxi_cond_init(&end->over);
    assert_code(0, coxi_proving_new(stream, &end->guard, role == COXI_ROLE_CLIENT,
                                    COXI_PROVING_MS, done, end, &end->proving));
}

static void end_wait(struct end *end)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&end->lock);
    while (!end->is_over && coxi_wait_until(&end->over, &end->lock, &until)) {
    }
    assert_true(end->is_over);
    coxi_unlock(&end->lock);
}

static void end_fini(struct end *end)
{
    nng_stream_free(end->stream);
    (void)pthread_cond_destroy(&end->over);
    coxi_mutex_fini(&end->lock);
}

static nng_aio *aio_new(void)
{
    nng_aio *aio;
    assert_int_equal(0, nng_aio_alloc(&aio, NULL, NULL));
    nng_aio_set_timeout(aio, WAIT_MS);
    return aio;
}

static nng_stream *stream_of(nng_aio *aio)
{
    nng_aio_wait(aio);
    assert_int_equal(0, nng_aio_result(aio));
    nng_stream *stream = nng_aio_get_output(aio, 0);
    nng_aio_free(aio);
    return stream;
}

/* Makes a connection, and both its handshakes, which are not started yet. */
static void connect_ends(struct end *client, struct end *ps)
{
    char url[300];
    nng_stream_listener *listener;
    nng_stream_dialer *dialer;
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path("proving"));
    coxi_use_nng();
    assert_int_equal(0, nng_stream_listener_alloc(&listener, url));
    assert_int_equal(0, nng_stream_listener_listen(listener));
    assert_int_equal(0, nng_stream_dialer_alloc(&dialer, url));
    nng_aio *accepts = aio_new();
    nng_aio *dials = aio_new();
    nng_stream_listener_accept(listener, accepts);
    nng_stream_dialer_dial(dialer, dials);
    end_init(ps, COXI_ROLE_PS, stream_of(accepts));
    end_init(client, COXI_ROLE_CLIENT, stream_of(dials));
    nng_stream_dialer_free(dialer);
    nng_stream_listener_free(listener);
}

/* Moves a byte; true: it has been moved. */
static bool move(nng_stream *from, nng_stream *to)
{
    uint8_t byte = 7;
    uint8_t got = 0;
    const nng_iov out = {&byte, 1};
    const nng_iov in = {&got, 1};
    nng_aio *sends = aio_new();
    nng_aio *receives = aio_new();
    (void)nng_aio_set_iov(sends, 1, &out);
    (void)nng_aio_set_iov(receives, 1, &in);
    nng_stream_send(from, sends);
    nng_aio_wait(sends);
    bool sent = nng_aio_result(sends) == 0;
    if (sent) {
        nng_stream_recv(to, receives);
        nng_aio_wait(receives);
    }
    nng_aio_free(sends);
    nng_aio_free(receives);
    return sent && got == byte;
}

/* A thread that aborts may find that the handshake has just succeeded: then the stream
 * belongs to a link already, which alone may close it. */
TEST(an_abort_in_the_moment_of_success_leaves_the_stream_as_it_is)
{
    struct end client;
    struct end ps;
    connect_ends(&client, &ps);
    client.aborts = ps.aborts = true;
    coxi_proving_start(ps.proving);
    coxi_proving_start(client.proving);
    end_wait(&client);
    end_wait(&ps);
    assert_code(0, client.code);
    assert_code(0, ps.code);
    assert_true(move(client.stream, ps.stream));
    assert_true(move(ps.stream, client.stream));
    end_fini(&client);
    end_fini(&ps);
}

TEST(a_handshake_that_was_aborted_before_its_start_is_denied_on_both_ends)
{
    struct end client;
    struct end ps;
    connect_ends(&client, &ps);
    coxi_proving_start(ps.proving);
    coxi_proving_abort(client.proving);
    coxi_proving_start(client.proving);
    end_wait(&client);
    end_wait(&ps);
    assert_code(COX_EDENIED, client.code);
    assert_code(COX_EDENIED, ps.code);
    end_fini(&client);
    end_fini(&ps);
}

TEST(a_handshake_whose_peer_is_silent_is_aborted)
{
    struct end client;
    struct end ps;
    connect_ends(&client, &ps);
    coxi_proving_start(ps.proving); /* without a time of its own */
    coxi_proving_abort(ps.proving);
    end_wait(&ps);
    assert_code(COX_EDENIED, ps.code);
    coxi_proving_start(client.proving);
    end_wait(&client);
    end_fini(&client);
    end_fini(&ps);
}
