/* page/page: what the paths of the page answer. */
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/records.h"
#include "http/http.h"
#include "page/page.h"
#include "tests/http/visitor.h"
#include "tests/test.h"

struct served {
    struct coxi_records *records;
    struct coxi_page *page;
    struct coxi_http_server *server;
    struct coxi_http_route routes[COXI_PAGE_ROUTES_MAX];
};

static void serve(struct served *served, const char *log_dir)
{
    static const struct coxi_http_options options = {.address = "127.0.0.1:0"};
    assert_code(0, coxi_records_new(false, &served->records));
    const struct coxi_page_sources sources = {
        .records = served->records, .log_dir = log_dir, .has_metrics = true};
    assert_code(0, coxi_page_new(&sources, &served->page));
    size_t n = coxi_page_routes(served->page, served->routes);
    assert_code(0, coxi_http_start(&options, served->routes, n, &served->server));
}

static void end(struct served *served)
{
    coxi_http_stop(served->server);
    coxi_page_free(served->page);
    coxi_records_free(served->records);
}

static void add(struct served *served, enum coxi_record_kind kind, const char *fields)
{
    const struct coxi_record record = {.kind = kind, .fields = fields};
    assert_code(0, coxi_records_add(served->records, &record, false, NULL));
}

static char *get(struct served *served, const char *path)
{
    return visitor_get(coxi_http_url(served->server), path);
}

static void assert_has(struct served *served, const char *path, const char *part)
{
    char *body = get(served, path);
    if (strstr(body, part) == NULL) {
        fail_msg("'%s' is not in %s: %.500s", part, path, body);
    }
    free(body);
}

TEST(the_files_of_the_page_are_served)
{
    static const char *const files[][2] = {
        {"/", "<title>Coxswain"}, {"/app.js", "import"},
        {"/style.css", ":root"},  {"/uplot.js", "uPlot"},
        {"/uplot.css", "uplot"},  {"/icon.svg", "<svg"},
        {"/model.js", "import"},  {"/uplot-license.txt", "MIT"},
    };
    struct served served;
    serve(&served, NULL);
    for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
        assert_has(&served, files[i][0], files[i][1]);
    }
    end(&served);
}

/* Whatever the page names, it gets; and it names nothing on other hosts. */
TEST(the_page_needs_nothing_that_is_not_served)
{
    struct served served;
    serve(&served, NULL);
    char *page = get(&served, "/");
    assert_null(strstr(page, "//cdn"));
    assert_null(strstr(page, "https:"));
    for (char *at = page; (at = strstr(at, "=\"/")) != NULL; at++) {
        char path[64] = "";
        (void)sscanf(at + 2, "%63[^\"]", path);
        char *answer = visitor_ask(coxi_http_url(served.server), path, "");
        bool others = strcmp(path, "/metrics") == 0; /* the client's */
        assert_int_equal(others ? 404 : 200, visitor_status(answer));
        free(answer);
    }
    free(page);
    end(&served);
}

/* Asks for the whole history many times at once, then for the script. True if some of it
 * was refused, because the server has had its share of a core. */
static bool script_comes_while_much_is_asked(struct served *served)
{
    enum { N = 60, SCRIPT = N - 1 };
    int fds[N];
    bool any_refused = false;
    for (int i = 0; i < N; i++) {
        fds[i] = visitor_connect(coxi_http_url(served->server));
        visitor_say(fds[i], i == SCRIPT
                                ? "GET /app.js HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n"
                                : "GET /api/history HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n");
    }
    for (int i = 0; i < N; i++) {
        char *answer = visitor_hear(fds[i]);
        any_refused = any_refused || visitor_status(answer) == 503;
        assert_true(i != SCRIPT || visitor_status(answer) == 200);
        free(answer);
    }
    return any_refused;
}

/* A browser asks once for each, and without one of them there is no page. */
TEST(the_files_of_the_page_are_served_also_when_much_is_asked)
{
    struct served served;
    serve(&served, NULL);
    for (int i = 0; i < 4000; i++) {
        add(&served, COXI_RECORD_SAMPLE,
            "\"done\":1,\"queued\":240,\"in_flight\":16,"
            "\"ready\":2,\"total\":1000000,\"eta_s\":1000");
    }
    while (!script_comes_while_much_is_asked(&served)) {
    }
    end(&served);
}

TEST(the_history_begins_after_the_number_that_is_given)
{
    struct served served;
    serve(&served, NULL);
    add(&served, COXI_RECORD_SAMPLE, "\"done\":1");
    add(&served, COXI_RECORD_EVENT, "\"text\":\"x\"");
    assert_has(&served, "/api/history", "\"done\":1");
    char *rest = get(&served, "/api/history?since=1");
    assert_null(strstr(rest, "\"done\":1"));
    assert_non_null(strstr(rest, "\"seq\":2,"));
    free(rest);
    end(&served);
}

TEST(events_have_the_records_with_their_numbers)
{
    struct served served;
    serve(&served, NULL);
    add(&served, COXI_RECORD_SAMPLE, "\"done\":1");
    int fd = visitor_connect(coxi_http_url(served.server));
    visitor_say(fd, "GET /events?since=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    free(visitor_hear_until(fd, "\r\n\r\n"));
    add(&served, COXI_RECORD_SAMPLE, "\"done\":2");
    coxi_http_wake(served.server);
    char *heard = visitor_hear_until(fd, "\"done\":2}\n\n");
    assert_non_null(strstr(heard, "id: 2\ndata: {\"seq\":2,"));
    assert_null(strstr(heard, "\"done\":1"));
    free(heard);
    (void)close(fd);
    end(&served);
}

/* Steps may log thousands of scalars a second; other records are all told. */
TEST(of_very_many_scalars_some_are_told)
{
    struct served served;
    serve(&served, NULL);
    for (int i = 0; i < 1000; i++) {
        const struct coxi_record record = {
            .kind = COXI_RECORD_SCALAR,
            .scalar = {i % 2 ? "odd" : "even", "client", (uint64_t)i, 1}};
        assert_code(0, coxi_records_add(served.records, &record, false, NULL));
    }
    const struct coxi_record rare = {.kind = COXI_RECORD_SCALAR,
                                     .scalar = {"odd", "eval", 7, 1}};
    assert_code(0, coxi_records_add(served.records, &rare, false, NULL));
    add(&served, COXI_RECORD_SAMPLE, "\"done\":7");
    int fd = visitor_connect(coxi_http_url(served.server));
    visitor_say(fd, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    char *heard = visitor_hear_until(fd, "\"done\":7}");
    size_t n[2] = {0};
    for (const char *at = heard; (at = strstr(at, "\"name\":\"")) != NULL; at++) {
        n[strncmp(at + 8, "odd", 3) == 0]++;
    }
    assert_in_range(n[0], 10, 100);
    assert_in_range(n[1], 10, 100);
    assert_non_null(strstr(heard, "\"eval\""));
    /* the newest of each is among them */
    assert_non_null(strstr(heard, "\"step\":998,"));
    assert_non_null(strstr(heard, "\"step\":999,"));
    free(heard);
    (void)close(fd);
    end(&served);
}

TEST(a_reader_of_another_run_is_told_to_begin_anew)
{
    struct served served;
    serve(&served, NULL);
    add(&served, COXI_RECORD_SAMPLE, "\"done\":1");
    int fd = visitor_connect(coxi_http_url(served.server));
    visitor_say(fd, "GET /events?since=900 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    free(visitor_hear_until(fd, "event: reset"));
    (void)close(fd);
    end(&served);
}

TEST(the_state_is_that_of_the_newest_records)
{
    struct served served;
    serve(&served, NULL);
    add(&served, COXI_RECORD_SAMPLE, "\"done\":1");
    assert_has(&served, "/api/state", "\"done\":1");
    add(&served, COXI_RECORD_SAMPLE, "\"done\":2");
    add(&served, COXI_RECORD_WORKERS,
        "\"workers\":[{\"index\":0,\"state\":\"ready\"}]");
    char *body = get(&served, "/api/state");
    json_t *whole = json_loads(body, 0, NULL);
    json_t *sample = json_object_get(whole, "sample");
    assert_int_equal(2, json_integer_value(json_object_get(sample, "done")));
    assert_int_equal(1, json_array_size(json_object_get(whole, "workers")));
    assert_true(json_is_true(json_object_get(whole, "live")));
    assert_true(json_is_true(json_object_get(whole, "has_metrics")));
    json_decref(whole);
    free(body);
    end(&served);
}

TEST(without_a_task_stream_it_says_so)
{
    struct served served;
    serve(&served, NULL);
    assert_has(&served, "/api/tasks", "no task stream");
    end(&served);
}

/* Logs are regular files *.log of the directory: no other file, and no link. */
TEST(the_ends_of_logs_are_served)
{
    struct served served;
    char long_line[40000];
    const char *dir = coxi_test_path("logs");
    assert_int_equal(0, mkdir(dir, 0700));
    memset(long_line, 'x', sizeof(long_line));
    long_line[30000] = '\n';
    memcpy(long_line + sizeof(long_line) - 6, "\n<b>\x01\n", 6);
    coxi_test_write(coxi_test_path("logs/ps-10.log"), "ten\n", 4);
    coxi_test_write(coxi_test_path("logs/ps-9.log"), long_line, sizeof(long_line));
    coxi_test_write(coxi_test_path("logs/secret.txt"), "secret\n", 7);
    coxi_test_write(coxi_test_path("outside"), "outside\n", 8);
    assert_int_equal(0, symlink("../outside", coxi_test_path("logs/link.log")));
    serve(&served, dir);
    char *body = get(&served, "/api/logs");
    json_t *whole = json_loads(body, 0, NULL);
    json_t *logs = json_object_get(whole, "logs");
    assert_int_equal(2, json_array_size(logs));
    json_t *nine = json_array_get(logs, 0);
    const char *text = json_string_value(json_object_get(nine, "text"));
    assert_string_equal("ps-9", json_string_value(json_object_get(nine, "name")));
    assert_in_range(strlen(text), 9000, 10000); /* the last lines, whole */
    assert_non_null(strstr(text, "\n<b>\x01\n"));
    assert_null(strstr(body, "secret"));
    assert_null(strstr(body, "outside"));
    json_decref(whole);
    free(body);
    end(&served);
}

TEST(without_a_directory_there_are_no_logs)
{
    struct served served;
    serve(&served, "/there/is/no/such/directory");
    assert_has(&served, "/api/logs", "{\"logs\":[]}");
    end(&served);
}
