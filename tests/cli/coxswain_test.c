/* The command-line tool: help, versions, clusters for other programs. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/program.h"
#include "tests/test.h"

static void assert_says(const struct program *program, const char *part)
{
    char *output = program_output(program);
    if (strstr(output, part) == NULL) {
        fail_msg("'%s' is not in: %s", part, output);
    }
    free(output);
}

static void assert_exit(int code, const char *const *argv, const char *part)
{
    struct program program;
    int r = program_run(&program, argv);
    assert_says(&program, part);
    assert_int_equal(code, r);
}

TEST(tool_tells_its_version_and_its_commands)
{
    assert_exit(0, (const char *[]){"coxswain", "--version", NULL}, "coxswain 0.1.0");
    assert_exit(0, (const char *[]){"coxswain", "--help", NULL}, "checkpoint");
    assert_exit(0, (const char *[]){"coxswain", "run", "--help", NULL}, "--workers");
    assert_exit(0, (const char *[]){"coxswain", "cluster", "--help", NULL}, "--ps");
}

TEST(every_program_has_help_and_takes_no_unknown_option)
{
    static const char *const names[] = {
        "coxswain-ps",
        "coxswain-worker",
        "coxswain-bench",
        "coxswain-chaos",
        "ctr",
        "early_stop",
        "mf",
        "word2vec",
    };
    static const char *const commands[] = {"run", "cluster", "checkpoint"};
    static const char *const checkpoint[] = {"list", "show",   "verify",
                                             "diff", "export", "prune"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char usage[64];
        (void)snprintf(usage, sizeof(usage), "Usage: %s ", names[i]);
        assert_exit(0, (const char *[]){names[i], "--help", NULL}, usage);
        assert_exit(2, (const char *[]){names[i], "--oars", NULL}, names[i]);
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        assert_exit(0, (const char *[]){"coxswain", commands[i], "--help", NULL},
                    "Usage: coxswain ");
        assert_exit(2, (const char *[]){"coxswain", commands[i], "--oars", NULL},
                    "--oars");
    }
    for (size_t i = 0; i < sizeof(checkpoint) / sizeof(*checkpoint); i++) {
        assert_exit(
            0,
            (const char *[]){"coxswain", "checkpoint", checkpoint[i], "--help", NULL},
            "Usage: coxswain checkpoint ");
    }
}

TEST(tool_exits_2_and_says_what_is_wrong_with_a_command_line)
{
    assert_exit(2, (const char *[]){"coxswain", NULL}, "Usage");
    assert_exit(2, (const char *[]){"coxswain", "sail", NULL}, "'sail'");
    assert_exit(2, (const char *[]){"coxswain", "run", "--ps=0", "--", "true", NULL},
                "--ps");
    assert_exit(2, (const char *[]){"coxswain", "run", "--oars=8", "--", "true", NULL},
                "--oars");
    assert_exit(2, (const char *[]){"coxswain", "run", NULL}, "which program");
    assert_exit(2, (const char *[]){"coxswain", "cluster", "now", NULL}, "'now'");
    assert_exit(2, (const char *[]){"coxswain", "checkpoint", "list", NULL},
                "say: coxswain checkpoint list");
}

TEST(run_gives_a_program_its_cluster_and_takes_over_its_exit_code)
{
    struct program program;
    const char *argv[] = {
        "coxswain", "run", "--ps",    "2",  "--workers",
        "1",        "--",  "/bin/sh", "-c", "echo \"$COX_CLUSTER\"; exit 7",
        NULL};
    assert_int_equal(7, program_run(&program, argv));
    assert_says(&program, "{\"cluster\":{\"ps\":[\"ipc://");
    assert_says(&program, "/ps-1\"],\"worker\":[\"ipc://");

    /* The sockets were in a directory that is gone. */
    char path[256];
    char *output = program_output(&program);
    assert_int_equal(1, sscanf(strstr(output, "ipc://"), "ipc://%255[^\"]", path));
    assert_int_not_equal(0, access(path, F_OK));
    *strrchr(path, '/') = '\0';
    assert_int_not_equal(0, access(path, F_OK));
    free(output);
}

TEST(run_gives_a_program_the_clusters_key_and_leaves_none)
{
    struct program program;
    const char *argv[] = {
        "coxswain", "run",     "--ps=1", "--workers=1",
        "--",       "/bin/sh", "-c",     "stat -c 'key %a %s %n' \"$COX_KEY_FILE\"",
        NULL};
    char path[256];
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    assert_int_equal(0, program_run(&program, argv));
    char *output = program_output(&program);
    assert_int_equal(1, sscanf(strstr(output, "key "), "key 600 32 %255s", path));
    assert_int_not_equal(0, access(path, F_OK));
    free(output);
}

TEST(run_starts_a_program_again_that_a_signal_has_ended)
{
    struct program run;
    char *count = coxi_test_path("count");
    const char *argv[] = {"coxswain",
                          "run",
                          "--ps",
                          "1",
                          "--workers",
                          "1",
                          "--",
                          "/bin/sh",
                          "-c",
                          "echo x >> $0; n=$(wc -l < $0); [ $n = 1 ] && kill -9 $$; [ "
                          "$n = 2 ] && exit 200; "
                          "exit 7",
                          count,
                          NULL};
    assert_int_equal(7, program_run(&run, argv));
    program_assert_printed(&run, "ended with 137 after");
    program_assert_printed(&run, "ended with 200 after");
    program_assert_printed(&run, "(2 of 10)");
}

TEST(run_gives_a_program_up_that_ends_too_often)
{
    struct program run;
    const char *argv[] = {"coxswain", "run",        "--ps", "1",  "--workers",
                          "1",        "--restarts", "2",    "--", "/bin/sh",
                          "-c",       "exit 200",   NULL};
    assert_int_equal(200, program_run(&run, argv));
    program_assert_printed(&run, "(2 of 2)");
}

TEST(run_names_a_program_that_cannot_be_started)
{
    assert_exit(2, (const char *[]){"coxswain", "run", "--", "/nonexistent/x", NULL},
                "/nonexistent/x");
}

TEST(run_passes_a_signal_on_and_waits_for_the_program)
{
    struct program program;
    const char *argv[] = {
        "coxswain",
        "run",
        "--ps=1",
        "--workers=1",
        "--",
        "/bin/sh",
        "-c",
        "trap 'echo caught; exit 9' TERM; echo ready; while :; do read x <&3; done",
        NULL};
    int fds[2];
    /* Descriptor 3, inherited and never written to, lets the shell wait for ever. */
    assert_int_equal(0, pipe(fds));
    assert_int_equal(3, dup2(fds[0], 3));
    program_start(&program, argv);
    program_wait_printed(&program, "ready");
    program_kill(&program, SIGTERM);
    assert_int_equal(9, program_wait(&program));
    assert_says(&program, "caught");
}

static bool has_begun(void *log)
{
    if (access(log, F_OK) != 0) {
        return false;
    }
    char *text = coxi_test_read(log, NULL);
    bool begun = strstr(text, "event=listening") != NULL;
    free(text);
    return begun;
}

TEST(cluster_runs_until_it_is_told_to_end)
{
    struct program program;
    const char *argv[] = {"coxswain",    "cluster",   "--ps=1",
                          "--workers=1", "--log-dir", coxi_test_path("logs"),
                          NULL};
    program_start(&program, argv);
    program_wait_printed(&program, "COX_CLUSTER='{");
    program_assert_printed(&program, "COX_KEY_FILE='");
    coxi_test_until(has_begun, coxi_test_path("logs/ps-0.log"), "its ps");
    program_kill(&program, SIGTERM);
    assert_int_equal(0, program_wait(&program));
    char *log = coxi_test_read(coxi_test_path("logs/ps-0.log"), NULL);
    assert_non_null(strstr(log, "event=ending"));
    free(log);
}

TEST(cluster_leaves_a_directory_that_it_was_given_as_it_was)
{
    struct program program;
    char *dir = coxi_test_path("given");
    char *file = coxi_test_path("given/precious");
    const char *argv[] = {"coxswain", "cluster", "--ps=1", "--workers=1",
                          "--dir",    dir,       NULL};
    assert_int_equal(0, mkdir(dir, 0700));
    coxi_test_write(file, "x", 1);
    program_start(&program, argv);
    coxi_test_until(has_begun, coxi_test_path("given/ps-0.log"), "its ps");
    program_kill(&program, SIGTERM);
    assert_int_equal(0, program_wait(&program));
    assert_int_equal(0, access(file, F_OK));
    assert_int_equal(0, unlink(file));
    assert_int_equal(0, rmdir(dir));

    /* The directory also stays when the cluster does not even start. */
    char *long_dir = coxi_test_path(
        "a-name-that-is-by-far-too-long-for-the-sockets-that-would-have-to-lie-in-it");
    argv[5] = long_dir;
    assert_int_equal(0, mkdir(long_dir, 0700));
    assert_exit(2, argv, "sockets");
    assert_int_equal(0, rmdir(long_dir));
}
