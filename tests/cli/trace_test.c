/* coxswain trace: of a run that is under way, and of runs and addresses that give none. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/coordinator/crew.h"
#include "tests/coordinator/monitor/read_trace.h"
#include "tests/program.h"
#include "tests/test.h"

static void open_run(struct crew *crew, const char *http)
{
    struct cox_options options = COX_OPTIONS_INIT;
    options.http = http;
    crew_open(crew, 1, 1, "hold", &options);
}

static bool exists(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0;
}

static void assert_prints(int code, const char *const *argv, const char *part)
{
    struct program program;
    int ended = program_run(&program, argv);
    char *output = program_output(&program);
    if (ended != code || strstr(output, part) == NULL) {
        fail_msg("exit %d, and '%s' is expected in: %s", ended, part, output);
    }
    free(output);
}

/* Nothing is left of a trace that has failed, and what was there stays. */
static void assert_fails(const char *where, const char *part)
{
    const char *path = coxi_test_path("kept.json");
    size_t len;
    coxi_test_write(path, "old", 3);
    assert_prints(1, (const char *[]){"coxswain", "trace", where, "-o", path, NULL},
                  part);
    char *kept = coxi_test_read(path, &len);
    assert_string_equal("old", kept);
    free(kept);
}

/* The file of a trace under way, before it has its name. */
struct part {
    char path[256];
    off_t bytes;
};

static bool has_grown(void *arg)
{
    struct part *part = arg;
    struct stat file;
    return stat(part->path, &file) == 0 && file.st_size > part->bytes;
}

/* Starts a trace that ends only when something happens, and waits until it is under way. */
static void start_long(struct program *program, const char *where, const char *path)
{
    struct part part = {.bytes = 200};
    program_start(program, (const char *[]){"coxswain", "trace", "--seconds", "300",
                                            where, "-o", path, NULL});
    (void)snprintf(part.path, sizeof(part.path), "%s.part-%d", path, (int)program->pid);
    coxi_test_until(has_grown, &part, "the first bytes of the trace");
}

static void assert_ends(struct program *program, int code, const char *part)
{
    int ended = program_wait(program);
    char *output = program_output(program);
    if (ended != code || strstr(output, part) == NULL) {
        fail_msg("exit %d, and '%s' is expected in: %s", ended, part, output);
    }
    free(output);
}

TEST(a_run_is_traced_by_its_address_and_by_its_directory)
{
    struct crew crew;
    const char *path = coxi_test_path("t.json");
    open_run(&crew, "127.0.0.1:0");
    const char *const wheres[] = {cox_http_address(crew.c), crew.log_dir};
    for (size_t i = 0; i < 2; i++) {
        assert_prints(0,
                      (const char *[]){"coxswain", "trace", wheres[i], "--seconds", "1",
                                       "-o", path, NULL},
                      "https://ui.perfetto.dev");
        json_t *all = read_trace(path, true);
        assert_true(trace_names(all, "process_name", "client"));
        json_decref(all);
        assert_int_equal(0, unlink(path));
    }
    crew_close(&crew);
}

TEST(an_interrupted_trace_is_kept_as_far_as_it_came)
{
    struct crew crew;
    struct program program;
    const char *path = coxi_test_path("t.json");
    open_run(&crew, "127.0.0.1:0");
    start_long(&program, cox_http_address(crew.c), path);
    assert_false(exists(path));
    program_kill(&program, SIGINT);
    assert_ends(&program, 0, "interrupted");
    json_decref(read_trace(path, false));
    crew_close(&crew);
}

TEST(the_end_of_the_run_ends_a_trace)
{
    struct crew crew;
    struct program program;
    const char *path = coxi_test_path("t.json");
    open_run(&crew, "127.0.0.1:0");
    start_long(&program, cox_http_address(crew.c), path);
    crew_close(&crew);
    assert_ends(&program, 0, "https://ui.perfetto.dev");
    json_decref(read_trace(path, false));
}

TEST(only_one_trace_is_taken_at_a_time)
{
    struct crew crew;
    struct program program;
    open_run(&crew, "127.0.0.1:0");
    start_long(&program, cox_http_address(crew.c), coxi_test_path("t.json"));
    assert_fails(cox_http_address(crew.c), "somebody else takes a trace");
    program_kill(&program, SIGTERM);
    assert_ends(&program, 0, "interrupted");
    crew_close(&crew);
}

TEST(a_run_that_does_not_serve_or_is_over_has_no_trace)
{
    struct crew crew;
    char url[128];
    open_run(&crew, NULL);
    assert_fails(crew.log_dir, "COX_HTTP");
    crew_close(&crew);
    open_run(&crew, "127.0.0.1:0");
    (void)snprintf(url, sizeof(url), "%s", cox_http_address(crew.c));
    crew_close(&crew);
    assert_fails(crew.log_dir, "is over");
    assert_fails(url, "nobody answers");
    assert_fails("/no/such/directory", "/no/such/directory");
    assert_fails(coxi_test_dir(), "metrics.jsonl");
}

TEST(a_file_that_cannot_be_written_is_told_before_anything_is_traced)
{
    const char *const bad[] = {coxi_test_path("no/such/t.json"), "/dev/null"};
    for (size_t i = 0; i < 2; i++) { /* nobody is at that address */
        assert_prints(1,
                      (const char *[]){"coxswain", "trace", "127.0.0.1:1", "--output",
                                       bad[i], NULL},
                      bad[i]);
    }
    assert_prints(2, (const char *[]){"coxswain", "trace", "--seconds", "0", NULL},
                  "from 1 to 300");
    assert_prints(2, (const char *[]){"coxswain", "trace", "a", "b", NULL}, "say:");
}

/* ---- clients that fail */

struct answering {
    int fd; /* it listens */
    const char *text;
};

/* Answers one request, and closes. */
static void *answer(void *arg)
{
    const struct answering *answering = arg;
    char request[2048];
    int fd = accept4(answering->fd, NULL, NULL, SOCK_CLOEXEC);
    (void)!recv(fd, request, sizeof(request), 0);
    (void)!send(fd, answering->text, strlen(answering->text), MSG_NOSIGNAL);
    (void)close(fd);
    return NULL;
}

/* Has the command ask somebody who answers with `text`. */
static void assert_answered(const char *text, int code, const char *path,
                            const char *part)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    char port[8];
    pthread_t thread;
    struct answering answering = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                                  .text = text};
    assert_int_equal(0, bind(answering.fd, (struct sockaddr *)&at, len));
    assert_int_equal(0, listen(answering.fd, 1));
    assert_int_equal(0, getsockname(answering.fd, (struct sockaddr *)&at, &len));
    (void)snprintf(port, sizeof(port), "%d", ntohs(at.sin_port));
    assert_int_equal(0, pthread_create(&thread, NULL, answer, &answering));
    assert_prints(code, (const char *[]){"coxswain", "trace", port, "-o", path, NULL},
                  part);
    (void)pthread_join(thread, NULL);
    (void)close(answering.fd);
}

#define PROCESS                                                                        \
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"tid\":0,\"args\":{\"name\":"  \
    "\"client\"}}"
#define SPAN                                                                           \
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":"   \
    "\"t\"}},\n{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"turn\",\"ts\":1,\"dur\":"  \
    "1}"

TEST(a_trace_that_breaks_off_is_made_whole)
{
    const char *path = coxi_test_path("t.json");
    assert_answered("HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n[\n" PROCESS
                    ",\n" SPAN ",\n{\"ph\":\"X\",\"pi",
                    0, path, "what has come so far is kept");
    json_t *all = read_trace(path, false);
    assert_int_equal(3, json_array_size(all));
    json_decref(all);
}

TEST(clients_that_give_no_trace_leave_no_file)
{
    const char *path = coxi_test_path("t.json");
    assert_answered("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[\n{\"ph\":\"M\","
                    "\"name\":\"coxswain\",\"pid\":1,\"tid\":0,\"args\":{\"error\":"
                    "\"the disk \\u001bis full\"}}\n]\n",
                    1, path, "the disk ?is full");
    assert_answered("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 1, path,
                    "older version");
    assert_answered("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nlater \033!\n", 1,
                    path, "later ?!");
    assert_answered("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[\n{", 1, path,
                    "nothing was traced");
    assert_answered("", 1, path, "nobody answers");
    assert_false(exists(path));
}
