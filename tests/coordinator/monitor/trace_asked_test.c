/* Traces over HTTP: who gets one, when, and how they end. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/trace.h"
#include "coordinator/monitor/trace_write.h"
#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/dead_disk.h"
#include "tests/coordinator/monitor/read_trace.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

enum { N = 30 };

static void open_serving(struct crew *crew)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.http = "127.0.0.1:0";
    crew_open(crew, 2, 2, "hold", &options);
    (void)crew_counter(crew, "c0");
    (void)crew_counter(crew, "c1");
}

/* Asks for a trace with these headers; HTTP/1.0: the body ends with the connection. */
static int ask_with(struct crew *crew, const char *seconds, const char *headers)
{
    char request[512];
    int fd = visitor_connect(cox_http_address(crew->c));
    (void)snprintf(request, sizeof(request),
                   "GET /api/trace%s HTTP/1.0\r\nHost: localhost\r\n%s\r\n", seconds,
                   headers);
    visitor_say(fd, request);
    return fd;
}

static int ask(struct crew *crew, const char *seconds)
{
    return ask_with(crew, seconds, "Sec-Coxswain-Work: 1\r\n");
}

static void assert_refused(int fd, int status, const char *part)
{
    char *answer = visitor_hear(fd);
    assert_int_equal(status, visitor_status(answer));
    if (strstr(visitor_body(answer), part) == NULL) {
        fail_msg("'%s' is not in: %s", part, visitor_body(answer));
    }
    free(answer);
}

/* Reads the rest of a trace of which `begin` came. */
static json_t *hear_rest(int fd, char *begin)
{
    const char *path = coxi_test_path("asked.json");
    char *rest = visitor_hear(fd);
    assert_int_equal(200, visitor_status(begin));
    assert_non_null(strstr(begin, "Content-Type: application/json\r\n"));
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(visitor_body(begin), file) >= 0 && fputs(rest, file) >= 0);
    assert_int_equal(0, fclose(file));
    free(begin);
    free(rest);
    return read_trace(path, true);
}

static bool can_trace(void *arg)
{
    struct crew *crew = arg;
    int r = cox_trace_start(crew->c, coxi_test_path("own.json"));
    assert_true(r == 0 || r == COX_EBUSY);
    return r == 0;
}

TEST(a_program_of_this_host_gets_a_trace_while_it_is_taken)
{
    struct crew crew;
    open_serving(&crew);
    int fd = ask(&crew, "?seconds=1");
    char *begin = visitor_hear_until(fd, "\"ph\"");
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    json_t *all = hear_rest(fd, begin);
    assert_int_equal(N, trace_count(all, "carry", COXI_TRACE_WORKER));
    assert_int_equal(N, trace_count(all, "commit", COXI_TRACE_PS));
    assert_true(trace_count(all, "dispatch", COXI_TRACE_CLIENT) > 0);
    json_decref(all);
    fd = ask(&crew, "?seconds=1"); /* and once more */
    json_decref(hear_rest(fd, visitor_hear_until(fd, "\"ph\"")));
    crew_close(&crew);
    assert_false(coxi_trace_is_on());
}

TEST(only_one_trace_is_taken_at_a_time_and_others_are_served_meanwhile)
{
    struct crew crew;
    open_serving(&crew);
    const char *url = cox_http_address(crew.c);
    int fd = ask(&crew, "?seconds=300");
    free(visitor_hear_until(fd, "\"ph\""));
    assert_refused(ask(&crew, "?seconds=1"), 409, "somebody else takes a trace");
    assert_code(COX_EBUSY, cox_trace_start(crew.c, coxi_test_path("own.json")));
    assert_error_names("somebody takes a trace");
    assert_code(COX_ENOENT, cox_trace_stop(crew.c)); /* it is not the program's */
    free(visitor_get(url, "/metrics"));
    (void)close(fd); /* whoever asked is gone, so it ends */
    coxi_test_until(can_trace, &crew, "the end of the trace");
    assert_refused(ask(&crew, "?seconds=1"), 409, "the program takes a trace itself");
    assert_code(0, cox_trace_stop(crew.c));
    json_decref(read_trace(coxi_test_path("own.json"), true));
    crew_close(&crew);
}

TEST(web_pages_and_unclear_requests_get_no_trace)
{
    struct crew crew;
    open_serving(&crew);
    assert_refused(ask_with(&crew, "?seconds=1", ""), 403, "Sec-Coxswain-Work");
    assert_refused(ask_with(&crew, "?seconds=1", "Origin: http://elsewhere\r\n"), 403,
                   "Sec-Coxswain-Work");
    int fd = visitor_connect(cox_http_address(crew.c));
    visitor_say(fd, "HEAD /api/trace?seconds=1 HTTP/1.0\r\nHost: localhost\r\n"
                    "Sec-Coxswain-Work: 1\r\n\r\n");
    assert_refused(fd, 403, "");
    fd = visitor_connect(cox_http_address(crew.c));
    visitor_say(fd, "GET /api/trace?seconds=1 HTTP/1.0\r\nHost: elsewhere.example\r\n"
                    "Sec-Coxswain-Work: 1\r\n\r\n");
    assert_refused(fd, 403, "localhost");
    assert_refused(ask(&crew, ""), 400, "from 1 to 300");
    assert_refused(ask(&crew, "?seconds=301"), 400, "from 1 to 300");
    assert_refused(ask(&crew, "?seconds=x"), 400, "number");
    assert_false(coxi_trace_is_on());
    crew_close(&crew);
}

TEST(the_end_of_the_run_ends_its_trace_which_is_whole)
{
    struct crew crew;
    open_serving(&crew);
    int fd = ask(&crew, "?seconds=300");
    char *begin = visitor_hear_until(fd, "\"ph\"");
    crew_schedule(&crew, crew_function(&crew, "carry"), N, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew); /* what is sent waits in the socket */
    json_t *all = hear_rest(fd, begin);
    assert_int_equal(N, trace_count(all, "carry", COXI_TRACE_WORKER));
    json_decref(all);
}

TEST(a_reader_that_takes_nothing_does_not_keep_cox_close)
{
    struct crew crew;
    open_serving(&crew);
    int fd = ask(&crew, "?seconds=300");
    free(visitor_hear_until(fd, "\"ph\""));
    crew_schedule(&crew, crew_function(&crew, "carry"), 100 * N, 0);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
    (void)close(fd);
}

TEST(a_disk_that_does_not_answer_does_not_keep_cox_close)
{
    static char thread[] = "cox:trace-file";
    struct crew crew;
    open_serving(&crew);
    dead_disk_begin("/coxswain-trace-");
    int fd = ask(&crew, "?seconds=300");
    coxi_test_until(dead_disk_is_waiting, NULL, "a write that does not end");
    crew_close(&crew);
    char *rest = visitor_hear_until(fd, "]");
    assert_non_null(strstr(rest, "does not answer"));
    free(rest);
    (void)close(fd);
    assert_true(dead_disk_is_waiting(NULL)); /* still */
    dead_disk_end();
    coxi_test_until(dead_disk_has_left, thread, "the end of the thread left behind");
}

TEST(a_trace_without_room_for_its_file_is_refused)
{
    struct crew crew;
    open_serving(&crew);
    // NOLINTBEGIN(concurrency-mt-unsafe)
    char *before = getenv("TMPDIR") != NULL ? strdup(getenv("TMPDIR")) : NULL;
    assert_int_equal(0, setenv("TMPDIR", coxi_test_path("no/such"), 1));
    assert_refused(ask(&crew, "?seconds=1"), 500, "no/such");
    assert_int_equal(0,
                     before != NULL ? setenv("TMPDIR", before, 1) : unsetenv("TMPDIR"));
    // NOLINTEND(concurrency-mt-unsafe)
    free(before);
    int fd = ask(&crew, "?seconds=1"); /* it was not the end of traces */
    json_decref(hear_rest(fd, visitor_hear_until(fd, "\"ph\"")));
    crew_close(&crew);
}
