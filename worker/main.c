/* coxswain-worker: the worker daemon. Runs as supervisor or, with --step-process, as
 * the step process. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/option.h"
#include "net/daemon.h"
#include "worker/announcer.h"
#include "worker/config.h"
#include "worker/confine.h"
#include "worker/culprit.h"
#include "worker/figures.h"
#include "worker/service.h"
#include "worker/supervisor.h"

static int confine(const struct coxi_worker_config *config)
{
    return coxi_confine(&(struct coxi_confinement){
        .profile = config->confine,
        .read = config->confine_read,
        .write = config->confine_write,
        .dir = config->dir,
        .listen_url = config->client == NULL ? config->daemon.listen : NULL,
        .cores = config->step_cores,
        .files_max = config->step_files_max,
        .address_space_max = config->step_address_space_max,
    });
}

static int serve(const struct coxi_worker_config *config)
{
    int signum = 0;
    struct coxi_recorder *recorder = NULL;
    struct coxi_announcer announcer = {0};
    int r = coxi_recorder_attach(&recorder);
    if (r == 0 && config->daemon.address_file != NULL &&
        coxi_confines_files(config->confine)) {
        r = coxi_announcer_start(config->daemon.address_file, &announcer);
    }
    if (r == 0) {
        r = confine(config);
    }
    if (r != 0) {
        return coxi_exit_config(coxi_worker_program.name);
    }
    /* writes a step's lines before it may die */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    atomic_store(&coxi_recorder_figures(recorder)->slots, (unsigned)config->slots);
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the supervisor, which hands it on */
    coxi_culprit_watch(recorder);
    r = coxi_worker_serve(
        &(struct coxi_worker_options){
            .listen = config->daemon.listen,
            .client = config->client,
            .etcd = config->asks_etcd ? &config->etcd : NULL,
            .may_use_tcp =
                config->daemon.insecure || config->daemon.key.kind != COXI_KEY_NONE,
            .name = config->name,
            .address_file = config->daemon.address_file,
            .announcer = &announcer,
            .modules = {.dir = config->dir,
                        .key = config->module_key_file != NULL ? &config->module_key
                                                               : NULL,
                        .never_shipped = config->no_modules},
            .index = (uint32_t)config->daemon.index,
            .slots = (uint32_t)config->slots,
            .commit_window = (uint32_t)config->commit_window,
            .pull_cache_max = (size_t)config->pull_cache_max,
            .kept_max = (size_t)config->kept_max,
            .step_rows_max = (size_t)config->step_rows_max,
            .data_cache_max = (size_t)config->data_cache_max,
            .step_memory_max = (uint64_t)config->step_memory_max,
            .peer_timeout_ms = (int)config->daemon.peer_timeout_ms,
            .key = &config->daemon.key,
            .local_path = coxi_daemon_local_path(&config->daemon),
            .prints_apart = config->prints_apart,
            .recorder = recorder,
        },
        &signum);
    coxi_recorder_free(recorder);
    return r != 0 ? coxi_exit_config(coxi_worker_program.name)
                  : COXI_EXIT_AGAIN + signum;
}

static int supervise(struct coxi_worker_config *config, int argc, char **argv)
{
    bool listens = config->client == NULL && !config->asks_etcd;
    int r = listens ? coxi_daemon_settle(&config->daemon, "worker") : 0;
    int code = r != 0 ? coxi_exit_config(coxi_worker_program.name)
                      : coxi_supervise(argc, argv, &config->daemon, config->dir,
                                       &config->http);
    coxi_daemon_leave(&config->daemon);
    return code;
}

int main(int argc, char **argv)
{
    struct coxi_worker_config config = {.daemon.index = -1};
    int r = coxi_options_parse(&coxi_worker_program, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0) {
        r = coxi_worker_config_apply(&config);
    }
    if (r != 0) {
        return coxi_exit_config(coxi_worker_program.name);
    }
    int code = config.step_process ? serve(&config) : supervise(&config, argc, argv);
    coxi_view_fini(&config.view);
    return code;
}
