/*
 * One table of options for each program. It parses flags (--name value, --name=value, -n value),
 * environment (PREFIX_NAME) and a file (--config FILE, lines name = value), in that
 * order of precedence, and prints --help.
 */
#ifndef COXI_COMMON_OPTION_H
#define COXI_COMMON_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum coxi_option_type {
    COXI_OPTION_FLAG,   /* bool */
    COXI_OPTION_STRING, /* const char * */
    COXI_OPTION_INT,    /* int64_t, min to max */
    COXI_OPTION_BYTES,  /* int64_t, min to max; "512M": 512 * 1024 * 1024 */
    COXI_OPTION_REAL,   /* double, min to max */
    COXI_OPTION_CHOICE, /* const char *, one of `choices` ("a|b|c") */
    COXI_OPTION_LIST,   /* struct coxi_option_list: may be given several times */
};

enum { COXI_OPTION_LIST_MAX = 1024 };

struct coxi_option_list {
    const char *all[COXI_OPTION_LIST_MAX];
    size_t n;
};

#define COXI_BYTES_MAX 0x1p60 /* the `max` of sizes without another bound */

struct coxi_option {
    const char *name; /* "peer-timeout-ms" */
    char letter;      /* 'p': -p is short for it; 0: there is no short form */
    enum coxi_option_type type;
    size_t offset; /* of the field in the program's struct */
    double min;
    double max;
    const char *fallback; /* NULL: no default (NULL, 0, false) */
    const char *choices;
    const char *help;
};

struct coxi_program {
    const char *name;    /* "coxswain-ps" */
    const char *usage;   /* "[options]" */
    const char *summary; /* a sentence or two */
    const char *prefix;  /* of environment variables: "COX_PS" */
    const struct coxi_option *options;
    size_t n_options;
    bool mixed; /* options may also come after other arguments */
};

/* What coxi_options_parse returns besides errors. */
enum { COXI_OPTIONS_RUN = 0, COXI_OPTIONS_EXIT = 1 };

/*
 * Fills the struct at `config` (zeroed by the caller). *ret_rest is the index of the
 * first argument that is no option ("--" ends the options); NULL: there may only be
 * options. COXI_OPTIONS_EXIT: --help, --version or --man (the manual page, for the
 * build; see manual.h) was printed, exit 0. COX_EINVAL: the text names the option and
 * what it takes; exit 2. Strings point into argv, the environment, or memory that is
 * never freed.
 */
int coxi_options_parse(const struct coxi_program *program, int argc, char **argv,
                       void *config, int *ret_rest);

/* The value that the option takes, as --help prints it: "N", "on|off"; "" for a
 * flag. */
const char *coxi_option_takes(const struct coxi_option *option);

/* The version line of every program: "coxswain-ps 0.1.0 (protocol 2)". */
void coxi_version_print(const char *program, FILE *out);

#endif
