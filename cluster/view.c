/* See view.h: the order of sources. */
#include "cluster/view.h"

#include <stddef.h>

#include "cluster/view_internal.h"

int coxi_view_find(const struct coxi_environment *environment, struct coxi_view *ret)
{
    static int (*const sources[])(const struct coxi_environment *,
                                  struct coxi_view *) = {
        coxi_view_from_json, coxi_view_from_mpi, coxi_view_from_slurm,
        coxi_view_from_pmi};
    int r = 0;
    *ret = (struct coxi_view){0};
    for (size_t i = 0; r == 0 && ret->source == NULL && i < 4; i++) {
        r = sources[i](environment, ret);
    }
    if (r != 0) {
        coxi_view_fini(ret);
    }
    return r;
}

void coxi_view_fini(struct coxi_view *view)
{
    cox_cluster_free(view->cluster);
    *view = (struct coxi_view){0};
}
