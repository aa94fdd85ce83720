/* What the commands of `coxswain checkpoint` share. Main thread. */
#ifndef COXI_CLI_CHECKPOINT_H
#define COXI_CLI_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>

#include "checkpoint/checkpoint.h"
#include "common/option.h"

/* Each: argv[0] is the command; returns the exit code. */
int coxi_checkpoint_list(int argc, char **argv);
int coxi_checkpoint_show(int argc, char **argv);
int coxi_checkpoint_verify_all(int argc, char **argv);
int coxi_checkpoint_diff(int argc, char **argv);
int coxi_checkpoint_export(int argc, char **argv);
int coxi_checkpoint_prune(int argc, char **argv);

/*
 * Parses the command line, of which `n_words` are left (*ret_words) behind the options.
 * False: the command is over, with *ret_exit.
 */
bool coxi_checkpoint_options(const struct coxi_program *program, int argc, char **argv,
                             void *config, int n_words, char ***ret_words,
                             int *ret_exit);

/* The exit code of a command that returned `r`, whose error text is printed. */
int coxi_checkpoint_exit(const struct coxi_program *program, int r);

/* Prints the object on a line and drops it. */
int coxi_checkpoint_print(json_t *object);

/* "2026-11-21 18:19:58", local time */
void coxi_checkpoint_time(double time_s, char *ret, size_t len);

/* Of an option for all of them; `config` structs have a `bool json`. */
#define COXI_CHECKPOINT_JSON(config)                                                   \
    {.name = "json",                                                                   \
     .type = COXI_OPTION_FLAG,                                                         \
     .offset = offsetof(config, json),                                                 \
     .help = "print one JSON object instead of a table"}

#define COXI_CHECKPOINT_VARIABLE(config)                                               \
    {.name = "variable",                                                               \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(config, variable),                                             \
     .help = "only these: a name or pattern ('tower/*', '@(w|t)')"}

#endif
