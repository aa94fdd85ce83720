/* coxswain: the command-line tool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "common/daemon.h"
#include "common/option.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"run", coxi_command_run, "start a local cluster and run a client program on it"},
    {"cluster", coxi_command_cluster, "start a local cluster until it is interrupted"},
    {"checkpoint", coxi_command_checkpoint, "look into checkpoints"},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(*commands) };

static void help(FILE *out)
{
    (void)fprintf(out, "Usage: coxswain COMMAND [...]\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].help);
    }
    (void)fprintf(out, "\n  coxswain COMMAND --help says more; coxswain --version\n");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return COXI_EXIT_CONFIG;
    }
    if (strcmp(argv[1], "--help") == 0) {
        help(stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--version") == 0) {
        coxi_version_print("coxswain", stdout);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    (void)fprintf(stderr, "coxswain: no command '%s'\n", argv[1]);
    help(stderr);
    return COXI_EXIT_CONFIG;
}
