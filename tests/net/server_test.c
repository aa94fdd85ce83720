/* The listening side of a daemon, with peers that are good, unwanted and no peers. */
#include "net/server.h"

#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "common/sync.h"
#include "tests/net/ends.h"
#include "tests/test.h"

enum { REFUSED_INDEX = 13 };

struct daemon {
    struct coxi_server *server;
    atomic_int n_hellos;
    atomic_int n_messages;
    atomic_int n_closed;
};

/* ---- a daemon that answers each count with its peer's index */

static int on_hello(void *arg, struct coxi_peer *peer)
{
    struct daemon *daemon = arg;
    atomic_fetch_add(&daemon->n_hellos, 1);
    if (peer->hello.index == REFUSED_INDEX) {
        return coxi_error(COX_EBUSY, "peer %u is not wanted", peer->hello.index);
    }
    return 0;
}

static int on_message(void *arg, struct coxi_peer *peer,
                      const struct coxi_message *message,
                      const struct coxi_frame *frame)
{
    struct daemon *daemon = arg;
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
    atomic_fetch_add(&((struct daemon *)arg)->n_closed, 1);
}

static const struct coxi_server_events events = {
    .on_hello = on_hello, .on_message = on_message, .on_close = on_close};

static void daemon_open(struct daemon *daemon, const char *listen, int peer_timeout_ms)
{
    struct coxi_server_options options = {
        .listen = listen,
        .self = {.version = COXI_WIRE_VERSION,
                 .role = COXI_ROLE_PS,
                 .index = 5,
                 .incarnation = 99},
        .peer_timeout_ms = peer_timeout_ms,
        .events = &events,
        .arg = daemon,
    };
    *daemon = (struct daemon){0};
    assert_code(0, coxi_server_open(&options, &daemon->server));
    coxi_server_start(daemon->server);
}

/* ---- a client of it */

static void client_open(struct end *end, const struct daemon *daemon, uint32_t index)
{
    struct coxi_link *link;
    struct coxi_hello hello = {.role = COXI_ROLE_WORKER, .index = index};
    assert_code(0, coxi_link_connect(coxi_server_url(daemon->server), 8000, &link));
    coxi_link_allow(link, COXI_WIRE_META_MAX, 0);
    end_init(end);
    end_start(end, link, END_START);
    assert_code(0, coxi_hello_send(link, &hello));
}

static struct coxi_message message_of(const struct end *end, size_t i)
{
    struct coxi_message message;
    assert_true(i < end->n_frames);
    assert_true(
        coxi_message_decode(end->frames[i].meta, end->frames[i].meta_len, &message));
    return message;
}

/* Asks n times; the answers are frames 1 to n, behind the greeting. */
static void client_ask(struct end *end, uint32_t index, uint64_t n)
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
        struct coxi_message answer = message_of(end, have + i);
        assert_int_equal(COXI_COUNTS, answer.kind);
        assert_int_equal(i, answer.request);
        assert_int_equal(index, answer.counts.all.commits);
    }
}

static bool all_closed(void *arg)
{
    struct daemon *daemon = arg;
    return atomic_load(&daemon->n_closed) == 1;
}

/* ---- tests */

TEST(server_greets_and_answers)
{
    const char *const urls[] = {"tcp://127.0.0.1:0", NULL};
    for (int i = 0; i < 2; i++) {
        char ipc[300];
        struct daemon daemon;
        struct end end;
        (void)snprintf(ipc, sizeof(ipc), "ipc://%s/daemon", coxi_test_dir());
        daemon_open(&daemon, urls[i] != NULL ? urls[i] : ipc, 60000);
        client_open(&end, &daemon, 21);
        client_ask(&end, 21, 300);
        struct coxi_message hello = message_of(&end, 0);
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
    struct daemon daemon;
    struct end end;
    struct coxi_link *link;
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .channel = COXI_CHANNEL_DATA};
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    assert_code(0, coxi_link_connect(coxi_server_url(daemon.server), 8000, &link));
    end_init(&end);
    end_start(&end, link, END_RUN);
    assert_code(0, coxi_hello_send(link, &hello));
    end_wait_frames(&end, 1);
    assert_int_equal(COXI_CHANNEL_DATA, message_of(&end, 0).hello.channel);
    end_fini(&end);
    coxi_server_free(daemon.server);
}

TEST(server_refuses_whom_the_daemon_does_not_want)
{
    struct daemon daemon;
    struct end wanted, unwanted;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    client_open(&wanted, &daemon, 1);
    client_open(&unwanted, &daemon, REFUSED_INDEX);
    end_wait_closed(&unwanted, COX_ECLOSED);
    assert_int_equal(1, unwanted.n_frames);
    struct coxi_message answer = message_of(&unwanted, 0);
    assert_int_equal(COXI_REFUSE, answer.kind);
    assert_int_equal(COX_EBUSY, answer.refuse.code);
    assert_string_equal("peer 13 is not wanted", answer.refuse.message);
    client_ask(&wanted, 1, 10);
    end_fini(&wanted);
    end_fini(&unwanted);
    coxi_server_free(daemon.server);
    assert_int_equal(2, atomic_load(&daemon.n_hellos));
    assert_int_equal(1, atomic_load(&daemon.n_closed)); /* of the one that was taken */
}

TEST(server_closes_a_connection_whose_message_fails)
{
    struct daemon daemon;
    struct end end;
    struct coxi_message recall = {.kind = COXI_RECALL};
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    client_open(&end, &daemon, 2);
    client_ask(&end, 2, 1);
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
    struct daemon daemon;
    struct end ends[N];
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    for (uint32_t i = 0; i < N; i++) {
        client_open(&ends[i], &daemon, 100 + i);
    }
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < N; i++) {
            client_ask(&ends[i], 100 + i, 20);
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
    struct daemon daemon;
    struct end good, bad;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    client_open(&good, &daemon, 3);
    client_ask(&good, 3, 5);
    int silent = raw_connect(coxi_server_url(daemon.server));
    int first = raw_connect(coxi_server_url(daemon.server));
    raw_send(first, garbage, sizeof(garbage));
    (void)raw_wait_closed(first);
    int framed = raw_connect(coxi_server_url(daemon.server));
    raw_send_frame(framed, garbage, sizeof(garbage));
    (void)raw_wait_closed(framed);
    client_open(&bad, &daemon, 4);
    client_ask(&bad, 4, 1);
    assert_code(0, end_send(&bad, garbage, sizeof(garbage), NULL, 0));
    end_wait_closed(&bad, COX_ECLOSED);
    coxi_server_tick(daemon.server);
    client_ask(&good, 3, 5);
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

static bool is_index(const void *arg, const struct coxi_hello *hello)
{
    return hello->index == *(const uint32_t *)arg;
}

static bool knows_index(struct daemon *daemon, uint32_t index)
{
    return coxi_server_any(daemon->server, is_index, &index);
}

static bool tick_forgets_8(void *arg)
{
    struct daemon *daemon = arg;
    coxi_server_tick(daemon->server);
    return !knows_index(daemon, 8);
}

TEST(server_knows_who_is_connected)
{
    struct daemon daemon;
    struct end seven, eight;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    assert_false(knows_index(&daemon, 7));
    client_open(&seven, &daemon, 7);
    client_open(&eight, &daemon, 8);
    client_ask(&seven, 7, 1);
    client_ask(&eight, 8, 1);
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
    struct daemon *daemon = arg;
    coxi_server_tick(daemon->server);
    return atomic_load(&daemon->n_closed) == 1;
}

TEST(server_gives_a_silent_peer_up)
{
    struct daemon daemon;
    struct coxi_message hello = {
        .kind = COXI_HELLO,
        .hello = {.version = COXI_WIRE_VERSION, .role = COXI_ROLE_WORKER}};
    const void *meta;
    size_t len;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 200);
    int fd = raw_connect(coxi_server_url(daemon.server));
    assert_true(coxi_message_encode(&hello, &meta, &len));
    raw_send_frame(fd, meta, len);
    free(raw_read_frame(fd, &len));
    coxi_test_until(tick_closes_silent, &daemon, "the end of a silent peer");
    (void)raw_wait_closed(fd);
    (void)close(fd);
    coxi_server_free(daemon.server);
}

/* ---- starting and stopping */

static int n_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        n += task->d_name[0] != '.';
    }
    (void)closedir(tasks);
    return n;
}

static bool has_threads(void *arg)
{
    return n_threads() == *(int *)arg;
}

/* nng's threads, and those of sanitizers, are there after the first use. */
static void warm_up(void)
{
    struct daemon daemon;
    struct end end;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    client_open(&end, &daemon, 1);
    client_ask(&end, 1, 1);
    end_fini(&end);
    coxi_server_free(daemon.server);
}

TEST(server_stop_ends_every_thread_with_peers_connected)
{
    struct daemon daemon;
    struct end ends[4];
    warm_up();
    int before = n_threads(), meanwhile = before + 5;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    for (uint32_t i = 0; i < 4; i++) {
        client_open(&ends[i], &daemon, i);
        client_ask(&ends[i], i, 1);
    }
    int silent = raw_connect(coxi_server_url(daemon.server));
    coxi_test_until(has_threads, &meanwhile, "a thread for each connection");
    coxi_server_stop(daemon.server);
    coxi_test_until(has_threads, &before, "the end of those threads");
    assert_int_equal(4, atomic_load(&daemon.n_closed));
    coxi_server_stop(daemon.server); /* again: nothing left */
    coxi_server_free(daemon.server);
    for (uint32_t i = 0; i < 4; i++) {
        end_wait_closed(&ends[i], COX_ECLOSED);
        end_fini(&ends[i]);
    }
    (void)close(silent);
}

/* A peer that asks and never reads: its answers fill the line, and stop must not wait.
 */
TEST(server_stops_with_a_peer_that_does_not_read)
{
    struct daemon daemon;
    struct coxi_message message = {
        .kind = COXI_HELLO,
        .hello = {.version = COXI_WIRE_VERSION, .role = COXI_ROLE_WORKER}};
    static uint8_t frames[16384];
    const size_t sum_max = (size_t)64 * 1024 * 1024;
    const void *meta;
    size_t len;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
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
    struct daemon daemon;
    struct coxi_server *second = NULL;
    daemon_open(&daemon, "tcp://127.0.0.1:0", 60000);
    struct coxi_server_options options = {.listen = coxi_server_url(daemon.server),
                                          .self = {.role = COXI_ROLE_PS},
                                          .peer_timeout_ms = 60000,
                                          .events = &events};
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
                                          .events = &events};
    assert_code(COX_EADDRESS, coxi_server_open(&options, &server));
    assert_error_names("localhost:1234");
    assert_null(server);
}

/* ---- dialling */

/* One that dials `url`, and its connection as the peer there sees it. */
static void dialler_open(struct daemon *daemon, const char *url)
{
    struct coxi_server_options options = {
        .dial = url,
        .self = {.role = COXI_ROLE_WORKER, .index = 5, .name = "anna"},
        .peer_timeout_ms = 60000,
        .events = &events,
        .arg = daemon,
    };
    *daemon = (struct daemon){0};
    assert_code(0, coxi_server_open(&options, &daemon->server));
    assert_string_equal(url, coxi_server_url(daemon->server));
    coxi_server_start(daemon->server);
}

static void take(struct end *end, struct door *door, enum coxi_channel channel)
{
    struct coxi_link *link = door_wait(door);
    coxi_link_allow(link, COXI_WIRE_META_MAX, 0);
    end_init(end);
    end_start(end, link, END_START);
    end_wait_frames(end, 1);
    struct coxi_message hello = message_of(end, 0);
    assert_int_equal(COXI_HELLO, hello.kind);
    assert_int_equal(COXI_ROLE_WORKER, hello.hello.role);
    assert_int_equal(channel, hello.hello.channel);
    assert_string_equal("anna", hello.hello.name);
}

static void greet(struct end *end, uint32_t index)
{
    struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .index = index};
    assert_code(0, coxi_hello_send(end->link, &hello));
}

TEST(server_that_dials_serves_its_peer_and_dials_again_when_that_is_gone)
{
    struct daemon daemon;
    struct door door;
    struct end end;
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    for (int i = 1; i <= 3; i++) {
        take(&end, &door, COXI_CHANNEL_CONTROL);
        greet(&end, 21);
        client_ask(&end, 21, 10);
        assert_int_equal(i, atomic_load(&daemon.n_hellos));
        end_fini(&end);
    }
    coxi_server_free(daemon.server);
    assert_int_equal(30, atomic_load(&daemon.n_messages));
    assert_int_equal(3, atomic_load(&daemon.n_closed));
    door_close(&door);
}

TEST(server_that_dials_tells_a_peer_that_it_does_not_want_and_dials_again)
{
    struct daemon daemon;
    struct door door;
    struct end end;
    door_open(&door, false);
    dialler_open(&daemon, door.url);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, REFUSED_INDEX);
    end_wait_closed(&end, COX_ECLOSED);
    assert_int_equal(COXI_REFUSE, message_of(&end, 1).kind);
    end_fini(&end);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, 1);
    client_ask(&end, 1, 1);
    coxi_server_free(daemon.server);
    assert_int_equal(1, atomic_load(&daemon.n_closed));
    end_fini(&end);
    door_close(&door);
}

TEST(server_that_is_told_to_dial_no_more_serves_the_connection_there_is)
{
    struct daemon daemon;
    struct door door;
    struct end end;
    warm_up();
    int before = n_threads();
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&end, &door, COXI_CHANNEL_CONTROL);
    greet(&end, 2);
    coxi_server_dial_stop(daemon.server);
    client_ask(&end, 2, 10);
    end_fini(&end);
    coxi_test_until(has_threads, &before, "the end of the one that dials");
    assert_int_equal(1, door.n_accepted);
    coxi_server_free(daemon.server);
    door_close(&door);
}

TEST(server_that_reaches_nobody_stops_all_the_same)
{
    struct daemon daemon;
    struct door door;
    door_open(&door, true);
    coxi_listener_close(door.listener);
    door.listener = NULL;
    dialler_open(&daemon, door.url);
    coxi_server_free(daemon.server);
    assert_int_equal(0, atomic_load(&daemon.n_hellos));
    door_close(&door);
}

TEST(server_dials_for_data_when_the_peer_wants_that)
{
    struct daemon daemon;
    struct door door;
    struct end control, data;
    struct coxi_message want = {.kind = COXI_WANT_DATA};
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&control, &door, COXI_CHANNEL_CONTROL);
    greet(&control, 3);
    assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    take(&data, &door, COXI_CHANNEL_DATA);
    greet(&data, 3);
    client_ask(&data, 3, 10);
    client_ask(&control, 3, 10);
    end_fini(&data);
    client_ask(&control, 3, 1);

    /* Where it cannot be had, all begins anew. */
    coxi_listener_close(door.listener);
    door.listener = NULL;
    assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    end_wait_closed(&control, COX_ECLOSED);
    coxi_server_free(daemon.server);
    end_fini(&control);
    door_close(&door);
}

TEST(server_dials_for_data_a_few_times_at_most)
{
    struct daemon daemon;
    struct door door;
    struct end control;
    struct coxi_message want = {.kind = COXI_WANT_DATA};
    door_open(&door, true);
    dialler_open(&daemon, door.url);
    take(&control, &door, COXI_CHANNEL_CONTROL);
    greet(&control, 4);
    for (int i = 0; i < 9; i++) {
        assert_code(0, coxi_message_send(control.link, &want, NULL, false));
    }
    end_wait_closed(&control, COX_ECLOSED);
    coxi_server_free(daemon.server);
    assert_int_equal(9, atomic_load(&daemon.n_messages));
    end_fini(&control);
    door_close(&door);
}
