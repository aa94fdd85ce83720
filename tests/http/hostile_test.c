/* Strangers at the HTTP server: slow, many, wrong, greedy. It answers others meanwhile. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/rand.h"
#include "http/http.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

enum { PAGE_BYTES = 4 << 20 };

static int say_hello(void *context, const struct coxi_http_request *request,
                     struct coxi_http_reply *reply)
{
    (void)context;
    (void)request;
    return coxi_buffer_printf(&reply->body, "hello\n");
}

static int say_much(void *context, const struct coxi_http_request *request,
                    struct coxi_http_reply *reply)
{
    (void)context;
    (void)request;
    return coxi_buffer_append_raw(&reply->body, NULL, PAGE_BYTES);
}

static atomic_bool all_have_asked;

/* Takes a third of what the thread may take at once, when all have asked. */
static int say_costly(void *context, const struct coxi_http_request *request,
                      struct coxi_http_reply *reply)
{
    struct timespec cpu;
    struct pollfd nothing = {.fd = -1};
    (void)context;
    (void)request;
    while (!atomic_load(&all_have_asked)) {
        (void)poll(&nothing, 1, 1);
    }
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    int64_t end_ms = cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000 + 100;
    while (cpu.tv_sec * 1000 + cpu.tv_nsec / 1000000 < end_ms) {
        (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    }
    return coxi_buffer_printf(&reply->body, "more than once\n");
}

static atomic_uint n_asked; /* how often streams have asked for events */

static int say_events(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    (void)context;
    ++*cursor;
    (void)atomic_fetch_add(&n_asked, 1);
    return coxi_buffer_append_raw(out, NULL, PAGE_BYTES);
}

static int say_no_events(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    (void)context;
    (void)cursor;
    (void)out;
    return 0;
}

static int begin_work(void *context, const struct coxi_http_request *request,
                      struct coxi_http_reply *reply)
{
    (void)context;
    (void)request;
    (void)reply;
    return 0;
}

static int do_work(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    (void)context;
    (void)cursor;
    int r = coxi_buffer_printf(out, "done\n");
    return r == 0 ? COXI_HTTP_LAST : r;
}

static void end_work(void *context)
{
    (void)context;
}

static const struct coxi_http_work work = {
    .type = "text/plain", .begin = begin_work, .more = do_work, .end = end_work};

static const struct coxi_http_route routes[] = {
    {.path = "/hello", .get = say_hello, .is_short = true},
    {.path = "/much", .get = say_much},
    {.path = "/some", .get = say_much, .is_short = true},
    {.path = "/costly", .get = say_costly},
    {.path = "/events", .events = say_events},
    {.path = "/silence", .events = say_no_events},
    {.path = "/work", .work = &work},
};

static struct coxi_http_server *start(void)
{
    struct coxi_http_server *server;
    const struct coxi_http_options options = {.address = "127.0.0.1:0"};
    assert_code(0, coxi_http_start(&options, routes, sizeof(routes) / sizeof(*routes),
                                   &server));
    return server;
}

static void assert_serves(struct coxi_http_server *server)
{
    char *body = visitor_get(coxi_http_url(server), "/hello");
    assert_string_equal("hello\n", body);
    free(body);
}

/* The status of the answer to what is said; -1: the server only closed. */
static int status_of(struct coxi_http_server *server, const char *text)
{
    char head[16] = "";
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, text);
    (void)recv(fd, head, sizeof(head) - 1, MSG_WAITALL);
    (void)close(fd);
    return visitor_status(head);
}

TEST(http_serves_others_while_a_thousand_connections_are_slow)
{
    enum { N = 1000 };
    static int slow[N];
    struct rlimit files;
    struct coxi_http_server *server = start();
    assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &files));
    files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
    assert_int_equal(0, setrlimit(RLIMIT_NOFILE, &files));
    for (int i = 0; i < N; i++) {
        slow[i] = visitor_connect(coxi_http_url(server));
        (void)send(slow[i], "GET /he", (size_t)i % 8, MSG_NOSIGNAL);
        if (i % 100 == 99) {
            assert_serves(server);
        }
    }
    assert_serves(server);
    for (int i = 0; i < N; i++) {
        (void)close(slow[i]);
    }
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_ends_a_request_that_comes_byte_by_byte)
{
    atomic_store(&coxi_http_request_ms, 200);
    struct coxi_http_server *server = start();
    int fd = visitor_connect(coxi_http_url(server));
    uint64_t end_ms = coxi_now_ms() + 8000;
    struct pollfd file = {.fd = fd, .events = POLLIN};
    visitor_say(fd, "GET /hello HTTP/1.1\r\nX: ");
    while (poll(&file, 1, 10) == 0 && coxi_now_ms() < end_ms) {
        (void)send(fd, "x", 1, MSG_NOSIGNAL); /* never long enough idle */
    }
    char *answer = visitor_hear(fd);
    assert_string_equal("", answer);
    free(answer);
    assert_true(coxi_now_ms() < end_ms);
    coxi_http_stop(server);
}

TEST(http_refuses_garbage_and_goes_on)
{
    struct coxi_http_server *server = start();
    uint64_t seed = 1;
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[512];
        char answer[16] = "";
        int fd = visitor_connect(coxi_http_url(server));
        for (size_t k = 0; k < sizeof(bytes); k++) {
            bytes[k] = (uint8_t)coxi_rand(&seed);
        }
        (void)send(fd, bytes, 1 + coxi_rand(&seed) % sizeof(bytes), MSG_NOSIGNAL);
        if (i % 20 == 0) {
            assert_serves(server);
        }
        (void)recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
        assert_int_not_equal(200, visitor_status(answer));
        (void)close(fd);
    }
    assert_int_not_equal(200, status_of(server, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    assert_int_not_equal(200, status_of(server, "\x16\x03\x01\r\n\r\n\r\n\r\n"));
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_refuses_headers_and_paths_that_are_too_long)
{
    static char text[2 * COXI_HTTP_HEADERS_MAX];
    struct coxi_http_server *server = start();
    size_t n = (size_t)snprintf(text, sizeof(text), "GET /hello HTTP/1.1\r\nX: ");
    memset(text + n, 'x', sizeof(text) - n - 1);
    int status = status_of(server, text);
    assert_true(status == 431 || status == 413 || status == -1);
    n = (size_t)snprintf(text, sizeof(text), "GET /hello?");
    memset(text + n, 'x', sizeof(text) - n - 1);
    status = status_of(server, text);
    assert_true(status == 414 || status == 431 || status == 413 || status == -1);
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_serves_no_path_beyond_its_table)
{
    static const char *const paths[] = {"/etc/passwd",
                                        "/../../etc/passwd",
                                        "/hello/../../etc/passwd",
                                        "/%2e%2e/etc/passwd",
                                        "/hello%00",
                                        "/hello/",
                                        "//hello",
                                        "/HELLO",
                                        "/hello;x",
                                        "/hello%2f..%2fpasswd",
                                        "/",
                                        "/.",
                                        "/%68ello",
                                        "http://other/hello"};
    struct coxi_http_server *server = start();
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        char *answer = visitor_ask(coxi_http_url(server), paths[i], "");
        assert_int_equal(404, visitor_status(answer));
        free(answer);
    }
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_takes_nothing_but_get_and_head)
{
    static const char *const methods[] = {"POST",    "PUT",   "DELETE", "PATCH",
                                          "OPTIONS", "TRACE", "BREW",   "get"};
    char text[256];
    struct coxi_http_server *server = start();
    for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++) {
        (void)snprintf(text, sizeof(text),
                       "%s /hello HTTP/1.1\r\nHost: localhost\r\n"
                       "Content-Length: 1000000\r\n\r\nsome of it",
                       methods[i]);
        assert_int_equal(405, status_of(server, text));
    }
    assert_int_equal(400, status_of(server, "GET /hello HTTP/1.1\r\nHost: localhost\r\n"
                                            "Content-Length: 10\r\n\r\n0123456789"));
    assert_int_equal(400, status_of(server, "GET /hello HTTP/1.1\r\nHost: localhost\r\n"
                                            "Transfer-Encoding: chunked\r\n\r\n"
                                            "5\r\nhello\r\n0\r\n\r\n"));
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_on_loopback_answers_no_other_host_s_name)
{
    static const char *const others[] = {"evil.example",
                                         "evil.example:80",
                                         "127.0.0.1.evil",
                                         "localhost.evil",
                                         "10.0.0.1",
                                         "[::2]",
                                         "",
                                         "[::1]x",
                                         "127.1",
                                         "localhost@evil",
                                         "localhost:80@evil",
                                         "[::1]:x"};
    static const char *const own[] = {"localhost", "LOCALHOST:1", "127.0.0.1:80",
                                      "127.9.9.9", "[::1]",       "[::1]:80"};
    char text[256];
    struct coxi_http_server *server = start();
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        (void)snprintf(text, sizeof(text), "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n",
                       others[i]);
        assert_int_equal(403, status_of(server, text));
    }
    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++) {
        (void)snprintf(text, sizeof(text), "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n",
                       own[i]);
        assert_int_equal(200, status_of(server, text));
    }
    coxi_http_stop(server);
}

TEST(http_holds_a_bounded_number_of_answers_that_nobody_reads)
{
    int greedy[COXI_HTTP_CONNECTIONS_MAX - 1];
    const int n = (int)(sizeof(greedy) / sizeof(*greedy));
    int n_refused = 0;
    struct coxi_http_server *server = start();
    for (int i = 0; i < n; i++) {
        const int small = 4096;
        greedy[i] = visitor_connect(coxi_http_url(server));
        (void)setsockopt(greedy[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        visitor_say(greedy[i], "GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n");
        char first[16] = "";
        assert_true(recv(greedy[i], first, 12, MSG_WAITALL) == 12);
        n_refused += strcmp(first, "HTTP/1.1 503") == 0;
    }
    assert_true(n_refused >=
                n - 18);   /* 64 MiB are 16 answers, and there may be one more */
    assert_serves(server); /* what is short is answered all the same */
    for (int i = 0; i < n; i++) {
        (void)close(greedy[i]);
    }
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_serves_others_while_all_connections_are_slow_readers)
{
    enum { N = 2 * COXI_HTTP_CONNECTIONS_MAX };
    int slow[N];
    struct coxi_http_server *server = start();
    for (int i = 0; i < N; i++) {
        const int small = 4096;
        char byte;
        slow[i] = visitor_connect(coxi_http_url(server));
        (void)setsockopt(slow[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
        visitor_say(slow[i], "GET /some HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_int_equal(1, recv(slow[i], &byte, 1, 0));
    }
    assert_serves(server);
    for (int i = 0; i < N; i++) {
        (void)close(slow[i]);
    }
    coxi_http_stop(server);
}

/* A probe that waits for all of a crowd's costly answers would give up. */
TEST(http_refuses_costly_answers_when_its_share_of_a_core_is_spent)
{
    enum { N = 32 };
    static const char costly[] = "GET /costly HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fds[N];
    int n_refused = 0;
    uint64_t begun_ms = coxi_now_ms();
    struct coxi_http_server *server = start();
    for (int i = 0; i < N; i++) {
        fds[i] = visitor_connect(coxi_http_url(server));
        visitor_say(fds[i], "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
        free(visitor_hear_until(fds[i], "hello\n"));
    }
    for (int i = 0; i < N; i++) {
        visitor_say(fds[i], costly);
    }
    atomic_store(&all_have_asked, true);
    for (int i = 0; i < N; i++) {
        char *answer = visitor_hear_until(fds[i], "once\n");
        n_refused += visitor_status(answer) == 503;
        free(answer);
        (void)close(fds[i]);
    }
    /* what it takes at once, its share since then, and the last one goes beyond both */
    uint64_t most_ms = 300 + (coxi_now_ms() - begun_ms) / 5 + 100;
    assert_true((uint64_t)(N - n_refused) * 100 <= most_ms + 100);
    assert_serves(server);
    coxi_http_stop(server);
}

TEST(http_asks_for_no_more_events_while_the_reader_is_slow)
{
    struct coxi_http_server *server = start();
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char byte;
    assert_int_equal(1, recv(fd, &byte, 1, 0));
    for (int i = 0; i < 100; i++) {
        coxi_http_wake(server);
        assert_serves(server); /* so the server has had a turn */
    }
    assert_true(atomic_load(&n_asked) <= 4); /* what the sockets take besides */
    (void)close(fd);
    coxi_http_stop(server);
}

static int begin_stream(struct coxi_http_server *server)
{
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /silence HTTP/1.1\r\nHost: localhost\r\n\r\n");
    free(visitor_hear_until(fd, "retry"));
    return fd;
}

static void take_all_streams(struct coxi_http_server *server,
                             int fds[COXI_HTTP_STREAMS_MAX])
{
    for (int i = 0; i < COXI_HTTP_STREAMS_MAX; i++) {
        fds[i] = begin_stream(server);
    }
}

/* Stops the server and closes all streams. */
static void end_all_streams(struct coxi_http_server *server,
                            const int fds[COXI_HTTP_STREAMS_MAX])
{
    coxi_http_stop(server);
    for (int i = 0; i < COXI_HTTP_STREAMS_MAX; i++) {
        (void)close(fds[i]);
    }
}

TEST(http_answers_while_all_streams_are_taken)
{
    int fds[COXI_HTTP_STREAMS_MAX];
    struct coxi_http_server *server = start();
    take_all_streams(server, fds);
    assert_serves(server);
    char *answer = visitor_ask(coxi_http_url(server), "/silence", "");
    assert_int_equal(503, visitor_status(answer));
    free(answer);
    end_all_streams(server, fds);
}

TEST(http_ends_the_oldest_stream_for_a_new_one)
{
    int fds[COXI_HTTP_STREAMS_MAX];
    struct coxi_http_server *server = start();
    take_all_streams(server, fds);
    atomic_store(&coxi_http_request_ms, 0); /* all have had their time */
    int fd = begin_stream(server);
    free(visitor_hear(fds[0])); /* until it is closed */
    fds[0] = fd;
    end_all_streams(server, fds);
}

/* Whoever reads events keeps nobody from a long answer that was asked for. */
TEST(http_works_while_all_streams_are_taken)
{
    int fds[COXI_HTTP_STREAMS_MAX];
    struct coxi_http_server *server = start();
    take_all_streams(server, fds);
    char *answer =
        visitor_ask(coxi_http_url(server), "/work", COXI_HTTP_WORK_HEADER ": 1\r\n");
    assert_int_equal(200, visitor_status(answer));
    assert_non_null(strstr(answer, "done"));
    free(answer);
    end_all_streams(server, fds);
}

/* CPU time of this process in s. */
static double cpu_s(void)
{
    struct rusage used;
    assert_int_equal(0, getrusage(RUSAGE_SELF, &used));
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* Asks for pages as fast as they come, on one connection, for ever. */
static void ask_for_ever(const char *url)
{
    static char text[65536];
    static const char request[] = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (int fd = visitor_connect(url);; fd = visitor_connect(url)) {
        while (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) > 0 &&
               recv(fd, text, sizeof(text), 0) > 0) {
        }
        (void)close(fd);
    }
}

TEST(http_takes_only_a_share_of_a_core_in_a_storm)
{
    enum { STRANGERS = 6, STORM_MS = 3000 };
    pid_t strangers[STRANGERS];
    struct coxi_http_server *server = start();
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = fork();
        assert_true(strangers[i] >= 0);
        if (strangers[i] == 0) {
            (void)alarm(60); /* in case the test fails */
            ask_for_ever(coxi_http_url(server));
        }
    }
    uint64_t begun_ms = coxi_now_ms();
    double before_s = cpu_s();
    struct pollfd nothing = {.fd = -1};
    while (coxi_now_ms() - begun_ms < STORM_MS) {
        (void)poll(&nothing, 1, 100);
    }
    double taken_s = cpu_s() - before_s;
    double most_s = 0.3 + (double)(coxi_now_ms() - begun_ms) / 1e3 / 5;
    assert_serves(server);
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(0, kill(strangers[i], SIGKILL));
        assert_int_equal(strangers[i], waitpid(strangers[i], NULL, 0));
    }
    if (taken_s >= most_s + 0.3) {
        fail_msg("it took %.2f s, of %.2f", taken_s, most_s);
    }
    coxi_http_stop(server);
}
