/* See data_command.h. */
#include "cli/data_command.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "net/daemon.h"

/* ---- signals */

atomic_bool coxi_data_interrupted;
static volatile sig_atomic_t signalled;

static void on_signal(int signum)
{
    signalled = signum;
    atomic_store(&coxi_data_interrupted, true);
}

void coxi_data_catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

int coxi_data_check_interrupted(void)
{
    return atomic_load(&coxi_data_interrupted)
               ? coxi_error(COX_ECANCELLED, "interrupted")
               : 0;
}

/* ---- names */

int coxi_data_part_name(const char *name, uint64_t i, uint64_t n, char ret[PATH_MAX])
{
    const char *slash = strrchr(name, '/');
    const char *base = slash != NULL ? slash + 1 : name;
    const char *dot = *base != '\0' ? strchr(base + 1, '.') : NULL;
    int stem = (int)(dot != NULL ? (size_t)(dot - name) : strlen(name));
    return n == 1 ? coxi_path(ret, "%s", name)
                  : coxi_path(ret, "%.*s-%05" PRIu64 "%s", stem, name, i, name + stem);
}

/* ---- beginning and end */

bool coxi_data_begin(const struct coxi_program *program, int argc, char **argv,
                     void *config, int least, char ***ret_words, size_t *ret_n,
                     int *ret_exit)
{
    int rest = 0;
    int r = coxi_options_parse(program, argc, argv, config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        *ret_exit = EXIT_SUCCESS;
        return false;
    }
    if (r == 0 && argc - rest < least) {
        r = coxi_error(COX_EINVAL, "say: %s %s", program->name, program->usage);
    }
    if (r != 0) {
        *ret_exit = coxi_exit_config(program->name);
        return false;
    }
    coxi_data_catch_signals();
    *ret_words = argv + rest;
    *ret_n = (size_t)(argc - rest);
    return true;
}

int coxi_data_exit(const struct coxi_program *program, int r)
{
    (void)fflush(stdout);
    if (signalled != 0) {
        (void)fprintf(stderr, "%s: interrupted\n", program->name);
        (void)signal(signalled, SIG_DFL);
        (void)raise(signalled);
    }
    if (r == 0 && ferror(stdout) != 0) {
        r = coxi_error(COX_EIO, "cannot write to standard output");
    }
    if (r == 0) {
        return EXIT_SUCCESS;
    }
    (void)coxi_exit_config(program->name);
    return r == COX_EINVAL ? COXI_EXIT_CONFIG : COXI_EXIT_FAILED;
}

int coxi_data_print(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (text == NULL) {
        return coxi_error_memory("a JSON object");
    }
    (void)printf("%s\n", text);
    free(text);
    return 0;
}
