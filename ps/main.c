/* coxswain-ps: the parameter server daemon. Main thread: signals and ticks. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint/place.h"
#include "cluster/daemon_view.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/option.h"
#include "common/sync.h"
#include "net/daemon.h"
#include "net/keyring.h"
#include "ps/exposed.h"
#include "ps/registered.h"
#include "ps/service.h"

struct config {
    struct coxi_daemon_options daemon;
    struct coxi_serve_options http;
    struct coxi_etcd_settings etcd;
    int64_t memory_max;
    int64_t run_bytes_max;
    int64_t run_variables_max;
    int64_t run_connections_max;
    const char *checkpoint_root;
    const char *run_keys;
    int64_t runs;
    int64_t term_grace_s;
};

static const struct coxi_option options[] = {
    COXI_DAEMON_OPTIONS(struct config),
    COXI_SERVE_OPTIONS(struct config),
    COXI_ETCD_OPTIONS(struct config),
    {.name = "memory-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct config, memory_max),
     .max = COXI_BYTES_MAX,
     .help = "bytes of all variables and tables; 0: no limit"},
    {.name = "run-bytes-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct config, run_bytes_max),
     .max = COXI_BYTES_MAX,
     .help = "bytes of the variables and tables of each run; 0: no limit"},
    {.name = "run-variables-max",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, run_variables_max),
     .max = INT32_MAX,
     .help = "variables and tables of each run; 0: no limit of its own"},
    {.name = "run-connections-max",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, run_connections_max),
     .max = INT32_MAX,
     .help = "connections of each run: of its client, workers and readers, at most two "
             "of each; beyond it newcomers are refused; 0: no limit of its own"},
    {.name = "checkpoint-root",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, checkpoint_root),
     .help = "write and read checkpoints only beneath this directory, an absolute "
             "path, or beneath s3://BUCKET/PREFIX (default: in whatever place the "
             "client names)"},
    {.name = "run-keys",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, run_keys),
     .help = "serve several runs: each file NAME.key of this directory is the key of a "
             "run, whose checkpoints lie beneath NAME in --checkpoint-root"},
    {.name = "term-grace",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, term_grace_s),
     .max = 86400,
     .help = "after SIGTERM, go on for up to this many seconds while a client is here, "
             "so that it can write a checkpoint; a second signal ends the ps at once"},
    {.name = "runs",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, runs),
     .max = UINT16_MAX,
     .help = "with --run-keys: how many runs may use this ps at a time; 0: all"},
};

static const struct coxi_program program = {
    .name = "coxswain-ps",
    .usage = "[options]",
    .summary = "A parameter server: keeps variables and tables, answers pulls, applies "
               "commits.\nIt serves one run at a time, and the next one when that has "
               "ended; or, with --run-keys,\nseveral.",
    .prefix = "COX_PS",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

struct daemon {
    struct coxi_ps *ps;
    struct coxi_loop *loop;
    struct coxi_keyring *keys; /* NULL: one run */
    const char *run_keys;      /* their directory */
    /* reads the keys again; the main thread starts and joins it */
    pthread_t reloader;
    bool has_reloader;
    atomic_bool reloads; /* it has not ended */
    int signal;
    uint64_t end_without_client_ms; /* 0: never */
    bool without_client;            /* ends because of that */
    uint64_t first_client_end_ms; /* when to end if no client has ever come; 0: never */
    bool never_came;              /* ends because of that */
    uint64_t term_grace_ms;
    uint64_t end_ms; /* there was a signal: when to end at the latest; 0: none */
    struct coxi_registered registered;
    atomic_bool taken; /* another living process has this index */
    char root[PATH_MAX];
};

/* ---- keys that come and go */

static void reload(struct daemon *daemon)
{
    struct coxi_buffer added = {0};
    struct coxi_buffer removed = {0};
    if (coxi_keyring_reload(daemon->keys, daemon->run_keys, &added, &removed) != 0) {
        coxi_log(COXI_LOG_ERROR, "keys_not_read",
                 "text=\"the runs are as before\" error=\"%s\"", coxi_error_text());
    } else {
        coxi_log(COXI_LOG_INFO, "keys", "added=\"%.*s\" removed=\"%.*s\"",
                 (int)added.len, (const char *)added.data, (int)removed.len,
                 (const char *)removed.data);
        coxi_ps_take_keys(daemon->ps);
    }
    coxi_buffer_fini(&added);
    coxi_buffer_fini(&removed);
}

static void *reloader_thread(void *arg)
{
    struct daemon *daemon = arg;
    reload(daemon);
    atomic_store(&daemon->reloads, false);
    return NULL;
}

static void join_reloader(struct daemon *daemon)
{
    if (daemon->has_reloader) {
        (void)pthread_join(daemon->reloader, NULL);
        daemon->has_reloader = false;
    }
}

/* SIGHUP. On a thread of its own, because the disk, and connections that are to end, may
 * take long. */
static void on_hangup(void *arg, int signum)
{
    struct daemon *daemon = arg;
    (void)signum;
    if (atomic_load(&daemon->reloads)) {
        coxi_log(COXI_LOG_WARN, "keys_not_read",
                 "text=\"they are being read: send SIGHUP again\"");
        return;
    }
    join_reloader(daemon);
    atomic_store(&daemon->reloads, true);
    daemon->has_reloader =
        coxi_thread_start(&daemon->reloader, "cox:keys", reloader_thread, daemon) == 0;
    if (!daemon->has_reloader) {
        atomic_store(&daemon->reloads, false);
    }
}

/* Ends the ps if a signal's grace is over, or no client has come for too long. */
static void end_if_due(struct daemon *daemon)
{
    uint64_t now_ms = coxi_now_ms();
    uint64_t left_ms;
    bool has_client = coxi_ps_has_client(daemon->ps, &left_ms);
    if (daemon->end_ms != 0 && (now_ms >= daemon->end_ms || !has_client)) {
        coxi_loop_stop(daemon->loop);
    }
    if (daemon->end_without_client_ms > 0 && !has_client && left_ms != 0 &&
        now_ms >= left_ms + daemon->end_without_client_ms) {
        daemon->without_client = daemon->signal == 0;
        coxi_loop_stop(daemon->loop);
    }
    if (daemon->first_client_end_ms > 0 && !has_client && left_ms == 0 &&
        now_ms >= daemon->first_client_end_ms) {
        coxi_log(COXI_LOG_ERROR, "no_client", COXI_NO_FIRST_CLIENT);
        daemon->never_came = true;
        coxi_loop_stop(daemon->loop);
    }
}

static void on_tick(void *arg)
{
    struct daemon *daemon = arg;
    coxi_ps_tick(daemon->ps);
    coxi_log_trim();
    end_if_due(daemon);
}

static void on_signal(void *arg, int signum)
{
    struct daemon *daemon = arg;
    bool again = daemon->signal != 0;
    uint64_t ignored;
    daemon->signal = signum;
    if (!again && signum == SIGTERM && daemon->term_grace_ms > 0 &&
        coxi_ps_has_client(daemon->ps, &ignored)) {
        coxi_log(COXI_LOG_INFO, "ending_soon", "signal=%d grace_ms=%llu", signum,
                 (unsigned long long)daemon->term_grace_ms);
        daemon->end_ms = coxi_now_ms() + daemon->term_grace_ms;
        return;
    }
    coxi_loop_stop(daemon->loop);
}

static void on_taken(void *arg)
{
    struct daemon *daemon = arg;
    atomic_store(&daemon->taken, true);
    coxi_loop_stop(daemon->loop);
}

/* Names the root as clients name what lies beneath it. *ret is NULL without one. */
static int take_root(const char *given, char buffer[PATH_MAX], const char **ret)
{
    if (given == NULL) {
        *ret = NULL;
        return 0;
    }
    if (*given != '/' && !coxi_place_in_store(given)) {
        return coxi_error(COX_EINVAL,
                          "--checkpoint-root=%s is neither an absolute path nor "
                          "s3://BUCKET/PREFIX",
                          given);
    }
    int r = coxi_place_take(given, buffer);
    if (r != 0) {
        return coxi_error(r, "--checkpoint-root: %s", coxi_error_text());
    }
    *ret = buffer;
    return 0;
}

/* Reads the keys of --run-keys. A run could restore the checkpoint of another if each
 * had not a directory of its own. */
static int open_keys(const struct config *config, struct coxi_keyring **ret)
{
    if (config->run_keys == NULL) {
        return config->runs == 0
                   ? 0
                   : coxi_error(COX_EINVAL,
                                "--runs needs --run-keys, a directory with a key for "
                                "each run");
    }
    if (config->checkpoint_root == NULL) {
        return coxi_error(COX_EINVAL, "--run-keys needs --checkpoint-root, beneath "
                                      "which each run gets a directory of its own");
    }
    if (config->daemon.key_file != NULL) {
        return coxi_error(COX_EINVAL, "--run-keys and --key-file exclude each other");
    }
    int r = coxi_keyring_open(config->run_keys, ret);
    return r == 0 ? 0 : coxi_error(r, "--run-keys: %s", coxi_error_text());
}

static int watch_signals(struct daemon *daemon)
{
    int r = coxi_loop_on_signal(daemon->loop, SIGTERM, on_signal);
    if (r == 0) {
        r = coxi_loop_on_signal(daemon->loop, SIGINT, on_signal);
    }
    if (r == 0 && daemon->keys != NULL) {
        r = coxi_loop_on_signal(daemon->loop, SIGHUP, on_hangup);
    }
    return r;
}

/* The exit code after an end that is no failure of this process. */
static int exit_code_of(struct daemon *daemon)
{
    if (atomic_load(&daemon->taken)) {
        return COXI_EXIT_CONFIG;
    }
    if (daemon->never_came) {
        return COXI_EXIT_FAILED;
    }
    return daemon->without_client ? EXIT_SUCCESS : COXI_EXIT_AGAIN + daemon->signal;
}

static int run(const struct config *config, struct coxi_keyring *keys)
{
    struct daemon daemon = {
        .keys = keys,
        .run_keys = config->run_keys,
        .end_without_client_ms = (uint64_t)config->daemon.end_without_client_s * 1000,
        .first_client_end_ms =
            config->daemon.first_client_s > 0
                ? coxi_now_ms() + (uint64_t)config->daemon.first_client_s * 1000
                : 0,
        .term_grace_ms = (uint64_t)config->term_grace_s * 1000,
    };
    daemon.registered = (struct coxi_registered){.taken = on_taken, .arg = &daemon};
    struct coxi_served *served = NULL;
    struct coxi_ps_options ps = {
        .listen = config->daemon.listen,
        .index = (uint32_t)config->daemon.index,
        .peer_timeout_ms = (int)config->daemon.peer_timeout_ms,
        .memory_max = (uint64_t)config->memory_max,
        .run_quota = {.bytes_max = (uint64_t)config->run_bytes_max,
                      .variables_max = (uint32_t)config->run_variables_max,
                      .connections_max = (uint32_t)config->run_connections_max},
        .key = &config->daemon.key,
        .local_path = coxi_daemon_local_path(&config->daemon),
        .timed = config->http.address != NULL,
    };
    int r = take_root(config->checkpoint_root, daemon.root, &ps.checkpoint_root);
    if (r == 0) {
        ps.keys = keys;
        ps.runs_max = config->runs > 0 ? (uint32_t)config->runs : UINT32_MAX;
        r = coxi_ps_open(&ps, &daemon.ps);
    }
    if (r == 0) {
        r = coxi_loop_new(ps.peer_timeout_ms / 16 + 1, on_tick, &daemon, &daemon.loop);
    }
    r = r == 0 ? watch_signals(&daemon) : r;
    if (r == 0) {
        r = coxi_ps_expose(&config->http, daemon.ps, &served);
    }
    if (r == 0 && config->daemon.address_file != NULL) {
        r = coxi_daemon_announce(config->daemon.address_file, coxi_ps_url(daemon.ps));
    }
    if (r == 0) {
        coxi_log(COXI_LOG_INFO, "listening", "address=%s pid=%d",
                 coxi_ps_url(daemon.ps), (int)getpid());
        r = coxi_registered_start(&daemon.registered, &config->etcd, ps.index,
                                  coxi_ps_url(daemon.ps));
    }
    if (r == 0) {
        coxi_loop_run(daemon.loop);
        coxi_log(COXI_LOG_INFO, "ending", "signal=%d%s", daemon.signal,
                 daemon.without_client ? " text=\"no client is here\"" : "");
    }
    coxi_registered_stop(&daemon.registered);
    join_reloader(&daemon);
    coxi_served_stop(served);
    coxi_ps_close(daemon.ps);
    coxi_loop_free(daemon.loop);
    return r != 0 ? coxi_exit_config(program.name) : exit_code_of(&daemon);
}

static int find_place(struct config *config, struct coxi_view *ret)
{
    int r =
        coxi_daemon_view(COXI_CLUSTER_PS, &config->daemon, NULL, &config->etcd, ret);
    config->daemon.is_found = config->etcd.endpoints != NULL;
    return r;
}

int main(int argc, char **argv)
{
    struct config config = {.daemon.index = -1};
    struct coxi_view view = {0};
    struct coxi_keyring *keys = NULL;
    int r = coxi_options_parse(&program, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0) {
        r = find_place(&config, &view);
    }
    if (r == 0) { /* as the user who starts it, before --user */
        r = open_keys(&config, &keys);
    }
    if (r == 0) {
        config.daemon.has_keys = config.run_keys != NULL;
        r = coxi_daemon_start(&config.daemon, "ps");
    }
    if (r == 0) {
        coxi_daemon_view_log(&view);
        r = coxi_daemon_settle(&config.daemon, "ps");
    }
    int code = r != 0 ? coxi_exit_config(program.name) : run(&config, keys);
    coxi_daemon_leave(&config.daemon);
    coxi_view_fini(&view);
    coxi_keyring_free(keys);
    return code;
}
