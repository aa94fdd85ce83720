/* Programs with commands: `coxswain`, and its commands `checkpoint` and `data`. */
#ifndef COXI_CLI_COMMANDS_H
#define COXI_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/option.h"

struct coxi_command {
    const char *name;
    int (*run)(int argc,
               char **argv); /* argv[0] is the command; returns the exit code */
    const char *help;
};

struct coxi_commands {
    const char *name; /* "coxswain" */
    const char *summary;
    const struct coxi_command *commands;
    size_t n_commands;
};

/* Runs the command named by argv[1], or prints --help, --version or --man (the manual
 * page). Returns the exit code. */
int coxi_commands_run(const struct coxi_commands *program, int argc, char **argv);

/* Parses the command line, which must have `n_words` words (*ret_words) besides
 * options. False: the command is over, with exit code *ret_exit. */
bool coxi_command_options(const struct coxi_program *program, int argc, char **argv,
                          void *config, int n_words, char ***ret_words, int *ret_exit);

int coxi_command_cluster(int argc, char **argv);
int coxi_command_run(int argc, char **argv);
int coxi_command_explain(int argc, char **argv); /* of coxswain cluster */
int coxi_command_role(int argc, char **argv);
int coxi_command_launch(int argc, char **argv);
int coxi_command_host(int argc, char **argv);
int coxi_command_checkpoint(int argc, char **argv);
int coxi_command_data(int argc, char **argv);
int coxi_command_key(int argc, char **argv);
int coxi_command_sign(int argc, char **argv);
int coxi_command_page(int argc, char **argv);
int coxi_command_top(int argc, char **argv);
int coxi_command_status(int argc, char **argv);
int coxi_command_events(int argc, char **argv);
int coxi_command_trace(int argc, char **argv);

#endif
