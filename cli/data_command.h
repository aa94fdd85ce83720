/* The commands of `coxswain data`, and functions that they share. Main thread; a second one
 * waits for signals. */
#ifndef COXI_CLI_DATA_COMMAND_H
#define COXI_CLI_DATA_COMMAND_H

#include <jansson.h>
#include <limits.h>
#include <stdatomic.h>

#include "common/option.h"
#include "data/source.h"

/* For each: argv[0] is the command; returns the exit code. */
int coxi_data_head(int argc, char **argv);
int coxi_data_count(int argc, char **argv);
int coxi_data_verify(int argc, char **argv);
int coxi_data_generate(int argc, char **argv);
int coxi_data_index(int argc, char **argv);
int coxi_data_shard(int argc, char **argv);
int coxi_data_convert(int argc, char **argv);

/* Set once the user wants the command to end (SIGINT, SIGTERM, SIGHUP): reading ends with
 * COX_ECANCELLED. */
extern atomic_bool coxi_data_interrupted;

/* COX_ECANCELLED once the flag is set. */
int coxi_data_check_interrupted(void);

/* The name of file `i` of `n`: with more than one, "dir/clicks.tsv.gz" becomes
 * "dir/clicks-00007.tsv.gz". COX_EINVAL: too long. */
int coxi_data_part_name(const char *name, uint64_t i, uint64_t n, char ret[PATH_MAX]);

/* COX_EINVAL: beside files 0 to `n` - 1 there are others with higher numbers, of an earlier
 * set: whoever reads the new files by a pattern would read these, too. One file (`n` is 1)
 * has no number, and may be beside any set. */
int coxi_data_parts_check(const char *name, uint64_t n);

/* From now on a thread waits for these signals, unless they are ignored; it sets the flag. */
int coxi_data_catch_signals(void);

/* The source that is read: a signal ends its read. NULL: none. */
void coxi_data_watch(const struct coxi_source *source);

/*
 * Parses the command line, which must have at least `least` words (*ret_words, *ret_n)
 * besides options, and catches signals. False: the command is over, with exit code
 * *ret_exit.
 */
bool coxi_data_begin(const struct coxi_program *program, int argc, char **argv,
                     void *config, int least, char ***ret_words, size_t *ret_n,
                     int *ret_exit);

/* The exit code for a result `r`; prints the error text. After a signal the process
 * ends by it, so that a shell notices. */
int coxi_data_exit(const struct coxi_program *program, int r);

/* Prints the object on a line and drops it. */
int coxi_data_print(json_t *object);

#define COXI_DATA_JSON(config)                                                         \
    {.name = "json",                                                                   \
     .type = COXI_OPTION_FLAG,                                                         \
     .offset = offsetof(config, json),                                                 \
     .help = "print JSON instead of text"}

#endif
