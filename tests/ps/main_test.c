/* The program coxswain-ps, from outside. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

enum { KILLED = 256 + SIGKILL };

static const char name[] = "coxswain-ps";

TEST(ps_program_lists_its_options)
{
    static const char *const listed[] = {"Usage: coxswain-ps",
                                         "--listen",
                                         "--index",
                                         "--address-file",
                                         "--peer-timeout-ms",
                                         "--memory-max",
                                         "--checkpoint-root",
                                         "--log-level",
                                         "--log-max",
                                         "--local-path",
                                         "--insecure",
                                         "COX_PS_",
                                         "--http",
                                         "--http-file",
                                         "--http-open"};
    struct program program;
    const char *const argv[] = {name, "--help", NULL};
    assert_int_equal(0, program_run(&program, argv));
    for (size_t i = 0; i < sizeof(listed) / sizeof(*listed); i++) {
        program_assert_printed(&program, listed[i]);
    }
}

TEST(ps_program_bounds_its_log)
{
    program_assert_bounds_its_log(name);
}

TEST(ps_program_refuses_an_option_that_it_does_not_have)
{
    program_assert_refuses(name, "--no-such-option=1", "--no-such-option");
}

TEST(ps_program_names_an_option_and_the_range_of_its_values)
{
    program_assert_refuses(name, "--index=70000",
                           "--index takes a number from 0 to 65535");
    program_assert_refuses(name, "--peer-timeout-ms=ten", "--peer-timeout-ms");
    program_assert_refuses(name, "--log-level=loud", "--log-level");
}

TEST(ps_program_takes_an_absolute_path_as_its_checkpoint_root)
{
    program_assert_refuses(
        name, "--checkpoint-root=checkpoints",
        "--checkpoint-root=checkpoints is neither an absolute path nor s3://");
    program_assert_refuses(name, "--checkpoint-root=s3:///x", "names no bucket");
}

/* Other users of this host reach loopback addresses, too. */
TEST(ps_program_uses_no_tcp_without_a_key)
{
    static const char *const listens[] = {"--listen=tcp://0.0.0.0:0",
                                          "--listen=127.0.0.1:0"};
    for (size_t i = 0; i < sizeof(listens) / sizeof(*listens); i++) {
        program_assert_refuses(name, listens[i], "--listen tcp://");
        program_assert_refuses(name, listens[i], "coxswain key new");
        program_assert_refuses(name, listens[i], "--insecure");
    }
}

TEST(ps_program_refuses_a_tls_url_with_the_reason)
{
    program_assert_refuses(name, "--listen=tls+tcp://host:7",
                           "a key protects connections without it");
}

TEST(ps_program_names_an_address_that_it_cannot_use)
{
    program_assert_refuses(name, "--listen=ipc:///no/such/directory/ps",
                           "/no/such/directory/ps");
    program_assert_refuses(name, "--listen=tcp://127.0.0.1:http:x",
                           "tcp://127.0.0.1:http:x");
}

TEST(ps_program_names_an_address_that_is_in_use)
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

TEST(ps_program_names_an_address_file_that_it_cannot_write)
{
    program_assert_refuses(name, "--address-file=/no/such/directory/address",
                           "/no/such/directory/address");
}

/* Serves a peer as ps 3 until the signal. */
static void serve_and_end(const char *listen, int signum)
{
    static const struct coxi_hello hello = {.role = COXI_ROLE_TOOL};
    struct program program;
    char address[256];
    daemon_start(&program, name, 3, listen, address);
    struct caller *caller = caller_open(address, &hello);
    assert_int_equal(3, caller_expect(caller, COXI_HELLO)->hello.index);
    program_kill(&program, signum);
    assert_int_equal(128 + signum, program_wait(&program));
    caller_expect_end(caller);
    caller_close(caller);
    program_assert_printed(&program, "event=listening");
    program_assert_printed(&program, "event=ending");
}

static const char *ipc(void)
{
    static char listen[300];
    (void)snprintf(listen, sizeof(listen), "ipc://%s", coxi_test_path("ps"));
    return listen;
}

TEST(ps_program_serves_until_sigterm)
{
    serve_and_end("tcp://127.0.0.1:0", SIGTERM);
}

TEST(ps_program_serves_until_sigint)
{
    serve_and_end(ipc(), SIGINT);
}

TEST(ps_program_takes_over_the_socket_that_a_killed_one_has_left)
{
    struct program killed;
    char address[256];
    daemon_start(&killed, name, 0, ipc(), address);
    program_kill(&killed, SIGKILL);
    assert_int_equal(KILLED, program_wait(&killed));
    serve_and_end(ipc(), SIGTERM);
}

TEST(ps_program_ends_at_once_where_its_starter_has_gone)
{
    struct program program;
    const char *const argv[] = {name, "--parent=1", NULL};
    assert_int_equal(128, program_run(&program, argv));
}
