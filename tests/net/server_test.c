/* A daemon that listens, with good peers, refused peers and peers that break the
 * protocol; how a server starts and stops. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "net/link_internal.h"
#include "net/server_internal.h"
#include "tests/net/count_daemon.h"
#include "tests/net/ends.h"
#include "tests/test.h"

static bool all_closed(void *arg)
{
    struct count_daemon *daemon = arg;
    return atomic_load(&daemon->n_closed) == 1;
}

TEST(server_greets_and_answers)
{
    const char *const urls[] = {"tcp://127.0.0.1:0", NULL};
    for (int i = 0; i < 2; i++) {
        char ipc[300];
        struct count_daemon daemon;
        struct end end;
        (void)snprintf(ipc, sizeof(ipc), "ipc://%s/daemon", coxi_test_dir());
        count_daemon_open(&daemon, urls[i] != NULL ? urls[i] : ipc, 60000);
        count_client_open(&end, &daemon, 21);
        count_client_ask(&end, 21, 300);
        struct coxi_message hello = count_message(&end, 0);
        assert_int_equal(COXI_HELLO, hello.kind);
        assert_int_equal(COXI_ROLE_PS, hello.hello.role);
        assert_int_equal(5, hello.hello.index);
        assert_int_equal(99, hello.hello.incarnation);
        assert_int_equal(1, atomic_load(&daemon.n_hellos));
        assert_int_equal(300, atomic_load(&daemon.n_messages));
        end_fini(&end);
        coxi_test_until(all_closed, &daemon, "the end of the connection");
        coxi_server_free(daemon.server);
        assert_int_equal(1, atomic_load(&daemon.n_closed));
    }
}

TEST(server_answers_a_hello_on_the_channel_of_the_peer)
{
    struct count_daemon daemon;
    struct end end;
    struct coxi_link *link;
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .channel = COXI_CHANNEL_DATA};
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    assert_code(0,
                coxi_link_connect(coxi_server_url(daemon.server), NULL, 8000, &link));
    end_init(&end);
    end_start(&end, link, END_RUN);
    assert_code(0, coxi_hello_send(link, &hello));
    end_wait_frames(&end, 1);
    assert_int_equal(COXI_CHANNEL_DATA, count_message(&end, 0).hello.channel);
    end_fini(&end);
    coxi_server_free(daemon.server);
}

TEST(server_refuses_whom_the_daemon_does_not_want)
{
    struct count_daemon daemon;
    struct end wanted, unwanted;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    count_client_open(&wanted, &daemon, 1);
    count_client_open(&unwanted, &daemon, COUNT_REFUSED_INDEX);
    end_wait_closed(&unwanted, COX_ECLOSED);
    assert_int_equal(1, unwanted.n_frames);
    struct coxi_message answer = count_message(&unwanted, 0);
    assert_int_equal(COXI_REFUSE, answer.kind);
    assert_int_equal(COX_EBUSY, answer.refuse.code);
    assert_string_equal("peer 13 is not wanted", answer.refuse.message);
    count_client_ask(&wanted, 1, 10);
    end_fini(&wanted);
    end_fini(&unwanted);
    coxi_server_free(daemon.server);
    assert_int_equal(2, atomic_load(&daemon.n_hellos));
    /* of the peer that was accepted */
    assert_int_equal(1, atomic_load(&daemon.n_closed));
}

TEST(server_closes_a_connection_whose_message_fails)
{
    struct count_daemon daemon;
    struct end end;
    struct coxi_message recall = {.kind = COXI_RECALL};
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    count_client_open(&end, &daemon, 2);
    count_client_ask(&end, 2, 1);
    assert_code(0, coxi_message_send(end.link, &recall, NULL, false));
    end_wait_closed(&end, COX_ECLOSED);
    coxi_test_until(all_closed, &daemon, "the end of the connection");
    end_fini(&end);
    coxi_server_free(daemon.server);
    assert_int_equal(1, atomic_load(&daemon.n_closed));
}

TEST(server_serves_many_at_once)
{
    enum { N = 12 };
    struct count_daemon daemon;
    struct end ends[N];
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    for (uint32_t i = 0; i < N; i++) {
        count_client_open(&ends[i], &daemon, 100 + i);
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < N; i++) {
            count_client_ask(&ends[i], 100 + i, 20);
        }
    }
    assert_int_equal(N * 60, atomic_load(&daemon.n_messages));
    coxi_server_stop(daemon.server);
    assert_int_equal(N, atomic_load(&daemon.n_closed));
    for (uint32_t i = 0; i < N; i++) {
        end_wait_closed(&ends[i], COX_ECLOSED);
        end_fini(&ends[i]);
    }
    coxi_server_free(daemon.server);
    assert_int_equal(N, atomic_load(&daemon.n_closed));
}

/* Garbage before and after the greeting, and nothing at all. */
TEST(server_serves_others_when_a_peer_sends_garbage)
{
    static const char garbage[64] = "GET / HTTP/1.1\r\n\r\n";
    struct count_daemon daemon;
    struct end good, bad;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    count_client_open(&good, &daemon, 3);
    count_client_ask(&good, 3, 5);
    int silent = raw_connect(coxi_server_url(daemon.server));
    int first = raw_connect(coxi_server_url(daemon.server));
    raw_send(first, garbage, sizeof(garbage));
    (void)raw_wait_closed(first);
    int framed = raw_connect(coxi_server_url(daemon.server));
    raw_send_frame(framed, garbage, sizeof(garbage));
    (void)raw_wait_closed(framed);
    count_client_open(&bad, &daemon, 4);
    count_client_ask(&bad, 4, 1);
    assert_code(0, end_send(&bad, garbage, sizeof(garbage), NULL, 0));
    end_wait_closed(&bad, COX_ECLOSED);
    coxi_server_tick(daemon.server);
    count_client_ask(&good, 3, 5);
    assert_int_equal(2, atomic_load(&daemon.n_hellos));
    assert_int_equal(11, atomic_load(&daemon.n_messages));
    end_fini(&good);
    end_fini(&bad);
    (void)close(silent);
    (void)close(first);
    (void)close(framed);
    coxi_server_free(daemon.server);
    assert_int_equal(2, atomic_load(&daemon.n_closed));
}

static bool is_index(const void *arg, const struct coxi_peer *peer)
{
    return peer->hello.index == *(const uint32_t *)arg;
}

static bool knows_index(struct count_daemon *daemon, uint32_t index)
{
    return coxi_server_any(daemon->server, is_index, &index);
}

static bool tick_forgets_8(void *arg)
{
    struct count_daemon *daemon = arg;
    coxi_server_tick(daemon->server);
    return !knows_index(daemon, 8);
}

/* ---- connections that have ended */

static int count_descriptors(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static bool has_descriptors(void *arg)
{
    return count_descriptors() <= *(int *)arg;
}

static bool has_no_connection(void *arg)
{
    struct coxi_server *server = arg;
    coxi_lock(&server->lock);
    bool none = server->connections == NULL && server->n_connections == 0;
    coxi_unlock(&server->lock);
    return none;
}

TEST(server_frees_ended_connections_without_a_tick)
{
    enum { N = 30 };
    struct count_daemon daemon;
    struct end end;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    int before = 0;
    for (int i = 0; i < N; i++) {
        count_client_open(&end, &daemon, 21);
        end_wait_frames(&end, 1); /* else the server may not know of it yet */
        end_fini(&end);
        if (i == 0) { /* nng has opened what it keeps */
            coxi_test_until(has_no_connection, daemon.server, "the first one's end");
            before = count_descriptors() + 2;
        }
    }
    coxi_test_until(has_no_connection, daemon.server, "the end of all connections");
    coxi_test_until(has_descriptors, &before, "descriptors that are closed");
    assert_int_equal(N, atomic_load(&daemon.n_closed));
    coxi_server_free(daemon.server);
}

TEST(server_knows_who_is_connected)
{
    struct count_daemon daemon;
    struct end seven, eight;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    assert_false(knows_index(&daemon, 7));
    count_client_open(&seven, &daemon, 7);
    count_client_open(&eight, &daemon, 8);
    count_client_ask(&seven, 7, 1);
    count_client_ask(&eight, 8, 1);
    assert_true(knows_index(&daemon, 7));
    assert_true(knows_index(&daemon, 8));
    assert_false(knows_index(&daemon, 9));
    end_fini(&eight);
    coxi_test_until(tick_forgets_8, &daemon, "forgetting peer 8");
    assert_true(knows_index(&daemon, 7));
    end_fini(&seven);
    coxi_server_free(daemon.server);
}

static bool tick_closes_silent(void *arg)
{
    struct count_daemon *daemon = arg;
    coxi_server_tick(daemon->server);
    return atomic_load(&daemon->n_closed) == 1;
}

TEST(server_gives_a_silent_peer_up)
{
    struct count_daemon daemon;
    struct coxi_message hello = {
        .kind = COXI_HELLO,
        .hello = {.version = COXI_WIRE_VERSION, .role = COXI_ROLE_WORKER}};
    const void *meta;
    size_t len;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 200);
    int fd = raw_connect(coxi_server_url(daemon.server));
    assert_true(coxi_message_encode(&hello, &meta, &len));
    raw_send_frame(fd, meta, len);
    free(raw_read_frame(fd, &len));
    coxi_test_until(tick_closes_silent, &daemon, "the end of a silent peer");
    (void)raw_wait_closed(fd);
    (void)close(fd);
    coxi_server_free(daemon.server);
}

struct mute {
    struct count_daemon daemon;
    int fd;
};

static bool mute_is_cut_off(void *arg)
{
    static const uint32_t beat[4] = {COXI_LINK_MAGIC};
    struct mute *mute = arg;
    char bytes[64];
    coxi_server_tick(mute->daemon.server);
    (void)send(mute->fd, beat, sizeof(beat), MSG_NOSIGNAL);
    ssize_t n = recv(mute->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

TEST(server_cuts_off_a_peer_that_beats_but_does_not_greet)
{
    struct mute mute;
    struct end end;
    count_daemon_open(&mute.daemon, "tcp://127.0.0.1:0", 1000);
    mute.fd = raw_connect(coxi_server_url(mute.daemon.server));
    coxi_test_until(mute_is_cut_off, &mute, "the end of a peer that does not greet");
    (void)close(mute.fd);
    count_client_open(&end, &mute.daemon, 21);
    count_client_ask(&end, 21, 10);
    end_fini(&end);
    coxi_server_free(mute.daemon.server);
}

/* ---- starting and stopping */

TEST(server_stop_ends_every_thread_with_peers_connected)
{
    struct count_daemon daemon;
    struct end ends[4];
    count_warm_up();
    int before = coxi_test_threads(), meanwhile = before + 5;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    for (uint32_t i = 0; i < 4; i++) {
        count_client_open(&ends[i], &daemon, i);
        count_client_ask(&ends[i], i, 1);
    }
    int silent = raw_connect(coxi_server_url(daemon.server));
    coxi_test_until(coxi_test_has_threads, &meanwhile, "a thread for each connection");
    coxi_server_stop(daemon.server);
    coxi_test_until(coxi_test_has_threads, &before, "the end of those threads");
    assert_int_equal(4, atomic_load(&daemon.n_closed));
    coxi_server_stop(daemon.server); /* a second stop does nothing */
    coxi_server_free(daemon.server);
    for (uint32_t i = 0; i < 4; i++) {
        end_wait_closed(&ends[i], COX_ECLOSED);
        end_fini(&ends[i]);
    }
    (void)close(silent);
}

/* A peer asks and never reads, so its answers fill the line; stopping must not wait for
 * it. */
TEST(server_stops_with_a_peer_that_does_not_read)
{
    struct count_daemon daemon;
    struct coxi_message message = {
        .kind = COXI_HELLO,
        .hello = {.version = COXI_WIRE_VERSION, .role = COXI_ROLE_WORKER}};
    static uint8_t frames[16384];
    const size_t sum_max = (size_t)64 * 1024 * 1024;
    const void *meta;
    size_t len;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    int fd = raw_connect(coxi_server_url(daemon.server));
    assert_true(coxi_message_encode(&message, &meta, &len));
    raw_send_frame(fd, meta, len);
    message = (struct coxi_message){.kind = COXI_COUNT};
    assert_true(coxi_message_encode(&message, &meta, &len));
    struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
    struct raw_prefix prefix = raw_prefix((uint32_t)len, 0);
    size_t total = coxi_align(sizeof(prefix) + len, 8), n = 0, at = 0, sum = 0;
    while (n + total <= sizeof(frames)) {
        memcpy(frames + n, &prefix, sizeof(prefix));
        memcpy(frames + n + sizeof(prefix), meta, len);
        n += total;
    }
    /* Until the daemon reads no more: not long after 8 MiB of answers. */
    while (sum < sum_max && poll(&pollfd, 1, 1500) == 1) {
        ssize_t sent = send(fd, frames + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);
        assert_true(sent > 0);
        at = (at + (size_t)sent) % n;
        sum += (size_t)sent;
    }
    assert_true(sum < sum_max);
    assert_true(atomic_load(&daemon.n_messages) > 10000);
    coxi_server_stop(daemon.server);
    assert_int_equal(1, atomic_load(&daemon.n_closed));
    (void)close(fd);
    coxi_server_free(daemon.server);
}

TEST(server_names_an_address_that_is_in_use_and_what_to_do)
{
    struct count_daemon daemon;
    struct coxi_server *second = NULL;
    count_daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    struct coxi_server_options options = {.listen = coxi_server_url(daemon.server),
                                          .self = {.role = COXI_ROLE_PS},
                                          .peer_timeout_ms = 60000,
                                          .events = &count_events};
    assert_code(COX_EADDRESS, coxi_server_open(&options, &second));
    assert_error_names(options.listen);
    assert_error_names("in use");
    assert_error_names("another address");
    assert_null(second);
    coxi_server_free(daemon.server);
    coxi_server_free(NULL);
}

TEST(server_refuses_an_address_that_is_malformed)
{
    struct coxi_server *server = NULL;
    struct coxi_server_options options = {.listen = "localhost:1234",
                                          .self = {.role = COXI_ROLE_PS},
                                          .peer_timeout_ms = 60000,
                                          .events = &count_events};
    assert_code(COX_EADDRESS, coxi_server_open(&options, &server));
    assert_error_names("localhost:1234");
    assert_null(server);
}
