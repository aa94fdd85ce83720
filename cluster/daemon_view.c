/* See daemon_view.h. */
#include "cluster/daemon_view.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cluster/etcd_settings.h"
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

/* What the environment has to tell. Where etcd is known, that is the index of a ps. */
static bool has_to_ask(const struct coxi_daemon_options *options, const char **client,
                       const struct coxi_etcd_settings *etcd)
{
    return etcd->endpoints != NULL
               ? client == NULL && options->index < 0
               : options->listen == NULL && (client == NULL || *client == NULL);
}

/* Takes the place in a list of addresses. */
static void take_address(struct coxi_daemon_options *options, const char **client,
                         const struct coxi_view *view)
{
    options->listen = view->listen[0] != '\0' ? view->listen : NULL;
    if (options->listen == NULL && client != NULL) {
        *client = view->client;
    }
}

static bool is_in_etcd(const struct coxi_view *view)
{
    return view->cluster != NULL && view->cluster->etcd != NULL;
}

/* Finds this daemon's place. Workers that etcd leads to the client need none. */
static int find(enum coxi_cluster_role role, int64_t index, struct coxi_view *view)
{
    int r = coxi_view_find(&coxi_own_environment, view);
    bool needs_none = r == 0 && is_in_etcd(view) && role == COXI_CLUSTER_WORKER &&
                      view->role == COXI_CLUSTER_NONE;
    return r == 0 && view->source != NULL && !needs_none ? check(role, index, view) : r;
}

int coxi_daemon_view(enum coxi_cluster_role role, struct coxi_daemon_options *options,
                     const char **client, struct coxi_etcd_settings *etcd,
                     struct coxi_view *ret)
{
    const struct coxi_etcd_settings said = *etcd;
    *ret = (struct coxi_view){0};
    int r = coxi_etcd_settings_fill(etcd);
    if (r == 0 && has_to_ask(options, client, etcd)) {
        r = find(role, options->index, ret);
    }
    if (r == 0 && etcd->endpoints == NULL && is_in_etcd(ret)) {
        *etcd = said; /* options, then COX_CLUSTER, then other variables */
        coxi_etcd_settings_complete(etcd, ret->cluster->etcd);
        r = coxi_etcd_settings_fill(etcd);
    }
    if (r != 0) {
        coxi_view_fini(ret);
        return r;
    }
    if (ret->role == role) {
        options->index = ret->index;
    }
    if (etcd->endpoints == NULL && ret->source != NULL) {
        take_address(options, client, ret);
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
