/* The launcher of a local cluster: which daemons it starts again, what its end means
 * for the client, and with which process it ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/link.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

static bool says_in_use(void *path)
{
    char *all = coxi_test_read(path, NULL);
    bool says = strstr(all, "is in use") != NULL;
    free(all);
    return says;
}

TEST(ps_that_cannot_listen_when_it_is_started_again_has_further_tries)
{
    struct crew crew;
    char path[256];
    char log[300];
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("ckpt");
    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    (void)snprintf(log, sizeof(log), "%s/ps-0.log", crew.log_dir);
    crew_socket(&crew, "ps", 0, path);
    pid_t launcher = crew_launcher(&crew);
    pid_t ps = crew_ps_process(&crew, 0);
    assert_int_equal(0, kill(launcher, SIGSTOP));
    crew_kill(ps);
    crew_wait_gone(ps);
    int fd = program_occupy(path);
    assert_int_equal(0, kill(launcher, SIGCONT));
    coxi_test_until(says_in_use, log, "a ps that cannot listen");
    assert_int_equal(0, close(fd));
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    assert_code(0, cox_join(crew.c, 30000));
    assert_int_equal(10, crew_read(&crew, counter));
    crew_close(&crew);
}

/* True if the process was started with that argument. */
static bool has_argument(pid_t pid, const char *argument)
{
    char path[64];
    char all[4096] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t len = fread(all, 1, sizeof(all) - 1, file);
    (void)fclose(file);
    bool has = false;
    for (size_t at = 0; at < len && !has; at += strlen(all + at) + 1) {
        has = strcmp(all + at, argument) == 0;
    }
    return has;
}

TEST(ps_of_a_local_cluster_writes_in_the_clients_directory_only)
{
    struct crew crew;
    char argument[300];
    uint64_t number = 0;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir = coxi_test_path("ckpt");
    (void)snprintf(argument, sizeof(argument), "--checkpoint-root=%s",
                   options.checkpoint_dir);
    crew_open(&crew, 1, 1, "counter", &options);
    assert_true(has_argument(crew_ps_process(&crew, 0), argument));
    assert_code(0, cox_checkpoint_save(crew.c, NULL, &number));
    crew_close(&crew);
}

/* Its members let in nobody without it, not even another process of this user. */
TEST(a_local_cluster_has_a_key_of_its_own_that_ends_with_it)
{
    struct crew crew;
    char path[256];
    char key[300];
    char url[300];
    char argument[320];
    struct stat st;
    struct coxi_link *link;
    const struct coxi_guard stranger = {.key = {.kind = COXI_KEY_RUN, .secret = {1}},
                                        .self = {.role = COXI_ROLE_CLIENT}};
    assert_int_equal(0, unsetenv("COX_KEY_FILE"));
    crew_open(&crew, 1, 1, "counter", NULL);
    crew_socket(&crew, "ps", 0, path);
    (void)snprintf(url, sizeof(url), "ipc://%s", path);
    (void)snprintf(key, sizeof(key), "%.*s/cluster.key",
                   (int)(strrchr(path, '/') - path), path);
    assert_int_equal(0, stat(key, &st));
    assert_int_equal(0600, st.st_mode & 0777);
    assert_int_equal(32, st.st_size);
    (void)snprintf(argument, sizeof(argument), "--key-file=%s", key);
    assert_true(has_argument(crew_ps_process(&crew, 0), argument));
    assert_code(COX_EDENIED, coxi_link_connect(url, &stranger, 8000, &link));
    struct cox_variable *counter = crew_counter(&crew, "c0");
    crew_schedule(&crew, crew_function(&crew, "count"), 10, 1);
    assert_code(0, cox_join(crew.c, 8000));
    assert_int_equal(10, crew_read(&crew, counter));
    crew_close(&crew);
    *strrchr(key, '/') = '\0';
    assert_int_equal(-1, stat(key, &st));
}

/* Asserts that a client whose launcher gets the signal is told this. */
static void assert_told_of(int signum, const char *text)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.checkpoint_dir =
        coxi_test_path("ckpt"); /* so that a lost ps has time to come back */
    crew_open(&crew, 1, 1, "hold", &options);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    assert_int_equal(0, kill(crew_launcher(&crew), signum));
    assert_code(COX_EPSLOST, cox_future_wait(hold.future, 20000));
    assert_error_names("the local cluster has ended: ");
    assert_error_names(text);
    crew_hold_release(&hold);
    cox_future_free(hold.future);
    (void)cox_close(crew.c, 5000);
}

TEST(local_cluster_that_ends_tells_its_client_why)
{
    assert_told_of(SIGTERM, "signal 15");
}

TEST(client_is_told_what_has_killed_its_local_cluster)
{
    assert_told_of(SIGKILL, "ended: signal 9 has killed its launcher");
}

/* Asserts that a local cluster, with `log_dir` or NULL, does not open, and that the error
 * has both texts. */
static void assert_refused(const char *log_dir, const char *daemon, const char *why)
{
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    options.bin_dir = coxi_test_bin();
    options.log_dir = log_dir;
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_EIO, daemon);
    assert_error_names("the local cluster has ended: ");
    assert_error_names(why);
    assert_null(strstr(coxi_test_error(), "killed"));
    cox_cluster_free(cluster);
}

TEST(client_is_told_why_a_daemon_of_its_local_cluster_cannot_start)
{
    static const char *const variables[] = {"COX_PS_HTTP", "COX_WORKER_HTTP"};
    static const char *const daemons[] = {"ps 0 ended: coxswain-ps: ",
                                          "worker 0 ended: coxswain-worker: "};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(0, setenv(variables[i], "foo", 1));
        assert_refused(NULL, daemons[i], "'foo' is no address");
        assert_int_equal(0, setenv(variables[i], "0.0.0.0:0", 1));
        assert_refused(NULL, daemons[i], "other hosts reach 0.0.0.0:0");
        assert_int_equal(0, unsetenv(variables[i]));
    }
}

/* What is in its log of a run before is no reason. */
TEST(a_daemon_that_says_nothing_has_no_words_of_an_older_one)
{
    static const char old[] = "ts=1 level=info event=ending signal=15\n";
    static const char silent[] = "#!/bin/sh\nexit 3\n";
    static const char *const programs[] = {"coxswain", "coxswain-worker"};
    char from[PATH_MAX];
    char to[PATH_MAX];
    struct cox_cluster *cluster;
    struct cox_options options = COX_OPTIONS_INIT;
    assert_int_equal(0, mkdir(coxi_test_path("bin"), 0700));
    assert_int_equal(0, mkdir(coxi_test_path("logs"), 0700));
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(from, sizeof(from), "%s/%s", coxi_test_bin(), programs[i]);
        (void)snprintf(to, sizeof(to), "%s/%s", coxi_test_path("bin"), programs[i]);
        size_t len;
        char *program =
            coxi_test_read(from, &len); /* it looks beside itself for others */
        coxi_test_write(to, program, len);
        assert_int_equal(0, chmod(to, 0700));
        free(program);
    }
    coxi_test_write(coxi_test_path("bin/coxswain-ps"), silent, sizeof(silent) - 1);
    assert_int_equal(0, chmod(coxi_test_path("bin/coxswain-ps"), 0700));
    coxi_test_write(coxi_test_path("logs/ps-0.log"), old, sizeof(old) - 1);
    options.bin_dir = coxi_test_path("bin");
    options.log_dir = coxi_test_path("logs");
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    crew_refused(cluster, &options, COX_EIO,
                 "ps 0 ended: it exited with 3, and gave no reason (its log is ");
    cox_cluster_free(cluster);
}

TEST(client_is_told_which_log_has_the_reason)
{
    char log[300];
    const char *dir = coxi_test_path("logs");
    (void)snprintf(log, sizeof(log),
                   "'foo' is no address: it is like 127.0.0.1:8080, or a port; "
                   "ports are numbers from 0 to 65535 (its log is %s/ps-0.log)",
                   dir);
    assert_int_equal(0, setenv("COX_PS_HTTP", "foo", 1));
    assert_refused(dir, "ps 0 ended: coxswain-ps: ", log);
}

TEST(client_is_told_which_port_a_daemon_of_its_local_cluster_cannot_have)
{
    char text[32];
    char why[128];
    int fd = program_occupy_port(text);
    (void)snprintf(why, sizeof(why), "cannot listen at %s: another program listens",
                   text);
    assert_int_equal(0, setenv("COX_PS_HTTP", text, 1));
    assert_refused(NULL, "ps 0 ended: coxswain-ps: ", why);
    assert_int_equal(0, close(fd));
}

/* Runs in a client's process: opens a cluster, forks a child that outlives the client,
 * and writes the launcher's process id to `fd`. */
static void open_and_fork(int fd)
{
    struct crew crew;
    char byte;
    int forever[2];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    crew_open(&crew, 1, 1, NULL, NULL);
    pid_t launcher = crew_launcher(&crew);
    pid_t child = fork();
    if (child == 0) {
        (void)!read(fd, &byte, 1); /* until the test ends */
        _exit(0);
    }
    assert_true(child > 0 && pipe(forever) == 0);
    assert_int_equal(sizeof(launcher), write(fd, &launcher, sizeof(launcher)));
    (void)!read(forever[0], &byte, 1);
}

TEST(child_of_a_killed_client_keeps_no_local_cluster_alive)
{
    pid_t launcher;
    int fds[2];
    (void)coxi_test_dir();
    assert_int_equal(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
    pid_t client = fork();
    assert_true(client >= 0);
    if (client == 0) {
        (void)close(fds[0]);
        open_and_fork(fds[1]);
        _exit(1);
    }
    (void)close(fds[1]);
    assert_int_equal(sizeof(launcher), read(fds[0], &launcher, sizeof(launcher)));
    crew_kill(client);
    assert_int_equal(client, waitpid(client, NULL, 0));
    crew_wait_gone(launcher);
    assert_int_equal(0, close(fds[0]));
}
