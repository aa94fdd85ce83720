/* coxswain checkpoint: which of its commands is meant, and what they share. */
#include "cli/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "common/checkpoints.h"
#include "common/daemon.h"
#include "common/error.h"
#include "common/file.h"
#include "common/manifest.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"list", coxi_checkpoint_list, "which checkpoints there are"},
    {"show", coxi_checkpoint_show, "what is in one"},
    {"verify", coxi_checkpoint_verify_all, "are they whole"},
    {"diff", coxi_checkpoint_diff, "what differs between two"},
    {"export", coxi_checkpoint_export, "variables for numpy or safetensors readers"},
    {"prune", coxi_checkpoint_prune, "delete old ones"},
};

enum { N_COMMANDS = sizeof(commands) / sizeof(*commands) };

static void help(FILE *out)
{
    (void)fprintf(out, "Usage: coxswain checkpoint COMMAND [...]\n\nCommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        (void)fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    }
    (void)fprintf(out, "\n  coxswain checkpoint COMMAND --help says more\n");
}

int coxi_command_checkpoint(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        help(stdout);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; argc >= 2 && i < N_COMMANDS; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    if (argc >= 2) {
        (void)fprintf(stderr, "coxswain checkpoint: no command '%s'\n", argv[1]);
    }
    help(stderr);
    return COXI_EXIT_CONFIG;
}

/* ---- command lines */

bool coxi_checkpoint_options(const struct coxi_program *program, int argc, char **argv,
                             void *config, int n_words, char ***ret_words,
                             int *ret_exit)
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

int coxi_checkpoint_exit(const struct coxi_program *program, int r)
{
    if (r == 0) {
        return EXIT_SUCCESS;
    }
    (void)fflush(stdout);
    (void)coxi_exit_config(program->name);
    return COXI_EXIT_FAILED;
}

/* ---- places */

bool coxi_checkpoint_is_one(const char *path)
{
    char file[PATH_MAX];
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    size_t n_digits =
        strncmp(name, "ckpt-", 5) == 0 ? strspn(name + 5, "0123456789") : 0;
    return (n_digits > 0 && name[5 + n_digits] == '\0') ||
           (coxi_path(file, "%s/manifest.json", path) == 0 && access(file, F_OK) == 0);
}

/* Which one `path` means: *ret_number in directory ret_dir. */
static int locate(const char *path, char ret_dir[PATH_MAX], uint64_t *ret_number)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    *ret_number = UINT64_MAX;
    if (coxi_checkpoint_is_one(path) && strncmp(name, "ckpt-", 5) == 0) {
        *ret_number = strtoull(name + 5, NULL, 10);
        return slash != NULL ? coxi_path(ret_dir, "%.*s", (int)(slash - path + 1), path)
                             : coxi_path(ret_dir, ".");
    }
    int r = coxi_path(ret_dir, "%s", path);
    return r == 0 ? coxi_latest_read(path, ret_number) : r;
}

int coxi_checkpoint_use(const char *path, struct coxi_checkpoint **ret)
{
    char dir[PATH_MAX];
    char one[PATH_MAX];
    uint64_t number = 0;
    int r = locate(path, dir, &number);
    if (r == COX_ENOENT) {
        return coxi_error(r, "%s is no checkpoint and holds none", path);
    }
    if (r == 0) {
        r = coxi_path(one, "%s/ckpt-%" PRIu64, dir, number);
    }
    if (r == 0) {
        r = coxi_checkpoint_open(one, COXI_CHECKPOINT_CHECKED, ret);
    }
    return r == 0 ? 0 : coxi_checkpoints_offer(r, coxi_checkpoints_whole(dir, number));
}

/* ---- output */

int coxi_checkpoint_print(json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    if (text == NULL) {
        return coxi_error_memory("a JSON object");
    }
    (void)printf("%s\n", text);
    free(text);
    return 0;
}

void coxi_checkpoint_shape(uint32_t rank, const uint64_t *shape, char *ret, size_t len)
{
    size_t used = (size_t)snprintf(ret, len, "[");
    for (uint32_t i = 0; i < rank && used < len; i++) {
        used += (size_t)snprintf(ret + used, len - used, "%s%" PRIu64,
                                 i > 0 ? ", " : "", shape[i]);
    }
    if (used < len) {
        (void)snprintf(ret + used, len - used, "]");
    }
}

void coxi_checkpoint_time(double time_s, char *ret, size_t len)
{
    time_t seconds = (time_t)time_s;
    struct tm local;
    ret[0] = '\0';
    if (localtime_r(&seconds, &local) != NULL) {
        (void)strftime(ret, len, "%Y-%m-%d %H:%M:%S", &local);
    }
}
