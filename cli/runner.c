/*
 * See runner.h. The program: runs -> (ended with 128 or more) pauses -> runs; it ends for
 * good after another code, after too many restarts in a row, or after a signal to the
 * command.
 */
#include "cli/runner.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/file.h"
#include "net/daemon.h"

/* A program that has run for STEADY_MS gets a new count of restarts. PAUSE_MS is the
 * pause before the first restart; it doubles with each further one, up to
 * PAUSE_MAX_MS. */
enum { STEADY_MS = 60000, PAUSE_MS = 100, PAUSE_MAX_MS = 10000 };

static int start(struct coxi_runner *runner);

static void on_pause_over(uv_timer_t *pause)
{
    struct coxi_runner *runner = pause->data;
    if (start(runner) != 0) {
        runner->on_end(runner->arg, coxi_exit_config(runner->name));
    }
}

/* Starts the program again after a pause; false: it was started too often. */
static bool start_again_later(struct coxi_runner *runner, int code)
{
    uint64_t ran_ms = uv_now(coxi_loop_uv(runner->loop)) - runner->started_ms;
    runner->n_restarts = ran_ms >= STEADY_MS ? 0 : runner->n_restarts;
    if (runner->n_restarts >= runner->restarts_max) {
        return false;
    }
    int shift = runner->n_restarts < 7 ? (int)runner->n_restarts : 7;
    int pause_ms = PAUSE_MS << shift;
    pause_ms = pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
    runner->n_restarts++;
    (void)fprintf(
        stderr,
        "%s: %s ended with %d after %.1f s: starting it again in %d ms (%lld of "
        "%lld)\n",
        runner->name, runner->argv[0], code, 1e-3 * (double)ran_ms, pause_ms,
        (long long)runner->n_restarts, (long long)runner->restarts_max);
    return uv_timer_start(&runner->pause, on_pause_over, (uint64_t)pause_ms, 0) == 0;
}

static void on_exit_of_program(uv_process_t *process, int64_t status, int signum)
{
    struct coxi_runner *runner = process->data;
    int code = signum != 0 ? COXI_EXIT_AGAIN + signum : (int)status;
    runner->runs = false;
    uv_close((uv_handle_t *)process, NULL);
    if (code < COXI_EXIT_AGAIN || runner->told_to_end ||
        !start_again_later(runner, code)) {
        runner->on_end(runner->arg, code);
    }
}

/* The command line that has this program (coxi_runner_tied) start `argv`; for free(). */
static char **tie(struct coxi_runner *runner, const char *option)
{
    size_t n = 0;
    while (runner->argv[n] != NULL) {
        n++;
    }
    char **args = calloc(n + 5, sizeof(*args));
    if (args != NULL) {
        (void)snprintf(runner->parent, sizeof(runner->parent), "%d", (int)getpid());
        args[0] = (char *)(uintptr_t)runner->name;
        args[1] = (char *)(uintptr_t)option;
        args[2] = (char *)(uintptr_t)runner->name;
        args[3] = runner->parent;
        memcpy(args + 4, runner->argv, n * sizeof(*args));
    }
    return args;
}

int coxi_runner_tied(char **argv)
{
    const char *name = argv[2];
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != strtol(argv[3], NULL, 10)) {
        return COXI_EXIT_AGAIN + SIGTERM; /* the command ended before prctl */
    }
    (void)execvp(argv[4], argv + 4);
    (void)coxi_error_errno(COX_EINVAL, "cannot start %s", argv[4]);
    return coxi_exit_config(name);
}

static int start(struct coxi_runner *runner)
{
    char **args = tie(runner, COXI_RUNNER_TIED);
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_INHERIT_FD, .data.fd = 0},
        {.flags = UV_INHERIT_FD, .data.fd = 1},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_of_program,
        .file = "/proc/self/exe",
        .args = args,
        .stdio = stdio,
        .stdio_count = 3,
    };
    if (args == NULL) {
        return coxi_error_memory("a command line");
    }
    runner->process.data = runner;
    int failed = uv_spawn(coxi_loop_uv(runner->loop), &runner->process, &options);
    free(args);
    runner->runs = failed == 0;
    runner->started_ms = uv_now(coxi_loop_uv(runner->loop));
    return failed == 0 ? 0
                       : coxi_error(COX_EINVAL, "cannot start %s: %s", runner->argv[0],
                                    uv_strerror(failed));
}

/* ---- the page */

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

/* Sets COX_HTTP for the program, if it is not set, or its port is 0. The port stays the
 * same when the program is started again, so the page goes on. */
static int choose_address(void)
{
    char address[64];
    unsigned port = 0;
    const char *chosen =
        getenv("COX_HTTP"); // NOLINT(concurrency-mt-unsafe): one thread
    chosen = chosen != NULL && *chosen != '\0' ? chosen : "127.0.0.1:0";
    const char *colon = strrchr(chosen, ':');
    if (strcmp(colon != NULL ? colon + 1 : chosen, "0") != 0) {
        return 0;
    }
    int r = find_port(&port);
    if (r != 0) {
        return r;
    }
    (void)snprintf(address, sizeof(address), "%.*s%u",
                   colon != NULL ? (int)(colon + 1 - chosen) : 0, chosen, port);
    return setenv("COX_HTTP", address, 1) == 0 ? 0
                                               : coxi_error_memory("the environment");
}

/* Opens the FIFO through which the program's client tells where it serves. This also can
 * write, so that there is no end of file. */
static int open_fifo(struct coxi_runner *runner, int *ret_fd)
{
    char path[PATH_MAX];
    int r = coxi_directory_held(runner->page_dir, &runner->page_lock);
    r = r != 0 ? r : coxi_path(path, "%s/page", runner->page_dir);
    if (r != 0) {
        return r;
    }
    int fd = mkfifo(path, 0600) == 0 ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot make the FIFO %s", path);
    }
    if (setenv(COXI_HTTP_TELL, path, 1) != 0) {
        (void)close(fd);
        return coxi_error_memory("the environment");
    }
    *ret_fd = fd;
    return 0;
}

static void page_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct coxi_runner *runner = handle->data;
    (void)suggested;
    *ret = uv_buf_init(runner->told, sizeof(runner->told));
}

/* The client of a program that was started again tells the same address again. */
static void announce(struct coxi_runner *runner)
{
    bool is_url = strncmp(runner->url, "http://", strlen("http://")) == 0;
    for (const char *at = runner->url; *at != '\0'; at++) {
        is_url = is_url && *at > ' ' && *at <= '~';
    }
    if (is_url && runner->runs && strcmp(runner->url, runner->announced) != 0) {
        (void)strcpy(runner->announced, runner->url);
        (void)fprintf(stderr, "%s: the page is at %s\n", runner->name, runner->url);
    }
}

/* Bytes of lines, each with a URL. */
static void on_told(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct coxi_runner *runner = stream->data;
    for (ssize_t i = 0; i < n; i++) {
        char byte = buffer->base[i];
        if (byte == '\n') {
            runner->url[runner->url_len] = '\0';
            announce(runner);
            runner->url_len = 0;
        } else if (runner->url_len < sizeof(runner->url) - 1) {
            runner->url[runner->url_len++] = byte;
        }
    }
}

static int open_page(struct coxi_runner *runner)
{
    int fd = -1;
    int r = choose_address();
    r = r != 0 ? r : open_fifo(runner, &fd);
    if (r != 0) {
        return r;
    }
    runner->page_pipe.data = runner;
    (void)uv_pipe_init(coxi_loop_uv(runner->loop), &runner->page_pipe, 0);
    int failed = uv_pipe_open(&runner->page_pipe, fd);
    if (failed != 0) {
        (void)close(fd);
    } else {
        failed = uv_read_start((uv_stream_t *)&runner->page_pipe, page_buffer, on_told);
    }
    return failed == 0
               ? 0
               : coxi_error(COX_EIO, "cannot read a FIFO: %s", uv_strerror(failed));
}

/* ---- life */

int coxi_runner_start(struct coxi_runner *runner, const char *cluster_json,
                      const char *key_file)
{
    if (setenv("COX_CLUSTER", cluster_json, 1) != 0 ||
        (key_file != NULL && setenv("COX_KEY_FILE", key_file, 1) != 0)) {
        return coxi_error_memory("the environment");
    }
    runner->pause.data = runner;
    (void)uv_timer_init(coxi_loop_uv(runner->loop), &runner->pause);
    int r = runner->page ? open_page(runner) : 0;
    return r != 0 ? r : start(runner);
}

void coxi_runner_signal(struct coxi_runner *runner, int signum)
{
    runner->told_to_end = true;
    if (runner->runs && signum != SIGINT) {
        (void)uv_process_kill(&runner->process, signum);
    } else if (!runner->runs) {
        (void)uv_timer_stop(&runner->pause);
        runner->on_end(runner->arg, COXI_EXIT_AGAIN + signum);
    }
}

bool coxi_runner_stop(struct coxi_runner *runner)
{
    runner->told_to_end = true;
    if (runner->runs) {
        (void)uv_process_kill(&runner->process, SIGTERM);
    }
    return runner->runs;
}

void coxi_runner_fini(struct coxi_runner *runner)
{
    if (runner->page && runner->started_ms > 0 && runner->announced[0] == '\0') {
        (void)fprintf(stderr, "%s: no client of the program has served a page\n",
                      runner->name);
    }
    if (runner->page_lock > 0) {
        coxi_directory_remove(runner->page_dir);
        (void)close(runner->page_lock);
    }
}
