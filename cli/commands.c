/* See commands.h. */
#include "cli/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/manual.h"
#include "common/option.h"
#include "net/daemon.h"

static void help(const struct coxi_commands *program, FILE *out)
{
    (void)fprintf(out, "Usage: %s COMMAND [...]\n\n%s\n\nCommands:\n", program->name,
                  program->summary);
    for (size_t i = 0; i < program->n_commands; i++) {
        (void)fprintf(out, "  %-12s %s\n", program->commands[i].name,
                      program->commands[i].help);
    }
    (void)fprintf(out, "\n  %s COMMAND --help says more; %s --version\n", program->name,
                  program->name);
}

static void manual(const struct coxi_commands *program, FILE *out)
{
    coxi_manual_begin(program->name, "COMMAND [...]", program->summary, out);
    coxi_manual_section("COMMANDS", out);
    for (size_t i = 0; i < program->n_commands; i++) {
        coxi_manual_item(program->commands[i].name, program->commands[i].help, out);
    }
    coxi_manual_section("SEE ALSO", out);
    for (size_t i = 0; i < program->n_commands; i++) {
        coxi_manual_reference(program->name, program->commands[i].name, out);
    }
}

int coxi_commands_run(const struct coxi_commands *program, int argc, char **argv)
{
    const char *word = argc >= 2 ? argv[1] : "";
    if (strcmp(word, "--help") == 0) {
        help(program, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(word, "--version") == 0) {
        coxi_version_print(program->name, stdout);
        return EXIT_SUCCESS;
    }
    if (strcmp(word, "--man") == 0) {
        manual(program, stdout);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < program->n_commands; i++) {
        if (strcmp(word, program->commands[i].name) == 0) {
            return program->commands[i].run(argc - 1, argv + 1);
        }
    }
    if (argc >= 2) {
        (void)fprintf(stderr, "%s: no command '%s'\n", program->name, word);
    }
    help(program, stderr);
    return COXI_EXIT_CONFIG;
}

/* ---- command lines */

bool coxi_command_options(const struct coxi_program *program, int argc, char **argv,
                          void *config, int n_words, char ***ret_words, int *ret_exit)
{
    int rest = 0;
    int r = coxi_options_parse(program, argc, argv, config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        *ret_exit = EXIT_SUCCESS;
        return false;
    }
    if (r == 0 && rest != argc - n_words) {
        r = coxi_error(COX_EINVAL, "say: %s %s", program->name, program->usage);
    }
    if (r != 0) {
        *ret_exit = coxi_exit_config(program->name);
        return false;
    }
    *ret_words = argv + rest;
    return true;
}
