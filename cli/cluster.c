/*
 * coxswain cluster and coxswain run: a local cluster for any client. cox_open starts
 * `coxswain cluster` for cox_cluster_local; then the cluster ends when its lifeline
 * ends.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/launcher.h"
#include "common/error.h"
#include "common/option.h"
#include "net/daemon.h"

struct config {
    int64_t ps;
    int64_t workers;
    int64_t slots;
    int64_t peer_timeout_ms;
    int64_t step_memory_max;
    int64_t lifeline;
    int64_t prints_fd;
    int64_t restarts;
    bool page;
    const char *dir;
    const char *log_dir;
    const char *checkpoint_root;
    const char *key_file;
};

#define CLUSTER_OPTIONS                                                                \
    {.name = "ps",                                                                     \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(struct config, ps),                                            \
     .min = 1,                                                                         \
     .max = COXI_LOCAL_MAX,                                                            \
     .fallback = "2",                                                                  \
     .help = "parameter servers"},                                                     \
        {.name = "workers",                                                            \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(struct config, workers),                                   \
         .min = 1,                                                                     \
         .max = COXI_LOCAL_MAX,                                                        \
         .fallback = "2",                                                              \
         .help = "workers"},                                                           \
        {.name = "slots",                                                              \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(struct config, slots),                                     \
         .min = 1,                                                                     \
         .max = 1024,                                                                  \
         .fallback = "1",                                                              \
         .help = "steps at a time on each worker"},                                    \
        {.name = "peer-timeout-ms",                                                    \
         .type = COXI_OPTION_INT,                                                      \
         .offset = offsetof(struct config, peer_timeout_ms),                           \
         .min = 100,                                                                   \
         .max = 3600000,                                                               \
         .fallback = "10000",                                                          \
         .help = "a peer silent for this long is lost"},                               \
        {.name = "step-memory-max",                                                    \
         .type = COXI_OPTION_BYTES,                                                    \
         .offset = offsetof(struct config, step_memory_max),                           \
         .max = COXI_BYTES_MAX,                                                        \
         .fallback = "0",                                                              \
         .help = "most memory of a worker's step process, without kept results, as "   \
                 "512M or 2G; 0: no limit"},                                           \
        {.name = "key-file",                                                           \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(struct config, key_file),                                  \
         .help =                                                                       \
             "the run's key (default: the file that COX_KEY_FILE names, or else a "    \
             "new key, which is removed at the end)"},                                 \
        {.name = "log-dir",                                                            \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(struct config, log_dir),                                   \
         .help = "keep the daemons' logs, and what steps print, in this directory "    \
                 "(default: "                                                          \
                 "no logs; what steps print goes to standard error)"},                 \
        {.name = "checkpoint-root",                                                    \
         .type = COXI_OPTION_STRING,                                                   \
         .offset = offsetof(struct config, checkpoint_root),                           \
         .help = "the parameter servers write and read checkpoints only beneath this " \
                 "directory, an absolute path"}

static const struct coxi_option cluster_options[] = {
    CLUSTER_OPTIONS,
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
    CLUSTER_OPTIONS,
    {.name = "restarts",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, restarts),
     .max = 1000000,
     .fallback = "10",
     .help =
         "how often in a row PROGRAM is started again after a signal has ended it or "
         "it has exited with 128 or more; after a minute the count starts again"},
    {.name = "page",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, page),
     .help = "have the program serve the live page of its run, and print the page's "
             "address (COX_HTTP, if it is set; else a free port of this host)"},
};

static const struct coxi_program cluster_program = {
    .name = "coxswain cluster",
    .usage = "[options]",
    .summary =
        "Starts parameter servers and workers on this host, prints the COX_CLUSTER "
        "and\n"
        "COX_KEY_FILE that client programs need, and ends them when it is interrupted. "
        "A\ndaemon that dies is started again.",
    .prefix = "COX_CLUSTER",
    .options = cluster_options,
    .n_options = sizeof(cluster_options) / sizeof(*cluster_options),
};

static const struct coxi_program run_program = {
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
    uv_process_t program;
    bool program_runs;
    bool cluster_ended;
    bool told_to_end; /* by a signal: do not start the program again */
    char **argv;      /* of the program */
    uv_timer_t pause; /* before the program is started again */
    uint64_t started_ms;
    int64_t restarts_max;
    int64_t n_restarts; /* restarts in a row */
    int exit_code;
};

/* A program that has run for STEADY_MS gets a new count of restarts. PAUSE_MS is the
 * pause before the first restart; it doubles with each further one, up to
 * PAUSE_MAX_MS. */
enum { STEADY_MS = 60000, PAUSE_MS = 100, PAUSE_MAX_MS = 10000 };

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
        if (session->program_runs) {
            (void)uv_process_kill(&session->program, SIGTERM);
            return; /* the loop stops when the program ends */
        }
    }
    coxi_loop_stop(session->loop);
}

static int open_session(struct session *session, const struct config *config,
                        void (*on_signal)(void *arg, int signum))
{
    struct coxi_launcher_options options = {
        .n_ps = (uint32_t)config->ps,
        .n_workers = (uint32_t)config->workers,
        .slots = (uint32_t)config->slots,
        .peer_timeout_ms = (int)config->peer_timeout_ms,
        .step_memory_max = (uint64_t)config->step_memory_max,
        .key_file = config->key_file,
        .dir = config->dir,
        .dir_is_ours = config->lifeline > 0,
        .log_dir = config->log_dir,
        .checkpoint_root = config->checkpoint_root,
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
    struct session session = {.name = cluster_program.name};
    int r = coxi_options_parse(&cluster_program, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r != 0) {
        return coxi_exit_config(cluster_program.name);
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

static void end_run(struct session *session, int exit_code)
{
    if (session->exit_code == 0) {
        session->exit_code = exit_code;
    }
    (void)uv_timer_stop(&session->pause);
    coxi_launcher_stop(session->launcher);
    if (session->cluster_ended) {
        coxi_loop_stop(session->loop);
    }
}

static int start_program(struct session *session);

static void on_pause_over(uv_timer_t *pause)
{
    struct session *session = pause->data;
    if (start_program(session) != 0) {
        (void)coxi_exit_config(session->name);
        end_run(session, COXI_EXIT_CONFIG);
    }
}

/* Starts the program again after a pause; false: it was started too often. */
static bool start_again_later(struct session *session, int code)
{
    uint64_t ran_ms = uv_now(coxi_loop_uv(session->loop)) - session->started_ms;
    session->n_restarts = ran_ms >= STEADY_MS ? 0 : session->n_restarts;
    if (session->n_restarts >= session->restarts_max) {
        return false;
    }
    int shift = session->n_restarts < 7 ? (int)session->n_restarts : 7;
    int pause_ms = PAUSE_MS << shift;
    pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
    session->n_restarts++;
    (void)fprintf(
        stderr,
        "%s: %s ended with %d after %.1f s: starting it again in %d ms (%lld of "
        "%lld)\n",
        session->name, session->argv[0], code, 1e-3 * (double)ran_ms, pause_ms,
        (long long)session->n_restarts, (long long)session->restarts_max);
    return uv_timer_start(&session->pause, on_pause_over, (uint64_t)pause_ms, 0) == 0;
}

static void on_program_exit(uv_process_t *process, int64_t status, int signum)
{
    struct session *session = process->data;
    int code = signum != 0 ? COXI_EXIT_AGAIN + signum : (int)status;
    session->program_runs = false;
    uv_close((uv_handle_t *)process, NULL);
    if (code < COXI_EXIT_AGAIN || session->told_to_end || session->cluster_ended ||
        !start_again_later(session, code)) {
        end_run(session, code);
    }
}

static void pass_on_signal(void *arg, int signum)
{
    struct session *session = arg;
    session->told_to_end = true;
    /* Ctrl-C has reached the program, too, which decides when to end. */
    if (session->program_runs && signum != SIGINT) {
        (void)uv_process_kill(&session->program, signum);
    } else if (!session->program_runs) {
        end_run(session, COXI_EXIT_AGAIN + signum);
    }
}

static int start_program(struct session *session)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_INHERIT_FD, .data.fd = 0},
        {.flags = UV_INHERIT_FD, .data.fd = 1},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t options = {
        .exit_cb = on_program_exit,
        .file = session->argv[0],
        .args = session->argv,
        .stdio = stdio,
        .stdio_count = 3,
    };
    char *json = coxi_cluster_json(coxi_launcher_cluster(session->launcher));
    const char *key_file = coxi_launcher_key_file(session->launcher);
    if (json == NULL || setenv("COX_CLUSTER", json, 1) != 0 ||
        (key_file != NULL && setenv("COX_KEY_FILE", key_file, 1) != 0)) {
        free(json);
        return coxi_error_memory("the environment");
    }
    free(json);
    session->program.data = session;
    int failed = uv_spawn(coxi_loop_uv(session->loop), &session->program, &options);
    session->program_runs = failed == 0;
    session->started_ms = uv_now(coxi_loop_uv(session->loop));
    return failed == 0 ? 0
                       : coxi_error(COX_EINVAL, "cannot start %s: %s", session->argv[0],
                                    uv_strerror(failed));
}

/* A free port of this host. COX_EADDRESS. */
static int find_port(unsigned *ret)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        int r = coxi_error_errno(COX_EADDRESS, "cannot find a port for the page");
        if (fd >= 0) {
            (void)close(fd);
        }
        return r;
    }
    (void)close(fd);
    *ret = ntohs(address.sin_port);
    return 0;
}

/* Tells the program to serve its page. The port stays the same when it is started again,
 * so the page goes on. */
static int serve_page(const struct session *session)
{
    char address[64];
    unsigned port = 0;
    const char *chosen =
        getenv("COX_HTTP"); // NOLINT(concurrency-mt-unsafe): one thread
    chosen = chosen != NULL && *chosen != '\0' ? chosen : "127.0.0.1:0";
    const char *colon = strrchr(chosen, ':');
    if (strcmp(colon != NULL ? colon + 1 : chosen, "0") == 0) {
        int r = find_port(&port);
        if (r != 0) {
            return r;
        }
        (void)snprintf(address, sizeof(address), "%.*s%u",
                       colon != NULL ? (int)(colon + 1 - chosen) : 0, chosen, port);
        chosen = address;
        if (setenv("COX_HTTP", address, 1) != 0) {
            return coxi_error_memory("the environment");
        }
    }
    bool is_port = strspn(chosen, "0123456789") == strlen(chosen);
    (void)fprintf(stderr, "%s: the page is at http://%s%s/\n", session->name,
                  is_port ? "127.0.0.1:" : "", chosen);
    return 0;
}

int coxi_command_run(int argc, char **argv)
{
    struct config config = {0};
    struct session session = {.name = run_program.name};
    int rest;
    int r = coxi_options_parse(&run_program, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && rest == argc) {
        r = coxi_error(COX_EINVAL,
                       "which program? coxswain run [options] -- PROGRAM ...");
    }
    if (r != 0) {
        return coxi_exit_config(run_program.name);
    }
    r = config.page ? serve_page(&session) : 0;
    r = r != 0 ? r : open_session(&session, &config, pass_on_signal);
    session.argv = argv + rest;
    session.restarts_max = config.restarts;
    session.pause.data = &session;
    if (r == 0 && uv_timer_init(coxi_loop_uv(session.loop), &session.pause) != 0) {
        r = coxi_error_memory("a timer");
    }
    if (r == 0) {
        r = start_program(&session);
        if (r != 0) {
            (void)coxi_exit_config(run_program.name);
            session.exit_code = COXI_EXIT_CONFIG;
            coxi_launcher_stop(session.launcher);
            r = 0;
        }
        coxi_loop_run(session.loop);
    }
    return close_session(&session, r);
}
