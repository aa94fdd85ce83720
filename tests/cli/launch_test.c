/* coxswain launch, with a program in place of ssh that runs the command on this host. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/program.h"
#include "tests/test.h"

/* Writes an ssh, "sh FILE": its last word is the command, the one before it the host.
 * The process id of each host's command is in a file of the host's name. */
static const char *make_ssh(void)
{
    static char words[512];
    char script[1024];
    char *path = coxi_test_path("ssh");
    (void)snprintf(
        script, sizeof(script),
        "while [ $# -gt 2 ]; do shift; done\n"
        "[ $1 != nowhere ] || { echo 'ssh: no host nowhere' >&2; exit 255; }\n"
        "export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'\n"
        "unset COX_KEY_FILE\n"
        "echo 'a line of a start file'\n"
        "if [ -e %s/silent ]; then rm %s/silent; exec sleep 600; fi\n"
        "echo $$ > %s/$1.tmp && mv %s/$1.tmp %s/$1.pid\n"
        "printf 'half a line'\n"
        "exec sh -c \"$2\"\n",
        coxi_test_dir(), coxi_test_dir(), coxi_test_dir(), coxi_test_dir(),
        coxi_test_dir());
    coxi_test_write(path, script, strlen(script));
    (void)snprintf(words, sizeof(words), "sh %s", path);
    return words;
}

/* A command line of coxswain launch. */
#define LAUNCH(hosts, ...)                                                             \
    (const char *[])                                                                   \
    {                                                                                  \
        "coxswain", "launch", "--ssh", make_ssh(), "--remote-bin-dir",                 \
            coxi_test_bin(), "--ps=1", "--workers=2", hosts, "--", __VA_ARGS__, NULL   \
    }

static bool is_there(void *path)
{
    return access(path, F_OK) == 0;
}

/* True if a process has ended, or only waits for its parent to notice that. */
static bool has_ended(void *pid)
{
    char path[64];
    char line[512] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", *(pid_t *)pid);
    FILE *file = fopen(path, "r");
    bool ended = file == NULL || fgets(line, sizeof(line), file) == NULL ||
                 strstr(line, ") Z ") != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return ended;
}

static pid_t pid_of(const char *host)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s.pid", host);
    char *path = coxi_test_path(name);
    coxi_test_until(is_there, path, "the process of a host");
    char *text = coxi_test_read(path, NULL);
    pid_t pid = (pid_t)strtol(text, NULL, 10);
    free(text);
    assert_true(pid > 0);
    return pid;
}

TEST(launch_gives_a_program_its_cluster_and_takes_over_its_exit_code)
{
    struct program program;
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    int r =
        program_run(&program, LAUNCH("anna@h1:2022,h2", "/bin/sh", "-c",
                                     "echo \"$COX_CLUSTER\"; stat -c 'key %a %s %n' "
                                     "\"$COX_KEY_FILE\"; exit 7"));
    char *output = program_output(&program);
    char path[256];
    assert_int_equal(7, r);
    program_assert_printed(&program, "{\"cluster\":{\"ps\":[\"tcp://127.0.0.1:");
    assert_int_equal(1, sscanf(strstr(output, "key "), "key 600 32 %255s", path));
    assert_int_not_equal(0, access(path, F_OK));
    free(output);
    pid_t pids[] = {pid_of("anna@h1"), pid_of("h2")};
    assert_true(has_ended(&pids[0]) && has_ended(&pids[1]));
}

TEST(hosts_of_a_file_train)
{
    struct program program;
    char *file = coxi_test_path("hosts");
    static const char hosts[] = "# two\nh1 # the first\nh2=127.0.0.1\n";
    coxi_test_write(file, hosts, strlen(hosts));
    char ctr[512];
    (void)snprintf(ctr, sizeof(ctr), "%s/ctr", coxi_test_bin());
    assert_int_equal(
        0, program_run(&program, LAUNCH(file, ctr, "--rows", "4000", "--epochs", "2",
                                        "--out", coxi_test_path("ctr-out"))));
    program_assert_printed(&program, "{\"examples\": 8000,");
}

TEST(a_host_whose_connection_ends_is_started_again_at_the_same_addresses)
{
    struct program launch;
    char *go = coxi_test_path("go");
    program_start(&launch,
                  LAUNCH("again", "/bin/sh", "-c",
                         "echo started; while [ ! -e $0 ]; do sleep 0.05; done; exit 3",
                         go));
    program_wait_printed(&launch, "started");
    pid_t first = pid_of("again");
    (void)unlink(coxi_test_path("again.pid"));
    assert_int_equal(0, kill(first, SIGKILL));
    program_wait_printed(&launch, "host again: its connection has ended");
    pid_t second = pid_of("again");
    assert_int_not_equal(first, second);
    coxi_test_write(go, "", 0);
    assert_int_equal(3, program_wait(&launch));
    assert_true(has_ended(&second));
}

/* Its login hangs, say, because its file systems do. */
TEST(a_host_that_is_silent_when_it_is_started_again_has_further_tries)
{
    struct program launch;
    char *go = coxi_test_path("go");
    const char *argv[] = {"coxswain",
                          "launch",
                          "--ssh",
                          make_ssh(),
                          "--remote-bin-dir",
                          coxi_test_bin(),
                          "--ps=1",
                          "--start-timeout-ms=4000",
                          "h1",
                          "--",
                          "/bin/sh",
                          "-c",
                          "echo started; while [ ! -e $0 ]; do sleep 0.05; done",
                          go,
                          NULL};
    program_start(&launch, argv);
    program_wait_printed(&launch, "started");
    pid_t first = pid_of("h1");
    coxi_test_write(coxi_test_path("silent"), "", 0);
    (void)unlink(coxi_test_path("h1.pid"));
    assert_int_equal(0, kill(first, SIGKILL));
    program_wait_printed(&launch, "it has not started its daemons after 4000 ms");
    pid_t third = pid_of("h1");
    coxi_test_write(go, "", 0);
    assert_int_equal(0, program_wait(&launch));
    assert_true(has_ended(&third));
}

TEST(everything_ends_when_launch_is_killed)
{
    struct program launch;
    char *client = coxi_test_path("client.pid");
    program_start(&launch, LAUNCH("killed", "/bin/sh", "-c",
                                  "echo $$ >$0; echo started; exec sleep 600", client));
    program_wait_printed(&launch, "started");
    pid_t pids[] = {pid_of("killed"), pid_of("client")};
    program_kill(&launch, SIGKILL);
    (void)program_wait(&launch);
    coxi_test_until(has_ended, &pids[0], "the end of the host's daemons");
    coxi_test_until(has_ended, &pids[1], "the end of the program");
}

TEST(a_signal_ends_the_program_and_the_hosts)
{
    struct program launch;
    program_start(&launch,
                  LAUNCH("told", "/bin/sh", "-c", "echo started; exec sleep 600"));
    program_wait_printed(&launch, "started");
    program_kill(&launch, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&launch));
    pid_t pid = pid_of("told");
    assert_true(has_ended(&pid));
}

static void assert_fails(int code, const char *const *argv, const char *part)
{
    struct program program;
    int r = program_run(&program, argv);
    program_assert_printed(&program, part);
    assert_int_equal(code, r);
}

TEST(launch_says_what_is_wrong_and_what_to_do)
{
    const char *ssh = make_ssh();
    assert_fails(1, LAUNCH("h1,nowhere", "true"),
                 "host nowhere: ssh cannot reach it, or log in there");
    assert_fails(1,
                 (const char *[]){"coxswain", "launch", "--ssh", ssh,
                                  "--remote-bin-dir", "/none", "h1", "--", "true",
                                  NULL},
                 "the program coxswain is not in /none there");
    assert_fails(2, LAUNCH("h1", "no-such-program"), "cannot start no-such-program");
    assert_fails(2, LAUNCH("h1,-oProxyCommand=x", "true"), "is no host");
    assert_fails(2, LAUNCH("h1,u@h1", "true"), "host h1 is listed twice");
    assert_fails(2, LAUNCH("./none", "true"), "./none");
    assert_fails(1, LAUNCH("h1,h2=10.0.0.1", "true"), "h2");
    assert_fails(2, (const char *[]){"coxswain", "launch", "h1", NULL}, "which hosts");
    assert_fails(2, (const char *[]){"coxswain", "host", NULL}, "coxswain launch");
}
