/*
 * See chaos_apart.h. The cluster belongs to this process, because clients come and go.
 * If connections are to be cut, or daemons to be in network namespaces, the proxies or
 * namespaces between them belong to this process, too. A client reports its result as
 * the program itself does: as a JSON object.
 *
 * Threads: main.
 */
#include "bench/chaos_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos_net.h"
#include "cluster/local.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"
#include "net/daemon.h"

enum {
    PATIENCE_MS = 3000, /* for processes to end after the cluster was closed */
    ARGS_MAX = 64,
    BEGINNING_MS = 60000, /* after which a client that could not begin is given up */
    AGAIN_MS = 20,        /* pause before a client is started again */
    OUTPUT_MAX = 1 << 16,
};

/* The surroundings of the clients. */
struct surroundings {
    struct coxi_local *local; /* NULL: the daemons are in namespaces */
    struct chaos_net *net;
    char bin_dir[PATH_MAX];
};

/* ---- the result of a client */

static int64_t number_of(const json_t *object, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(object, key));
}

/* Reads the result that a client printed before it ended by itself. */
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
    const char *checksum = json_string_value(json_object_get(object, "checksum"));
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
    result->checksum = checksum != NULL ? strtoull(checksum, NULL, 16) : 0;
    result->n_records = (uint64_t)number_of(object, "records");
    result->n_tasks = (uint64_t)number_of(object, "tasks");
    result->n_task_retries = (uint64_t)number_of(object, "task_retries");
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

/* Starts the user's program, which prints to this program's output. */
static int start_program(struct chaos *chaos, const posix_spawnattr_t *attr, pid_t *ret)
{
    errno = posix_spawnp(ret, chaos->program[0], NULL, attr, chaos->program, environ);
    return errno == 0 ? 0
                      : chaos_client_wrong(&chaos->client, "cannot start %s: %s",
                                           chaos->program[0], strerror(errno));
}

/* Starts this program again, as the client alone. */
static int start_self(struct chaos *chaos, const char *output,
                      const posix_spawnattr_t *attr, pid_t *ret)
{
    char *argv[ARGS_MAX] = {NULL};
    char netns[64]; /* argv takes no constants */
    char *const first[] = {(char[]){"ip"}, (char[]){"netns"}, (char[]){"exec"}, netns};
    char dir[PATH_MAX + 32];
    char journal[PATH_MAX + 32];
    char data[PATH_MAX + 32];
    char path[PATH_MAX];
    size_t n = 0;
    posix_spawn_file_actions_t files;
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/%s", dir, chaos_program.name);
    }
    if (r != 0) {
        return chaos_client_wrong(&chaos->client, "%s", coxi_error_text());
    }
    if (chaos->netns != NULL) {
        (void)snprintf(netns, sizeof(netns), "%s", chaos->netns);
        for (; n < sizeof(first) / sizeof(*first); n++) {
            argv[n] = first[n];
        }
    }
    argv[n++] = path;
    for (size_t i = 1; n < ARGS_MAX - 6 && chaos->argv[i] != NULL; i++) {
        argv[n++] = chaos->argv[i];
    }
    (void)snprintf(dir, sizeof(dir), "--checkpoint-dir=%s", chaos->checkpoint_dir);
    (void)snprintf(journal, sizeof(journal), "--journal=%s", chaos->journal);
    argv[n++] = dir;
    argv[n++] = journal;
    if (chaos->config.dataset) {
        (void)snprintf(data, sizeof(data), "--data-dir=%s", chaos->data_dir);
        argv[n++] = data;
    }
    argv[n++] = (char[]){"--client"};
    argv[n++] = (char[]){"--json"};
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output,
                                           O_WRONLY | O_CREAT | O_TRUNC, 0600);
    errno = posix_spawnp(ret, argv[0], &files, attr, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    return errno == 0 ? 0
                      : chaos_client_wrong(&chaos->client, "cannot start a client: %s",
                                           strerror(errno));
}

/* Starts the client, which gets signals as it would without a storm. */
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

/* Takes the result of a client that ended by itself. */
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

/* Starts a client and waits for its end; false: it could not be started. */
static bool run_one(struct chaos *chaos, const char *output, int *ret_status)
{
    pid_t pid = 0;
    chaos_calls_clear(chaos->client.journal);
    if (start_client(chaos, output, &pid) != 0) {
        return false;
    }
    chaos_storm_client(chaos->storm, pid);
    bool ended = waitpid(pid, ret_status, 0) == pid;
    chaos_storm_client(chaos->storm, 0);
    return ended;
}

/* Runs one client after another, until one ends by itself. */
static void run_clients(struct chaos *chaos)
{
    char output[PATH_MAX];
    int status = 0;
    uint64_t since_ms = coxi_now_ms(); /* since when clients could not begin */
    int r = coxi_path(output, "%s/client.json", chaos->dir);
    while (r == 0 && chaos_storm_why(chaos->storm) == NULL) {
        if (!run_one(chaos, output, &status)) {
            break;
        }
        bool again = WIFEXITED(status) && WEXITSTATUS(status) == COXI_EXIT_AGAIN;
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        since_ms = again ? since_ms : coxi_now_ms();
        if (!killed && (!again || coxi_now_ms() - since_ms > BEGINNING_MS)) {
            take_end(chaos, output, status);
            return;
        }
        (void)poll(NULL, 0, again ? AGAIN_MS : 0);
    }
    const char *why = chaos_storm_why(chaos->storm);
    (void)chaos_client_wrong(&chaos->client, "running clients: %s",
                             why != NULL ? why : "they cannot be started");
}

/* Gives disk errors (chaos_disk.c) to every process that is started from now on. */
static int set_disk_errors(const struct chaos *chaos)
{
    char text[2 * PATH_MAX + 64];
    char dir[PATH_MAX];
    char path[PATH_MAX];
    int r = coxi_program_directory(dir);
    if (r == 0) {
        r = coxi_path(path, "%s/chaos_disk.so", dir);
    }
    (void)snprintf(text, sizeof(text), "%.9f %lld %lld %s %s", chaos->config.fail_disk,
                   (long long)chaos->config.slow_fsync_ms,
                   (long long)chaos->config.seed, chaos->journal,
                   chaos->checkpoint_dir);
    if (r == 0 && (setenv("COX_CHAOS_DISK", text, 1) != 0 ||
                   setenv("LD_PRELOAD", path, 1) != 0)) {
        r = coxi_error_memory("the environment");
    }
    return r;
}

static int set(const char *name, const char *value)
{
    return value != NULL && setenv(name, value, 1) == 0
               ? 0
               : coxi_error_memory("the environment");
}

/* Tells clients the addresses: of the cluster, or of the proxies in front of it. */
static int tell_cluster(const struct cox_cluster *addresses)
{
    char *json = coxi_cluster_json(addresses);
    int r = set("COX_CLUSTER", json);
    free(json);
    return r;
}

/* Starts proxies in front of the cluster. Disables shared memory, which would bypass
 * them. */
static int open_proxies(struct chaos *chaos, struct surroundings *ret,
                        struct cox_cluster **addresses)
{
    struct cox_cluster *proxies = NULL;
    char dir[PATH_MAX];
    int r = coxi_path(dir, "%s/net", chaos->dir);
    r = r != 0 ? r
               : chaos_proxy_start(*addresses, dir, chaos->client.journal, &ret->net,
                                   &proxies);
    if (r == 0) {
        cox_cluster_free(*addresses);
        *addresses = proxies;
        chaos_storm_net(chaos->storm, ret->net);
    }
    return r;
}

/* Starts the daemons, each in a namespace of its own. */
static int open_namespaces(struct chaos *chaos, struct surroundings *ret,
                           struct cox_cluster **ret_addresses)
{
    const struct chaos_config *config = &chaos->config;
    const struct chaos_netns_options o = {
        .n_ps = (uint32_t)config->ps,
        .n_workers = (uint32_t)config->workers,
        .slots = (uint32_t)config->slots,
        .peer_timeout_ms = (int)config->peer_timeout_ms,
        .bin_dir = ret->bin_dir,
        .log_dir = chaos->log_dir,
    };
    int r = coxi_program_directory(ret->bin_dir);
    r = r != 0 ? r
               : chaos_netns_start(&o, chaos->client.journal, &ret->net, ret_addresses);
    if (r == 0) {
        chaos->netns = chaos_netns_client(ret->net);
        chaos_storm_net(chaos->storm, ret->net);
    }
    return r;
}

static int open_local(struct chaos *chaos, struct surroundings *ret,
                      struct cox_cluster **ret_addresses)
{
    const struct chaos_config *config = &chaos->config;
    const struct cox_options o = {.size = sizeof(o),
                                  .log_dir = chaos->log_dir,
                                  .worker_slots = (uint32_t)config->slots,
                                  .peer_timeout_ms = (int)config->peer_timeout_ms};
    struct cox_cluster *cluster = NULL;
    struct coxi_key key = {.kind = COXI_KEY_NONE};
    bool cuts = config->partition_every > 0;
    int r = cuts ? set("COX_PS_LOCAL_PATH", "off") : 0;
    r = r == 0 && cuts ? set("COX_WORKER_LOCAL_PATH", "off") : r;
    r = r != 0 ? r : cox_cluster_local((int)config->ps, (int)config->workers, &cluster);
    r = r != 0 ? r : coxi_local_start(cluster, &o, &key, &ret->local, ret_addresses);
    r = r != 0 ? r : set("COX_KEY_FILE", coxi_local_key_file(ret->local));
    r = r != 0 || !cuts ? r : open_proxies(chaos, ret, ret_addresses);
    cox_cluster_free(cluster);
    return r;
}

static int open_cluster(struct chaos *chaos, struct surroundings *ret)
{
    struct cox_cluster *addresses = NULL;
    int r = chaos_config_has_disk(&chaos->config) ? set_disk_errors(chaos) : 0;
    if (r == 0) {
        r = chaos->config.netns ? open_namespaces(chaos, ret, &addresses)
                                : open_local(chaos, ret, &addresses);
    }
    r = r != 0 ? r : tell_cluster(addresses);
    cox_cluster_free(addresses);
    return r;
}

void chaos_apart_run(struct chaos *chaos)
{
    static struct surroundings around;
    static struct chaos_pins pins;
    chaos->client.doing = "running clients";
    if (open_cluster(chaos, &around) != 0) {
        (void)chaos_client_wrong(&chaos->client, "opening the cluster: %s",
                                 coxi_error_text());
    } else {
        chaos_storm_rage(chaos->storm, true);
        run_clients(chaos);
        chaos_storm_rage(chaos->storm, false);
    }
    chaos_storm_net(chaos->storm, NULL);
    chaos_pins_take(&pins);
    coxi_local_stop(around.local);
    chaos_net_stop(around.net);
    size_t n = chaos_pins_end(&pins, PATIENCE_MS);
    if (n > 0) {
        (void)chaos_client_wrong(&chaos->client, "%zu processes were left", n);
    }
}
