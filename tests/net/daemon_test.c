#include "net/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/error.h"
#include "tests/test.h"

static struct coxi_daemon_options listening_at(const char *address)
{
    return (struct coxi_daemon_options){
        .listen = address, .log_level = "warn", .user = geteuid() == 0 ? "root" : NULL};
}

/* ---- start */

TEST(an_ipc_address_needs_no_key)
{
    struct coxi_daemon_options options = listening_at("ipc:///tmp/socket");
    assert_code(0, coxi_daemon_start(&options, "test"));
}

/* The error says what is wrong, why, and what to do. */
static void assert_needs_a_key(const char *address)
{
    static const char *const named[] = {
        "--listen",     "--insecure", "coxswain key new", "--key-file",
        "COX_KEY_FILE", "ipc:///",    "run code here"};
    struct coxi_daemon_options options = listening_at(address);
    int r = coxi_daemon_start(&options, "test");
    if (r != COX_EINVAL) {
        fail_msg("--listen '%s' is not refused", address);
    }
    assert_error_names(address);
    for (size_t i = 0; i < sizeof(named) / sizeof(*named); i++) {
        assert_error_names(named[i]);
    }
    options.insecure = true;
    assert_code(0, coxi_daemon_start(&options, "test"));
}

/* Other users of the host reach loopback, too. */
TEST(a_tcp_address_without_a_key_is_refused)
{
    static const char *const addresses[] = {
        "tcp://127.0.0.1:0",
        "tcp://127.1.2.3:7000",
        "tcp://localhost:0",
        "tcp://[::1]:0",
        "127.0.0.1:0",
        "localhost:7000",
        "tcp://0.0.0.0:0",
        "tcp://10.0.0.1:7000",
        "tcp://*:7000",
        "tcp://[::]:0",
        "tcp://host:0",
        "tcp://localhost.other:0",
        "tcp://[::1234]:0",
        "tcp://127.other:0",
        "tcp://127.0.0.1.other:0",
        "tcp://1270.0.0.1:0",
        "0.0.0.0:0",
    };
    for (size_t i = 0; i < sizeof(addresses) / sizeof(*addresses); i++) {
        assert_needs_a_key(addresses[i]);
    }
}

TEST(a_tcp_address_with_a_key_is_not_refused)
{
    struct coxi_daemon_options options = listening_at("tcp://0.0.0.0:0");
    options.key_file = coxi_test_path("key");
    assert_code(0, coxi_key_new(options.key_file));
    assert_code(0, coxi_daemon_start(&options, "test"));
}

TEST(a_tls_url_is_refused_with_the_reason)
{
    struct coxi_daemon_options options = listening_at("tls+tcp://host:7000");
    options.insecure = true;
    assert_code(COX_EADDRESS, coxi_daemon_start(&options, "test"));
    assert_error_names("a key protects connections without it");
    assert_error_names("write tcp://host:7000");
}

/* Without --listen. */
static void settle(struct coxi_daemon_options *options)
{
    assert_code(0, coxi_daemon_start(options, "test"));
    assert_null(options->listen);
    assert_code(0, coxi_daemon_settle(options, "ps"));
}

TEST(without_a_key_the_default_is_a_socket_that_others_do_not_reach)
{
    struct coxi_daemon_options options = listening_at(NULL);
    struct stat st;
    options.index = 3;
    settle(&options);
    assert_int_equal(0, strncmp("ipc://", options.listen, 6));
    assert_non_null(strstr(options.listen, "/ps-3"));
    assert_int_equal(0, strncmp(options.listen + 6, options.dir, strlen(options.dir)));
    assert_int_equal(0, stat(options.dir, &st));
    assert_int_equal(0700, st.st_mode & 0777);
    char dir[sizeof(options.dir)];
    (void)strcpy(dir, options.dir);
    coxi_daemon_leave(&options);
    assert_int_equal(-1, stat(dir, &st));
}

TEST(with_a_key_or_leave_the_default_is_loopback)
{
    struct coxi_daemon_options insecure = listening_at(NULL);
    struct coxi_daemon_options options = listening_at(NULL);
    insecure.insecure = true;
    settle(&insecure);
    assert_string_equal("tcp://127.0.0.1:0", insecure.listen);
    options.key_file = coxi_test_path("key");
    assert_code(0, coxi_key_new(options.key_file));
    settle(&options);
    assert_string_equal("tcp://127.0.0.1:0", options.listen);
    coxi_daemon_leave(&options);
}

TEST(what_is_no_address_is_refused_as_such)
{
    static const char *const bad[] = {"ws://127.0.0.1:0", "127.0.0.1", "tcp://:7000",
                                      "127.0.0.1:65536", ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct coxi_daemon_options options = listening_at(bad[i]);
        options.insecure = true;
        assert_code(COX_EADDRESS, coxi_daemon_start(&options, "test"));
        assert_error_names("--listen: '");
    }
}

TEST(a_level_that_is_none_is_refused)
{
    struct coxi_daemon_options options = listening_at("ipc:///tmp/socket");
    options.log_level = "loud";
    assert_code(COX_EINVAL, coxi_daemon_start(&options, "test"));
    assert_error_names("loud");
}

TEST(a_peer_that_hangs_up_does_not_kill)
{
    struct coxi_daemon_options options = listening_at("ipc:///tmp/socket");
    int fds[2];
    (void)signal(SIGPIPE, SIG_DFL);
    assert_code(0, coxi_daemon_start(&options, "test"));
    assert_int_equal(0, pipe2(fds, O_CLOEXEC));
    (void)close(fds[0]);
    assert_int_equal(-1, write(fds[1], "x", 1));
    (void)close(fds[1]);
}

/* ---- the address file and the last words */

TEST(the_address_is_announced_as_a_line)
{
    char *path = coxi_test_path("address");
    assert_code(0, coxi_daemon_announce(path, "tcp://127.0.0.1:7000"));
    char *text = coxi_test_read(path, NULL);
    assert_string_equal("tcp://127.0.0.1:7000\n", text);
    free(text);
    coxi_test_write(coxi_test_path("file"), "", 0);
    assert_code(COX_EIO, coxi_daemon_announce(coxi_test_path("file/address"), "x"));
    assert_error_names("file/address");
}

TEST(a_long_address_is_announced_whole)
{
    char address[600] = "tcp://";
    char *path = coxi_test_path("address");
    for (size_t len = 240; len < sizeof(address); len += len < 270 ? 1 : 50) {
        memset(address + 6, 'h', len - 6);
        address[len] = '\0';
        assert_code(0, coxi_daemon_announce(path, address));
        size_t found = 0;
        char *text = coxi_test_read(path, &found);
        assert_int_equal(len + 1, found);
        assert_memory_equal(address, text, len);
        assert_int_equal('\n', text[len]);
        free(text);
    }
}

TEST(a_bad_configuration_is_told_with_the_program_s_name)
{
    char *path = coxi_test_path("stderr");
    int saved = dup(STDERR_FILENO);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    (void)coxi_error(COX_EINVAL, "--index takes a number");
    (void)dup2(fd, STDERR_FILENO);
    int code = coxi_exit_config("coxswain-ps");
    (void)dup2(saved, STDERR_FILENO);
    (void)close(saved);
    (void)close(fd);
    assert_int_equal(2, code);
    char *text = coxi_test_read(path, NULL);
    assert_string_equal("coxswain-ps: --index takes a number\n", text);
    free(text);
}

/* ---- death with the parent */

/* The exit status of a child that runs `run`. */
static int status_of(void (*run)(void))
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        run();
        _exit(0);
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    return status;
}

static void with_its_parent(void)
{
    coxi_die_with_parent((int)getppid());
}

static void with_a_parent_that_has_ended(void)
{
    coxi_die_with_parent((int)getpid());
}

static void start_with_a_parent_that_has_ended(void)
{
    struct coxi_daemon_options options = listening_at("ipc:///tmp/socket");
    options.parent = getpid();
    (void)coxi_daemon_start(&options, "test");
}

TEST(a_process_whose_parent_has_ended_ends_at_once)
{
    assert_int_equal(0, status_of(with_its_parent));
    int status = status_of(with_a_parent_that_has_ended);
    assert_true(WIFEXITED(status));
    assert_int_equal(COXI_EXIT_AGAIN, WEXITSTATUS(status));
    status = status_of(start_with_a_parent_that_has_ended);
    assert_true(WIFEXITED(status));
    assert_int_equal(COXI_EXIT_AGAIN, WEXITSTATUS(status));
}

/* A daemon that must die with its starter: it writes its process id and waits. */
static void be_daemon(int tell)
{
    struct coxi_daemon_options options = listening_at("ipc:///tmp/socket");
    options.parent = getppid();
    pid_t self = getpid();
    if (coxi_daemon_start(&options, "test") != 0 ||
        write(tell, &self, sizeof(self)) != (ssize_t)sizeof(self)) {
        _exit(1);
    }
    for (;;) {
        (void)pause();
    }
}

/* Starts a daemon and ends when it is told to. */
static void be_starter(int tell, int end)
{
    char byte;
    if (fork() == 0) {
        (void)close(end);
        be_daemon(tell);
    }
    (void)close(tell);
    (void)!read(end, &byte, 1);
    _exit(0);
}

TEST(a_daemon_is_killed_when_its_parent_ends)
{
    int tell[2];
    int end[2];
    int status = 0;
    pid_t daemon = 0;
    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    assert_int_equal(0, pipe2(tell, O_CLOEXEC));
    assert_int_equal(0, pipe2(end, O_CLOEXEC));
    pid_t starter = fork();
    assert_true(starter >= 0);
    if (starter == 0) {
        (void)close(end[1]);
        be_starter(tell[1], end[0]);
    }
    (void)close(tell[1]);
    (void)close(end[0]);
    assert_int_equal(sizeof(daemon), read(tell[0], &daemon, sizeof(daemon)));
    struct pollfd gone = {.fd = tell[0], .events = POLLIN};
    assert_int_equal(0, poll(&gone, 1, 0)); /* the daemon is still alive */
    (void)close(end[1]);
    assert_int_equal(starter, waitpid(starter, &status, 0));
    bool died = poll(&gone, 1, 8000) == 1;
    if (!died) {
        (void)kill(daemon, SIGKILL);
    }
    assert_int_equal(daemon, waitpid(daemon, &status, 0));
    (void)close(tell[0]);
    assert_true(died);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(SIGKILL, WTERMSIG(status));
}
