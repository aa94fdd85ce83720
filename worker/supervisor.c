/*
 * See supervisor.h.
 *
 *   States: RUNNING -> (died) RESTING -> RUNNING;  any -> (signal) ENDING -> returned
 *
 * The kernel kills the step process when this one ends, however it ends. What a step
 * process leaves in the recorder is only data: a log line depends on it, and whether an
 * exit counts as a step's doing.
 *
 * If a step process exits before any has served, the configuration is probably wrong,
 * and this worker ends, too. Once one has served, the cause of a later exit may pass,
 * so another process is started.
 */
#include "worker/supervisor.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/buffer.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/loop.h"
#include "net/daemon.h"
#include "net/link.h"
#include "worker/exposed.h"
#include "worker/figures.h"
#include "worker/recorder.h"

enum {
    REST_FIRST_MS = 10,
    REST_MAX_MS = 5000,
    LOOK_MS = 250,
};

struct supervisor {
    struct coxi_loop *loop;
    char *const *argv;
    struct coxi_recorder *recorder;
    struct coxi_step_processes processes; /* what is served of them */
    int recorder_fd;
    int key_fd; /* -1: there is no key */
    uv_process_t process;
    uv_timer_t rest;
    bool running;
    bool has_served;                /* some step process has served */
    int signal;                     /* ENDING: the signal that we were sent */
    uint64_t end_without_client_ms; /* 0: never */
    uint64_t first_client_end_ms;   /* when to end if none has ever come; 0: never */
    bool without_client;            /* ENDING: because of one of these */
    uv_timer_t look;                /* whether a client is here */
    int rest_ms;
    uint64_t started_ms;
    int exit_code;
};

static void start(struct supervisor *supervisor);

static void on_rest(uv_timer_t *timer)
{
    start(timer->data);
}

static void start_later(struct supervisor *supervisor)
{
    (void)uv_timer_start(&supervisor->rest, on_rest, (uint64_t)supervisor->rest_ms, 0);
    supervisor->rest_ms =
        supervisor->rest_ms * 2 < REST_MAX_MS ? supervisor->rest_ms * 2 : REST_MAX_MS;
}

/* Collects what ran, for the next step process, and logs it as closure/attempt. */
static void note_death(struct supervisor *supervisor, int status, int signum,
                       uint64_t lived_ms)
{
    const struct coxi_crashed_head *crashed;
    struct coxi_buffer names = {0};
    size_t n = coxi_recorder_collect(supervisor->recorder, signum, &crashed);
    int r = coxi_buffer_printf(&names, "%s", n == 0 ? "none" : "");
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = coxi_buffer_printf(&names, "%s%llu/%u", i > 0 ? "," : "",
                               (unsigned long long)crashed[i].closure,
                               crashed[i].attempt);
    }
    coxi_log(COXI_LOG_WARN, "step_process_died",
             "signal=%d name=\"%s\" status=%d lived_ms=%llu rest_ms=%d n_closures=%zu "
             "closures=%.*s",
             signum, signum != 0 ? strsignal(signum) : "none", status,
             (unsigned long long)lived_ms, supervisor->rest_ms, n, (int)names.len,
             (const char *)names.data);
    coxi_buffer_fini(&names);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signum)
{
    struct supervisor *supervisor = process->data;
    supervisor->running = false;
    atomic_store(&supervisor->processes.pid, 0);
    uv_close((uv_handle_t *)process, NULL);
    /* Once a process has served, every exit is a step's doing. */
    bool served = coxi_recorder_serves(supervisor->recorder);
    supervisor->has_served = supervisor->has_served || served;
    bool refused = signum == 0 && status < COXI_EXIT_AGAIN && !supervisor->has_served;
    if (supervisor->without_client) {
        coxi_loop_stop(supervisor->loop); /* exit_code is set */
        return;
    }
    if (supervisor->signal != 0 || refused) {
        supervisor->exit_code = supervisor->signal != 0
                                    ? COXI_EXIT_AGAIN + supervisor->signal
                                    : (int)status;
        coxi_loop_stop(supervisor->loop);
        return;
    }
    if (served) {
        supervisor->rest_ms = REST_FIRST_MS; /* it came up, so the next one will, too */
    }
    (void)atomic_fetch_add(&supervisor->processes.died, 1);
    note_death(supervisor, (int)status, signum, coxi_now_ms() - supervisor->started_ms);
    start_later(supervisor);
}

static void start(struct supervisor *supervisor)
{
    int alert_fd = coxi_log_alert_fd();
    uv_stdio_container_t stdio[COXI_KEY_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = 1},
        {.flags = UV_INHERIT_FD, .data.fd = 2},
        [COXI_RECORDER_FD] = {.flags = UV_INHERIT_FD,
                              .data.fd = supervisor->recorder_fd},
        [COXI_ALERTS_FD] = {.flags = alert_fd >= 0 ? UV_INHERIT_FD : UV_IGNORE,
                            .data.fd = alert_fd},
        [COXI_KEY_FD] = {.flags = supervisor->key_fd >= 0 ? UV_INHERIT_FD : UV_IGNORE,
                         .data.fd = supervisor->key_fd},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_of,
        .file = supervisor->argv[0],
        .args = (char **)(uintptr_t)supervisor->argv,
        .stdio = stdio,
        .stdio_count = COXI_KEY_FD + 1,
    };
    supervisor->process.data = supervisor;
    supervisor->started_ms = coxi_now_ms();
    int failed =
        uv_spawn(coxi_loop_uv(supervisor->loop), &supervisor->process, &options);
    supervisor->running = failed == 0;
    if (failed == 0) {
        (void)atomic_fetch_add(&supervisor->processes.started, 1);
        atomic_store(&supervisor->processes.pid, supervisor->process.pid);
        return;
    }
    uv_close((uv_handle_t *)&supervisor->process, NULL);
    coxi_log(COXI_LOG_ERROR, "step_process_not_started", "program=%s error=\"%s\"",
             supervisor->argv[0], uv_strerror(failed));
    if (supervisor->has_served) {
        start_later(supervisor);
        return;
    }
    supervisor->exit_code = COXI_EXIT_FAILED;
    coxi_loop_stop(supervisor->loop);
}

static void on_signal(void *arg, int signum)
{
    struct supervisor *supervisor = arg;
    supervisor->signal = signum;
    if (supervisor->running) {
        (void)uv_process_kill(&supervisor->process, SIGTERM);
    } else {
        supervisor->exit_code = COXI_EXIT_AGAIN + signum;
        coxi_loop_stop(supervisor->loop);
    }
}

/* Ends a worker to which no client has come, or come back. */
static void on_look(uv_timer_t *timer)
{
    struct supervisor *supervisor = timer->data;
    struct coxi_recorder *recorder = supervisor->recorder;
    bool left =
        supervisor->end_without_client_ms > 0 &&
        coxi_recorder_without_client_ms(recorder) >= supervisor->end_without_client_ms;
    bool never_came = supervisor->first_client_end_ms > 0 &&
                      !atomic_load(&coxi_recorder_figures(recorder)->met) &&
                      coxi_now_ms() >= supervisor->first_client_end_ms;
    if (supervisor->signal != 0 || (!left && !never_came)) {
        return;
    }
    if (never_came) {
        coxi_log(COXI_LOG_ERROR, "no_client", COXI_NO_FIRST_CLIENT);
        supervisor->exit_code = COXI_EXIT_FAILED;
    } else {
        coxi_log(COXI_LOG_INFO, "ending", "text=\"no client is here\"");
    }
    supervisor->without_client = true;
    (void)uv_timer_stop(timer);
    if (supervisor->running) {
        (void)uv_process_kill(&supervisor->process, SIGTERM);
    } else {
        coxi_loop_stop(supervisor->loop);
    }
}

static void look_for_clients(struct supervisor *supervisor)
{
    supervisor->look.data = supervisor;
    (void)uv_timer_init(coxi_loop_uv(supervisor->loop), &supervisor->look);
    if (supervisor->end_without_client_ms > 0 || supervisor->first_client_end_ms > 0) {
        (void)uv_timer_start(&supervisor->look, on_look, LOOK_MS, LOOK_MS);
    }
}

/* Runs step processes until all is over; returns the exit code. */
static int supervise(char *const *child, int key_fd,
                     const struct coxi_daemon_options *daemon,
                     const struct coxi_serve_options *http)
{
    struct coxi_served *served = NULL;
    struct supervisor supervisor = {
        .argv = child,
        .rest_ms = REST_FIRST_MS,
        .recorder_fd = -1,
        .key_fd = key_fd,
        .end_without_client_ms = (uint64_t)daemon->end_without_client_s * 1000,
        .first_client_end_ms =
            daemon->first_client_s > 0
                ? coxi_now_ms() + (uint64_t)daemon->first_client_s * 1000
                : 0,
    };
    int r = coxi_recorder_new(&supervisor.recorder_fd, &supervisor.recorder);
    if (r == 0) {
        r = coxi_loop_new(0, NULL, &supervisor, &supervisor.loop);
    }
    if (r == 0) {
        r = coxi_loop_on_signal(supervisor.loop, SIGTERM, on_signal);
    }
    if (r == 0) {
        r = coxi_loop_on_signal(supervisor.loop, SIGINT, on_signal);
    }
    if (r == 0) {
        supervisor.processes.recorder = supervisor.recorder;
        r = coxi_worker_expose(http, &supervisor.processes, &served);
    }
    if (r == 0) {
        supervisor.rest.data = &supervisor;
        (void)uv_timer_init(coxi_loop_uv(supervisor.loop), &supervisor.rest);
        look_for_clients(&supervisor);
        start(&supervisor);
        coxi_loop_run(supervisor.loop);
    }
    coxi_served_stop(served);
    coxi_loop_free(supervisor.loop);
    coxi_recorder_free(supervisor.recorder);
    if (supervisor.recorder_fd >= 0) {
        (void)close(supervisor.recorder_fd);
    }
    return r != 0 ? coxi_exit_config("coxswain-worker") : supervisor.exit_code;
}

/* Puts the step process's arguments together, and runs it. */
static int supervise_in(int argc, char **argv, int key_fd, const char *dir,
                        const struct coxi_daemon_options *daemon,
                        const struct coxi_serve_options *http)
{
    char self[PATH_MAX];
    char dir_option[PATH_MAX];
    char listen_option[COXI_URL_MAX + sizeof("--listen=")];
    char parent[32];
    char step_process[] = "--step-process";
    char key_option[] = "--key-file=" COXI_KEY_PASSED;
    char index[32];
    char **child = calloc((size_t)argc + 7, sizeof(*child));
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    int r = coxi_path(dir_option, "--dir=%s", dir);
    if (r == 0 && (n <= 0 || child == NULL)) {
        r = coxi_error_errno(COX_EIO, "cannot find this program");
    }
    if (r != 0) {
        free(child);
        return coxi_exit_config("coxswain-worker");
    }
    self[n] = '\0';
    (void)snprintf(parent, sizeof(parent), "--parent=%d", (int)getpid());
    child[0] = self;
    memcpy(child + 1, argv + 1, ((size_t)argc - 1) * sizeof(*child));
    child[argc++] = parent;
    child[argc++] = dir_option;
    child[argc++] = step_process;
    if (daemon->listen != NULL) {
        (void)snprintf(listen_option, sizeof(listen_option), "--listen=%s",
                       daemon->listen);
        (void)snprintf(index, sizeof(index), "--index=%lld", (long long)daemon->index);
        child[argc++] = listen_option;
        child[argc++] = index;
    }
    if (key_fd >= 0) {
        child[argc] = key_option;
    }
    int code = supervise(child, key_fd, daemon, http);
    free(child);
    return code;
}

int coxi_supervise(int argc, char **argv, const struct coxi_daemon_options *daemon,
                   const char *dir, const struct coxi_serve_options *http)
{
    const struct coxi_key *key = &daemon->key;
    char temporary[64];
    int lock = -1;
    int key_fd = -1;
    int r = key->kind != COXI_KEY_NONE ? coxi_key_pass(key, &key_fd) : 0;
    if (r == 0) {
        r = dir != NULL ? coxi_directory_make(dir)
                        : coxi_directory_held(temporary, &lock);
    }
    if (r != 0) {
        return coxi_exit_config("coxswain-worker");
    }
    int code =
        supervise_in(argc, argv, key_fd, dir != NULL ? dir : temporary, daemon, http);
    if (key_fd >= 0) {
        (void)close(key_fd);
    }
    if (dir == NULL) {
        coxi_directory_remove(temporary);
        (void)close(lock);
    }
    return code;
}
