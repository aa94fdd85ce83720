/* Functions that the commands of `coxswain checkpoint` share. Main thread. */
#ifndef COXI_CLI_CHECKPOINT_H
#define COXI_CLI_CHECKPOINT_H

#include <jansson.h>
#include <stdbool.h>

#include "checkpoint/checkpoint.h"
#include "common/option.h"

/* For each: argv[0] is the command; returns the exit code. */
int coxi_checkpoint_list(int argc, char **argv);
int coxi_checkpoint_show(int argc, char **argv);
int coxi_checkpoint_verify_all(int argc, char **argv);
int coxi_checkpoint_diff(int argc, char **argv);
int coxi_checkpoint_export(int argc, char **argv);
int coxi_checkpoint_prune(int argc, char **argv);

/* The exit code for a result `r`; prints the error text. */
int coxi_checkpoint_exit(const struct coxi_program *program, int r);

/* Warns that nothing keeps the checkpoints of `dir` from being deleted while this reads. */
void coxi_checkpoint_warn(const struct coxi_program *program, const char *dir);

/* Prints the object on a line and drops it. */
int coxi_checkpoint_print(json_t *object);

/* "2026-11-21 18:19:58", local time */
void coxi_checkpoint_time(double time_s, char *ret, size_t len);

/* Options that several commands have; their `config` structs have a `bool json`. */
#define COXI_CHECKPOINT_JSON(config)                                                   \
    {.name = "json",                                                                   \
     .type = COXI_OPTION_FLAG,                                                         \
     .offset = offsetof(config, json),                                                 \
     .help = "print one JSON object instead of a table"}

/* For the summaries of commands. */
#define COXI_CHECKPOINT_PLACE "\nDIR may lie in a store of objects: s3://BUCKET/PREFIX."

#define COXI_CHECKPOINT_VARIABLE(config)                                               \
    {.name = "variable",                                                               \
     .type = COXI_OPTION_STRING,                                                       \
     .offset = offsetof(config, variable),                                             \
     .help = "only variables with this name or pattern ('tower/*', '@(w|t)')"}

#endif
