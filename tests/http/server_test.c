/* The HTTP server: what it answers, its streams, its address, its life. */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/sync.h"
#include "http/http.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

static int say_request(void *context, const struct coxi_http_request *request,
                       struct coxi_http_reply *reply)
{
    (void)context;
    return coxi_buffer_printf(&reply->body, "since=%llu openmetrics=%d\n",
                              (unsigned long long)request->since, request->openmetrics);
}

static int say_teapot(void *context, const struct coxi_http_request *request,
                      struct coxi_http_reply *reply)
{
    (void)request;
    reply->status = 418;
    reply->type = "text/html; charset=utf-8";
    return coxi_buffer_printf(&reply->body, "%s", (const char *)context);
}

static int say_nothing(void *context, const struct coxi_http_request *request,
                       struct coxi_http_reply *reply)
{
    (void)context;
    (void)request;
    (void)reply;
    return COX_ENOMEM;
}

/* Events up to this one have happened. */
static atomic_uint_least64_t newest;

static int say_events(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    int r = 0;
    (void)context;
    while (r == 0 && *cursor < atomic_load(&newest)) {
        ++*cursor;
        r = coxi_buffer_printf(out, "id: %llu\ndata: n%llu\n\n",
                               (unsigned long long)*cursor,
                               (unsigned long long)*cursor);
    }
    return r;
}

static char brown[] = "short and stout";
static const struct coxi_http_route routes[] = {
    {.path = "/", .get = say_request},
    {.path = "/pot", .context = brown, .get = say_teapot},
    {.path = "/fails", .get = say_nothing},
    {.path = "/events", .events = say_events},
};
enum { N_ROUTES = sizeof(routes) / sizeof(*routes) };

static struct coxi_http_server *start(const char *address)
{
    struct coxi_http_server *server;
    const struct coxi_http_options options = {.address = address};
    assert_code(0, coxi_http_start(&options, routes, N_ROUTES, &server));
    return server;
}

static void assert_refused(const char *address, bool open, const char *part)
{
    struct coxi_http_server *server = NULL;
    const struct coxi_http_options options = {.address = address, .open = open};
    assert_code(COX_EADDRESS, coxi_http_start(&options, routes, N_ROUTES, &server));
    assert_error_names(part);
    assert_null(server);
}

TEST(a_path_is_answered_with_its_text)
{
    struct coxi_http_server *server = start("127.0.0.1:0");
    char *body = visitor_get(coxi_http_url(server), "/");
    assert_string_equal("since=0 openmetrics=0\n", body);
    free(body);
    char *answer = visitor_ask(coxi_http_url(server), "/pot", "");
    assert_int_equal(418, visitor_status(answer));
    assert_string_equal(brown, visitor_body(answer));
    assert_non_null(strstr(answer, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(answer, "X-Content-Type-Options: nosniff\r\n"));
    assert_non_null(strstr(answer, "Content-Security-Policy: default-src 'self';"));
    assert_non_null(strstr(answer, "Cache-Control: no-store\r\n"));
    free(answer);
    coxi_http_stop(server);
}

TEST(a_request_says_since_when_and_in_which_format)
{
    struct coxi_http_server *server = start("0");
    char *body = visitor_get(coxi_http_url(server), "/?since=18446744073709551615");
    assert_string_equal("since=18446744073709551615 openmetrics=0\n", body);
    free(body);
    char *answer = visitor_ask(
        coxi_http_url(server), "/",
        "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    assert_string_equal("since=0 openmetrics=1\n", visitor_body(answer));
    free(answer);
    coxi_http_stop(server);
}

TEST(a_since_that_is_no_number_is_refused)
{
    struct coxi_http_server *server = start("0");
    const char *const bad[] = {"/?since=", "/?since=-1", "/?since=18446744073709551616",
                               "/?since=1x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *answer = visitor_ask(coxi_http_url(server), bad[i], "");
        assert_int_equal(400, visitor_status(answer));
        free(answer);
    }
    coxi_http_stop(server);
}

TEST(a_page_that_cannot_be_made_is_an_error_of_the_server)
{
    struct coxi_http_server *server = start("0");
    char *answer = visitor_ask(coxi_http_url(server), "/fails", "");
    assert_int_equal(500, visitor_status(answer));
    free(answer);
    coxi_http_stop(server);
}

TEST(head_is_answered_without_a_body)
{
    struct coxi_http_server *server = start("0");
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    char *answer = visitor_hear(fd);
    assert_int_equal(200, visitor_status(answer));
    assert_string_equal("", visitor_body(answer));
    assert_non_null(strstr(answer, "Content-Length: 22\r\n"));
    free(answer);
    coxi_http_stop(server);
}

TEST(one_connection_serves_several_requests)
{
    struct coxi_http_server *server = start("0");
    int fd = visitor_connect(coxi_http_url(server));
    for (int i = 0; i < 3; i++) {
        visitor_say(fd, "GET / HTTP/1.1\r\nHost: [::1]:7\r\n\r\n");
        char *answer = visitor_hear_until(fd, "openmetrics=0\n");
        assert_int_equal(200, visitor_status(answer));
        free(answer);
    }
    (void)close(fd);
    coxi_http_stop(server);
}

TEST(a_stream_gets_events_as_they_happen)
{
    struct coxi_http_server *server = start("0");
    atomic_store(&newest, 2);
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    char *heard = visitor_hear_until(fd, "data: n2\n\n");
    assert_non_null(strstr(heard, "Content-Type: text/event-stream"));
    assert_non_null(strstr(heard, "id: 1\ndata: n1\n\n"));
    free(heard);
    for (uint64_t n = 3; n < 6; n++) {
        char part[32];
        atomic_store(&newest, n);
        coxi_http_wake(server);
        (void)snprintf(part, sizeof(part), "data: n%d\n\n", (int)n);
        free(visitor_hear_until(fd, part));
    }
    coxi_http_stop(server); /* ends it */
    free(visitor_hear(fd));
}

/* More than libmicrohttpd sends in one turn, and the server is not even woken for it. */
TEST(a_stream_gets_what_has_happened_when_the_server_stops)
{
    enum { N = 2000 };
    struct coxi_http_server *server = start("127.0.0.1:0");
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    free(visitor_hear_until(fd, "retry"));
    atomic_store(&newest, N);
    coxi_http_stop(server);
    char *rest = visitor_hear(fd);
    assert_non_null(strstr(rest, "data: n2000\n"));
    free(rest);
}

TEST(a_stream_goes_on_after_the_event_that_the_reader_has)
{
    struct coxi_http_server *server = start("0");
    atomic_store(&newest, 9);
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events?since=3 HTTP/1.1\r\nHost: localhost\r\n"
                    "Last-Event-ID: 8\r\n\r\n");
    char *heard = visitor_hear_until(fd, "data: n9\n\n");
    assert_null(strstr(heard, "n8"));
    free(heard);
    (void)close(fd);
    fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events?since=7 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    heard = visitor_hear_until(fd, "data: n9\n\n");
    assert_non_null(strstr(heard, "n8"));
    assert_null(strstr(heard, "n7"));
    free(heard);
    (void)close(fd);
    coxi_http_stop(server);
}

TEST(a_stream_without_events_begins_at_once)
{
    struct coxi_http_server *server = start("0");
    atomic_store(&newest, 0);
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    free(visitor_hear_until(fd, "retry: 1000\n\n"));
    atomic_store(&newest, 1);
    coxi_http_wake(server);
    free(visitor_hear_until(fd, "data: n1\n\n"));
    (void)close(fd);
    coxi_http_stop(server);
}

TEST(an_address_that_is_none_is_refused)
{
    assert_refused("", false, "is no address");
    assert_refused("127.0.0.1", false, "is no address");
    assert_refused("127.0.0.1:", false, "is no address");
    assert_refused("127.0.0.1:65536", false, "ports are numbers from 0 to 65535");
    assert_refused("127.0.0.1:8o", false, "is no address");
    assert_refused(":80", false, "has no host");
    assert_refused("::1:80", false, "brackets");
    assert_refused("no-such-host.invalid:0", false, "no-such-host.invalid");
}

TEST(an_address_in_use_is_refused)
{
    struct coxi_http_server *server = start("0");
    const char *address = coxi_http_url(server) + strlen("http://");
    assert_refused(address, false, "another program listens there");
    coxi_http_stop(server);
}

TEST(other_hosts_reach_only_a_server_that_is_open)
{
    struct coxi_http_server *server;
    const struct coxi_http_options options = {.address = "0.0.0.0:0", .open = true};
    assert_refused("0.0.0.0:0", false, "other hosts reach 0.0.0.0:0");
    assert_code(0, coxi_http_start(&options, routes, N_ROUTES, &server));
    int fd = visitor_connect(coxi_http_url(server));
    visitor_say(fd, "GET / HTTP/1.1\r\nHost: trainer.example:80\r\n"
                    "Connection: close\r\n\r\n");
    char *answer = visitor_hear(fd);
    assert_int_equal(200, visitor_status(answer));
    free(answer);
    coxi_http_stop(server);
}

TEST(a_forked_child_does_not_keep_the_address)
{
    struct coxi_http_server *server = start("0");
    int visitor = visitor_connect(coxi_http_url(server));
    visitor_say(visitor, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    free(visitor_hear_until(visitor, "openmetrics=0\n"));
    char address[COXI_HTTP_URL_MAX];
    (void)snprintf(address, sizeof(address), "%s",
                   coxi_http_url(server) + strlen("http://"));
    int is_here[2];
    char byte = 0;
    assert_int_equal(0, pipe(is_here));
    pid_t child = fork();
    if (child == 0) {    /* which has closed the server's files before fork returns */
        (void)alarm(60); /* in case the test fails */
        (void)close(visitor);
        (void)!write(is_here[1], &byte, 1);
        (void)pause();
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(1, read(is_here[0], &byte, 1));
    coxi_http_stop(server);
    server = start(address);     /* the child does not listen there */
    free(visitor_hear(visitor)); /* and has not kept this open */
    coxi_http_stop(server);
    (void)kill(child, SIGKILL);
    assert_int_equal(child, waitpid(child, NULL, 0));
    (void)close(is_here[0]);
    (void)close(is_here[1]);
}
