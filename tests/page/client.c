/*
 * A client whose page a test looks at: runs steps until SIGUSR1, then waits for them, prints
 * what cox_stats says, and stays until SIGTERM. Its names are texts that a page must not take
 * for HTML.
 *   client DIR MODULE      with COX_HTTP
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <coxswain/coxswain.h>

enum {
    WINDOW = 64,
    PS = 2,
    WORKERS = 3,
    TOTAL = 1000000, /* steps that it says it will run; live.py knows it */
    LOG_EVERY = 20,
    SAVE_EVERY = 1000,
    WAIT_MS = 60000
};

static const char scalar_name[] = "<img src=x onerror=alert(1)>";
static const char config[] =
    "{\"rate\": 0.05, \"note\": \"<script>alert(1)</script>\", \"<u>layers</u>\": [64, "
    "32]}";

static volatile sig_atomic_t told_to_join;
static volatile sig_atomic_t told_to_end;

static void on_signal(int signum)
{
    if (signum == SIGUSR1) {
        told_to_join = 1;
    } else {
        told_to_end = 1;
    }
}

static int open_run(const char *dir, struct cox_coordinator **ret)
{
    char checkpoints[1024];
    char logs[1024];
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_cluster *cluster;
    (void)snprintf(checkpoints, sizeof(checkpoints), "%s/checkpoints", dir);
    (void)snprintf(logs, sizeof(logs), "%s/logs", dir);
    options.checkpoint_dir = checkpoints;
    options.log_dir = logs;
    int r = cox_cluster_local(PS, WORKERS, &cluster);
    if (r == 0) {
        r = cox_open(cluster, &options, ret);
        cox_cluster_free(cluster);
    }
    return r;
}

static int prepare(struct cox_coordinator *c, const char *module_path,
                   struct cox_function **ret)
{
    struct cox_variable *ignored;
    struct cox_module *module;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "total";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = 1;
    int r = cox_log_config(c, config);
    r = r != 0 ? r : cox_log_total(c, TOTAL);
    r = r != 0 ? r : cox_variable_create(c, &spec, &ignored);
    r = r != 0 ? r : cox_module_load(c, module_path, &module);
    return r != 0 ? r : cox_function_get(module, "<b/onclick=alert(1)>work</b>", ret);
}

static int work(struct cox_coordinator *c, struct cox_function *step)
{
    struct cox_future *futures[WINDOW] = {0};
    int r = 0;
    uint64_t n = 0;
    for (; r == 0 && !told_to_join && !told_to_end; n++) {
        struct cox_future **future = &futures[n % WINDOW];
        if (*future != NULL) {
            r = cox_future_wait(*future, WAIT_MS);
            cox_future_free(*future);
            *future = NULL;
        }
        r = r != 0 ? r : cox_schedule(c, step, NULL, future);
        if (r == 0 && n % LOG_EVERY == 0) {
            r = cox_log_scalar(c, scalar_name, n, 1.0 / (1.0 + (double)n / 1000));
        }
        if (r == 0 && n % SAVE_EVERY == SAVE_EVERY - 1) {
            struct cox_checkpoint_options options = COX_CHECKPOINT_OPTIONS_INIT;
            uint64_t number;
            r = cox_checkpoint_save(c, &options, &number);
        }
    }
    for (size_t i = 0; i < WINDOW; i++) {
        cox_future_free(futures[i]);
    }
    return r != 0 ? r : cox_join(c, WAIT_MS);
}

static void print_stats(struct cox_coordinator *c)
{
    struct cox_stats stats = COX_STATS_INIT;
    (void)cox_stats(c, &stats);
    (void)printf(
        "{\"done\": %llu, \"failed\": %llu, \"put_back\": %llu, "
        "\"commits\": %llu, \"commits_duplicate\": %llu, \"workers\": %llu, "
        "\"workers_lost\": %llu, \"ps_recovered\": %llu, "
        "\"checkpoints\": %llu}\n",
        (unsigned long long)stats.done, (unsigned long long)stats.failed,
        (unsigned long long)stats.put_back, (unsigned long long)stats.commits,
        (unsigned long long)stats.commits_duplicate, (unsigned long long)stats.workers,
        (unsigned long long)stats.workers_lost, (unsigned long long)stats.ps_recovered,
        (unsigned long long)stats.checkpoints);
    (void)fflush(stdout);
}

/* Waits for a signal. */
static void stay(void)
{
    sigset_t none;
    sigset_t both;
    (void)sigemptyset(&both);
    (void)sigaddset(&both, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &both, &none);
    while (!told_to_end) {
        (void)sigsuspend(&none);
    }
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
    struct cox_coordinator *c = NULL;
    struct cox_function *step;
    const struct sigaction action = {.sa_handler = on_signal};
    if (argc != 3 || sigaction(SIGUSR1, &action, NULL) != 0 ||
        sigaction(SIGTERM, &action, NULL) != 0) {
        (void)fprintf(stderr, "say: client DIR MODULE\n");
        return 2;
    }
    int r = open_run(argv[1], &c);
    if (r == 0) {
        (void)printf("%s/\n", cox_http_address(c));
        (void)fflush(stdout);
        r = prepare(c, argv[2], &step);
    }
    r = r != 0 ? r : work(c, step);
    if (r == 0) {
        print_stats(c);
        stay();
    } else {
        (void)fprintf(stderr, "client: %s\n", cox_error_last());
    }
    cox_close(c, 1000);
    return r != 0;
}
