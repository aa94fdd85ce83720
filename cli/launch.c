/*
 * coxswain launch: a cluster on other hosts, over ssh, for any client. On each host an
 * ssh runs `coxswain host` (host.c), which starts that host's daemons, starts those that
 * die again, and ends them when the connection ends.
 *
 * A host: STARTING -> (it has answered) UP -> (its ssh has ended) RESTING -> STARTING; at
 * the end, ENDED. Until each host has answered once, a host that fails ends the launch.
 * After that it is tried again for ever, with the same ports: how long a lost ps is
 * waited for is up to the client (ps_recovery_ms).
 */
#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cluster_options.h"
#include "cli/commands.h"
#include "cli/hosts.h"
#include "cli/launch_plan.h"
#include "cli/relay.h"
#include "cli/remote.h"
#include "cli/runner.h"
#include "common/error.h"
#include "common/file.h"
#include "common/layout.h"
#include "net/daemon.h"
#include "net/key.h"

enum { REST_FIRST_MS = 200, REST_MAX_MS = 5000, GRACE_MS = 5000, BEATS = 5 };

struct config {
    struct coxi_cluster_options cluster;
    int64_t restarts;
    int64_t start_timeout_ms;
    bool page;
    const char *ssh;
    const char *remote_bin_dir;
};

static const struct coxi_option launch_options[] = {
    COXI_CLUSTER_OPTIONS(struct config, COXI_PS_MAX),
    {.name = "ssh",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, ssh),
     .fallback = "ssh",
     .help = "the command that reaches a host, and its first arguments, as \"ssh -F "
             "FILE\"; it must not ask for anything"},
    {.name = "remote-bin-dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, remote_bin_dir),
     .help = "the directory of the program coxswain on the hosts (default: they find "
             "it through PATH)"},
    {.name = "start-timeout-ms",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, start_timeout_ms),
     .min = 100,
     .max = 3600000,
     .fallback = "60000",
     .help = "give up when a host has not started its daemons after this time; one "
             "that was started again is tried once more"},
    COXI_RUNNER_OPTIONS(struct config),
};

static const struct coxi_program launch_program = {
    .name = "coxswain launch",
    .usage = "[options] HOSTS -- PROGRAM [ARGUMENT ...]",
    .summary =
        "Starts parameter servers and workers on other hosts over ssh, in turn over "
        "the\nhosts, runs PROGRAM here with COX_CLUSTER and COX_KEY_FILE set, ends all "
        "when it has\nended, and exits with its exit code. One that a signal ends, or "
        "that exits with 128 or\nmore, is started again, and so are daemons. HOSTS is "
        "a list, as anna@h1,h2:2222, or, if\nit has a slash, a file with such words; "
        "h3=10.0.0.3 also says the address at which others\nreach the daemons of h3 "
        "(default: where ssh has reached it).",
    .prefix = "COX_LAUNCH",
    .options = launch_options,
    .n_options = sizeof(launch_options) / sizeof(*launch_options),
};

enum host_state { HOST_STARTING, HOST_UP, HOST_RESTING, HOST_ENDED };

struct launch;

struct host {
    struct launch *launch;
    enum host_state state;
    uint64_t n_starts;
    uv_timer_t rest; /* until it is started again, or given up because it is silent */
    int rest_ms;
    struct coxi_remote remote;
    struct coxi_buffer request;
};

struct launch {
    const struct config *config;
    struct coxi_loop *loop;
    struct coxi_launch_plan plan;
    struct coxi_hosts listed;
    struct coxi_relay *relay;
    struct host *hosts; /* as in `listed` */
    size_t n_hosts;
    size_t n_answered; /* hosts that have answered once */
    struct coxi_runner runner;
    bool runs; /* the program was started, and has not ended for good */
    bool ends;
    uv_timer_t deadline; /* of the start, and then of the end */
    int exit_code;
    char why[1024];   /* it has failed; "": it has not */
    char key_dir[64]; /* with a key that this has made */
    int key_lock;
    char key_file[PATH_MAX];
};

static const struct coxi_host *listed(const struct host *host)
{
    return &host->launch->listed.all[host - host->launch->hosts];
}

/* ---- the end */

static void on_grace_over(uv_timer_t *timer)
{
    struct launch *launch = timer->data;
    for (size_t i = 0; i < launch->n_hosts; i++) {
        coxi_remote_kill(&launch->hosts[i].remote);
    }
}

static void finish_if_ended(struct launch *launch)
{
    bool ended = launch->ends;
    for (size_t i = 0; i < launch->n_hosts; i++) {
        ended = ended && launch->hosts[i].state == HOST_ENDED;
    }
    if (ended) {
        (void)uv_timer_stop(&launch->deadline);
        coxi_loop_stop(launch->loop);
    }
}

static void end(struct launch *launch)
{
    if (launch->ends) {
        return;
    }
    launch->ends = true;
    for (size_t i = 0; i < launch->n_hosts; i++) {
        struct host *host = &launch->hosts[i];
        (void)uv_timer_stop(&host->rest);
        host->state = host->state == HOST_RESTING ? HOST_ENDED : host->state;
        coxi_remote_stop(&host->remote);
    }
    (void)uv_timer_start(&launch->deadline, on_grace_over, GRACE_MS, 0);
    finish_if_ended(launch);
}

__attribute__((format(printf, 2, 3))) static void fail(struct launch *launch,
                                                       const char *format, ...)
{
    if (launch->why[0] != '\0' || launch->ends) {
        return; /* the first reason counts */
    }
    va_list args;
    va_start(args, format);
    (void)vsnprintf(launch->why, sizeof(launch->why), format, args);
    va_end(args);
    launch->exit_code = COXI_EXIT_FAILED;
    if (!launch->runs || !coxi_runner_stop(&launch->runner)) {
        end(launch);
    }
}

static void on_program_end(void *arg, int exit_code)
{
    struct launch *launch = arg;
    launch->runs = false;
    if (launch->why[0] == '\0') {
        launch->exit_code = exit_code;
    }
    end(launch);
}

static void on_signal(void *arg, int signum)
{
    struct launch *launch = arg;
    if (launch->runs) {
        coxi_runner_signal(&launch->runner, signum);
    } else if (!launch->ends) {
        launch->exit_code = COXI_EXIT_AGAIN + signum;
        end(launch);
    }
}

/* ---- hosts */

static void start_host(struct host *host);

static void on_rest_over(uv_timer_t *timer)
{
    start_host(timer->data);
}

/* What to do when a host's first ssh has ended with this code. */
static void explain(const struct host *host, int code)
{
    struct launch *launch = host->launch;
    const struct coxi_host *at = listed(host);
    const char *dir = launch->config->remote_bin_dir;
    if (code == 255) {
        fail(launch,
             "host %s: ssh cannot reach it, or log in there (its reason is above): "
             "'%s %s true' must work without a question, so give it a key that needs "
             "no passphrase, or an agent, and the host's key in known_hosts",
             at->name, launch->config->ssh, at->target);
    } else if (code == 127 || code == 126) {
        fail(launch,
             "host %s: the program coxswain is not %s%s there, or cannot be run: "
             "install the same release on all hosts, or say where it is "
             "(--remote-bin-dir)",
             at->name, dir != NULL ? "in " : "in PATH", dir != NULL ? dir : "");
    } else {
        fail(launch,
             "host %s: its daemons could not be started (exit code %d; the reason is "
             "above)",
             at->name, code);
    }
}

/* Starts a host again after a pause, because of `why`. */
static void rest(struct host *host, bool had_answered, const char *why)
{
    host->rest_ms = had_answered ? REST_FIRST_MS : 2 * host->rest_ms;
    host->rest_ms = host->rest_ms < REST_MAX_MS ? host->rest_ms : REST_MAX_MS;
    host->state = HOST_RESTING;
    (void)fprintf(stderr, "%s: host %s: %s: starting its daemons again in %d ms\n",
                  launch_program.name, listed(host)->name, why, host->rest_ms);
    (void)uv_timer_start(&host->rest, on_rest_over, (uint64_t)host->rest_ms, 0);
}

static void on_host_end(void *arg, struct coxi_remote *remote, int code)
{
    struct host *host = arg;
    struct launch *launch = host->launch;
    char why[64];
    bool answered = host->state == HOST_UP;
    (void)remote;
    (void)uv_timer_stop(&host->rest);
    host->state = HOST_ENDED;
    if (launch->ends) {
        finish_if_ended(launch);
        return;
    }
    bool refused = code == COXI_EXIT_CONFIG || code == COXI_EXIT_FAILED;
    if (host->n_starts == 1 && (!answered || refused)) {
        explain(host, code);
        return;
    }
    (void)snprintf(why, sizeof(why), "its connection has ended (ssh exited with %d)",
                   code);
    rest(host, answered, why);
}

/* A host that is started again may let ssh in, and then be silent for ever. */
static void on_silence(uv_timer_t *timer)
{
    struct host *host = timer->data;
    (void)fprintf(stderr, "%s: host %s: it has not started its daemons after %lld ms\n",
                  launch_program.name, listed(host)->name,
                  (long long)host->launch->config->start_timeout_ms);
    coxi_remote_kill(&host->remote);
}

static void start_program(struct launch *launch)
{
    char *json = NULL;
    (void)uv_timer_stop(&launch->deadline);
    int r = coxi_launch_plan_cluster(&launch->plan, &launch->listed, &json);
    if (r == 0) {
        r = coxi_runner_start(&launch->runner, json, launch->key_file);
    }
    free(json);
    if (r != 0) {
        fail(launch, "%s", coxi_error_text());
        launch->exit_code = COXI_EXIT_CONFIG;
        return;
    }
    launch->runs = true;
}

static void on_answer(void *arg, struct coxi_remote *remote, const char *json)
{
    struct host *host = arg;
    struct launch *launch = host->launch;
    (void)remote;
    if (host->state != HOST_STARTING || launch->ends) {
        return;
    }
    if (coxi_launch_plan_take(&launch->plan, (size_t)(host - launch->hosts), json) !=
        0) {
        fail(launch, "host %s: %s", listed(host)->name, coxi_error_text());
        return;
    }
    host->state = HOST_UP;
    (void)uv_timer_stop(&host->rest);
    if (host->n_starts == 1 && ++launch->n_answered == launch->n_hosts) {
        start_program(launch);
    }
}

static int make_request(struct host *host)
{
    struct launch *launch = host->launch;
    host->request.len = 0;
    return coxi_launch_plan_request(&launch->plan, (size_t)(host - launch->hosts),
                                    &launch->config->cluster, launch->key_file,
                                    &host->request);
}

static void start_host(struct host *host)
{
    struct launch *launch = host->launch;
    host->state = HOST_STARTING;
    host->n_starts++;
    int r = make_request(host);
    if (r == 0) {
        r = coxi_remote_start(&host->remote, &host->request);
    }
    if (r != 0 && host->n_starts > 1) { /* this host may lack memory for a moment */
        rest(host, false, coxi_error_text());
    } else if (r != 0) {
        host->state = HOST_ENDED;
        fail(launch, "host %s: %s", listed(host)->name, coxi_error_text());
    } else if (host->n_starts > 1) {
        (void)uv_timer_start(&host->rest, on_silence,
                             (uint64_t)launch->config->start_timeout_ms, 0);
    }
}

static int open_host(struct launch *launch, size_t i)
{
    const struct config *config = launch->config;
    struct host *host = &launch->hosts[i];
    host->launch = launch;
    host->state = HOST_ENDED;
    host->rest.data = host;
    host->rest_ms = REST_FIRST_MS;
    (void)uv_timer_init(coxi_loop_uv(launch->loop), &host->rest);
    host->remote.loop = launch->loop;
    host->remote.err_fd = coxi_relay_fd(launch->relay, i);
    host->remote.beat_ms = (int)config->cluster.peer_timeout_ms / BEATS;
    host->remote.on_answer = on_answer;
    host->remote.on_end = on_host_end;
    host->remote.arg = host;
    return coxi_launch_plan_ssh(
        &launch->listed.all[i], config->ssh, config->remote_bin_dir,
        (int)config->cluster.peer_timeout_ms, &host->remote.argv);
}

/* ---- life */

static void on_start_over(uv_timer_t *timer)
{
    struct launch *launch = timer->data;
    const char *name = "";
    for (size_t i = 0; i < launch->n_hosts; i++) {
        name = launch->hosts[i].state != HOST_UP ? launch->listed.all[i].name : name;
    }
    fail(launch,
         "host %s: it has not started its daemons after %lld ms "
         "(--start-timeout-ms)",
         name, (long long)launch->config->start_timeout_ms);
}

/* Finds or makes the run's key. */
static int open_key(struct launch *launch)
{
    const char *given = launch->config->cluster.key_file;
    if (given == NULL || *given == '\0') {
        given = getenv("COX_KEY_FILE"); // NOLINT(concurrency-mt-unsafe): one thread
    }
    if (given != NULL && *given != '\0') {
        return coxi_path(launch->key_file, "%s", given);
    }
    int r = coxi_directory_held(launch->key_dir, &launch->key_lock);
    return r == 0 ? coxi_key_new_in(launch->key_dir, launch->key_file) : r;
}

static int open_relay(struct launch *launch)
{
    const char **names = calloc(launch->n_hosts, sizeof(*names));
    if (names == NULL) {
        return coxi_error_memory("hosts");
    }
    for (size_t i = 0; i < launch->n_hosts; i++) {
        names[i] = launch->listed.all[i].name;
    }
    int r = coxi_relay_new(names, launch->n_hosts, STDERR_FILENO, &launch->relay);
    free(names);
    return r;
}

static int open_plan(struct launch *launch, const char *hosts)
{
    const struct coxi_cluster_options *cluster = &launch->config->cluster;
    int r = coxi_hosts_read(hosts, &launch->listed);
    launch->n_hosts = r == 0 ? launch->listed.n : 0;
    if (r == 0) {
        r = coxi_launch_plan_init(&launch->plan, launch->n_hosts, (uint32_t)cluster->ps,
                                  (uint32_t)cluster->workers);
    }
    for (size_t i = 0; r == 0 && i < launch->n_hosts; i++) {
        const char *address = launch->listed.all[i].address;
        r = address != NULL ? coxi_launch_plan_set_address(&launch->plan, i, address)
                            : 0;
    }
    return r;
}

static int open_launch(struct launch *launch, const char *hosts)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int r = open_plan(launch, hosts);
    if (r == 0) {
        assert(launch->n_hosts > 0);
        launch->hosts = calloc(launch->n_hosts, sizeof(*launch->hosts));
        r = launch->hosts == NULL ? coxi_error_memory("hosts") : open_key(launch);
    }
    if (r == 0) {
        r = open_relay(launch);
    }
    if (r == 0) {
        r = coxi_loop_new(0, NULL, launch, &launch->loop);
    }
    for (size_t i = 0; r == 0 && i < sizeof(signals) / sizeof(*signals); i++) {
        r = coxi_loop_on_signal(launch->loop, signals[i], on_signal);
    }
    for (size_t i = 0; r == 0 && i < launch->n_hosts; i++) {
        r = open_host(launch, i);
    }
    return r;
}

static void run(struct launch *launch)
{
    launch->deadline.data = launch;
    (void)uv_timer_init(coxi_loop_uv(launch->loop), &launch->deadline);
    (void)uv_timer_start(&launch->deadline, on_start_over,
                         (uint64_t)launch->config->start_timeout_ms, 0);
    for (size_t i = 0; i < launch->n_hosts && !launch->ends; i++) {
        start_host(&launch->hosts[i]);
    }
    coxi_loop_run(launch->loop);
}

static void close_launch(struct launch *launch)
{
    coxi_loop_free(launch->loop);
    coxi_runner_fini(&launch->runner);
    coxi_relay_free(launch->relay);
    for (size_t i = 0; launch->hosts != NULL && i < launch->n_hosts; i++) {
        struct host *host = &launch->hosts[i];
        if (host->request.data != NULL) {
            explicit_bzero(host->request.data, host->request.capacity); /* the key */
        }
        coxi_buffer_fini(&host->request);
        coxi_launch_plan_ssh_free(host->remote.argv);
    }
    free(launch->hosts);
    coxi_launch_plan_fini(&launch->plan);
    coxi_hosts_fini(&launch->listed);
    if (launch->key_dir[0] != '\0') {
        coxi_directory_remove(launch->key_dir);
        (void)close(launch->key_lock);
    }
}

static int parse(int argc, char **argv, struct config *config, int *ret_rest)
{
    int rest = 0;
    int r = coxi_options_parse(&launch_program, argc, argv, config, &rest);
    if (r != 0) {
        return r;
    }
    int program = rest + 1;
    if (program < argc && strcmp(argv[program], "--") == 0) {
        program++;
    }
    if (program >= argc) {
        return coxi_error(COX_EINVAL, "which hosts and program? %s %s",
                          launch_program.name, launch_program.usage);
    }
    *ret_rest = rest;
    return 0;
}

int coxi_command_launch(int argc, char **argv)
{
    struct config config = {0};
    struct launch launch = {.config = &config};
    int rest = 0;
    int r = parse(argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (r == 0) {
        bool dashes = strcmp(argv[rest + 1], "--") == 0;
        r = open_launch(&launch, argv[rest]);
        launch.runner = (struct coxi_runner){.name = launch_program.name,
                                             .loop = launch.loop,
                                             .argv = argv + rest + (dashes ? 2 : 1),
                                             .restarts_max = config.restarts,
                                             .page = config.page,
                                             .on_end = on_program_end,
                                             .arg = &launch};
    }
    if (r == 0) {
        run(&launch);
    }
    int code = r != 0 ? coxi_exit_config(launch_program.name) : launch.exit_code;
    close_launch(&launch);
    if (launch.why[0] != '\0') {
        (void)fprintf(stderr, "%s: %s\n", launch_program.name, launch.why);
    }
    return code;
}
