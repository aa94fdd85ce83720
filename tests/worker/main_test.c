/* The program coxswain-worker, from outside: its options. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/program.h"
#include "tests/test.h"

static const char name[] = "coxswain-worker";

TEST(worker_program_lists_its_options)
{
    static const char *const listed[] = {"Usage: coxswain-worker",
                                         "--listen",
                                         "--index",
                                         "--address-file",
                                         "--slots",
                                         "--client",
                                         "--name",
                                         "--commit-window",
                                         "--step-memory-max",
                                         "--step-rows-max",
                                         "--dir",
                                         "--log-level",
                                         "--log-max",
                                         "--peer-timeout-ms",
                                         "--local-path",
                                         "--insecure",
                                         "COX_WORKER_"};
    struct program program;
    const char *const argv[] = {name, "--help", NULL};
    assert_int_equal(0, program_run(&program, argv));
    for (size_t i = 0; i < sizeof(listed) / sizeof(*listed); i++) {
        program_assert_printed(&program, listed[i]);
    }
}

TEST(worker_program_bounds_its_log)
{
    program_assert_bounds_its_log(name);
}

TEST(worker_program_names_an_option_and_the_range_of_its_values)
{
    program_assert_refuses(name, "--slots=0", "--slots takes a number from 1 to 1024");
    program_assert_refuses(name, "--commit-window=many", "--commit-window");
    program_assert_refuses(name, "--step-memory-max=2Q", "512M");
    program_assert_refuses(name, "--no-such-option", "--no-such-option");
}

/* Other users of this host reach loopback addresses, too. */
TEST(worker_program_uses_no_tcp_without_a_key)
{
    static const char *const listens[] = {"--listen=tcp://0.0.0.0:0",
                                          "--listen=127.0.0.1:0"};
    for (size_t i = 0; i < sizeof(listens) / sizeof(*listens); i++) {
        program_assert_refuses(name, listens[i], "--listen tcp://");
        program_assert_refuses(name, listens[i], "coxswain key new");
        program_assert_refuses(name, listens[i], "--insecure");
    }
}

TEST(worker_program_refuses_a_tls_url_with_the_reason)
{
    program_assert_refuses(name, "--listen=tls+tcp://host:7",
                           "a key protects connections without it");
}

/* An error of the first step process ends the supervisor, too. */
TEST(worker_program_names_an_address_that_it_cannot_use)
{
    program_assert_refuses(name, "--listen=ipc:///no/such/directory/worker",
                           "/no/such/directory/worker");
}

TEST(worker_program_names_an_address_that_this_host_has_not)
{
    static const char listen[] =
        "--listen=tcp://192.0.2.1:7"; /* of no host, RFC 5737 */
    assert_int_equal(0, setenv("COX_WORKER_INSECURE", "true", 1));
    program_assert_refuses(name, listen, "this host has no such address");
}

TEST(worker_program_refuses_bounds_of_files_that_bound_nothing)
{
    program_assert_refuses(name, "--confine-read=/usr", "--confine=landlock");
    program_assert_refuses(name, "--confine-write=/tmp", "--confine=landlock");
}

TEST(worker_program_names_an_address_file_that_it_cannot_write)
{
    program_assert_refuses(name, "--address-file=/no/such/directory/address",
                           "/no/such/directory/address");
}

TEST(worker_program_names_a_directory_that_it_cannot_make)
{
    program_assert_refuses(name, "--dir=/proc/no/such/directory", "/proc/no");
}

TEST(worker_program_names_an_address_that_is_in_use)
{
    struct program first;
    char address[256];
    char option[300];
    daemon_start(&first, name, 0, "tcp://127.0.0.1:0", address);
    (void)snprintf(option, sizeof(option), "--listen=%s", address);
    program_assert_refuses(name, option, address);
    program_kill(&first, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&first));
}

TEST(worker_program_ends_at_once_where_its_starter_has_gone)
{
    struct program program;
    const char *const argv[] = {name, "--parent=1", NULL};
    assert_int_equal(128, program_run(&program, argv));
}

TEST(worker_program_says_what_is_wrong_with_the_client_to_dial)
{
    static const struct {
        const char *argv[6];
        const char *named;
    } cases[] = {
        {{name, "--client=host", NULL}, "--client: 'host'"},
        {{name, "--client=tcp://10.1.2.3:7", NULL}, "--insecure"},
        {{name, "--client=10.1.2.3:7", NULL}, "--client tcp://10.1.2.3:7"},
        {{name, "--client=127.0.0.1:7", NULL}, "coxswain key new"},
        {{name, "--client=tls+tcp://host:7", NULL}, "write tcp://host:7"},
        {{name, "--client=ipc:///a", "--address-file=b", NULL}, "--address-file"},
        {{name, "--client=ipc:///a", "--name=two words", NULL}, "--name: character 4"},
        {{name, "--client=ipc:///a", "--name=", NULL}, "--name"},
        {{name, "--name=anna", NULL}, "--name belongs to --client"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct program program;
        assert_int_equal(2, program_run(&program, cases[i].argv));
        program_assert_printed(&program, cases[i].named);
    }
}

TEST(worker_program_dials_a_client_given_as_host_and_port)
{
    struct program program;
    const char *const argv[] = {name, "--client=127.0.0.1:1", NULL};
    (void)rig_key();
    program_start(&program, argv);
    program_wait_printed(&program, "event=not_reached");
    program_assert_printed(&program, "tcp://127.0.0.1:1");
    program_kill(&program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&program));
}

/* The supervisor chooses the name, because it outlives the processes that dial. */
TEST(worker_program_that_dials_is_named_after_its_host_and_process)
{
    char host[65] = "";
    char named[128];
    struct program program;
    char url[300];
    (void)snprintf(url, sizeof(url), "--client=ipc://%s", coxi_test_path("client"));
    const char *const argv[] = {name, url, NULL};
    assert_int_equal(0, gethostname(host, sizeof(host) - 1));
    program_start(&program, argv);
    (void)snprintf(named, sizeof(named), " name=%s-%d", host, (int)program.pid);
    program_wait_printed(&program, named);
    program_wait_printed(&program, "event=not_reached");
    program_kill(&program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&program));
}
