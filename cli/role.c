/* coxswain role: becomes the program of this process's task. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/launcher.h"
#include "cluster/view.h"
#include "common/error.h"
#include "common/file.h"
#include "common/option.h"
#include "net/daemon.h"

struct config {
    const char *evaluator;
};

static const struct coxi_option options[] = {
    {.name = "evaluator",
     .type = COXI_OPTION_STRING,
     .offset = offsetof(struct config, evaluator),
     .help = "the command line of evaluators, for /bin/sh"},
};

static const struct coxi_program program = {
    .name = "coxswain role",
    .usage = "[options] -- CLIENT [ARGUMENT ...]",
    .summary = "Becomes the program of this process's task, which TF_CONFIG, "
               "COX_CLUSTER, Slurm\n"
               "or MPI tell (coxswain cluster explain): CLIENT, coxswain-ps, "
               "coxswain-worker, or\n"
               "the evaluator. So all processes of a job have one command line. "
               "Options of the\n"
               "daemons are given as COX_PS_..., COX_WORKER_....",
    .prefix = "COX_ROLE",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

/* Which program this process has to be. */
static int find_role(enum coxi_cluster_role *ret)
{
    struct coxi_view view;
    int r = coxi_view_find(&coxi_own_environment, &view);
    if (r == 0 && view.source == NULL) {
        r = coxi_error(COX_ENOENT,
                       "nothing describes a cluster: set COX_CLUSTER and COX_TASK, or "
                       "TF_CONFIG, or start several processes with srun or mpirun, and "
                       "set COX_ROLES");
    }
    if (r == 0 && view.role == COXI_CLUSTER_NONE) {
        r = coxi_error(COX_EINVAL,
                       "%s does not say which task this process is: set COX_TASK to a "
                       "role and its index, like ps:0, worker:3 or client",
                       view.source);
    }
    if (r == 0) {
        *ret = view.role;
    }
    coxi_view_fini(&view);
    return r;
}

static int become_evaluator(const char *command_line)
{
    if (command_line == NULL) {
        return coxi_error(COX_EINVAL,
                          "this process is an evaluator: say which program that is, "
                          "with --evaluator, or set COX_ROLE_EVALUATOR");
    }
    (void)execl("/bin/sh", "sh", "-c", command_line, (char *)NULL);
    return coxi_error_errno(COX_EINVAL, "cannot start /bin/sh");
}

static int become_daemon(enum coxi_cluster_role role)
{
    char path[PATH_MAX];
    char directory[PATH_MAX];
    char name[32];
    (void)snprintf(name, sizeof(name), "coxswain-%s", coxi_cluster_role_name(role));
    int r = coxi_launcher_find_daemons(directory);
    if (r == 0) {
        r = coxi_path(path, "%s/%s", directory, name);
    }
    if (r == 0) {
        (void)execl(path, name, (char *)NULL);
        r = coxi_error_errno(COX_EINVAL, "cannot start %s", path);
    }
    return r;
}

/* Returns only if it fails. */
static int become(enum coxi_cluster_role role, const struct config *config,
                  char **client)
{
    if (role == COXI_CLUSTER_EVALUATOR) {
        return become_evaluator(config->evaluator);
    }
    if (role != COXI_CLUSTER_CLIENT) {
        return become_daemon(role);
    }
    (void)execvp(client[0], client);
    return coxi_error_errno(COX_EINVAL, "cannot start %s", client[0]);
}

int coxi_command_role(int argc, char **argv)
{
    struct config config = {0};
    enum coxi_cluster_role role;
    int rest;
    int r = coxi_options_parse(&program, argc, argv, &config, &rest);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0 && rest == argc) {
        r = coxi_error(
            COX_EINVAL,
            "which client? coxswain role [options] -- CLIENT [ARGUMENT ...]");
    }
    r = r == 0 ? find_role(&role) : r;
    r = r == 0 ? become(role, &config, argv + rest) : r;
    return r == 0 ? EXIT_SUCCESS : coxi_exit_config(program.name);
}
