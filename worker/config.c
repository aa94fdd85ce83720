/* See config.h. */
#include "worker/config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cluster/daemon_view.h"
#include "common/error.h"
#include "net/message.h"

static const struct coxi_option options[] = {
    COXI_DAEMON_OPTIONS(struct coxi_worker_config),
    COXI_SERVE_OPTIONS(struct coxi_worker_config),
    COXI_ETCD_OPTIONS(struct coxi_worker_config),
    {.name = "client",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, client),
     .help = "dial the client at this address (host:port or ipc:///path), for ever, "
             "instead of listening (default: what the environment says, if it lists no "
             "workers)"},
    {.name = "name",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, name),
     .help = "with --client or --etcd: the name by which the client knows this worker, "
             "different from all others (default: HOST-PID; worker-INDEX if the "
             "environment says the index)"},
    {.name = "dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, dir),
     .help = "directory for step modules (default: a new one in TMPDIR, removed at the "
             "end, or by the next worker)"},
    {.name = "module-key",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, module_key_file),
     .help =
         "public key (coxswain key module); only step modules that were signed with "
         "its secret key (coxswain sign) are run"},
    {.name = "no-modules",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct coxi_worker_config, no_modules),
     .help = "take no step modules from clients: run only those that are in --dir "
             "already, each in a file SHA256.so"},
    {.name = "slots",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct coxi_worker_config, slots),
     .min = 1,
     .max = 1024,
     .fallback = "1",
     .help = "steps that run at a time; with more than 1 they must be thread-safe"},
    {.name = "commit-window",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct coxi_worker_config, commit_window),
     .min = 1,
     .max = 4096,
     .fallback = "256",
     .help = "closures whose commits are under way while the next one runs"},
    {.name = "step-memory-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, step_memory_max),
     .max = COXI_BYTES_MAX,
     .fallback = "0",
     .help = "most memory of the process that runs steps, as 512M or 2G, not counting "
             "kept results (--kept-max); beyond it the process is ended and the step "
             "reported; 0: no limit"},
    {.name = "step-rows-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, step_rows_max),
     .min = 1,
     .max = COXI_BYTES_MAX,
     .fallback = "1G",
     .help = "memory for the gradients that a step accumulates and its local copies of "
             "rows (cox_step_accumulate, cox_local_pull), for each slot; a step that "
             "needs more fails"},
    {.name = "step-files-max",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct coxi_worker_config, step_files_max),
     .max = INT32_MAX,
     .fallback = "0",
     .help = "most open files of that process, connections included; 0: as many as "
             "were allowed before"},
    {.name = "step-address-space-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, step_address_space_max),
     .max = COXI_BYTES_MAX,
     .fallback = "0",
     .help = "most address space of that process, beyond which allocations fail; 0: no "
             "limit"},
    {.name = "step-cores",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct coxi_worker_config, step_cores),
     .help =
         "a step that crashes may leave a core file, which has the run's key in it"},
    {.name = "confine",
     .type = COXI_OPTION_CHOICE,
     .offset = offsetof(struct coxi_worker_config, confine),
     .choices = "off|landlock|seccomp|all",
     .fallback = "off",
     .help = "what steps cannot do: landlock: write files but beneath --dir and "
             "--confine-write; seccomp: system calls such as ptrace and mount"},
    {.name = "confine-read",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, confine_read),
     .fallback = "/",
     .help = "with --confine=landlock: steps read files beneath these paths only, "
             "separated by colons, and load their libraries from there"},
    {.name = "confine-write",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct coxi_worker_config, confine_write),
     .help = "with --confine=landlock: steps may write beneath these paths, too, "
             "separated by colons"},
    {.name = "pull-cache-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, pull_cache_max),
     .max = COXI_BYTES_MAX,
     .fallback = "256M",
     .help = "memory for variables that steps pull with COX_PULL_CACHED; a variable "
             "without room is sent at each pull"},
    {.name = "kept-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, kept_max),
     .max = COXI_BYTES_MAX,
     .fallback = "1G",
     .help = "memory for results that stay here for later steps; a result without room "
             "goes to the client"},
    {.name = "data-cache-max",
     .type = COXI_OPTION_BYTES,
     .offset = offsetof(struct coxi_worker_config, data_cache_max),
     .max = COXI_BYTES_MAX,
     .fallback = "64M",
     .help = "memory for parts of the client's files, of data sets whose source is the "
             "client; a step that reads needs 2 MiB of it"},
    {.name = "prints-apart",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct coxi_worker_config, prints_apart),
     .help = "send everything that steps print to standard output, so that standard "
             "error has only the log"},
    {.name = "step-process",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct coxi_worker_config, step_process),
     .help = "run as the process that runs steps (the supervisor starts it)"},
};

const struct coxi_program coxi_worker_program = {
    .name = "coxswain-worker",
    .usage = "[options]",
    .summary = "A worker: runs the steps that a client sends to it, in a process of "
               "their own, which\nis started again when a step crashes it.",
    .prefix = "COX_WORKER",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* Checks the options that belong to --client. */
static int check_client(struct coxi_worker_config *config)
{
    const char *client = config->client_url;
    int r = coxi_url_from(config->client, config->client_url);
    if (r != 0) {
        return coxi_error(r, "--client: %s", coxi_error_text());
    }
    config->client = client;
    if (config->daemon.address_file != NULL) {
        return coxi_error(COX_EINVAL, "--address-file: with --client a worker listens "
                                      "nowhere, so there is no address to write");
    }
    r = config->name != NULL ? coxi_hello_name_check(config->name) : 0;
    return r != 0 ? coxi_error(r, "--name: %s", coxi_error_text()) : 0;
}

/* Looks for the client in etcd, unless the worker is told where it is, or listens. */
static int check_etcd(struct coxi_worker_config *config)
{
    int r = 0;
    config->asks_etcd = config->etcd.endpoints != NULL && config->client == NULL &&
                        config->daemon.listen == NULL;
    if (config->asks_etcd && config->daemon.address_file != NULL) {
        return coxi_error(COX_EINVAL, "--address-file: with --etcd a worker listens "
                                      "nowhere, so there is no address to write");
    }
    if (config->asks_etcd && config->name != NULL) {
        r = coxi_hello_name_check(config->name);
        r = r != 0 ? coxi_error(r, "--name: %s", coxi_error_text()) : 0;
    }
    return r;
}

/* Uses the supervisor's process id, which stays the same when step processes change. */
static void make_name(struct coxi_worker_config *config)
{
    char host[65] = "";
    int64_t pid = config->step_process ? config->daemon.parent : getpid();
    config->name = config->own_name;
    if (config->view.role == COXI_CLUSTER_WORKER) { /* stays, if the host changes */
        (void)snprintf(config->own_name, sizeof(config->own_name), "worker-%u",
                       config->view.index);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(config->own_name, sizeof(config->own_name), "%s-%lld",
                   coxi_hello_name_check(host) == 0 ? host : "worker", (long long)pid);
}

/* Reads --module-key, and checks what belongs to modules. */
static int check_modules(struct coxi_worker_config *config)
{
    if (config->no_modules && config->dir == NULL) {
        return coxi_error(COX_EINVAL,
                          "--no-modules needs --dir, the directory with the "
                          "modules that may run");
    }
    int r = config->module_key_file != NULL
                ? coxi_module_key_read(config->module_key_file, &config->module_key)
                : 0;
    return r == 0 ? 0 : coxi_error(r, "--module-key: %s", coxi_error_text());
}

static int check_confinement(const struct coxi_worker_config *config)
{
    bool has_files =
        strcmp(config->confine, "landlock") == 0 || strcmp(config->confine, "all") == 0;
    bool is_bounded =
        config->confine_write != NULL || strcmp(config->confine_read, "/") != 0;
    return has_files || !is_bounded
               ? 0
               : coxi_error(COX_EINVAL,
                            "--confine-read and --confine-write say where steps may "
                            "read and write files, which is not bounded without "
                            "--confine=landlock or --confine=all");
}

int coxi_worker_config_apply(struct coxi_worker_config *config)
{
    int r = coxi_daemon_view(COXI_CLUSTER_WORKER, &config->daemon, &config->client,
                             &config->etcd, &config->view);
    r = r == 0 ? check_etcd(config) : r;
    bool dials = config->client != NULL || config->asks_etcd;
    if (r == 0 && config->client != NULL) {
        r = check_client(config);
    }
    if (r == 0 && !dials && config->name != NULL) {
        r = coxi_error(COX_EINVAL,
                       "--name belongs to --client or --etcd: a worker that listens is "
                       "known by its --index");
    }
    if (r == 0 && dials && config->name == NULL) {
        make_name(config);
    }
    if (r == 0) {
        r = coxi_daemon_start(&config->daemon,
                              config->step_process ? "worker" : "supervisor");
    }
    if (r == 0 && !config->step_process) {
        coxi_daemon_view_log(&config->view);
    }
    r = r == 0 ? check_modules(config) : r;
    r = r == 0 ? check_confinement(config) : r;
    return r == 0 && config->client != NULL
               ? coxi_daemon_check_reach(&config->daemon, "--client", config->client)
               : r;
}
