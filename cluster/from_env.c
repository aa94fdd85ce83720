/* The cluster that a client's environment describes. Any thread. */
#include <stdlib.h>
#include <string.h>

#include "cluster/view.h"
#include "common/error.h"

/* Takes the cluster out of what was found, for a client. */
static int from_view(struct coxi_view *view, struct cox_cluster **ret)
{
    struct cox_cluster *cluster = view->cluster;
    if (view->source == NULL) {
        return coxi_error(
            COX_ENOENT, "nothing describes a cluster: set COX_CLUSTER (or TF_CONFIG), "
                        "or start under Slurm or mpirun with COX_ROLES");
    }
    if (view->role == COXI_CLUSTER_PS || view->role == COXI_CLUSTER_WORKER) {
        return coxi_error(
            COX_EINVAL,
            "%s says that this process is %s %u, and not the client: start "
            "coxswain-%s here, or set COX_TASK=client",
            view->from[COXI_FACT_ROLE], coxi_cluster_role_name(view->role), view->index,
            coxi_cluster_role_name(view->role));
    }
    if (view->listen[0] != '\0' && cluster->n_workers == 0) {
        cluster->listen = strdup(view->listen);
        if (cluster->listen == NULL) {
            return coxi_error_memory("an address");
        }
    }
    view->cluster = NULL;
    *ret = cluster;
    return 0;
}

int cox_cluster_from_env(struct cox_cluster **ret)
{
    struct coxi_view view;
    int r = coxi_view_find(&coxi_own_environment, &view);
    r = r == 0 ? from_view(&view, ret) : r;
    coxi_view_fini(&view);
    return r;
}
