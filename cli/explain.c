/* coxswain cluster explain: what this environment says of a cluster. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cluster/view.h"
#include "common/error.h"
#include "common/option.h"
#include "net/daemon.h"

struct config {
    bool json;
};

static const struct coxi_option options[] = {
    {.name = "json",
     .type = COXI_OPTION_FLAG,
     .offset = offsetof(struct config, json),
     .help = "print a JSON object"},
};

static const struct coxi_program program = {
    .name = "coxswain cluster explain",
    .usage = "[options]",
    .summary =
        "Prints what the environment says of the cluster, as the client and the "
        "daemons\n"
        "read it: where the ps and workers are, what this process is, and which "
        "variable\n"
        "each fact comes from. Sources, of which the first one counts: COX_CLUSTER "
        "(with\n"
        "COX_TASK), TF_CONFIG, Open MPI, Slurm, PMI; the last three with COX_ROLES,\n"
        "COX_HOSTS and COX_PORT. If something is wrong it says what to set, and exits "
        "2.",
    .prefix = "COX_EXPLAIN",
    .options = options,
    .n_options = sizeof(options) / sizeof(*options),
};

static int print_table(const struct coxi_view *view)
{
    struct coxi_buffer table = {0};
    int r = coxi_view_table(view, &table);
    if (r == 0) {
        (void)fwrite(table.data, 1, table.len, stdout);
    }
    coxi_buffer_fini(&table);
    return r;
}

static int print_json(const struct coxi_view *view)
{
    char *json = coxi_view_json(view);
    if (json == NULL) {
        return coxi_error_memory("the facts");
    }
    (void)puts(json);
    free(json);
    return 0;
}

int coxi_command_explain(int argc, char **argv)
{
    struct config config = {0};
    struct coxi_view view = {0};
    int r = coxi_options_parse(&program, argc, argv, &config, NULL);
    if (r == COXI_OPTIONS_EXIT) {
        return EXIT_SUCCESS;
    }
    if (r == 0) {
        r = coxi_view_find(&coxi_own_environment, &view);
    }
    if (r == 0 && view.source == NULL &&
        coxi_environment_get(&coxi_own_environment, "COX_ETCD") != NULL) {
        r = coxi_error(COX_ENOENT,
                       "COX_ETCD says where etcd is, which is enough for daemons, but "
                       "not how many ps there are: set COX_CLUSTER to "
                       "{\"cluster\": {\"etcd\": {\"ps\": 2}}}");
    } else if (r == 0 && view.source == NULL) {
        r = coxi_error(
            COX_ENOENT,
            "nothing describes a cluster: set COX_CLUSTER, or TF_CONFIG, or "
            "start several processes with srun or mpirun, and set COX_ROLES");
    }
    if (r == 0) {
        r = config.json ? print_json(&view) : print_table(&view);
    }
    coxi_view_fini(&view);
    return r == 0 ? EXIT_SUCCESS : coxi_exit_config(program.name);
}
