/* See count_daemon.h. */
#include "tests/net/count_daemon.h"

#include "common/error.h"
#include "common/sync.h"
#include "tests/test.h"

static int on_hello(void *arg, struct coxi_peer *peer)
{
    struct count_daemon *daemon = arg;
    atomic_fetch_add(&daemon->n_hellos, 1);
    if (peer->hello.index == COUNT_REFUSED_INDEX) {
        return coxi_error(COX_EBUSY, "peer %u is not wanted", peer->hello.index);
    }
    return 0;
}

static int on_message(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame)
{
    struct count_daemon *daemon = arg;
    struct coxi_message answer = {.request = message->request, .kind = COXI_COUNTS};
    (void)frame;
    atomic_fetch_add(&daemon->n_messages, 1);
    if (message->kind == COXI_WANT_DATA) {
        return coxi_server_dial_data(daemon->server, peer);
    }
    if (message->kind != COXI_COUNT) {
        return coxi_error(COX_EINVAL, "only counts here");
    }
    answer.counts.all.commits = peer->hello.index;
    return coxi_message_send(peer->link, &answer, NULL, false);
}

static void on_close(void *arg, struct coxi_peer *peer)
{
    (void)peer;
    atomic_fetch_add(&((struct count_daemon *)arg)->n_closed, 1);
}

const struct coxi_server_events count_events = {
    .on_hello = on_hello, .on_message = on_message, .on_close = on_close};

void count_daemon_open(struct count_daemon *daemon, const char *listen,
                       int peer_timeout_ms)
{
    struct coxi_server_options options = {
        .listen = listen,
        .self = {.version = COXI_WIRE_VERSION,
                 .role = COXI_ROLE_PS,
                 .index = 5,
                 .incarnation = 99},
        .peer_timeout_ms = peer_timeout_ms,
        .events = &count_events,
        .arg = daemon,
    };
    *daemon = (struct count_daemon){0};
    assert_code(0, coxi_server_open(&options, &daemon->server));
    coxi_server_start(daemon->server);
}

/* ---- a client of it */

void count_client_open(struct end *end, const struct count_daemon *daemon,
                       uint32_t index)
{
    struct coxi_link *link;
    struct coxi_hello hello = {.role = COXI_ROLE_WORKER, .index = index};
    assert_code(0,
                coxi_link_connect(coxi_server_url(daemon->server), NULL, 8000, &link));
    coxi_link_allow(link, COXI_WIRE_META_MAX, 0);
    end_init(end);
    end_start(end, link, END_START);
    assert_code(0, coxi_hello_send(link, &hello));
}

struct coxi_message count_message(const struct end *end, size_t i)
{
    struct coxi_message message;
    assert_true(i < end->n_frames);
    assert_true(
        coxi_message_decode(end->frames[i].meta, end->frames[i].meta_len, &message));
    return message;
}

/* Asks n times; the answers are frames 1 to n, after the greeting. */
void count_client_ask(struct end *end, uint32_t index, uint64_t n)
{
    size_t have;
    end_wait_frames(end, 1);
    coxi_lock(&end->lock);
    have = end->n_frames;
    coxi_unlock(&end->lock);
    for (uint64_t i = 0; i < n; i++) {
        struct coxi_message ask = {.request = i, .kind = COXI_COUNT};
        assert_code(0, coxi_message_send(end->link, &ask, NULL, false));
    }
    end_wait_frames(end, have + n);
    for (uint64_t i = 0; i < n; i++) {
        struct coxi_message answer = count_message(end, have + i);
        assert_int_equal(COXI_COUNTS, answer.kind);
        assert_int_equal(i, answer.request);
        assert_int_equal(index, answer.counts.all.commits);
    }
}

void count_warm_up(void)
{
    struct count_daemon daemon;
    struct end end;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    count_client_open(&end, &daemon, 1);
    count_client_ask(&end, 1, 1);
    end_fini(&end);
    coxi_server_free(daemon.server);
}
