/*
 * coxswain cluster and coxswain run: a local cluster for any client. cox_open starts
 * `coxswain cluster` for cox_cluster_local; then the cluster ends when its lifeline
 * ends.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/runner.h"
#include "common/error.h"
#include "common/option.h"
#include "net/daemon.h"

struct config {
    struct coxi_cluster_options cluster;
    int64_t lifeline;
    int64_t prints_fd;
    int64_t restarts;
    bool page;
    const char *dir;
};

static const struct coxi_option cluster_options[] = {
    COXI_CLUSTER_OPTIONS(struct config, COXI_LOCAL_MAX),
    {.name = "dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, dir),
     .help = "directory for sockets (default: a new one in /tmp)"},
    {.name = "lifeline",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, lifeline),
     .max = 1024,
     .help = "end when this file descriptor, a pipe, is closed at the other end, and "
             "remove --dir then"},
    {.name = "prints-fd",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, prints_fd),
     .max = 1024,
     .help =
         "without --log-dir: what steps print goes to this file descriptor (default: "
         "standard error), each line after its worker's name"},
};

static const struct coxi_option run_options[] = {
    COXI_CLUSTER_OPTIONS(struct config, COXI_LOCAL_MAX),
    COXI_RUNNER_OPTIONS(struct config),
};

static const struct coxi_program cluster_command = {
    .name = "coxswain cluster",
    .usage = "[options] | explain [--json]",
    .summary =
        "Starts parameter servers and workers on this host, prints the COX_CLUSTER "
        "and\n"
        "COX_KEY_FILE that client programs need, and ends them when it is interrupted. "
        "A\ndaemon that dies is started again.",
    .prefix = "COX_CLUSTER",
    .options = cluster_options,
    .n_options = sizeof(cluster_options) / sizeof(*cluster_options),
};

static const struct coxi_program run_command = {
    .name = "coxswain run",
    .usage = "[options] -- PROGRAM [ARGUMENT ...]",
    .summary =
        "Starts parameter servers and workers on this host, runs PROGRAM with "
        "COX_CLUSTER\n"
        "and COX_KEY_FILE set (cox_cluster_from_env and cox_open read them), ends them "
        "when\n"
        "it has ended, and exits with its exit code. One that a signal ends, or that "
        "exits\n"
        "with 128 or more, is started again: with the same checkpoint directory it "
        "goes "
        "on\nwhere it was.",
    .prefix = "COX_RUN",
    .options = run_options,
    .n_options = sizeof(run_options) / sizeof(*run_options),
};

struct session {
    const char *name;
    struct coxi_loop *loop;
    struct coxi_launcher *launcher;
    uv_pipe_t lifeline;
    bool holds_lifeline;
    struct coxi_runner runner;
    bool cluster_ended;
    int exit_code;
};

/* Prints the reason before the daemons end. So a client that loses one of them can
 * already read why. */
static void on_fail(void *arg, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", ((struct session *)arg)->name, text);
}

static void on_end(void *arg, bool failed)
{
    struct session *session = arg;
    session->cluster_ended = true;
    if (failed) {
        session->exit_code = COXI_EXIT_FAILED;
        if (coxi_runner_stop(&session->runner)) {
            return; /* the loop stops when the program ends */
        }
    }
    coxi_loop_stop(session->loop);
}

static int open_session(struct session *session, const struct config *config,
                        void (*on_signal)(void *arg, int signum))
{
    struct coxi_launcher_options options = {
        .n_ps = (uint32_t)config->cluster.ps,
        .n_workers = (uint32_t)config->cluster.workers,
        .slots = (uint32_t)config->cluster.slots,
        .peer_timeout_ms = (int)config->cluster.peer_timeout_ms,
        .step_memory_max = (uint64_t)config->cluster.step_memory_max,
        .key_file = config->cluster.key_file,
        .dir = config->dir,
        .dir_is_ours = config->lifeline > 0,
        .log_dir = config->cluster.log_dir,
        .checkpoint_root = config->cluster.checkpoint_root,
        .prints_fd = config->prints_fd > 0 ? (int)config->prints_fd : STDERR_FILENO,
        .on_fail = on_fail,
        .on_end = on_end,
        .arg = session,
    };
    (void)signal(SIGPIPE, SIG_IGN);
    if (config->prints_fd > STDERR_FILENO) {
        (void)fcntl((int)config->prints_fd, F_SETFD, FD_CLOEXEC);
    }
    int r = coxi_loop_new(0, NULL, session, &session->loop);
    if (r == 0) {
        r = coxi_loop_on_signal(session->loop, SIGINT, on_signal);
    }
    if (r == 0) {
        r = coxi_loop_on_signal(session->loop, SIGTERM, on_signal);
    }
    if (r == 0) {
        r = coxi_loop_on_signal(session->loop, SIGHUP, on_signal);
    }
    return r == 0 ? coxi_launcher_start(session->loop, &options, &session->launcher)
                  : r;
}

static int close_session(struct session *session, int r)
{
    coxi_loop_free(session->loop);
    coxi_runner_fini(&session->runner);
    coxi_launcher_free(session->launcher);
    return r != 0 ? coxi_exit_config(session->name) : session->exit_code;
}

/* ---- coxswain cluster */

/* A client that holds a lifeline ends the cluster itself, so tell it if a signal ended
 * it. */
static void stop_on_signal(void *arg, int signum)
{
    struct session *session = arg;
    if (session->holds_lifeline) {
        (void)fprintf(stderr, "%s: signal %d has ended it\n", session->name, signum);
    }
    coxi_launcher_stop(session->launcher);
}

static void lifeline_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    static char ignored[64];
    (void)handle;
    (void)suggested;
    *ret = uv_buf_init(ignored, sizeof(ignored));
}

static void on_lifeline(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    (void)buffer;
    struct session *session = stream->data;
    if (n < 0) {
        (void)uv_read_stop(stream);
        coxi_launcher_stop(session->launcher);
    }
}

static int hold_lifeline(struct session *session, int fd)
{
    session->lifeline.data = session;
    session->holds_lifeline = true;
    int failed = uv_pipe_init(coxi_loop_uv(session->loop), &session->lifeline, 0);
    if (failed == 0) {
        failed = uv_pipe_open(&session->lifeline, fd);
    }
    if (failed == 0) {
        failed = uv_read_start((uv_stream_t *)&session->lifeline, lifeline_buffer,
                               on_lifeline);
    }
    return failed == 0
               ? 0
               : coxi_error(COX_EINVAL, "--lifeline %d: %s", fd, uv_strerror(failed));
}

static void print_cluster(const struct session *session)
{
    char *json = coxi_cluster_json(coxi_launcher_cluster(session->launcher));
    const char *key_file = coxi_launcher_key_file(session->launcher);
    if (json != NULL && key_file != NULL) {
        (void)printf("COX_KEY_FILE='%s'\n", key_file);
    }
    if (json != NULL) {
        (void)printf("COX_CLUSTER='%s'\n", json);
        (void)fflush(stdout);
    }
    free(json);
}

int coxi_command_cluster(int argc, char **argv)
{
    struct config config = {0};
    struct session session = {.name = cluster_command.name};
    if (argc >= 2 && strcmp(argv[1], "explain") == 0) {
        return coxi_command_explain(argc - 1, argv + 1);
    }
    int r = coxi_options_parse(&cluster_command, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r != 0) {
        return coxi_exit_config(cluster_command.name);
    }
    r = open_session(&session, &config, stop_on_signal);
    if (r == 0 && config.lifeline > 0) {
        r = hold_lifeline(&session, (int)config.lifeline);
    } else if (r == 0) {
        print_cluster(&session);
    }
    if (r == 0) {
        coxi_loop_run(session.loop);
    }
    return close_session(&session, r);
}

/* ---- coxswain run */

static void end_run(void *arg, int exit_code)
{
    struct session *session = arg;
    if (session->exit_code == 0) {
        session->exit_code = exit_code;
    }
    coxi_launcher_stop(session->launcher);
    if (session->cluster_ended) {
        coxi_loop_stop(session->loop);
    }
}

static void pass_on_signal(void *arg, int signum)
{
    coxi_runner_signal(&((struct session *)arg)->runner, signum);
}

static int run_program(struct session *session)
{
    char *json = coxi_cluster_json(coxi_launcher_cluster(session->launcher));
    int r = json == NULL ? coxi_error_memory("the environment")
                         : coxi_runner_start(&session->runner, json,
                                             coxi_launcher_key_file(session->launcher));
    free(json);
    return r;
}

int coxi_command_run(int argc, char **argv)
{
    struct config config = {0};
    struct session session = {.name = run_command.name};
    int rest;
    int r = coxi_options_parse(&run_command, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && rest == argc) {
        r = coxi_error(COX_EINVAL,
                       "which program? coxswain run [options] -- PROGRAM ...");
    }
    if (r != 0) {
        return coxi_exit_config(run_command.name);
    }
    r = open_session(&session, &config, pass_on_signal);
    session.runner = (struct coxi_runner){.name = run_command.name,
                                          .loop = session.loop,
                                          .argv = argv + rest,
                                          .restarts_max = config.restarts,
                                          .page = config.page,
                                          .on_end = end_run,
                                          .arg = &session};
    if (r == 0) {
        r = run_program(&session);
        if (r != 0) {
            (void)coxi_exit_config(run_command.name);
            session.exit_code = COXI_EXIT_CONFIG;
            coxi_launcher_stop(session.launcher);
            r = 0;
        }
        coxi_loop_run(session.loop);
    }
    return close_session(&session, r);
}
