/* coxswain run --page, and coxswain launch --page: when they announce which page. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/http/visitor.h"
#include "tests/program.h"
#include "tests/test.h"

static const char announced[] = "the page is at ";

static const char *client(void)
{
    static char path[512];
    (void)snprintf(path, sizeof(path), "%s/cli_serves", coxi_test_bin());
    return path;
}

#define RUN(...)                                                                       \
    (const char *[])                                                                   \
    {                                                                                  \
        "coxswain", "run", "--page", "--ps=1", "--workers=1", "--", __VA_ARGS__, NULL  \
    }

/* Waits for the announcement; the page's address, without the slash at its end. */
static void wait_page(const struct program *run, char ret_url[128])
{
    program_wait_printed(run, announced);
    char *output = program_output(run);
    assert_int_equal(
        1, sscanf(strstr(output, announced) + strlen(announced), "%127s", ret_url));
    ret_url[strlen(ret_url) - 1] = '\0';
    free(output);
}

/* True if the page at the address is of a run of cli_serves. */
static bool is_of_client(void *url)
{
    char *state = visitor_get(url, "/api/state");
    bool is = strstr(state, "cli_serves") != NULL;
    free(state);
    return is;
}

/* The page is served, and gets the run's record soon. */
static void assert_served(char *url)
{
    coxi_test_until(is_of_client, url, "the run's record");
}

static void end(struct program *run)
{
    program_kill(run, SIGTERM);
    assert_int_equal(0, program_wait(run));
}

static void assert_not_announced(const struct program *run)
{
    char *output = program_output(run);
    if (strstr(output, announced) != NULL) {
        fail_msg("a page is announced in: %s", output);
    }
    free(output);
}

TEST(run_finds_a_port_and_announces_the_page_that_is_served_there)
{
    static const char *const chosen[] = {"", "0", "127.0.0.1:0"};
    for (size_t i = 0; i < sizeof(chosen) / sizeof(*chosen); i++) {
        struct program run;
        char url[128];
        assert_int_equal(0, setenv("COX_HTTP", chosen[i], 1));
        program_start(&run, RUN(client()));
        wait_page(&run, url);
        assert_served(url);
        end(&run);
    }
}

TEST(run_announces_no_page_before_the_client_serves_it)
{
    struct program run;
    char url[128];
    char *gate = coxi_test_path("gate");
    assert_int_equal(0, mkfifo(gate, 0600));
    program_start(&run, RUN("/bin/sh", "-c", "echo waits; read line <$0; exec $1", gate,
                            client()));
    program_wait_printed(&run, "waits");
    assert_not_announced(&run);
    coxi_test_write(gate, "\n", 1);
    wait_page(&run, url);
    assert_served(url);
    end(&run);
}

TEST(run_announces_no_page_at_an_address_that_somebody_else_has)
{
    struct program run;
    char address[32];
    int fd = program_occupy_port(address);
    assert_int_equal(0, setenv("COX_HTTP", address, 1));
    assert_int_equal(1, program_run(&run, RUN(client())));
    program_assert_printed(&run, "another program listens there");
    assert_not_announced(&run);
    assert_int_equal(0, close(fd));
}

TEST(run_announces_no_page_of_a_program_that_cannot_start)
{
    struct program run;
    assert_int_equal(2, program_run(&run, RUN("/no/such/program")));
    program_assert_printed(&run, "cannot start /no/such/program");
    assert_not_announced(&run);
}

static bool has_opened_twice(void *arg)
{
    static const char opened[] = "has opened";
    char *output = program_output(arg);
    const char *first = strstr(output, opened);
    bool twice = first != NULL && strstr(first + 1, opened) != NULL;
    free(output);
    return twice;
}

TEST(a_program_that_is_started_again_serves_the_page_that_was_announced)
{
    struct program run;
    char url[128];
    int pid = 0;
    program_start(&run, RUN(client()));
    program_wait_printed(&run, "has opened");
    wait_page(&run, url);
    char *output = program_output(&run);
    assert_int_equal(1, sscanf(strstr(output, "process "), "process %d", &pid));
    free(output);
    assert_int_equal(0, kill(pid, SIGKILL));
    coxi_test_until(has_opened_twice, &run, "the second start");
    assert_served(url);
    end(&run);
    output = program_output(&run);
    assert_null(strstr(strstr(output, announced) + 1, announced));
    free(output);
}

/* An ssh, "sh FILE", that runs the command, its last word, on this host. */
static const char *make_ssh(void)
{
    static const char script[] = "while [ $# -gt 1 ]; do shift; done\n"
                                 "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n"
                                 "exec sh -c \"$1\"\n";
    static char words[512];
    char *path = coxi_test_path("ssh");
    coxi_test_write(path, script, strlen(script));
    (void)snprintf(words, sizeof(words), "sh %s", path);
    return words;
}

TEST(launch_announces_the_page_that_its_program_serves)
{
    struct program launch;
    char url[128];
    program_start(&launch,
                  (const char *[]){"coxswain", "launch", "--page", "--ssh", make_ssh(),
                                   "--remote-bin-dir", coxi_test_bin(), "--ps=1",
                                   "--workers=1", "host", "--", client(), NULL});
    wait_page(&launch, url);
    assert_served(url);
    end(&launch);
}
