/* Daemons that root starts: as which user they run. Root only; others skip most. */
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "net/key.h"
#include "net/user.h"
#include "tests/program.h"
#include "tests/ps/caller.h"
#include "tests/test.h"

/* On every system; and a number that has no name. */
static const char user[] = "nobody";
enum { NOBODY = 65534, UNNAMED = 54321 };

static const struct coxi_session session = {.run = 1, .generation = 5, .token = 11};

static void needs_root(void)
{
    if (geteuid() != 0) {
        skip();
    }
}

/* Calls `run` in a child process, which it may change; returns its result. */
static int in_child(int (*run)(void))
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(run());
    }
    assert_int_equal(pid, waitpid(pid, &status, 0));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- one process */

static int cannot_return(void)
{
    gid_t groups[8];
    return coxi_user_become(user) == 0 && getuid() == NOBODY && geteuid() == NOBODY &&
                   setuid(0) != 0 && setgid(0) != 0 && setgroups(0, NULL) != 0 &&
                   getgroups(8, groups) == 1 && groups[0] != 0 &&
                   coxi_user_become("root") == COX_EINVAL && coxi_user_become(NULL) == 0
               ? 0
               : 1;
}

TEST(a_process_that_has_left_root_cannot_return)
{
    needs_root();
    assert_int_equal(0, in_child(cannot_return));
}

static int becomes_unnamed(void)
{
    return coxi_user_become("54321") == 0 && getuid() == UNNAMED &&
                   getgid() == UNNAMED && getgroups(0, NULL) == 0
               ? 0
               : 1;
}

TEST(a_user_may_be_a_number_without_a_name)
{
    needs_root();
    assert_int_equal(0, in_child(becomes_unnamed));
}

TEST(users_that_are_none_are_refused)
{
    static const char *const none[] = {"no-such-user", "", "12x", "-1", "4294967295"};
    for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
        assert_code(COX_EINVAL, coxi_user_become(none[i]));
        assert_error_names(none[i]);
    }
}

/* ---- daemons */

static void assert_refused_as_root(const char *name, const char *variable)
{
    char path[512];
    struct program program;
    (void)snprintf(path, sizeof(path), "%s/%s", coxi_test_bin(), name);
    const char *const argv[] = {"/usr/bin/env", "-u", variable, path, NULL};
    assert_int_equal(2, program_run(&program, argv));
    program_assert_printed(&program, "--user NAME");
    program_assert_printed(&program, "--user root");
}

TEST(a_daemon_that_root_starts_needs_a_user)
{
    needs_root();
    assert_refused_as_root("coxswain-ps", "COX_PS_USER");
    assert_refused_as_root("coxswain-worker", "COX_WORKER_USER");
}

TEST(a_daemon_that_is_told_to_stay_root_says_so)
{
    struct program program;
    char address[256];
    needs_root();
    daemon_start(&program, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    program_assert_printed(&program, "level=warn");
    program_assert_printed(&program, "event=stays_root");
    program_kill(&program, SIGTERM);
    (void)program_wait(&program);
}

/* A daemon as `user` that has a key which only root can read; and a directory for its
 * modules that both users reach, which the test's own may be not. */
struct dropped {
    struct program program;
    struct coxi_key key;
    char dir[64];
    char address[256];
    pid_t process; /* the one that listens */
};

static int can_run(void)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/coxswain-worker", coxi_test_bin());
    return coxi_user_become(user) == 0 && access(path, X_OK) == 0 ? 0 : 1;
}

static bool listens_anew(void *arg)
{
    struct dropped *dropped = arg;
    pid_t pid = 0;
    char *all = program_output(&dropped->program);
    for (const char *at = all; (at = strstr(at, "event=listening")) != NULL; at++) {
        const char *found = strstr(at, " pid=");
        pid = found != NULL ? (pid_t)strtol(found + 5, NULL, 10) : 0;
        (void)sscanf(at, "event=listening address=%255s", dropped->address);
    }
    free(all);
    bool anew = pid > 0 && pid != dropped->process;
    dropped->process = anew ? pid : dropped->process;
    return anew;
}

static void dropped_open(struct dropped *dropped, const char *name, const char *option)
{
    char path[512];
    char option_text[128];
    needs_root();
    if (in_child(can_run) != 0) {
        skip(); /* the programs are in a directory that is only root's */
    }
    const char *key = coxi_test_path("run.key");
    assert_code(0, coxi_key_new(key));
    assert_code(0, coxi_key_read(key, &dropped->key));
    assert_int_equal(0, setenv("COX_KEY_FILE", key, 1));
    (void)snprintf(dropped->dir, sizeof(dropped->dir), "/tmp/coxswain-user-XXXXXX");
    assert_non_null(mkdtemp(dropped->dir));
    assert_int_equal(0, chown(dropped->dir, NOBODY, NOBODY));
    (void)snprintf(path, sizeof(path), "%s/%s", coxi_test_bin(), name);
    (void)snprintf(option_text, sizeof(option_text), "%s%s", option, dropped->dir);
    const char *const argv[] = {path, "--user=nobody", "--listen=127.0.0.1:0",
                                option_text, NULL};
    dropped->process = 0;
    program_start(&dropped->program, argv);
    coxi_test_until(listens_anew, dropped, "a process that listens");
}

static void dropped_close(struct dropped *dropped)
{
    program_kill(&dropped->program, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&dropped->program));
    coxi_directory_remove(dropped->dir);
}

static void assert_status(const char *status, const char *line)
{
    if (strstr(status, line) == NULL) {
        fail_msg("'%s' is not in: %s", line, status);
    }
}

/* Nothing of root is left, in any of the three user ids, groups and capabilities. */
static void assert_is_nobody(pid_t pid)
{
    char path[64];
    char status[4096] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, status, sizeof(status) - 1) > 0);
    (void)close(fd);
    assert_status(status, "Uid:\t65534\t65534\t65534\t65534\n");
    assert_null(strstr(status, "\t0\t0\t0\t0\n"));
    assert_null(strstr(status, "Groups:\t0"));
    assert_status(status, "CapPrm:\t0000000000000000\n");
    assert_status(status, "CapEff:\t0000000000000000\n");
}

static void assert_has_key(const struct dropped *dropped)
{
    const struct coxi_guard guard = {.key = dropped->key,
                                     .self = {COXI_ROLE_CLIENT, 0, session.run}};
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = session};
    struct caller *caller = caller_open_as(dropped->address, &guard, &hello);
    (void)caller_expect(caller, COXI_HELLO);
    caller_close(caller);
}

TEST(a_ps_that_root_starts_runs_as_its_user)
{
    struct dropped ps;
    dropped_open(&ps, "coxswain-ps", "--checkpoint-root=");
    assert_is_nobody(ps.program.pid);
    assert_has_key(&ps);
    dropped_close(&ps);
}

/* Both of its processes; and the process that comes after a crash has the key, too,
 * though its user cannot read the file. */
TEST(a_worker_that_root_starts_runs_as_its_user)
{
    struct dropped worker;
    dropped_open(&worker, "coxswain-worker", "--dir=");
    assert_is_nobody(worker.program.pid);
    for (int i = 0; i < 2; i++) {
        assert_is_nobody(worker.process);
        assert_has_key(&worker);
        assert_int_equal(0, kill(worker.process, i == 0 ? SIGKILL : 0));
        if (i == 0) {
            coxi_test_until(listens_anew, &worker, "another step process");
        }
    }
    dropped_close(&worker);
}
