/* Making links: connecting and listening, and errors. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "net/link.h"
#include "tests/net/ends.h"
#include "tests/program.h"
#include "tests/test.h"

enum { WAIT_MS = 8000 };

/* A tcp port that is bound, and listens with room for one connection (or does not
 * listen). */
struct port {
    int fd;
    char url[64];
};

static void port_bind(struct port *port)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    port->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(port->fd >= 0);
    assert_int_equal(0, bind(port->fd, (struct sockaddr *)&in, len));
    assert_int_equal(0, getsockname(port->fd, (struct sockaddr *)&in, &len));
    (void)snprintf(port->url, sizeof(port->url), "tcp://127.0.0.1:%d",
                   ntohs(in.sin_port));
}

/* ---- connecting, blocking and not: the same outcome */

struct outcome {
    struct coxi_mutex lock; /* guards the rest; leaf */
    pthread_cond_t changed;
    int n_done;
    int code;
    char text[256];
    struct coxi_link *link;
};

static void connected(void *arg, int code, const char *text, struct coxi_link *link)
{
    struct outcome *outcome = arg;
    coxi_lock(&outcome->lock);
    outcome->n_done++;
    outcome->code = code;
    outcome->link = link;
    (void)snprintf(outcome->text, sizeof(outcome->text), "%s", text);
    (void)pthread_cond_broadcast(&outcome->changed);
    coxi_unlock(&outcome->lock);
}

static void connect_begin(struct outcome *outcome, const char *url, int timeout_ms)
{
    *outcome = (struct outcome){0};
    coxi_mutex_init(&outcome->lock);
    coxi_cond_init(&outcome->changed);
    int code = coxi_link_connect_start(url, NULL, timeout_ms, connected, outcome);
    if (code != 0) { /* known at once: `done` is not called */
        connected(outcome, code, coxi_test_error(), NULL);
    }
}

static void connect_end(struct outcome *outcome)
{
    struct timespec until = coxi_deadline(WAIT_MS);
    coxi_lock(&outcome->lock);
    while (outcome->n_done == 0 &&
           coxi_wait_until(&outcome->changed, &outcome->lock, &until)) {
    }
    coxi_unlock(&outcome->lock);
    assert_int_equal(1, outcome->n_done);
    (void)pthread_cond_destroy(&outcome->changed);
    coxi_mutex_fini(&outcome->lock);
}

static void connect_start(struct outcome *outcome, const char *url, int timeout_ms)
{
    connect_begin(outcome, url, timeout_ms);
    connect_end(outcome);
}

static void assert_connect_fails(const char *url, int timeout_ms, int code)
{
    struct coxi_link *link = (struct coxi_link *)&link;
    struct coxi_link *before = link;
    struct outcome outcome;
    assert_code(code, coxi_link_connect(url, NULL, timeout_ms, &link));
    assert_error_names(url);
    assert_ptr_equal(before, link);
    connect_start(&outcome, url, timeout_ms);
    assert_int_equal(code, outcome.code);
    assert_non_null(strstr(outcome.text, url));
    assert_null(outcome.link);
}

TEST(link_connecting_is_refused_where_nobody_listens)
{
    struct port port;
    char url[300];
    /* bound but not listening, so that no other process has the port */
    port_bind(&port);
    assert_connect_fails(port.url, WAIT_MS, COX_EREFUSED);
    (void)close(port.fd);
    (void)snprintf(url, sizeof(url), "ipc://%s/nobody", coxi_test_dir());
    assert_connect_fails(url, WAIT_MS, COX_EREFUSED);
}

TEST(link_connecting_to_a_malformed_address_fails)
{
    static const char *const urls[] = {"",
                                       "localhost:1234",
                                       "nonsense://x:1",
                                       "tcp://127.0.0.1:port",
                                       "ipc://",
                                       "tcp://no-such-host.invalid:1"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_connect_fails(urls[i], WAIT_MS, COX_EADDRESS);
    }
}

/* Connects without blocking until the queue is full: the next one gets no answer. */
static int fill_queue(const struct port *port, int *fds, int max)
{
    struct sockaddr_in in;
    socklen_t len = sizeof(in);
    assert_int_equal(0, getsockname(port->fd, (struct sockaddr *)&in, &len));
    for (int n = 0; n < max; n++) {
        fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        assert_true(fds[n] >= 0);
        (void)connect(fds[n], (struct sockaddr *)&in, len);
    }
    return max;
}

TEST(link_connecting_ends_at_the_deadline)
{
    struct port port;
    int fds[8];
    port_bind(&port);
    assert_int_equal(0, listen(port.fd, 0));
    int n = fill_queue(&port, fds, 8);
    assert_connect_fails(port.url, 100, COX_ETIMEDOUT);
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
    (void)close(port.fd);
}

TEST(link_connecting_goes_on_until_the_peer_has_room)
{
    struct port port;
    struct outcome outcome;
    struct end end;
    int fds[8];
    size_t len;
    port_bind(&port);
    assert_int_equal(0, listen(port.fd, 0));
    int n = fill_queue(&port, fds, 8);
    connect_begin(&outcome, port.url, WAIT_MS);
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
    (void)close(raw_accept(port.fd)); /* the connection that was in the queue */
    int fd = raw_accept(port.fd);     /* when the kernel tries again, after 1 s */
    connect_end(&outcome);
    assert_int_equal(0, outcome.code);
    end_init(&end);
    end_start(&end, outcome.link, END_START);
    assert_code(0, end_send(&end, "hello", 5, NULL, 0));
    char *meta = raw_read_frame(fd, &len);
    assert_int_equal(5, len);
    assert_memory_equal("hello", meta, 5);
    free(meta);
    end_fini(&end);
    (void)close(fd);
    (void)close(port.fd);
}

TEST(link_connects_without_blocking)
{
    for (int i = 0; i < 2; i++) {
        struct door door;
        struct outcome outcome;
        struct end near, far;
        door_open(&door, i == 0);
        connect_start(&outcome, door.url, WAIT_MS);
        assert_int_equal(0, outcome.code);
        assert_non_null(outcome.link);
        end_init(&near);
        end_init(&far);
        end_start(&near, outcome.link, END_START);
        end_start(&far, door_wait(&door), END_RUN);
        assert_code(0, end_send(&near, "hello", 5, NULL, 0));
        end_wait_frames(&far, 1);
        end_fini(&near);
        end_fini(&far);
        door_close(&door);
    }
}

/* ---- listening */

static void accept_none(void *arg, struct coxi_link *link)
{
    (void)arg;
    coxi_link_unref(link);
}

static void check_port(const char *url, const char *host)
{
    struct coxi_listener *listener;
    assert_code(0, coxi_listener_open(url, NULL, accept_none, NULL, &listener));
    const char *found = coxi_listener_url(listener);
    size_t len = strlen(host);
    if (strncmp(found, host, len) != 0 || found[len] != ':' ||
        strtoul(found + len + 1, NULL, 10) == 0) {
        fail_msg("%s is told as %s", url, found);
    }
    coxi_listener_start(listener);
    (void)close(raw_connect(found));
    coxi_listener_close(listener);
}

TEST(listener_finds_a_free_port_and_tells_it)
{
    check_port("tcp://127.0.0.1:0", "tcp://127.0.0.1");
    check_port("tcp://127.0.0.1", "tcp://127.0.0.1");
}

TEST(listener_says_that_the_address_is_in_use)
{
    for (int i = 0; i < 2; i++) {
        struct door door;
        struct coxi_listener *listener = NULL;
        door_open(&door, i == 0);
        assert_code(COX_EAGAIN,
                    coxi_listener_open(door.url, NULL, accept_none, NULL, &listener));
        assert_error_names(door.url);
        assert_null(listener);
        door_close(&door);
        /* the address is free as soon as the first listener is closed */
        assert_code(0,
                    coxi_listener_open(door.url, NULL, accept_none, NULL, &listener));
        coxi_listener_close(listener);
    }
}

TEST(listener_refuses_an_address_that_is_malformed_or_not_ours)
{
    static const char *const urls[] = {"", "tcp://127.0.0.1:port", "nonsense://x:1",
                                       "tcp://192.0.2.1:0",
                                       "ipc:///no/such/directory/x"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct coxi_listener *listener = NULL;
        int code = coxi_listener_open(urls[i], NULL, accept_none, NULL, &listener);
        if (code != COX_EADDRESS) {
            fail_msg("'%s': %d (%s)", urls[i], code, coxi_test_error());
        }
        assert_error_names(urls[i]);
        assert_null(listener);
    }
}

/* Returns the path of an ipc address, at which the test then puts something; *ret_url
 * is the address. */
static char *ipc_path(char ret_url[300])
{
    char *path = coxi_test_path("socket");
    (void)snprintf(ret_url, 300, "ipc://%s", path);
    return path;
}

static void assert_keeps(const char *path, const char *url, mode_t type)
{
    struct stat st;
    struct coxi_listener *listener = NULL;
    assert_code(COX_EADDRESS,
                coxi_listener_open(url, NULL, accept_none, NULL, &listener));
    assert_error_names(path);
    assert_int_equal(0, lstat(path, &st));
    assert_int_equal(type, st.st_mode & S_IFMT);
}

TEST(listener_deletes_no_file_that_has_its_path)
{
    char url[300];
    const char *path = ipc_path(url);
    coxi_test_write(path, "precious", 8);
    assert_keeps(path, url, S_IFREG);
    assert_int_equal(0, unlink(path));
    assert_int_equal(0, mkdir(path, 0700));
    assert_keeps(path, url, S_IFDIR);
}

TEST(listener_deletes_no_symbolic_link_that_has_its_path)
{
    char url[300];
    const char *path = ipc_path(url);
    assert_int_equal(0, symlink("nowhere", path));
    assert_keeps(path, url, S_IFLNK);
    assert_int_equal(0, unlink(path));
    (void)close(program_occupy(coxi_test_path("stale")));
    assert_int_equal(0, symlink(coxi_test_path("stale"), path));
    assert_keeps(path, url, S_IFLNK);
}

TEST(listener_replaces_only_a_socket_of_its_own_user)
{
    char url[300];
    const char *path = ipc_path(url);
    struct coxi_listener *listener = NULL;
    (void)close(program_occupy(path)); /* nobody listens there any more */
    if (geteuid() == 0) {              /* others cannot give a file away */
        assert_int_equal(0, chown(path, 65534, 65534));
        assert_keeps(path, url, S_IFSOCK);
        assert_int_equal(0, chown(path, 0, 0));
    }
    assert_code(0, coxi_listener_open(url, NULL, accept_none, NULL, &listener));
    coxi_listener_close(listener);
}

TEST(listener_lets_only_its_own_user_connect)
{
    char url[300];
    struct stat st;
    const char *path = ipc_path(url);
    struct coxi_listener *listener = NULL;
    mode_t before = umask(0);
    assert_code(0, coxi_listener_open(url, NULL, accept_none, NULL, &listener));
    (void)umask(before);
    assert_int_equal(0, lstat(path, &st));
    assert_int_equal(S_IFSOCK | 0600, st.st_mode);
    coxi_listener_close(listener);
}

TEST(listener_accepts_nothing_once_it_is_closed)
{
    struct door door;
    struct coxi_link *link = NULL;
    door_open(&door, true);
    coxi_listener_close(door.listener);
    door.listener = NULL;
    assert_code(COX_EREFUSED, coxi_link_connect(door.url, NULL, WAIT_MS, &link));
    door_close(&door);
    assert_int_equal(0, door.n_accepted);
}

TEST(link_that_is_never_started_can_be_dropped)
{
    struct door door;
    struct coxi_link *link;
    struct coxi_links *links;
    door_open(&door, true);
    assert_code(0, coxi_link_connect(door.url, NULL, WAIT_MS, &link));
    assert_code(0, coxi_links_new(60000, &links));
    coxi_links_add(links, link);
    coxi_links_drop(link);
    coxi_link_close(link, COX_ECANCELLED, "after all not");
    assert_true(coxi_link_closed(link));
    coxi_link_unref(link);
    coxi_link_unref(NULL);
    coxi_links_free(links);
    coxi_listener_close(NULL);
    door_close(&door);
}

TEST(url_is_checked_before_it_is_used)
{
    static const char *const good[] = {"tcp://127.0.0.1:0", "tcp://host.example:65535",
                                       "tcp://[::1]:7", "ipc:///tmp/socket"};
    static const char *const bad[] = {"",
                                      "host:1",
                                      "tcp://",
                                      "tcp://host",
                                      "tcp://host:",
                                      "tcp://host:port",
                                      "tcp://:7",
                                      "tcp://[::1]",
                                      "ipc://",
                                      "ipc:///",
                                      "ipc://socket",
                                      "http://host:1",
                                      "tls+tcp://host:1",
                                      "tcp://h:65536",
                                      "tcp://h:999999999999",
                                      "tcp://::1:7",
                                      "tcp://a/b:7"};
    char longest[400] = "tcp://";
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_code(0, coxi_url_check(good[i]));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_code(COX_EADDRESS, coxi_url_check(bad[i]));
        assert_error_names(bad[i]);
    }
    assert_code(COX_EADDRESS, coxi_url_check("tcp://h\x1b[31m:7"));
    assert_error_names("0x1b");
    assert_code(COX_EADDRESS, coxi_url_check("ipc:///tmp/a\nb"));
    assert_error_names("0x0a");
    assert_code(COX_EADDRESS, coxi_url_check("tcp://h\xc2\x9b:7"));
    memset(longest + 6, 'a', sizeof(longest) - 9);
    (void)strcpy(longest + sizeof(longest) - 4, ":7");
    assert_code(COX_EADDRESS, coxi_url_check(longest));
    assert_code(COX_EADDRESS, coxi_url_check("host:1"));
    assert_error_names("it is like tcp://host:port");
    char url[COXI_URL_MAX + 1] = "untouched";
    assert_code(COX_EADDRESS, coxi_url_from("h\x7f:1", url));
    assert_code(COX_EADDRESS, coxi_url_from(longest + 6, url));
    assert_error_names("longer than");
    assert_string_equal("untouched", url);
    assert_code(0, coxi_url_from("host:1", url));
    assert_string_equal("tcp://host:1", url);
}
