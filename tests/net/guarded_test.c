/* Links whose ends prove that they have the run's key, over real connections. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/program.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

static const struct coxi_key run_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 3}};
static const struct coxi_key other_key = {.kind = COXI_KEY_RUN, .secret = {1, 2, 4}};

static struct coxi_guard guard_of(const struct coxi_key *key, enum coxi_role role)
{
    return (struct coxi_guard){.key = *key, .self = {role, 3, 0x1234}};
}

/* A listener with the run's key, and a link to it. */
static void open_guarded(struct door *door, const char *url)
{
    const struct coxi_guard ps = guard_of(&run_key, COXI_ROLE_PS);
    door_open_guarded(door, url, &ps);
}

static int dial(const struct door *door, const struct coxi_guard *guard,
                struct coxi_link **ret)
{
    return coxi_link_connect(door->url, guard, WAIT_MS, ret);
}

static void talk(struct door *door)
{
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    struct coxi_link *link;
    struct end near;
    struct end far;
    assert_code(0, dial(door, &client, &link));
    struct coxi_link *accepted = door_wait(door);
    const struct coxi_party *peer = coxi_link_proven(accepted);
    assert_non_null(peer);
    assert_int_equal(COXI_ROLE_CLIENT, peer->role);
    assert_int_equal(3, peer->index);
    assert_int_equal(0x1234, peer->run);
    assert_int_equal(COXI_ROLE_PS, coxi_link_proven(link)->role);
    end_init(&near);
    end_init(&far);
    end_start(&far, accepted, END_RUN);
    end_start(&near, link, END_RUN);
    assert_code(0, end_send(&near, "question", 8, NULL, 0));
    end_wait_frames(&far, 1);
    assert_memory_equal("question", far.frames[0].meta, 8);
    assert_code(0, end_send(&far, "answered", 8, NULL, 0));
    end_wait_frames(&near, 1);
    end_fini(&near);
    end_fini(&far);
}

TEST(ends_with_the_key_talk_over_tcp)
{
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    talk(&door);
    door_close(&door);
}

TEST(ends_with_the_key_talk_over_ipc)
{
    struct door door;
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path("socket"));
    open_guarded(&door, url);
    talk(&door);
    door_close(&door);
}

TEST(a_link_without_a_key_has_proved_nothing)
{
    struct door door;
    struct coxi_link *link;
    door_open(&door, true);
    assert_code(0, coxi_link_connect(door.url, NULL, WAIT_MS, &link));
    assert_null(coxi_link_proven(link));
    coxi_link_unref(link);
    struct coxi_link *accepted = door_wait(&door);
    assert_null(coxi_link_proven(accepted));
    coxi_link_unref(accepted);
    door_close(&door);
}

/* ---- attacks */

/* A first message that somebody has recorded: a new one is answered, and nobody answers
 * it again, because each answer would cost computations. */
TEST(a_first_message_that_is_sent_again_is_not_answered)
{
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    uint8_t answer[COXI_HANDSHAKE_ACCEPT];
    struct coxi_handshake *dialler;
    struct door door;
    size_t len;
    open_guarded(&door, "tcp://127.0.0.1:0");
    assert_code(0, coxi_handshake_dial(&client, &dialler));
    const uint8_t *recorded = coxi_handshake_out(dialler, &len);
    int fd = raw_connect(door.url);
    raw_send(fd, recorded, len);
    raw_read(fd, answer, sizeof(answer));
    (void)close(fd);
    for (int i = 0; i < 3; i++) {
        fd = raw_connect(door.url);
        raw_send(fd, recorded, len);
        assert_int_equal(0, raw_wait_closed(fd));
        (void)close(fd);
    }
    coxi_handshake_free(dialler);
    talk(&door);
    door_close(&door);
}

TEST(many_first_messages_are_remembered_and_none_is_taken_for_another)
{
    struct coxi_seen *seen;
    assert_code(0, coxi_seen_new(&seen));
    for (uint64_t i = 0; i < 5 * COXI_SEEN_MIN; i++) {
        uint64_t tag = i * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t old = (i - COXI_SEEN_MIN + 1) * UINT64_C(0x9e3779b97f4a7c15);
        assert_false(coxi_seen_before(seen, (const uint8_t *)&tag));
        assert_true(i + 1 < COXI_SEEN_MIN ||
                    coxi_seen_before(seen, (const uint8_t *)&old));
    }
    coxi_seen_free(seen);
}

TEST(a_peer_with_another_key_is_denied_and_the_others_are_not)
{
    const struct coxi_guard stranger = guard_of(&other_key, COXI_ROLE_CLIENT);
    struct coxi_link *link;
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    assert_code(COX_EDENIED, dial(&door, &stranger, &link));
    assert_error_names("key");
    assert_error_names(door.url);
    talk(&door);
    door_close(&door);
}

/* The door ends the connection without a word, and stays open for others. */
static void assert_cut_off(struct door *door, int fd)
{
    char byte;
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    (void)close(fd);
    talk(door);
    door_close(door);
}

/* A peer without a key dials a listener that wants a proof. */
TEST(a_peer_without_a_key_is_cut_off)
{
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    int fd = raw_connect(door.url);
    raw_send_frame(fd, "hello, I am a frame of 48 bytes, not a handshake", 48);
    raw_send_frame(fd, "hello, I am a frame of 48 bytes, not a handshake", 48);
    assert_cut_off(&door, fd);
}

/* A peer that sends nothing gets no answer, and its connection ends after two
 * seconds. */
TEST(a_peer_that_says_nothing_is_cut_off)
{
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    assert_cut_off(&door, raw_connect(door.url));
}

/* One byte at a time. */
TEST(a_slow_handshake_is_cut_off_in_time)
{
    struct door door;
    bool open = true;
    open_guarded(&door, "tcp://127.0.0.1:0");
    int fd = raw_connect(door.url);
    uint64_t begin_ms = coxi_now_ms();
    while (open && coxi_now_ms() - begin_ms < WAIT_MS) {
        char byte;
        struct timeval little = {.tv_usec = 50000};
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof(little));
        open = send(fd, "C", 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) < 0;
    }
    assert_false(open);
    (void)close(fd);
    talk(&door);
    door_close(&door);
}

/* If more idle peers come than may prove themselves at a time, the oldest are cut
 * off. */
TEST(idle_connections_do_not_shut_others_out)
{
    enum { N = 300 };
    int fds[N];
    struct door door;
    struct rlimit files;
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    struct rlimit few = {.rlim_cur = 1000, .rlim_max = files.rlim_max};
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &few));
    open_guarded(&door, "tcp://127.0.0.1:0");
    for (int i = 0; i < N; i++) {
        fds[i] = raw_connect(door.url);
    }
    talk(&door);
    for (int i = 0; i < N; i++) {
        (void)close(fds[i]);
    }
    door_close(&door);
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
}

/* An acceptor without the key is no ps of ours. */
TEST(a_listener_without_the_key_is_denied)
{
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    const struct coxi_guard stranger = guard_of(&other_key, COXI_ROLE_PS);
    struct coxi_link *link;
    struct door door;
    door_open_guarded(&door, "tcp://127.0.0.1:0", &stranger);
    assert_code(COX_EDENIED, dial(&door, &client, &link));
    door_close(&door);
    door_open(&door, true); /* a listener without a key, which answers nothing */
    assert_code(COX_ETIMEDOUT, dial(&door, &client, &link));
    assert_error_names("has not proved");
    door_close(&door);
}

/* ---- peers that do not answer */

/* A socket with a queue, which the kernel serves; no process does. */
static int listen_silently(char ret_url[300])
{
    (void)snprintf(ret_url, 300, "ipc://%s", coxi_test_path("silent"));
    return program_occupy(coxi_test_path("silent"));
}

TEST(a_handshake_without_an_answer_ends_with_the_time_of_the_connect)
{
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    struct coxi_link *link;
    char url[300];
    int ms = 0;
    int fd = listen_silently(url);
    assert_code(COX_ETIMEDOUT, coxi_link_connect(url, &client, 200, &link));
    const char *within = strstr(coxi_test_error(), "within ");
    assert_non_null(within);
    assert_int_equal(1, sscanf(within, "within %d ms", &ms));
    assert_in_range(ms, 0, 200);
    (void)close(fd);
}

struct dialled {
    struct coxi_dial *dial;
    const char *url;
    sem_t begins;
    int code;
    uint64_t took_ms;
};

static void *dial_it(void *arg)
{
    struct dialled *dialled = arg;
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    struct coxi_link *link;
    uint64_t begin_ms = coxi_now_ms();
    assert_int_equal(0, sem_post(&dialled->begins));
    dialled->code =
        coxi_dial_link(dialled->dial, dialled->url, &client, WAIT_MS, &link);
    dialled->took_ms = coxi_now_ms() - begin_ms;
    return NULL;
}

/* The handshake alone would take two seconds. */
TEST(a_dial_that_is_aborted_does_not_wait_for_the_handshake)
{
    struct dialled dialled;
    pthread_t thread;
    char url[300];
    int fd = listen_silently(url);
    dialled.url = url;
    assert_int_equal(0, sem_init(&dialled.begins, 0, 0));
    assert_code(0, coxi_dial_new(&dialled.dial));
    coxi_dial_begin(dialled.dial);
    assert_int_equal(0, pthread_create(&thread, NULL, dial_it, &dialled));
    assert_int_equal(0, sem_wait(&dialled.begins));
    coxi_dial_abort(dialled.dial);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_int_equal(COX_ECANCELLED, dialled.code);
    assert_in_range(dialled.took_ms, 0, 1500);
    coxi_dial_free(dialled.dial);
    (void)close(fd);
}

TEST(a_listener_closes_while_peers_prove_themselves)
{
    enum { N = 20 };
    int fds[N];
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    for (int i = 0; i < N; i++) {
        fds[i] = raw_connect(door.url);
    }
    door_close(&door);
    for (int i = 0; i < N; i++) {
        (void)close(fds[i]);
    }
}

/* Nobody listens there: that is not a matter of keys. */
TEST(an_absent_peer_is_refused_not_denied)
{
    const struct coxi_guard client = guard_of(&run_key, COXI_ROLE_CLIENT);
    struct coxi_link *link;
    struct door door;
    open_guarded(&door, "tcp://127.0.0.1:0");
    door_close(&door);
    assert_code(COX_EREFUSED, dial(&door, &client, &link));
}
