/* coxswain-worker: the worker daemon; as supervisor, or (--step-process) the one it
 * runs. */
#include <signal.h>
#include <stdlib.h>

#include "common/daemon.h"
#include "common/option.h"
#include "worker/service.h"
#include "worker/supervisor.h"

struct config {
    struct coxi_daemon_options daemon;
    const char *dir;
    int64_t slots;
    int64_t commit_window;
    bool step_process;
};

static const struct coxi_option options[] = {
    COXI_DAEMON_OPTIONS(struct config),
    {.name = "dir",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, dir),
     .help = "where step modules are kept (default: a temporary directory)"},
    {.name = "slots",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, slots),
     .min = 1,
     .max = 1024,
     .fallback = "1",
     .help = "steps that run at a time; with more than 1 they must be thread-safe"},
    {.name = "commit-window",
     .type = COXI_OPTION_INT,
     .offset = offsetof(struct config, commit_window),
     .min = 1,
     .max = 4096,
     .fallback = "256",
     .help = "closures whose commits are under way while the next one runs"},
    {.name = "step-process",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, step_process),
     .help = "be the process that runs the steps (the supervisor starts it)"},
};

static const struct coxi_program program = {
    .name = "coxswain-worker",
    .usage = "[options]",
    .summary =
        "A worker: runs the steps that a client ships to it. A step that crashes "
        "takes down\na process of its own, which is started again.",
    .prefix = "COX_WORKER",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static int serve(const struct config *config)
{
    int signum = 0;
    struct coxi_recorder *recorder = NULL;
    int r = coxi_recorder_attach(&recorder);
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    (void)signal(SIGINT, SIG_IGN); /* Ctrl-C is for the supervisor, which hands it on */
    r = coxi_worker_serve(
        &(struct coxi_worker_options){
            .listen = config->daemon.listen,
            .address_file = config->daemon.address_file,
            .dir = config->dir,
            .index = (uint32_t)config->daemon.index,
            .slots = (uint32_t)config->slots,
            .commit_window = (uint32_t)config->commit_window,
            .peer_timeout_ms = (int)config->daemon.peer_timeout_ms,
            .recorder = recorder,
        },
        &signum);
    coxi_recorder_free(recorder);
    return r != 0 ? coxi_exit_config(program.name) : COXI_EXIT_AGAIN + signum;
}

int main(int argc, char **argv)
{
    struct config config = {0};
    int r = coxi_options_parse(&program, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0) {
        r = coxi_daemon_start(&config.daemon,
                              config.step_process ? "worker" : "supervisor");
    }
    if (r != 0) {
        return coxi_exit_config(program.name);
    }
    return config.step_process ? serve(&config)
                               : coxi_supervise(argc, argv, config.dir);
}
