/* See launch_plan.h. */
#include "cli/launch_plan.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/structs.h"
#include "net/key.h"
#include "net/link.h"

enum { SSH_WORDS_MAX = 64, SSH_OWN_WORDS = 16, SSH_MISSED = 3 };

int coxi_launch_plan_init(struct coxi_launch_plan *plan, size_t n_hosts, uint32_t n_ps,
                          uint32_t n_workers)
{
    *plan = (struct coxi_launch_plan){
        .n_hosts = n_hosts,
        .n_ps = n_ps,
        .n_workers = n_workers,
        .ports = calloc((size_t)n_ps + n_workers, sizeof(int)),
        .addresses = calloc(n_hosts, sizeof(char *)),
    };
    return plan->ports != NULL && plan->addresses != NULL ? 0
                                                          : coxi_error_memory("hosts");
}

void coxi_launch_plan_fini(struct coxi_launch_plan *plan)
{
    for (size_t i = 0; plan->addresses != NULL && i < plan->n_hosts; i++) {
        free(plan->addresses[i]);
    }
    free(plan->addresses);
    free(plan->ports);
    *plan = (struct coxi_launch_plan){0};
}

int coxi_launch_plan_set_address(struct coxi_launch_plan *plan, size_t host,
                                 const char *address)
{
    char *copy = strdup(address);
    if (copy == NULL) {
        return coxi_error_memory("hosts");
    }
    free(plan->addresses[host]);
    plan->addresses[host] = copy;
    return 0;
}

/* ps and workers go to the hosts in turn; `task` counts both. */
static size_t host_of(const struct coxi_launch_plan *plan, uint32_t task)
{
    assert(plan->n_hosts > 0);
    return task % plan->n_hosts;
}

/* ---- requests */

/* The tasks of a host among `n`, of which the first one has the port ports[first]. */
static json_t *tasks_of(const struct coxi_launch_plan *plan, size_t host,
                        uint32_t first, uint32_t n)
{
    json_t *tasks = json_array();
    for (uint32_t i = 0; i < n; i++) {
        if (host_of(plan, first + i) == host) {
            (void)json_array_append_new(
                tasks, json_pack("[i, i]", (int)i, plan->ports[first + i]));
        }
    }
    return tasks;
}

static int add_key(const char *key_file, struct coxi_buffer *to)
{
    struct coxi_key key;
    int r = coxi_key_open_member(key_file, "--key-file", &key);
    if (r != 0) {
        return r;
    }
    for (size_t i = 0; r == 0 && i < COXI_KEY_BYTES; i++) {
        r = coxi_buffer_printf(to, "%02x", key.secret[i]);
    }
    coxi_key_wipe(&key);
    return r == 0 ? coxi_buffer_printf(to, "\n") : r;
}

int coxi_launch_plan_request(const struct coxi_launch_plan *plan, size_t host,
                             const struct coxi_cluster_options *options,
                             const char *key_file, struct coxi_buffer *to)
{
    json_t *root =
        json_pack("{s:s, s:s*, s:s*, s:o, s:o, s:I, s:I, s:I, s:s*, s:s*}", "version",
                  COXI_VERSION_TEXT, "address", plan->addresses[host], "log",
                  getenv("COX_LOG"), // NOLINT(concurrency-mt-unsafe): one thread
                  "ps", tasks_of(plan, host, 0, plan->n_ps), "worker",
                  tasks_of(plan, host, plan->n_ps, plan->n_workers), "slots",
                  (json_int_t)options->slots, "peer_timeout_ms",
                  (json_int_t)options->peer_timeout_ms, "step_memory_max",
                  (json_int_t)options->step_memory_max, "log_dir", options->log_dir,
                  "checkpoint_root", options->checkpoint_root);
    char *text = json_dumps(root, JSON_COMPACT);
    int r = text == NULL ? coxi_error_memory("a request") : 0;
    if (r == 0) { /* room for all, so that the key's bytes are not moved */
        r = coxi_buffer_reserve(to, strlen(text) + (size_t)4 * COXI_KEY_BYTES);
    }
    if (r == 0) {
        r = add_key(key_file, to);
    }
    if (r == 0) {
        r = coxi_buffer_printf(to, "%s\n", text);
    }
    free(text);
    json_decref(root);
    return r;
}

/* ---- answers */

static bool has_brackets(const char *address)
{
    return strchr(address, ':') != NULL;
}

/* Takes a daemon's port. COX_EFORMAT: with the address it makes no URL. */
static int take_port(const char *address, const json_t *port, int *ret)
{
    char url[COXI_URL_MAX + 1];
    char checked[COXI_URL_MAX + 1];
    json_int_t number = json_integer_value(port);
    bool brackets = has_brackets(address);
    int n = snprintf(url, sizeof(url), "tcp://%s%s%s:%lld", brackets ? "[" : "",
                     address, brackets ? "]" : "", (long long)number);
    if (number < 1 || n >= (int)sizeof(url) || coxi_url_from(url, checked) != 0) {
        return coxi_error(COX_EFORMAT, "its answer has no address of a daemon");
    }
    *ret = (int)number;
    return 0;
}

int coxi_launch_plan_take(struct coxi_launch_plan *plan, size_t host, const char *json)
{
    const char *address;
    json_t *ports;
    json_t *root = json_loads(json, 0, NULL);
    if (json_unpack(root, "{s:s, s:o}", "address", &address, "ports", &ports) != 0) {
        json_decref(root);
        return coxi_error(COX_EFORMAT, "its answer cannot be understood");
    }
    size_t n = 0;
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < plan->n_ps + plan->n_workers; i++) {
        if (host_of(plan, i) == host) {
            r = take_port(address, json_array_get(ports, n++), &plan->ports[i]);
        }
    }
    r = r == 0 ? coxi_launch_plan_set_address(plan, host, address) : r;
    json_decref(root);
    return r;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

static json_t *addresses_of(const struct coxi_launch_plan *plan, uint32_t first,
                            uint32_t n)
{
    json_t *all = json_array();
    for (uint32_t i = first; i < first + n; i++) {
        const char *address = plan->addresses[host_of(plan, i)];
        bool brackets = has_brackets(address);
        (void)json_array_append_new(
            all, json_sprintf("tcp://%s%s%s:%d", brackets ? "[" : "", address,
                              brackets ? "]" : "", plan->ports[i]));
    }
    return all;
}

int coxi_launch_plan_cluster(const struct coxi_launch_plan *plan,
                             const struct coxi_hosts *hosts, char **ret)
{
    size_t n_loopback = 0;
    size_t last = 0;
    for (size_t i = 0; i < plan->n_hosts; i++) {
        bool loopback = is_loopback(plan->addresses[i]);
        n_loopback += loopback;
        last = loopback ? i : last;
    }
    if (n_loopback > 0 && n_loopback < plan->n_hosts) {
        const char *name = hosts->all[last].name;
        return coxi_error(COX_EADDRESS,
                          "host %s was reached at %s, which other hosts cannot reach: "
                          "list it with its address, %s=ADDRESS",
                          name, plan->addresses[last], name);
    }
    json_t *root =
        json_pack("{s:{s:o, s:o}}", "cluster", "ps", addresses_of(plan, 0, plan->n_ps),
                  "worker", addresses_of(plan, plan->n_ps, plan->n_workers));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (text == NULL) {
        return coxi_error_memory("a cluster");
    }
    *ret = text;
    return 0;
}

/* ---- ssh */

/* The command for the shell on the host; the directory is in single quotes. */
static int remote_command(const char *bin_dir, char **ret)
{
    struct coxi_buffer text = {0};
    int r = coxi_buffer_printf(&text, "exec ");
    for (const char *at = bin_dir; r == 0 && at != NULL && *at != '\0'; at++) {
        const char *open = at == bin_dir ? "'" : "";
        r = *at == '\'' ? coxi_buffer_printf(&text, "%s'\\''", open)
                        : coxi_buffer_printf(&text, "%s%c", open, *at);
    }
    if (r == 0) {
        r = coxi_buffer_printf(&text, "%scoxswain host", bin_dir != NULL ? "'/" : "");
    }
    char *copy = r == 0 ? strndup((const char *)text.data, text.len) : NULL;
    coxi_buffer_fini(&text);
    if (copy == NULL) {
        return r != 0 ? r : coxi_error_memory("a command");
    }
    *ret = copy;
    return 0;
}

void coxi_launch_plan_ssh_free(char **argv)
{
    for (size_t i = 0; argv != NULL && argv[i] != NULL; i++) {
        free(argv[i]);
    }
    free(argv);
}

int coxi_launch_plan_ssh(const struct coxi_host *host, const char *ssh,
                         const char *bin_dir, int timeout_ms, char ***ret)
{
    char alive[64];
    int seconds = timeout_ms / 1000 / SSH_MISSED;
    (void)snprintf(alive, sizeof(alive), "ServerAliveInterval=%d",
                   seconds > 0 ? seconds : 1);
    const char *own[SSH_OWN_WORDS] = {
        "-T",  "-o", "BatchMode=yes",        "-o", "ConnectTimeout=20", "-o",
        alive, "-o", "ServerAliveCountMax=3"};
    size_t n_own = 9;
    if (host->port != NULL) {
        own[n_own++] = "-p";
        own[n_own++] = host->port;
    }
    own[n_own++] = "--";
    own[n_own++] = host->target;
    char **argv = calloc(SSH_WORDS_MAX + SSH_OWN_WORDS + 2, sizeof(char *));
    char *words = strdup(ssh);
    char *rest = NULL;
    size_t n = 0;
    int r = argv == NULL || words == NULL ? coxi_error_memory("a command") : 0;
    char *word = r == 0 ? strtok_r(words, " \t", &rest) : NULL;
    for (; word != NULL && n < SSH_WORDS_MAX; word = strtok_r(NULL, " \t", &rest)) {
        argv[n++] = strdup(word);
    }
    if (r == 0 && (n == 0 || word != NULL)) {
        r = coxi_error(COX_EINVAL, "--ssh takes 1 to %d words", SSH_WORDS_MAX);
    }
    for (size_t i = 0; r == 0 && i < n_own; i++) {
        argv[n++] = strdup(own[i]);
    }
    if (r == 0) {
        r = remote_command(bin_dir, &argv[n++]);
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = argv[i] == NULL ? coxi_error_memory("a command") : 0;
    }
    free(words);
    if (r != 0) {
        coxi_launch_plan_ssh_free(argv);
        return r;
    }
    *ret = argv;
    return 0;
}
