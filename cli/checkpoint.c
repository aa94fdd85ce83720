/* coxswain checkpoint: its table of commands (list, show, ...), and functions that
 * they share. */
#include "cli/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/commands.h"
#include "common/error.h"
#include "net/daemon.h"
#include "objects/s3.h"

static const struct coxi_command commands[] = {
    {"list", coxi_checkpoint_list, "list the checkpoints of a directory"},
    {"show", coxi_checkpoint_show, "show the content of a checkpoint"},
    {"verify", coxi_checkpoint_verify_all, "check that checkpoints are whole"},
    {"diff", coxi_checkpoint_diff, "compare two checkpoints"},
    {"export", coxi_checkpoint_export,
     "write variables to a file for numpy or safetensors"},
    {"prune", coxi_checkpoint_prune, "delete old checkpoints"},
};

static const struct coxi_commands checkpoint = {
    .name = "coxswain checkpoint",
    .summary = "Looks into checkpoints: lists, verifies, compares, exports and deletes "
               "them." COXI_CHECKPOINT_PLACE,
    .commands = commands,
    .n_commands = sizeof(commands) / sizeof(*commands),
};

/* Of a store of objects: 10 to 15 s if nothing answers. */
enum { TRIES = 8 };

int coxi_command_checkpoint(int argc, char **argv)
{
    coxi_s3_limit_tries(TRIES);
    return coxi_commands_run(&checkpoint, argc, argv);
}

/* ---- ends */

int coxi_checkpoint_exit(const struct coxi_program *program, int r)
{
    if (r == 0) {
        return EXIT_SUCCESS;
    }
    (void)fflush(stdout);
    (void)coxi_exit_config(program->name);
    return COXI_EXIT_FAILED;
}

void coxi_checkpoint_warn(const struct coxi_program *program, const char *dir)
{
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "%s: warning: the credentials may not write to %s, so a checkpoint "
                  "may be deleted while this reads it\n",
                  program->name, dir);
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

void coxi_checkpoint_time(double time_s, char *ret, size_t len)
{
    time_t seconds = (time_t)time_s;
    struct tm local;
    ret[0] = '\0';
    if (localtime_r(&seconds, &local) != NULL) {
        (void)strftime(ret, len, "%Y-%m-%d %H:%M:%S", &local);
    }
}
