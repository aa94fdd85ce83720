/*
 * Opening ends within its deadline and 2 s, no matter which daemon is missing, and
 * leaves nothing behind. Calls of coxi_ps_round_add and coxi_psc_call go through this
 * file (ld --wrap).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "net/ps_round.h"
#include "tests/closing/phase.h"
#include "tests/program.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

enum {
    OPEN_MS = 500,
    REACH_MS = 3000 /* the deadline if a ps must answer some requests before it */
};

struct opening {
    struct phase_run run;
    const struct cox_cluster *cluster;
    struct cox_options options;
    struct timespec until;
    struct cox_coordinator *c;
    int code;
};

static void open_it(void *arg)
{
    struct opening *opening = arg;
    opening->code = cox_open(opening->cluster, &opening->options, &opening->c);
}

static void start_opening(struct opening *opening, const struct cox_cluster *cluster,
                          const struct cox_options *options)
{
    *opening = (struct opening){.cluster = cluster, .options = *options};
    opening->until = coxi_deadline(options->open_timeout_ms + options->ps_recovery_ms +
                                   PHASE_GRACE_MS);
    phase_run_start(&opening->run, open_it, opening);
}

static void join_opening(struct opening *opening)
{
    if (!phase_run_join(&opening->run, &opening->until)) {
        fail_msg("cox_open has not returned %d ms after its deadline",
                 (int)PHASE_GRACE_MS);
    }
}

/* Asserts that cox_open returns in time, and fails. */
static void assert_gives_up(const struct cox_cluster *cluster,
                            struct cox_options *options)
{
    struct opening opening;
    options->open_timeout_ms = OPEN_MS;
    start_opening(&opening, cluster, options);
    join_opening(&opening);
    assert_int_not_equal(0, opening.code);
}

/* As assert_gives_up, for a cluster of one ps and one worker at these addresses. */
static void assert_gives_up_at(const char *ps, const char *worker)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_cluster *cluster;
    char json[700];
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"], \"worker\": [\"%s\"]}", ps,
                   worker);
    assert_code(0, cox_cluster_parse(json, &cluster));
    assert_gives_up(cluster, &options);
    cox_cluster_free(cluster);
}

/* Opens a socket that accepts connections, and sends nothing. */
static int listen_mutely(char ret_url[300])
{
    struct sockaddr_un self = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(self.sun_path, sizeof(self.sun_path), "%s", coxi_test_path("mute"));
    (void)snprintf(ret_url, 300, "ipc://%s", self.sun_path);
    assert_int_equal(0, bind(fd, (struct sockaddr *)&self, sizeof(self)));
    assert_int_equal(0, listen(fd, 8));
    return fd;
}

TEST(open_gives_up_in_time_where_no_ps_is_there)
{
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path("nobody"));
    assert_gives_up_at(url, url);
}

TEST(open_gives_up_in_time_where_a_ps_says_nothing)
{
    char url[300];
    int fd = listen_mutely(url);
    assert_gives_up_at(url, url);
    assert_int_equal(0, close(fd));
}

static void beside_a_ps(const char *worker)
{
    struct program ps;
    char address[256];
    daemon_start(&ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    assert_gives_up_at(address, worker);
    program_kill(&ps, SIGTERM);
    assert_int_equal(128 + SIGTERM, program_wait(&ps));
}

TEST(open_gives_up_in_time_where_no_worker_is_there)
{
    char url[300];
    (void)snprintf(url, sizeof(url), "ipc://%s", coxi_test_path("nobody"));
    beside_a_ps(url);
}

TEST(open_gives_up_in_time_where_a_worker_says_nothing)
{
    char url[300];
    int fd = listen_mutely(url);
    beside_a_ps(url);
    assert_int_equal(0, close(fd));
}

TEST(open_gives_up_in_time_where_a_ps_stands_still)
{
    struct program ps;
    char address[256];
    daemon_start(&ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    phase_stop(ps.pid);
    assert_gives_up_at(address, address);
    program_kill(&ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&ps));
}

/* ---- a ps that stops after the client has connected to it */

static pid_t to_stop; /* stopped before a request `stops_at` is sent */
static enum coxi_message_kind stops_at;

static void stop_before(const struct coxi_message *message)
{
    if (to_stop != 0 && message->kind == stops_at) {
        phase_stop(to_stop);
    }
}

int __real_coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                         struct coxi_psc_request *request,
                         enum coxi_message_kind expect,
                         void (*take)(void *arg, const struct coxi_message *answer),
                         void *arg);
int __wrap_coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                         struct coxi_psc_request *request,
                         enum coxi_message_kind expect,
                         void (*take)(void *arg, const struct coxi_message *answer),
                         void *arg);

int __wrap_coxi_psc_call(struct coxi_psc *psc, const struct coxi_message *message,
                         struct coxi_psc_request *request,
                         enum coxi_message_kind expect,
                         void (*take)(void *arg, const struct coxi_message *answer),
                         void *arg)
{
    stop_before(message);
    return __real_coxi_psc_call(psc, message, request, expect, take, arg);
}

void __real_coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                              const struct coxi_message *message,
                              struct coxi_ps_round_call *call);
void __wrap_coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                              const struct coxi_message *message,
                              struct coxi_ps_round_call *call);

void __wrap_coxi_ps_round_add(struct coxi_ps_round *round, struct coxi_psc *psc,
                              const struct coxi_message *message,
                              struct coxi_ps_round_call *call)
{
    stop_before(message);
    __real_coxi_ps_round_add(round, psc, message, call);
}

/* Saves the checkpoint from which the next client resumes. */
static void save_one(const struct cox_cluster *cluster,
                     const struct cox_options *options)
{
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    struct cox_coordinator *c;
    struct cox_variable *variable;
    spec.name = "v";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    assert_code(0, cox_open(cluster, options, &c));
    assert_code(0, cox_variable_create(c, &spec, &variable));
    assert_code(0, cox_checkpoint_save(c, NULL, NULL));
    assert_code(0, cox_close(c, 1000));
}

/* Asserts that cox_open gives up in time if a ps stops before it gets a request `at`,
 * although its silence would be noticed only much later. */
static void assert_gives_up_stopped(enum coxi_message_kind at)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_cluster *cluster;
    struct opening opening;
    struct program ps;
    char address[256];
    char json[300];
    daemon_start(&ps, "coxswain-ps", 0, "tcp://127.0.0.1:0", address);
    (void)snprintf(json, sizeof(json), "{\"ps\": [\"%s\"]}", address);
    assert_code(0, cox_cluster_parse(json, &cluster));
    options.listen = "tcp://127.0.0.1:0"; /* so that it needs no workers */
    options.checkpoint_dir = coxi_test_path("checkpoints");
    save_one(cluster, &options);
    /* a restore has this time in addition to the deadline */
    options.ps_recovery_ms = OPEN_MS;
    options.peer_timeout_ms = 60000;
    options.open_timeout_ms = REACH_MS;
    stops_at = at;
    to_stop = ps.pid;
    start_opening(&opening, cluster, &options);
    join_opening(&opening);
    assert_int_equal(COX_ETIMEDOUT, opening.code);
    cox_cluster_free(cluster);
    program_kill(&ps, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(&ps));
}

TEST(open_gives_up_in_time_where_a_ps_stops_before_it_is_claimed)
{
    assert_gives_up_stopped(COXI_CLAIM);
}

TEST(open_gives_up_in_time_where_a_ps_stops_before_it_is_probed)
{
    assert_gives_up_stopped(COXI_PROBE);
}

TEST(open_gives_up_in_time_where_a_ps_stops_before_it_is_restored)
{
    assert_gives_up_stopped(COXI_RESTORE);
}

/* ---- a local cluster whose daemons do not come up */

static void copy_program(const char *dir, const char *name)
{
    char from[512];
    char to[512];
    size_t len = 0;
    (void)snprintf(from, sizeof(from), "%s/%s", coxi_test_bin(), name);
    (void)snprintf(to, sizeof(to), "%s/%s", dir, name);
    char *bytes = coxi_test_read(from, &len);
    coxi_test_write(to, bytes, len);
    free(bytes);
    assert_int_equal(0, chmod(to, 0700));
}

/* Makes a directory with the launcher and with daemons that wait at a gate for ever. */
static const char *make_programs(const char *gate)
{
    static const char *const names[] = {"coxswain-ps", "coxswain-worker"};
    const char *dir = coxi_test_path("bin");
    char script[512];
    assert_int_equal(0, mkdir(dir, 0700));
    copy_program(dir, "coxswain");
    (void)snprintf(script, sizeof(script), "#!/bin/sh\nread nothing <%s\n", gate);
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        coxi_test_write(path, script, strlen(script));
        assert_int_equal(0, chmod(path, 0700));
    }
    return dir;
}

static bool has_no_children(void)
{
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

TEST(open_gives_up_in_time_where_its_own_daemons_do_not_come_up_and_ends_them)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_cluster *cluster;
    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    options.bin_dir = make_programs(gate_make("gate"));
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    assert_gives_up(cluster, &options);
    cox_cluster_free(cluster);
    assert_true(has_no_children());
}

static void open_for_long(const char *bin_dir)
{
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_coordinator *c;
    struct cox_cluster *cluster;
    options.bin_dir = bin_dir;
    options.open_timeout_ms = 60000;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    assert_code(0, cox_cluster_local(1, 1, &cluster));
    (void)cox_open(cluster, &options, &c);
    _exit(1);
}

TEST(a_client_that_is_killed_while_it_opens_leaves_no_daemon)
{
    const char *gate = gate_make("gate");
    const char *dir = make_programs(gate);
    assert_int_equal(0, prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        open_for_long(dir);
    }
    int fd = gate_pass(gate); /* a daemon waits at the gate */
    uint64_t end_ms = coxi_now_ms() + PHASE_GRACE_MS;
    assert_int_equal(0, kill(pid, SIGKILL));
    while (!has_no_children() && coxi_now_ms() < end_ms) {
        (void)poll(NULL, 0, 2);
    }
    assert_true(has_no_children());
    gate_release(fd);
}
