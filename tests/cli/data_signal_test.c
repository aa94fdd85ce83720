/* Signals that end commands of coxswain data while a web server stalls. */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/data_tool.h"
#include "tests/program.h"

enum { FILE_BYTES = 300000 };

/* Starts a web server, and converts a file of it, which stalls. */
static void start(struct program *web, struct program *tool)
{
    static uint8_t content[FILE_BYTES];
    char url[128];
    const char *dir = coxi_test_path("www");
    const char *serve[] = {"/usr/bin/env", "python3", COXI_WEB_PY, dir, NULL};
    assert_int_equal(0, mkdir(dir, 0700));
    memset(content, '\n', sizeof(content));
    coxi_test_write(coxi_test_path("www/file.txt"), content, sizeof(content));
    assert_int_equal(
        0, setenv("no_proxy", "127.0.0.1", 1)); // NOLINT(concurrency-mt-unsafe)
    program_start(web, serve);
    program_wait_printed(web, ".\n");
    char *output = program_output(web);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d/stall/file.txt",
                   atoi(output + strlen("port "))); // NOLINT(cert-err34-c)
    free(output);
    const char *convert[] = {
        "coxswain", "data", "convert", url, coxi_test_path("out.txt"), NULL};
    program_start(tool, convert);
    program_wait_printed(web, "stalled");
}

TEST(a_signal_ends_a_command_while_a_server_stalls)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        struct program web;
        struct program tool;
        start(&web, &tool);
        assert_int_equal(0, access(coxi_test_path("out.txt.part"), F_OK));
        program_kill(&tool, signals[i]);
        assert_int_equal(256 + signals[i], program_wait(&tool));
        program_assert_printed(&tool, "interrupted");
        assert_int_equal(-1, access(coxi_test_path("out.txt.part"), F_OK));
        assert_int_equal(-1, access(coxi_test_path("out.txt"), F_OK));
        program_kill(&web, SIGKILL);
        (void)program_wait(&web);
        assert_int_equal(0, unlink(coxi_test_path("www/file.txt")));
        assert_int_equal(0, rmdir(coxi_test_path("www")));
    }
}
