/* See daemon_view.h. */
#include "cluster/daemon_view.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "common/log.h"

/* The environment with a COX_TASK of ours. */
static const char *get_with_task(void *arg, const char *name)
{
    return strcmp(name, "COX_TASK") == 0
               ? arg
               : coxi_own_environment.get(coxi_own_environment.arg, name);
}

/* Finds the place again, as the task that the program and --index say. */
static int find_as(enum coxi_cluster_role role, int64_t index, struct coxi_view *view)
{
    char task[48];
    const struct coxi_environment environment = {.get = get_with_task, .arg = task};
    (void)snprintf(task, sizeof(task), "%s:%lld", coxi_cluster_role_name(role),
                   (long long)index);
    coxi_view_fini(view);
    int r = coxi_view_find(&environment, view);
    if (r == 0) {
        (void)snprintf(view->from[COXI_FACT_ROLE], sizeof(view->from[0]), "--index");
        (void)snprintf(view->from[COXI_FACT_INDEX], sizeof(view->from[0]), "--index");
    }
    return r;
}

/* Where the list has one place only, its index needs no telling. */
static bool is_only_one(enum coxi_cluster_role role, const struct coxi_view *view)
{
    const struct cox_cluster *cluster = view->cluster;
    return cluster != NULL &&
           (role == COXI_CLUSTER_PS ? cluster->n_ps : cluster->n_workers) == 1;
}

static int check(enum coxi_cluster_role role, int64_t index, struct coxi_view *view)
{
    const char *name = coxi_cluster_role_name(role);
    const char *other = coxi_cluster_role_name(view->role);
    if (view->role == COXI_CLUSTER_NONE && (index >= 0 || is_only_one(role, view))) {
        return find_as(role, index >= 0 ? index : 0, view);
    }
    if (view->role == COXI_CLUSTER_NONE) {
        return coxi_error(COX_EINVAL,
                          "%s does not say which %s of the cluster this is: set "
                          "COX_TASK=%s:INDEX or --index, or say --listen",
                          view->source, name, name);
    }
    if (view->role != role) {
        return coxi_error(
            COX_EINVAL,
            "%s says that this process is %s %u, but this is coxswain-%s: "
            "start coxswain role here, which becomes the right program, set "
            "COX_TASK or COX_ROLES to another role, or say --listen",
            view->from[COXI_FACT_ROLE], other, view->index, name);
    }
    if (index >= 0 && (uint64_t)index != view->index) {
        return coxi_error(
            COX_EINVAL,
            "--index=%lld: %s says that this is %s %u: leave --index out, "
            "or say --listen, too",
            (long long)index, view->from[COXI_FACT_INDEX], name, view->index);
    }
    return 0;
}

int coxi_daemon_view(enum coxi_cluster_role role, struct coxi_daemon_options *options,
                     const char **client, struct coxi_view *ret)
{
    *ret = (struct coxi_view){0};
    int r = 0;
    if (options->listen == NULL && (client == NULL || *client == NULL)) {
        r = coxi_view_find(&coxi_own_environment, ret);
        if (r == 0 && ret->source != NULL) {
            r = check(role, options->index, ret);
        }
    }
    if (r != 0) {
        coxi_view_fini(ret);
        return r;
    }
    if (ret->source != NULL) {
        options->index = ret->index;
        options->listen = ret->listen[0] != '\0' ? ret->listen : NULL;
    }
    if (ret->source != NULL && options->listen == NULL && client != NULL) {
        *client = ret->client;
    }
    options->index = options->index < 0 ? 0 : options->index;
    return 0;
}

void coxi_daemon_view_log(const struct coxi_view *view)
{
    if (view->source != NULL) {
        coxi_log(COXI_LOG_INFO, "task", "source=\"%s\" role=%s index=%u from=\"%s\"",
                 view->source, coxi_cluster_role_name(view->role), view->index,
                 view->from[COXI_FACT_ROLE]);
    }
}
