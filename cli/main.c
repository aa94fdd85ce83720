/* coxswain: the command-line tool. */
#include <string.h>

#include "cli/commands.h"
#include "cli/runner.h"

static const struct coxi_command commands[] = {
    {"run", coxi_command_run, "start a local cluster and run a client program on it"},
    {"cluster", coxi_command_cluster, "start a local cluster until it is interrupted"},
    {"launch", coxi_command_launch,
     "start a cluster on other hosts over ssh, and run a client program on it"},
    {"host", coxi_command_host, "run one host's daemons, for coxswain launch"},
    {"role", coxi_command_role, "become the program of this process's task in a job"},
    {"page", coxi_command_page, "serve the live page of a run's directory"},
    {"top", coxi_command_top, "show a run as a table that follows it"},
    {"status", coxi_command_status, "say how a run is"},
    {"events", coxi_command_events, "print what has happened in a run"},
    {"trace", coxi_command_trace, "take a trace of a run that is under way"},
    {"checkpoint", coxi_command_checkpoint, "look into checkpoints"},
    {"data", coxi_command_data, "look into files of records, and make them"},
    {"key", coxi_command_key, "make the keys of runs"},
    {"sign", coxi_command_sign, "sign a step module"},
};

static const struct coxi_commands program = {
    .name = "coxswain",
    .summary = "Starts clusters of parameter servers and workers, here or on other "
               "hosts, shows "
               "runs, looks into checkpoints and files of records, makes keys, and "
               "signs step modules.",
    .commands = commands,
    .n_commands = sizeof(commands) / sizeof(*commands),
};

int main(int argc, char **argv)
{
    if (argc >= COXI_RUNNER_TIED_WORDS && strcmp(argv[1], COXI_RUNNER_TIED) == 0) {
        return coxi_runner_tied(argv);
    }
    return coxi_commands_run(&program, argc, argv);
}
