/*
 * coxswain-chaos: steps that count, on a local cluster, through the public API, while a
 * storm (chaos_storm.c) kills and stops its processes and cuts connections. What the steps
 * have added up to on each ps is then compared with what they were to: exactly once, whatever
 * died.
 *
 * The client (chaos_client.c) is this process, or, where it is to be killed, too, or its disk
 * to fail, a child of it, which is started again until it has ended by itself.
 *
 * All that is random comes from --seed, but not when the kernel lets whom run: a seed
 * gives the same steps and the same blows, not the same course.
 *
 * Threads: main; the storm's, which ends the program if main is stuck.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos_client.h"
#include "common/clock.h"
#include "common/daemon.h"
#include "common/error.h"
#include "common/file.h"
#include "common/log.h"
#include "common/option.h"
#include "common/sync.h"
#include "coordinator/local.h"

enum {
    PATIENCE_MS = 3000, /* for processes to end once the cluster is closed */
    GRACE_MS = 15000,   /* to end by itself when asked to */
    FUTURES_MAX = 65536,
    ARGS_MAX = 64,
    BEGINNINGS_MAX = 100, /* of clients that could not begin, one after the other */
    OUTPUT_MAX = 1 << 16,
};

struct chaos {
    struct chaos_config config;
    struct chaos_client client; /* its result is a child's where there is one */
    char **argv;
    char **program; /* that is the client instead of us; or NULL */
    char dir[64];
    char log_dir[PATH_MAX];
    char checkpoint_dir[PATH_MAX];
    struct chaos_storm *storm;
    double started;
    struct chaos_storm_counts counts; /* guarded by client.lock */
};

#define NUMBER(name_, field, min_, max_, fallback_, help_)                             \
    {.name = (name_),                                                                  \
     .type = COXI_OPTION_INT,                                                          \
     .offset = offsetof(struct chaos_config, field),                                   \
     .min = (min_),                                                                    \
     .max = (max_),                                                                    \
     .fallback = (fallback_),                                                          \
     .help = (help_)}

static const struct coxi_option options[] = {
    NUMBER("seed", seed, 0, 1e15, "1", "of all that is random here"),
    NUMBER("steps", steps, 1, 1e9, "5000", "to schedule"),
    NUMBER("step-us", step_us, 0, 1e6, "2000", "what a step takes, on average"),
    NUMBER("ps", ps, 1, CHAOS_PS_MAX, "2", "parameter servers"),
    NUMBER("workers", workers, 1, 64, "3", "workers"),
    NUMBER("slots", slots, 1, 64, "1", "steps at a time on each worker"),
    NUMBER("kill-workers-every", kill_workers_every, 0, 3600000, "0",
           "ms between two kill -9 of a worker's supervisor, step process or both; 0: "
           "none"),
    NUMBER("kill-ps-every", kill_ps_every, 0, 3600000, "0",
           "ms between two kill -9 of a ps; 0: none"),
    NUMBER(
        "kill-client-every", kill_client_every, 0, 3600000, "0",
        "ms between two kill -9 of the client, which is a process of its own then and "
        "is started again; 0: none"),
    NUMBER("checkpoint-every-ms", checkpoint_every_ms, 0, 3600000, "0",
           "ms between two checkpoints; 0: none but those that the log asks for"),
    NUMBER("incremental", incremental, 0, 1000, "3",
           "checkpoints that build on the one before, between two full ones"),
    {.name = "fail-disk",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct chaos_config, fail_disk),
     .max = 1,
     .fallback = "0",
     .help = "share of the system calls that write checkpoints which fail"},
    NUMBER("stop-every", stop_every, 0, 3600000, "0",
           "ms between two SIGSTOP of a step process; one in eight lasts longer than "
           "--peer-timeout-ms; 0: none"),
    NUMBER(
        "reset-every", reset_every, -1, 3600000, "-1",
        "ms between two connections that are cut; -1: twice --kill-workers-every; 0: "
        "none"),
    {.name = "crash-rate",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct chaos_config, crash_rate),
     .max = 1,
     .fallback = "0",
     .help = "share of the steps whose first attempt crashes"},
    {.name = "flush-rate",
     .type = COXI_OPTION_REAL,
     .offset = offsetof(struct chaos_config, flush_rate),
     .max = 1,
     .fallback = "0.25",
     .help = "share of the steps that flush in the middle, and then go on to any ps or "
             "none"},
    {.name = "results",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct chaos_config, results),
     .help = "steps return a value; every future is held and checked"},
    {.name = "speculate",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct chaos_config, speculate),
     .help = "some first attempts take so long that second ones race them"},
    NUMBER("peer-timeout-ms", peer_timeout_ms, 100, 3600000, "1500",
           "a peer silent for this long is lost"),
    NUMBER("in-flight", in_flight, 1, FUTURES_MAX, "4096",
           "closures in the queue, and futures held, at most"),
    NUMBER("deadline-s", deadline_s, 1, 86400, "600", "seconds for all of it"),
    {.name = "log-dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct chaos_config, log_dir),
     .help = "keep the daemons' logs in this directory"},
    {.name = "client",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct chaos_config, client),
     .help = "be the client alone, of the cluster in COX_CLUSTER, with "
             "--checkpoint-dir: what --kill-client-every starts"},
    {.name = "checkpoint-dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct chaos_config, checkpoint_dir),
     .help = "with --client, or a PROGRAM whose disk is to fail: where its checkpoints "
             "are"},
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct chaos_config, json),
     .help = "print nothing but the JSON object"},
};

static const struct coxi_program program = {
    .name = "coxswain-chaos",
    .usage = "[options] [-- PROGRAM [ARGUMENT ...]]",
    .summary =
        "Runs counting steps on a local cluster under a storm of failures, and "
        "checks that\neach counted exactly once on every ps. Its last line is a "
        "JSON object; exit 0 only\nif that says \"ok\": true. With a PROGRAM that "
        "is the client instead, started again\nuntil it ends by itself; the cluster "
        "is in COX_CLUSTER.",
    .prefix = "COX_CHAOS",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* ---- the end */

/* Crashes that supervisors saw: one that is killed with its step process tells
 * nothing. */
static uint64_t count_crashes(const struct chaos *chaos)
{
    static const char event[] = "event=step_process_died signal=";
    uint64_t n = 0;
    for (int64_t i = 0; i < chaos->config.workers; i++) {
        char path[PATH_MAX];
        char line[2048];
        FILE *file = NULL;
        if (coxi_path(path, "%s/worker-%d.log", chaos->log_dir, (int)i) == 0) {
            file = fopen(path, "re");
        }
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            const char *at = strstr(line, event);
            long signum = at != NULL ? strtol(at + strlen(event), NULL, 10) : 0;
            n += signum == SIGABRT || signum == SIGSEGV;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    return n;
}

static json_t *numbers(const int64_t *of, int64_t n)
{
    json_t *array = json_array();
    for (int64_t i = 0; i < n; i++) {
        (void)json_array_append_new(array, json_integer(of[i]));
    }
    return array;
}

/* What came of the steps; under the client's lock. */
static json_t *result_json(const struct chaos_result *result, int64_t n_ps)
{
    const struct cox_stats *stats = &result->stats;
    return json_pack(
        "{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:I,s:b}", "steps",
        (json_int_t)result->n_scheduled, "done", (json_int_t)stats->done, "retries",
        (json_int_t)stats->put_back, "speculated", (json_int_t)stats->speculated,
        "speculation_won", (json_int_t)stats->speculation_won, "duplicates_refused",
        (json_int_t)stats->commits_duplicate, "ps_recovered",
        (json_int_t)stats->ps_recovered, "checkpoints",
        (json_int_t)result->n_checkpoints, "generation",
        (json_int_t)result->progress.generation, "expected",
        numbers(result->expected, n_ps), "found", numbers(result->found, n_ps),
        "wrong_rows", (json_int_t)result->wrong_rows, "again", (int)result->again);
}

/* The object, and the exit code. */
static int report(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    struct chaos_client *client = &chaos->client;
    double seconds = 1e-9 * (double)coxi_now_ns() - chaos->started;
    uint64_t crashes = count_crashes(chaos);
    coxi_lock(&client->lock);
    const struct chaos_storm_counts *counts = &chaos->counts;
    bool ok = client->result.error[0] == '\0';
    json_t *object = result_json(&client->result, config->ps);
    json_t *storm =
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:I,s:b}", "kills_worker",
                  (json_int_t)counts->kills, "stops", (json_int_t)counts->stops,
                  "resets", (json_int_t)counts->resets, "kills_ps",
                  (json_int_t)counts->kills_ps, "kills_client",
                  (json_int_t)counts->kills_client, "crashes", (json_int_t)crashes,
                  "seconds", seconds, "seed", (json_int_t)config->seed, "ok", (int)ok);
    coxi_unlock(&client->lock);
    (void)json_object_update(object, storm);
    json_decref(storm);
    if (!ok) {
        (void)json_object_set_new(object, "error", json_string(client->result.error));
    }
    if (!config->client) {
        (void)json_object_del(object, "again");
    }
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(4));
    if (!config->json) {
        (void)printf(
            "%s after %.1f s: %llu steps; kills of %llu workers, %llu ps, %llu "
            "clients; %llu stops, %llu resets, %llu crashes\n",
            ok ? "all counted exactly once" : "NOT ok", seconds,
            (unsigned long long)client->result.n_scheduled,
            (unsigned long long)chaos->counts.kills,
            (unsigned long long)chaos->counts.kills_ps,
            (unsigned long long)chaos->counts.kills_client,
            (unsigned long long)chaos->counts.stops,
            (unsigned long long)chaos->counts.resets, (unsigned long long)crashes);
    }
    (void)printf("%s\n", text != NULL ? text : "{\"ok\":false}");
    (void)fflush(stdout);
    json_decref(object);
    free(text);
    return ok                     ? EXIT_SUCCESS
           : client->result.again ? COXI_EXIT_AGAIN
                                  : COXI_EXIT_FAILED;
}

/* ---- the storm */

/* On the storm's thread: main does not come back, so this ends without it. */
static void on_stuck(void *arg, const char *why,
                     const struct chaos_storm_counts *counts)
{
    struct chaos *chaos = arg;
    static struct chaos_pins pins;
    coxi_lock(&chaos->client.lock);
    chaos->counts = *counts;
    coxi_unlock(&chaos->client.lock);
    chaos_pins_take(&pins);
    (void)chaos_pins_end(&pins, 0);
    (void)chaos_client_wrong(
        &chaos->client, "%s, and it hangs while %s (%llu steps scheduled)", why,
        chaos->client.doing, (unsigned long long)chaos->client.result.n_scheduled);
    (void)report(chaos);
    coxi_directory_remove(chaos->dir);
    _exit(COXI_EXIT_FAILED);
}

static int start_storm(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    struct chaos_storm_options o = {
        .seed = ~(uint64_t)config->seed, /* not the plans' numbers again */
        .n_workers = (uint32_t)config->workers,
        .n_ps = (uint32_t)config->ps,
        .kill_every_ms = (int)config->kill_workers_every,
        .kill_ps_every_ms = (int)config->kill_ps_every,
        .kill_client_every_ms = (int)config->kill_client_every,
        .stop_every_ms = (int)config->stop_every,
        .reset_every_ms =
            (int)(config->reset_every >= 0 ? config->reset_every
                                           : 2 * config->kill_workers_every),
        .peer_timeout_ms = (int)config->peer_timeout_ms,
        .deadline_s = (int)config->deadline_s,
        .grace_ms = GRACE_MS,
        .on_stuck = on_stuck,
        .arg = chaos,
    };
    return chaos_storm_start(&o, &chaos->storm);
}

/* ---- a client that is a child */

static int64_t number_of(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

/* What a client that has ended by itself has printed. */
static void take_result(struct chaos *chaos, const char *output)
{
    struct chaos_client *client = &chaos->client;
    struct chaos_result *result = &client->result;
    uint8_t *text = NULL;
    size_t len = 0;
    json_t *object = NULL;
    if (coxi_file_read(output, OUTPUT_MAX, &text, &len) == 0) {
        object = json_loadb((const char *)text, len, 0, NULL);
    }
    free(text);
    const char *error = json_string_value(json_object_get(object, "error"));
    coxi_lock(&client->lock);
    result->n_scheduled = (uint64_t)number_of(object, "steps");
    result->n_checkpoints = (uint64_t)number_of(object, "checkpoints");
    result->progress.generation = (uint64_t)number_of(object, "generation");
    result->stats.done = (uint64_t)number_of(object, "done");
    result->stats.put_back = (uint64_t)number_of(object, "retries");
    result->stats.speculated = (uint64_t)number_of(object, "speculated");
    result->stats.speculation_won = (uint64_t)number_of(object, "speculation_won");
    result->stats.commits_duplicate = (uint64_t)number_of(object, "duplicates_refused");
    result->stats.ps_recovered = (uint64_t)number_of(object, "ps_recovered");
    result->wrong_rows = number_of(object, "wrong_rows");
    for (size_t i = 0; i < CHAOS_PS_MAX; i++) {
        result->expected[i] = (int64_t)json_integer_value(
            json_array_get(json_object_get(object, "expected"), i));
        result->found[i] = (int64_t)json_integer_value(
            json_array_get(json_object_get(object, "found"), i));
    }
    coxi_unlock(&client->lock);
    if (error != NULL || !json_is_true(json_object_get(object, "ok"))) {
        (void)chaos_client_wrong(client, "the client: %s",
                                 error != NULL ? error : "it has printed no result");
    }
    json_decref(object);
}

/* The user's program, which prints where this one does. */
static int start_program(struct chaos *chaos, const posix_spawnattr_t *attr, pid_t *ret)
{
    errno = posix_spawnp(ret, chaos->program[0], NULL, attr, chaos->program, environ);
    return errno == 0 ? 0
                      : chaos_client_wrong(&chaos->client, "cannot start %s: %s",
                                           chaos->program[0], strerror(errno));
}

/* This program again, as the client alone. */
static int start_self(struct chaos *chaos, const char *output,
                      const posix_spawnattr_t *attr, pid_t *ret)
{
    char *argv[ARGS_MAX] = {NULL};
    char dir[PATH_MAX + 32];
    char path[PATH_MAX];
    size_t n = 0;
    posix_spawn_file_actions_t files;
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/%s", dir, program.name);
    }
    if (r != 0) {
        return chaos_client_wrong(&chaos->client, "%s", coxi_error_text());
    }
    for (; n < ARGS_MAX - 4 && chaos->argv[n] != NULL; n++) {
        argv[n] = chaos->argv[n];
    }
    (void)snprintf(dir, sizeof(dir), "--checkpoint-dir=%s", chaos->checkpoint_dir);
    argv[n++] = dir;
    argv[n++] = (char[]){"--client"};
    argv[n++] = (char[]){"--json"};
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    errno = posix_spawn(ret, path, &files, attr, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    return errno == 0 ? 0
                      : chaos_client_wrong(&chaos->client, "cannot start a client: %s",
                                           strerror(errno));
}

/* Signals reach it as they would without a storm. */
static int start_client(struct chaos *chaos, const char *output, pid_t *ret)
{
    posix_spawnattr_t attr;
    sigset_t none;
    (void)posix_spawnattr_init(&attr);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attr, &none);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int r = chaos->program != NULL ? start_program(chaos, &attr, ret)
                                   : start_self(chaos, output, &attr, ret);
    (void)posix_spawnattr_destroy(&attr);
    return r;
}

/* What came of a client that has ended by itself. */
static void take_end(struct chaos *chaos, const char *output, int status)
{
    if (chaos->program == NULL) {
        take_result(chaos, output);
    } else if (status != 0) {
        (void)chaos_client_wrong(&chaos->client, "%s ended with %d", chaos->program[0],
                                 WIFEXITED(status)
                                     ? WEXITSTATUS(status)
                                     : COXI_EXIT_AGAIN + WTERMSIG(status));
    }
}

/* One client after the other, until one has ended by itself. */
static void run_clients(struct chaos *chaos)
{
    char output[PATH_MAX];
    int status = 0;
    int n_beginnings = 0;
    int r = coxi_path(output, "%s/client.json", chaos->dir);
    while (r == 0 && chaos_storm_why(chaos->storm) == NULL) {
        pid_t pid = 0;
        r = start_client(chaos, output, &pid);
        chaos_storm_client(chaos->storm, pid);
        if (r != 0 || waitpid(pid, &status, 0) != pid) {
            break;
        }
        chaos_storm_client(chaos->storm, 0);
        bool again = WIFEXITED(status) && WEXITSTATUS(status) == COXI_EXIT_AGAIN;
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        n_beginnings = again ? n_beginnings + 1 : 0;
        if (!killed && (!again || n_beginnings == BEGINNINGS_MAX)) {
            take_end(chaos, output, status);
            return;
        }
    }
    const char *why = chaos_storm_why(chaos->storm);
    (void)chaos_client_wrong(&chaos->client, "running clients: %s",
                             why != NULL ? why : "they cannot be started");
}

/* Whoever is started from now on has disk errors (chaos_disk.c). */
static int set_disk_errors(const struct chaos *chaos)
{
    char text[PATH_MAX + 64];
    char dir[PATH_MAX];
    char path[PATH_MAX];
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/chaos_disk.so", dir);
    }
    (void)snprintf(text, sizeof(text), "%.9f %lld %s", chaos->config.fail_disk,
                   (long long)chaos->config.seed, chaos->checkpoint_dir);
    if (r == 0 && (setenv("COX_CHAOS_DISK", text, 1) != 0 ||
                   setenv("LD_PRELOAD", path, 1) != 0)) {
        r = coxi_error_memory("the environment");
    }
    return r;
}

/* The cluster is this process's, for clients come and go. */
static int open_cluster(struct chaos *chaos, struct coxi_local **ret)
{
    const struct cox_options o = {.size = sizeof(o),
                                  .log_dir = chaos->log_dir,
                                  .worker_slots = (uint32_t)chaos->config.slots,
                                  .peer_timeout_ms =
                                      (int)chaos->config.peer_timeout_ms};
    struct cox_cluster *cluster = NULL;
    struct cox_cluster *addresses = NULL;
    int r = chaos->config.fail_disk > 0 ? set_disk_errors(chaos) : 0;
    if (r == 0) {
        r = cox_cluster_local((int)chaos->config.ps, (int)chaos->config.workers,
                              &cluster);
    }
    if (r == 0) {
        r = coxi_local_start(cluster, &o, ret, &addresses);
    }
    char *json = r == 0 ? coxi_cluster_json(addresses) : NULL;
    if (r == 0 && (json == NULL || setenv("COX_CLUSTER", json, 1) != 0)) {
        r = coxi_error_memory("the environment");
    }
    free(json);
    cox_cluster_free(cluster);
    cox_cluster_free(addresses);
    return r;
}

static void supervise(struct chaos *chaos)
{
    struct coxi_local *local = NULL;
    static struct chaos_pins pins;
    chaos->client.doing = "running clients";
    if (open_cluster(chaos, &local) != 0) {
        (void)chaos_client_wrong(&chaos->client, "opening the cluster: %s",
                                 coxi_error_text());
    } else {
        chaos_storm_rage(chaos->storm, true);
        run_clients(chaos);
        chaos_storm_rage(chaos->storm, false);
    }
    chaos_pins_take(&pins);
    coxi_local_stop(local);
    size_t n = chaos_pins_end(&pins, PATIENCE_MS);
    if (n > 0) {
        (void)chaos_client_wrong(&chaos->client, "%zu processes were left", n);
    }
}

/* ---- all of it */

static int run(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    int r = config->client ? 0 : start_storm(chaos);
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    chaos->client.storm = chaos->storm;
    bool apart = config->kill_client_every > 0 || config->fail_disk > 0 ||
                 chaos->program != NULL;
    if (!config->client && apart) {
        supervise(chaos);
    } else {
        chaos_client_run(&chaos->client);
    }
    chaos_storm_stop(chaos->storm, &chaos->counts);
    return report(chaos);
}

/* A directory for all that is made, also by the library; and no core files. */
static int prepare(struct chaos *chaos)
{
    const struct chaos_config *config = &chaos->config;
    const struct rlimit none = {0};
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)signal(SIGPIPE, SIG_IGN);
    coxi_log_init("chaos", 0, COXI_LOG_ERROR);
    chaos->started = 1e-9 * (double)coxi_now_ns();
    chaos->client.config = config;
    chaos->client.log_dir = chaos->log_dir;
    int r = chaos_client_init(&chaos->client);
    if (r == 0) {
        r = coxi_directory_temporary(chaos->dir);
    }
    if (r == 0 && setenv("TMPDIR", chaos->dir, 1) != 0) {
        r = coxi_error_errno(COX_EIO, "cannot set TMPDIR");
    }
    if (r == 0) {
        r = config->log_dir != NULL ? coxi_path(chaos->log_dir, "%s", config->log_dir)
                                    : coxi_path(chaos->log_dir, "%s/logs", chaos->dir);
    }
    if (r == 0) {
        r = config->checkpoint_dir != NULL
                ? coxi_path(chaos->checkpoint_dir, "%s", config->checkpoint_dir)
                : coxi_path(chaos->checkpoint_dir, "%s/checkpoints", chaos->dir);
    }
    if (config->client || config->kill_ps_every > 0 ||
        config->checkpoint_every_ms > 0) {
        chaos->client.checkpoint_dir = chaos->checkpoint_dir;
    }
    return r;
}

int main(int argc, char **argv)
{
    static struct chaos chaos;
    int rest = argc;
    int r = coxi_options_parse(&program, argc, argv, &chaos.config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && chaos.config.client && chaos.config.checkpoint_dir == NULL) {
        r = coxi_error(COX_EINVAL, "--client needs --checkpoint-dir");
    }
    chaos.argv = argv;
    chaos.program = rest < argc ? argv + rest : NULL;
    if (r == 0) {
        r = prepare(&chaos);
    }
    int code = r != 0 ? coxi_exit_config(program.name) : run(&chaos);
    if (chaos.dir[0] != '\0') {
        coxi_directory_remove(chaos.dir);
    }
    return code;
}
