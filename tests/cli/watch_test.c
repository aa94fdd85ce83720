/* coxswain status, top, events and page: a run in its directory. */
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/http/visitor.h"
#include "tests/program.h"
#include "tests/test.h"

static const char up[] = "\"state\":\"up\"";

/* A run of a moment ago, with what a terminal must not get. `more`: members of its
 * sample; `ps`: of its ps. */
static const char *write_run_with(const char *worker_state, const char *more,
                                  const char *ps)
{
    char text[4096];
    double now = (double)time(NULL);
    const char *dir = coxi_test_path("run");
    (void)mkdir(dir, 0700);
    int n = snprintf(
        text, sizeof(text),
        "{\"seq\":1,\"t\":%.3f,\"kind\":\"run\",\"run\":\"ab\",\"pid\":7,\"host\":"
        "\"h\","
        "\"program\":\"/bin/train\\u001b[2J\"}\n"
        "{\"seq\":2,\"t\":%.3f,\"kind\":\"sample\",\"done\":50,\"data\":{\"done\":1,"
        "\"total\":4,\"eta_s\":15},\"rate\":"
        "10,"
        "\"queued\":3,\"in_flight\":4,\"ps_bytes\":2048,\"step\":50%s}\n"
        "{\"seq\":3,\"t\":%.3f,\"kind\":\"ps\",\"ps\":[{\"index\":0,%s,"
        "\"address\":\"tcp://p\",\"bytes\":2048,\"rows\":9}]}\n"
        "{\"seq\":4,\"t\":%.3f,\"kind\":\"workers\",\"workers\":[{\"index\":0,"
        "\"state\":"
        "\"ready\",\"address\":\"tcp://"
        "w\",\"rate\":10,\"step_us\":1500,\"rss\":5242880,\"slots\":2,"
        "\"running\":7},{\"index\":1,"
        "\"state\":\"%s\",\"address\":\"tcp://v\"}]}\n"
        "{\"seq\":5,\"t\":%.3f,\"kind\":\"scalar\",\"name\":\"loss\",\"source\":"
        "\"train\","
        "\"step\":50,\"value\":0.25}\n"
        "{\"seq\":6,\"t\":%.3f,\"kind\":\"event\",\"code\":\"worker_lost\",\"level\":"
        "\"warning\",\"text\":\"worker 1 \\u001b[31mis lost\",\"worker\":1}\n",
        now, now, more, now, ps, now, worker_state, now, now);
    coxi_test_write(coxi_test_path("run/metrics.jsonl"), text, (size_t)n);
    return dir;
}

static const char *write_run(const char *worker_state)
{
    return write_run_with(worker_state, "", up);
}

static void assert_prints(int code, const char *const *argv, const char *part)
{
    struct program program;
    assert_int_equal(code, program_run(&program, argv));
    char *output = program_output(&program);
    if (strstr(output, part) == NULL || strchr(output, '\033') != NULL) {
        fail_msg("'%s' is not in, or an escape is: %s", part, output);
    }
    free(output);
}

TEST(status_says_how_far_a_run_is)
{
    const char *dir = write_run("ready");
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(0, argv, "50 steps done, 25.0 % of its data, about 15 s left");
    assert_prints(0, argv, "workers 2 of 2 ready");
    assert_prints(0, argv, "loss 0.25 (train, step 50)");
    assert_prints(0, argv, "train?[2J, run ab (process 7 on h)");
}

TEST(status_takes_the_programs_word_for_how_much_there_is_to_do)
{
    const char *dir = write_run_with("ready", ",\"total\":200,\"eta_s\":75", up);
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(0, argv, "50 steps done, 25.0 % of 200, about 1 min 15 s left");
    const char *const top[] = {"coxswain", "top", "--count", "1", dir, NULL};
    assert_prints(0, top, "50 steps done, 25.0 % of 200, about 1 min 15 s left");
}

TEST(status_exits_3_if_a_worker_is_away)
{
    const char *dir = write_run("away");
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(3, argv, "workers 1 of 2 ready");
}

TEST(status_tells_no_time_left_while_a_ps_is_awaited)
{
    const char *dir = write_run_with("ready", "", "\"state\":\"lost\"");
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(3, argv,
                  "50 steps done, 25.0 % of its data, 10.0 a second; waits for ps 0\n");
}

TEST(status_exits_3_if_a_ps_does_not_answer)
{
    const char *dir = write_run_with("ready", "", "\"state\":\"silent\"");
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(3, argv, "ps 0 of 1 up");
}

TEST(a_run_whose_client_was_closed_is_over)
{
    const char *dir = write_run_with("ready", ",\"over\":true", up);
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    const char *const top[] = {"coxswain", "top", "--count", "1", dir, NULL};
    assert_prints(0, argv, "50 steps done, 25.0 % of its data; ended ");
    assert_prints(0, argv, "ps 1, workers 2, failed 0");
    assert_prints(0, top, "When it ended:\n   PS  STATE");
}

TEST(a_run_with_steps_that_failed_is_not_well_and_tells_the_first)
{
    const char *dir = write_run_with(
        "ready", ",\"failed\":3,\"failure\":\"closure 9 (f): bad\",\"over\":true", up);
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    assert_prints(3, argv, "\nfirst failure: closure 9 (f): bad\n");
}

TEST(a_run_that_was_closed_because_it_could_not_go_on_is_not_well)
{
    static const char over[] =
        "{\"seq\":7,\"t\":1,\"kind\":\"event\",\"code\":\"run_over\"}\n";
    const char *dir = write_run_with("ready", ",\"over\":true", up);
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    int fd = open(coxi_test_path("run/metrics.jsonl"), O_WRONLY | O_APPEND);
    assert_int_equal(sizeof(over) - 1, write(fd, over, sizeof(over) - 1));
    (void)close(fd);
    assert_prints(3, argv, " ago, because it could not go on\n");
}

/* ---- real runs: 2 ps, 3 workers */

static bool is_well(void *dir)
{
    struct program program;
    const char *const argv[] = {"coxswain", "status", dir, NULL};
    bool is = program_run(&program, argv) == 0;
    char *output = program_output(&program);
    is = is && strstr(output, "ps 2 of 2 up, workers 3 of 3 ready") != NULL;
    free(output);
    return is;
}

/* Starts a client that runs steps; returns its directory, in which all is well. */
static const char *client_start(struct program *client)
{
    char *dir = coxi_test_path("real");
    (void)mkdir(dir, 0700);
    program_start(client, (const char *[]){"page_client", dir,
                                           coxi_test_module("page_steps"), NULL});
    program_wait_printed(client, "/\n");
    coxi_test_until(is_well, dir, "a run that is well");
    return dir;
}

/* A member of `status --json`; for json_decref. */
static json_t *told_by_status(int code, const char *dir, const char *name)
{
    struct program program;
    const char *const argv[] = {"coxswain", "status", "--json", dir, NULL};
    assert_int_equal(code, program_run(&program, argv));
    char *output = program_output(&program);
    json_t *whole = json_loads(output, 0, NULL);
    json_t *member = json_incref(json_object_get(whole, name));
    assert_non_null(member);
    json_decref(whole);
    free(output);
    return member;
}

static void assert_client(int code, const char *dir, const char *client)
{
    json_t *told = told_by_status(code, dir, "client");
    assert_string_equal(client, json_string_value(told));
    json_decref(told);
}

static void page_start(struct program *program, const char *dir, char ret_url[128]);

TEST(a_client_that_is_killed_is_gone_at_once)
{
    struct program client;
    struct program page;
    char url[128];
    coxi_test_expect_crashes();
    const char *dir = client_start(&client);
    const char *const status[] = {"coxswain", "status", dir, NULL};
    const char *const top[] = {"coxswain", "top", "--count", "1", dir, NULL};
    assert_client(0, dir, "running");
    page_start(&page, dir, url);
    program_kill(&client, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&client));
    assert_prints(3, status, "the client is gone without having closed the run");
    assert_prints(3, status, "last seen: ps 2 of 2 up, workers 3 of 3 ready");
    assert_prints(0, top, "As last seen:\n   PS  STATE");
    assert_client(3, dir, "gone");
    char *told = visitor_get(url, "/api/state");
    assert_non_null(strstr(told, "\"live\":false"));
    free(told);
    program_kill(&page, SIGTERM);
    assert_int_equal(0, program_wait(&page));
}

TEST(a_client_that_has_closed_its_run_has_told_its_last_numbers)
{
    struct program client;
    const char *dir = client_start(&client);
    program_kill(&client, SIGUSR1);
    program_wait_printed(&client, "\"checkpoints\"");
    char *output = program_output(&client);
    json_t *stats = json_loads(strchr(output, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    program_kill(&client, SIGTERM);
    assert_int_equal(0, program_wait(&client));
    assert_client(0, dir, "closed");
    json_t *sample = told_by_status(0, dir, "sample");
    json_t *all = told_by_status(0, dir, "ps");
    assert_true(json_equal(json_object_get(stats, "commits"),
                           json_object_get(sample, "commits")));
    json_t *ps;
    size_t i;
    json_array_foreach(all, i, ps)
    {
        assert_string_equal("up", json_string_value(json_object_get(ps, "state")));
    }
    json_decref(stats);
    json_decref(sample);
    json_decref(all);
    free(output);
}

/* ---- */

/* `script` (Debian package bsdutils) makes the terminal. */
TEST(top_fits_the_terminal)
{
    struct program program;
    char command[1024];
    const char *const argv[] = {"/usr/bin/script", "-qec", command, "/dev/null", NULL};
    (void)snprintf(
        command, sizeof(command),
        "stty rows 6 cols 20; \"$COX_BIN_DIR/coxswain\" top --count 1 \"%s\"",
        write_run("ready"));
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    size_t n = 0;
    size_t columns = 0;
    const char *at = strstr(output, "\033[2J");
    assert_non_null(at);
    for (at += strlen("\033[2J"); *at != '\0'; at++) {
        columns = *at == '\r' || *at == '\n' ? 0 : columns + 1;
        n += *at == '\n';
        assert_true(columns <= 20);
    }
    assert_int_equal(5, n);
    free(output);
}

TEST(status_is_also_json)
{
    struct program program;
    const char *dir = write_run("ready");
    assert_int_equal(0, program_run(&program, (const char *[]){"coxswain", "status",
                                                               "--json", dir, NULL}));
    char *output = program_output(&program);
    json_t *whole = json_loads(output, 0, NULL);
    assert_non_null(whole);
    json_t *sample = json_object_get(whole, "sample");
    assert_int_equal(50, json_integer_value(json_object_get(sample, "done")));
    json_decref(whole);
    free(output);
}

TEST(top_prints_plain_tables_where_there_is_no_terminal)
{
    const char *dir = write_run("away");
    const char *const argv[] = {"coxswain",   "top", "--count", "2",
                                "--interval", "0.1", dir,       NULL};
    assert_prints(0, argv, "    1  away");
    assert_prints(0, argv, "1.5 ms");
    assert_prints(0, argv, "2.0 KiB");
    assert_prints(0, argv, "5.0 MiB");
    assert_prints(0, argv, "RUNNING   NEXT   SLOTS");
    assert_prints(0, argv, "      2      5       2");
}

TEST(events_are_printed_and_followed)
{
    struct program program;
    const char *dir = write_run("ready");
    const char *const argv[] = {"coxswain", "events", dir, NULL};
    static const char more[] =
        "{\"seq\":7,\"t\":1,\"kind\":\"event\",\"code\":\"ps_lost\","
        "\"level\":\"warning\",\"text\":\"ps 0 is lost\"}\n";
    assert_prints(0, argv, "warning worker_lost: worker 1 ?[31mis lost");
    program_start(&program,
                  (const char *[]){"coxswain", "events", "--follow", dir, NULL});
    program_wait_printed(&program, "worker_lost");
    int fd = open(coxi_test_path("run/metrics.jsonl"), O_WRONLY | O_APPEND);
    assert_int_equal(sizeof(more) - 1, write(fd, more, sizeof(more) - 1));
    (void)close(fd);
    program_wait_printed(&program, "ps_lost: ps 0 is lost");
    program_kill(&program, SIGTERM);
    assert_int_equal(0, program_wait(&program));
}

/* U+009B begins an escape sequence, in many terminals also as UTF-8. */
TEST(json_for_a_terminal_has_no_control_characters)
{
    static const char text[] =
        "{\"seq\":1,\"t\":1,\"kind\":\"event\",\"code\":\"x\",\"level\":\"info\","
        "\"text\":\"\xc2\x9b"
        "31m\"}\n";
    const char *dir = coxi_test_path("run");
    (void)mkdir(dir, 0700);
    coxi_test_write(coxi_test_path("run/metrics.jsonl"), text, sizeof(text) - 1);
    const char *const events[] = {"coxswain", "events", "--json", dir, NULL};
    const char *const status[] = {"coxswain", "status", "--json", dir, NULL};
    assert_prints(0, events, "\\u009B31m");
    assert_prints(3, status, "\\u009B31m");
}

/* What `coxswain page` prints first. */
static void page_start(struct program *program, const char *dir, char ret_url[128])
{
    program_start(program, (const char *[]){"coxswain", "page", dir, NULL});
    program_wait_printed(program, "/\n");
    char *output = program_output(program);
    assert_int_equal(1, sscanf(output, "%127s", ret_url));
    ret_url[strlen(ret_url) - 1] = '\0'; /* the slash */
    free(output);
}

/* Of a program's output directory, too, in which the history is in `checkpoints`. */
TEST(page_serves_a_directory_and_follows_it)
{
    struct program program;
    char url[128];
    static const char more[] = "{\"seq\":7,\"t\":1,\"kind\":\"sample\",\"done\":51}\n";
    (void)write_run("ready");
    assert_int_equal(0, mkdir(coxi_test_path("out"), 0700));
    assert_int_equal(0,
                     rename(coxi_test_path("run"), coxi_test_path("out/checkpoints")));
    page_start(&program, coxi_test_path("out"), url);
    int fd = visitor_connect(url);
    visitor_say(fd, "GET /events?since=6 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    free(visitor_hear_until(fd, "\r\n\r\n"));
    int file =
        open(coxi_test_path("out/checkpoints/metrics.jsonl"), O_WRONLY | O_APPEND);
    assert_int_equal(sizeof(more) - 1, write(file, more, sizeof(more) - 1));
    (void)close(file);
    free(visitor_hear_until(fd, "\"done\":51"));
    (void)close(fd);
    program_kill(&program, SIGTERM);
    assert_int_equal(0, program_wait(&program));
}

TEST(tools_read_a_served_run_by_its_address)
{
    struct program program;
    char url[128];
    page_start(&program, write_run("ready"), url);
    char *served = visitor_get(url, "/api/state");
    assert_non_null(strstr(served, "\"done\":50"));
    free(served);
    assert_prints(0, (const char *[]){"coxswain", "status", url, NULL},
                  "25.0 % of its data");
    assert_prints(0,
                  (const char *[]){"coxswain", "status", strrchr(url, ':') + 1, NULL},
                  "25.0 % of its data");
    assert_prints(0,
                  (const char *[]){"coxswain", "events", url + strlen("http://"), NULL},
                  "worker_lost");
    program_kill(&program, SIGTERM);
    assert_int_equal(0, program_wait(&program));
    assert_prints(1, (const char *[]){"coxswain", "status", url, NULL}, url);
}

TEST(tools_follow_another_run_at_the_same_address)
{
    struct program page;
    struct program events;
    char url[128];
    static const char text[] =
        "{\"seq\":1,\"t\":1,\"kind\":\"event\",\"code\":\"ps_lost\",\"level\":"
        "\"warning\",\"text\":\"ps 0 is lost\"}\n";
    page_start(&page, write_run("ready"), url);
    program_start(&events,
                  (const char *[]){"coxswain", "events", "--follow", url, NULL});
    program_wait_printed(&events, "worker_lost");
    assert_int_equal(0, unlink(coxi_test_path("run/metrics.jsonl")));
    coxi_test_write(coxi_test_path("run/metrics.jsonl"), text, sizeof(text) - 1);
    program_wait_printed(&events, "ps_lost: ps 0 is lost");
    program_kill(&events, SIGTERM);
    assert_int_equal(0, program_wait(&events));
    program_kill(&page, SIGTERM);
    assert_int_equal(0, program_wait(&page));
}

/* All commands exit alike. */
static void assert_all_refuse(int code, const char *where, const char *part)
{
    static const char *const commands[] = {"status", "events", "top", "page", "trace"};
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        assert_prints(code, (const char *[]){"coxswain", commands[i], where, NULL},
                      part);
    }
}

TEST(a_file_of_another_program_is_no_run)
{
    static const char foreign[] = "step,loss\n1,0.5\n";
    coxi_test_write(coxi_test_path("metrics.jsonl"), foreign, sizeof(foreign) - 1);
    assert_all_refuse(1, coxi_test_dir(), "is no history of a run");
}

TEST(tools_say_what_is_missing)
{
    assert_all_refuse(1, coxi_test_dir(), "there is no run in ");
    assert_all_refuse(1, coxi_test_dir(), coxi_test_dir());
    assert_all_refuse(1, "/no/such", "/no/such is no directory");
    assert_all_refuse(2, "s3://b/run", "the run's log_dir");
    assert_all_refuse(2, "s3:/b/run", "neither a directory nor s3://BUCKET/PREFIX");
    assert_prints(2, (const char *[]){"coxswain", "page", "127.0.0.1:1", NULL},
                  "no directory");
    assert_prints(1, (const char *[]){"coxswain", "status", "127.0.0.1:1", NULL},
                  "127.0.0.1:1");
    assert_prints(2, (const char *[]){"coxswain", "status", "a", "b", NULL}, "say:");
    assert_prints(2, (const char *[]){"coxswain", "events", "--oars", NULL}, "--oars");
}

TEST(an_address_that_is_none_is_refused_before_anybody_is_asked)
{
    static const char *const wrong[][2] = {
        {"127.0.0.1:99999", "'127.0.0.1:99999' is no address"},
        {"http://127.0.0.1:99999/", "ports are numbers from 0 to 65535"},
        {"99999", "is no address"},
        {"127.0.0.1:", "is no address"},
        {":80", "has no host"},
        {"::1:80", "brackets"},
        {"127.0.0.1:0", "nobody is at port 0"},
        {"https://127.0.0.1:80", "is neither a directory nor"},
    };
    static const char *const commands[] = {"status", "events", "top", "trace"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        const char *command = commands[i % 4];
        assert_prints(2, (const char *[]){"coxswain", command, wrong[i][0], NULL},
                      wrong[i][1]);
    }
}
