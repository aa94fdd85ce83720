/*
 * See launcher.h. A daemon: RUNNING -> (died) RESTING -> RUNNING; when the launcher
 * stops, RUNNING -> ENDED. Only the first start of a daemon may fail as a matter of
 * configuration, which ends the cluster. After that it is started again after any exit
 * code, because its options have not changed. Daemons run in sessions of their own, so
 * that Ctrl-C does not reach them. The kernel kills them when this process ends,
 * however it ends.
 */
#include "cli/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/relay.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "net/daemon.h"
#include "net/key.h"

enum {
    REST_FIRST_MS = 10,
    REST_MAX_MS = 1000,
    /* a daemon that lived this long came up: its rest begins at REST_FIRST_MS again */
    STEADY_MS = 200,
    GRACE_MS = 1500,
};

enum daemon_state { DAEMON_RESTING, DAEMON_RUNNING, DAEMON_ENDED };

struct daemon {
    struct coxi_launcher *launcher;
    const char *role; /* "ps", "worker" */
    uint32_t place;   /* among this launcher's daemons */
    uint32_t index;   /* in the cluster's list */
    const char *url;
    enum daemon_state state;
    uint64_t n_starts;
    uv_process_t process;
    uv_timer_t rest;
    int rest_ms;
    uint64_t started_ms;
    off_t log_bytes; /* of its log, before it was started */
};

struct coxi_launcher {
    struct coxi_launcher_options options;
    struct coxi_loop *loop;
    char *dir;
    char own_key[PATH_MAX]; /* the file of the key that this has made; "": none */
    char bin_dir[PATH_MAX];
    struct cox_cluster *cluster;        /* local; NULL: `places` were given */
    struct coxi_launcher_place *places; /* of the ps, then of the workers */
    /* passes on prints and alerts; NULL: they are only in the logs */
    struct coxi_relay *relay;
    struct daemon *daemons;
    uint32_t n_daemons;
    uint32_t n_running;
    bool stopping;
    bool failed; /* the cluster has ended on its own */
    uv_timer_t grace;
};

static bool is_worker(const struct daemon *daemon)
{
    return strcmp(daemon->role, "worker") == 0;
}

static void log_path(const struct daemon *daemon, char path[PATH_MAX])
{
    const struct coxi_launcher *launcher = daemon->launcher;
    const char *dir =
        launcher->options.log_dir != NULL ? launcher->options.log_dir : launcher->dir;
    (void)coxi_path(path, "%s/%s-%u.log", dir, daemon->role, daemon->index);
}

/* Removes the files that we and the daemons have made, and nothing else. */
static void clean_up(const struct coxi_launcher *launcher)
{
    char path[PATH_MAX];
    if (launcher->options.dir_is_ours) {
        coxi_directory_remove(launcher->dir);
        return;
    }
    for (uint32_t i = 0; i < launcher->n_daemons; i++) {
        const struct daemon *daemon = &launcher->daemons[i];
        if (launcher->cluster != NULL &&
            coxi_path(path, "%s", daemon->url + strlen("ipc://")) == 0) {
            (void)unlink(path);
        }
        if (coxi_path(path, "%s/modules-%u", launcher->dir, daemon->index) == 0) {
            coxi_directory_remove(path);
        }
        if (launcher->options.log_dir == NULL) {
            log_path(daemon, path);
            (void)unlink(path);
        }
    }
    if (launcher->own_key[0] != '\0') {
        (void)unlink(launcher->own_key);
    }
}

static void finish_if_ended(struct coxi_launcher *launcher)
{
    if (launcher->stopping && launcher->n_running == 0) {
        uv_timer_stop(&launcher->grace);
        coxi_relay_free(launcher->relay);
        launcher->relay = NULL;
        clean_up(launcher);
        launcher->options.on_end(launcher->options.arg, launcher->failed);
    }
}

static void start(struct daemon *daemon);

static void on_rest(uv_timer_t *timer)
{
    start(timer->data);
}

static void give_up(struct coxi_launcher *launcher, const char *why)
{
    if (!launcher->stopping) {
        launcher->failed = true;
        launcher->options.on_fail(launcher->options.arg, why);
        coxi_launcher_stop(launcher);
    }
}

/* The last line that the daemon has written to its log since it was started; "": none. */
static void last_words(const struct daemon *daemon, const char *path, char *ret,
                       size_t len)
{
    struct stat file;
    *ret = '\0';
    if (stat(path, &file) == 0 && file.st_size > daemon->log_bytes) {
        coxi_file_last_line(path, ret, len);
    }
}

/* The daemon's exit code says that starting it again would not help. The last line of
 * its log says why. The log's path is told if the log stays. */
static void give_up_daemon(const struct daemon *daemon, int code)
{
    const struct coxi_launcher *launcher = daemon->launcher;
    char path[PATH_MAX];
    char text[400];
    char log[300] = "";
    char why[sizeof(text) + sizeof(log) + 64];
    log_path(daemon, path);
    last_words(daemon, path, text, sizeof(text));
    if (text[0] == '\0') {
        (void)snprintf(text, sizeof(text), "it exited with %d, and gave no reason",
                       code);
    }
    if (launcher->options.log_dir != NULL) {
        (void)snprintf(log, sizeof(log), " (its log is %.280s)", path);
    }
    (void)snprintf(why, sizeof(why), "%s %u ended: %s%s", daemon->role, daemon->index,
                   text, log);
    give_up(daemon->launcher, why);
}

static void start_later(struct daemon *daemon)
{
    daemon->state = DAEMON_RESTING;
    if (coxi_now_ms() - daemon->started_ms >= STEADY_MS) {
        daemon->rest_ms = REST_FIRST_MS;
    }
    (void)uv_timer_start(&daemon->rest, on_rest, (uint64_t)daemon->rest_ms, 0);
    daemon->rest_ms =
        daemon->rest_ms * 2 < REST_MAX_MS ? daemon->rest_ms * 2 : REST_MAX_MS;
}

static void on_daemon_exit(uv_process_t *process, int64_t status, int signum)
{
    struct daemon *daemon = process->data;
    struct coxi_launcher *launcher = daemon->launcher;
    uv_close((uv_handle_t *)process, NULL);
    launcher->n_running--;
    daemon->state = DAEMON_ENDED;
    if (!launcher->stopping && daemon->n_starts == 1 && signum == 0 &&
        status < COXI_EXIT_AGAIN) {
        give_up_daemon(daemon, (int)status);
        return;
    }
    if (!launcher->stopping) {
        start_later(daemon);
    }
    finish_if_ended(launcher);
}

/* At the first start the program may be missing; later there may be a lack of
 * memory. */
static void not_started(struct daemon *daemon, const char *program, int failed)
{
    char why[512];
    uv_close((uv_handle_t *)&daemon->process, NULL);
    daemon->state = DAEMON_ENDED;
    if (daemon->n_starts > 1) {
        start_later(daemon);
        return;
    }
    (void)snprintf(why, sizeof(why), "cannot start %.300s: %s", program,
                   uv_strerror(failed));
    give_up(daemon->launcher, why);
}

/* The descriptors that a daemon starts with; alert_fd -1: none. */
struct outputs {
    int out_fd;
    int log_fd;
    int alert_fd;
};

static void spawn(struct daemon *daemon, char **argv, const struct outputs *outputs)
{
    struct coxi_launcher *launcher = daemon->launcher;
    int key_fd = launcher->options.key_fd;
    uv_stdio_container_t stdio[COXI_KEY_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = outputs->out_fd},
        {.flags = UV_INHERIT_FD, .data.fd = outputs->log_fd},
        [COXI_ALERTS_FD] = {.flags = outputs->alert_fd >= 0 ? UV_INHERIT_FD : UV_IGNORE,
                            .data.fd = outputs->alert_fd},
        [COXI_KEY_FD] = {.flags = key_fd > 0 ? UV_INHERIT_FD : UV_IGNORE,
                         .data.fd = key_fd},
    };
    uv_process_options_t options = {
        .exit_cb = on_daemon_exit,
        .file = argv[0],
        .args = argv,
        .stdio = stdio,
        .stdio_count = COXI_KEY_FD + 1,
        .flags = UV_PROCESS_DETACHED,
    };
    daemon->process.data = daemon;
    daemon->started_ms = coxi_now_ms();
    daemon->n_starts++;
    int failed = uv_spawn(coxi_loop_uv(launcher->loop), &daemon->process, &options);
    if (failed != 0) {
        not_started(daemon, argv[0], failed);
        return;
    }
    daemon->state = DAEMON_RUNNING;
    launcher->n_running++;
}

/* The least level of a daemon's log lines that the client sees, from COX_LOG as for
 * events. NULL: it sees none, and the daemon gets no descriptor for them. */
static const char *alert_level(const struct coxi_launcher *launcher)
{
    const char *log = getenv("COX_LOG"); /* NOLINT(concurrency-mt-unsafe) */
    bool quiet = launcher->relay == NULL || (log != NULL && strcmp(log, "quiet") == 0);
    return quiet ? NULL : log != NULL && strcmp(log, "error") == 0 ? "error" : "warn";
}

enum { ARGUMENTS_MAX = 12 };

/* Makes the daemon's command line, which ends with NULL. */
static void make_arguments(const struct daemon *daemon,
                           char text[ARGUMENTS_MAX][PATH_MAX],
                           char *argv[ARGUMENTS_MAX + 1])
{
    const struct coxi_launcher *launcher = daemon->launcher;
    int n = 0;
    (void)coxi_path(text[n++], "%s/coxswain-%s", launcher->bin_dir, daemon->role);
    (void)coxi_path(text[n++], "--listen=%s", daemon->url);
    (void)coxi_path(text[n++], "--index=%u", daemon->index);
    (void)coxi_path(text[n++], "--parent=%d", (int)getpid());
    (void)coxi_path(text[n++], "--peer-timeout-ms=%d",
                    launcher->options.peer_timeout_ms);
    if (alert_level(launcher) != NULL) {
        (void)coxi_path(text[n++], "--alerts=%s", alert_level(launcher));
    }
    if (!is_worker(daemon) && launcher->options.checkpoint_root != NULL) {
        (void)coxi_path(text[n++], "--checkpoint-root=%s",
                        launcher->options.checkpoint_root);
    }
    if (launcher->options.key_fd > 0) {
        (void)coxi_path(text[n++], "--key-file=%s", COXI_KEY_PASSED);
    } else if (launcher->options.key_file != NULL) {
        (void)coxi_path(text[n++], "--key-file=%s", launcher->options.key_file);
    }
    if (geteuid() == 0) { /* as the program whose cluster this is */
        (void)coxi_path(text[n++], "--user=root");
    }
    if (is_worker(daemon)) {
        (void)coxi_path(text[n++], "--slots=%u", launcher->options.slots);
        (void)coxi_path(text[n++], "--step-memory-max=%llu",
                        (unsigned long long)launcher->options.step_memory_max);
        (void)coxi_path(text[n++], "--dir=%s/modules-%u", launcher->dir, daemon->index);
    }
    if (is_worker(daemon) && launcher->relay != NULL) {
        (void)coxi_path(text[n++], "--prints-apart");
    }
    for (int i = 0; i < n; i++) {
        argv[i] = text[i];
    }
}

/* The relay's sources: alerts of ps and workers, prints of workers. */
static size_t alerts_source(const struct daemon *daemon)
{
    return daemon->place;
}

static size_t prints_source(const struct daemon *daemon)
{
    return daemon->launcher->options.n_workers + daemon->place;
}

static void start(struct daemon *daemon)
{
    struct stat file;
    const struct coxi_launcher *launcher = daemon->launcher;
    const struct coxi_relay *relay = launcher->relay;
    char text[ARGUMENTS_MAX][PATH_MAX];
    char path[PATH_MAX];
    char *argv[ARGUMENTS_MAX + 1] = {0};
    make_arguments(daemon, text, argv);
    log_path(daemon, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    daemon->log_bytes = fd >= 0 && fstat(fd, &file) == 0 ? file.st_size : 0;
    struct outputs outputs = {.log_fd = fd >= 0 ? fd : STDERR_FILENO, .alert_fd = -1};
    outputs.out_fd = outputs.log_fd;
    if (alert_level(launcher) != NULL) {
        outputs.alert_fd = coxi_relay_fd(relay, alerts_source(daemon));
    }
    if (relay != NULL && is_worker(daemon)) {
        outputs.out_fd = coxi_relay_fd(relay, prints_source(daemon));
    }
    spawn(daemon, argv, &outputs);
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ---- life */

int coxi_launcher_find_daemons(char ret[PATH_MAX])
{
    static const char *const below[] = {"", "/../libexec/coxswain", "/../libexec"};
    char self[PATH_MAX];
    char program[PATH_MAX];
    int r = coxi_program_directory(self);
    for (size_t i = 0; r == 0 && i < sizeof(below) / sizeof(*below); i++) {
        if (coxi_path(program, "%s%s/coxswain-ps", self, below[i]) == 0 &&
            access(program, X_OK) == 0) {
            return coxi_path(ret, "%s%s", self, below[i]);
        }
    }
    return r != 0
               ? r
               : coxi_error(COX_EIO,
                            "the program coxswain-ps is neither in %s nor in libexec "
                            "beside it",
                            self);
}

static int find_directories(struct coxi_launcher *launcher)
{
    char temporary[64];
    const char *dir = launcher->options.dir;
    int r = coxi_launcher_find_daemons(launcher->bin_dir);
    if (r == 0 && launcher->options.log_dir != NULL) {
        r = coxi_directory_make(launcher->options.log_dir);
    }
    if (r == 0 && dir == NULL) {
        r = coxi_directory_temporary(temporary);
        dir = temporary;
        launcher->options.dir_is_ours = true;
    } else if (r == 0) {
        r = coxi_directory_make(dir);
    }
    if (r == 0) {
        launcher->dir = strdup(dir);
        r = launcher->dir != NULL ? 0 : coxi_error_memory("a directory's name");
    }
    return r;
}

static int find_places(struct coxi_launcher *launcher)
{
    const struct coxi_launcher_options *options = &launcher->options;
    uint32_t n_ps = options->n_ps;
    uint32_t n = n_ps + options->n_workers;
    launcher->places = calloc(n, sizeof(*launcher->places));
    launcher->daemons = calloc(n, sizeof(*launcher->daemons));
    if (launcher->places == NULL || launcher->daemons == NULL) {
        return coxi_error_memory("a launcher");
    }
    int r = options->places != NULL
                ? 0
                : coxi_cluster_at(launcher->dir, n_ps, options->n_workers,
                                  &launcher->cluster);
    for (uint32_t i = 0; r == 0 && i < n; i++) {
        bool ps = i < n_ps;
        launcher->places[i] =
            options->places != NULL
                ? options->places[i]
                : (struct coxi_launcher_place){
                      .index = ps ? i : i - n_ps,
                      .url = ps ? launcher->cluster->ps[i]
                                : launcher->cluster->workers[i - n_ps]};
    }
    return r;
}

/* Names the relay's sources, in the order of prints_source and alerts_source. */
static int open_relay(struct coxi_launcher *launcher)
{
    const struct coxi_launcher_options *options = &launcher->options;
    size_t n_daemons = (size_t)options->n_ps + options->n_workers;
    size_t n = n_daemons + options->n_workers;
    char(*texts)[32] = calloc(n, sizeof(*texts));
    const char **names = calloc(n, sizeof(*names));
    int r = texts == NULL || names == NULL ? coxi_error_memory("a launcher") : 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        size_t place = i < n_daemons ? i : i - options->n_workers;
        (void)snprintf(texts[i], sizeof(*texts), "%s %u",
                       place < options->n_ps ? "ps" : "worker",
                       launcher->places[place].index);
        names[i] = texts[i];
    }
    if (r == 0) {
        r = coxi_relay_new(names, n, options->prints_fd, &launcher->relay);
    }
    free(names);
    free(texts);
    return r;
}

static void start_daemon(struct coxi_launcher *launcher)
{
    uint32_t place = launcher->n_daemons++;
    struct daemon *daemon = &launcher->daemons[place];
    *daemon = (struct daemon){.launcher = launcher,
                              .role = place < launcher->options.n_ps ? "ps" : "worker",
                              .place = place,
                              .index = launcher->places[place].index,
                              .url = launcher->places[place].url,
                              .rest_ms = REST_FIRST_MS};
    daemon->rest.data = daemon;
    (void)uv_timer_init(coxi_loop_uv(launcher->loop), &daemon->rest);
    if (!launcher->stopping) {
        start(daemon);
    }
}

int coxi_launcher_start(struct coxi_loop *loop,
                        const struct coxi_launcher_options *options,
                        struct coxi_launcher **ret)
{
    struct coxi_launcher *launcher = calloc(1, sizeof(*launcher));
    if (launcher == NULL) {
        return coxi_error_memory("a launcher");
    }
    launcher->options = *options;
    launcher->loop = loop;
    int r = find_directories(launcher);
    if (r == 0) {
        r = find_places(launcher);
    }
    if (r == 0 && options->key_fd == 0 && !coxi_key_is_given(options->key_file)) {
        r = coxi_key_new_in(launcher->dir, launcher->own_key);
        launcher->options.key_file = launcher->own_key;
    }
    if (r == 0 && options->log_dir == NULL) {
        r = open_relay(launcher);
    }
    if (r != 0) {
        coxi_launcher_free(launcher);
        return r;
    }
    launcher->grace.data = launcher;
    (void)uv_timer_init(coxi_loop_uv(loop), &launcher->grace);
    for (uint32_t i = 0; i < options->n_ps + options->n_workers; i++) {
        start_daemon(launcher);
    }
    *ret = launcher;
    return 0;
}

const struct cox_cluster *coxi_launcher_cluster(const struct coxi_launcher *launcher)
{
    return launcher->cluster;
}

const char *coxi_launcher_key_file(const struct coxi_launcher *launcher)
{
    return launcher->options.key_file;
}

static void signal_daemons(struct coxi_launcher *launcher, int signum)
{
    for (uint32_t i = 0; i < launcher->n_daemons; i++) {
        struct daemon *daemon = &launcher->daemons[i];
        if (daemon->state == DAEMON_RUNNING) {
            (void)uv_process_kill(&daemon->process, signum);
        }
        uv_timer_stop(&daemon->rest);
    }
}

static void on_grace(uv_timer_t *timer)
{
    signal_daemons(timer->data, SIGKILL);
}

/* On the loop, so that coxi_launcher_stop itself never calls on_end. */
static void on_stop(uv_timer_t *timer)
{
    struct coxi_launcher *launcher = timer->data;
    (void)uv_timer_start(&launcher->grace, on_grace, GRACE_MS, 0);
    finish_if_ended(launcher);
}

void coxi_launcher_stop(struct coxi_launcher *launcher)
{
    if (!launcher->stopping) {
        launcher->stopping = true;
        signal_daemons(launcher, SIGTERM);
        (void)uv_timer_start(&launcher->grace, on_stop, 0, 0);
    }
}

void coxi_launcher_free(struct coxi_launcher *launcher)
{
    if (launcher != NULL) {
        if (launcher->dir != NULL) {
            clean_up(launcher);
        }
        coxi_relay_free(launcher->relay);
        cox_cluster_free(launcher->cluster);
        free(launcher->places);
        free(launcher->daemons);
        free(launcher->dir);
        free(launcher);
    }
}
