/* What a daemon's options leave open, from its environment. Main thread. */
#ifndef COXI_CLUSTER_DAEMON_VIEW_H
#define COXI_CLUSTER_DAEMON_VIEW_H

#include "cluster/etcd_settings.h"
#include "cluster/view.h"
#include "net/daemon.h"

/*
 * If neither options->listen nor *client is given (client NULL: this is a ps), takes
 * index and address from the environment: options->listen, or *client for a worker that
 * is not listed. Fills in *etcd, also from a COX_CLUSTER that is in etcd. Where etcd is
 * known (etcd->endpoints), no address is taken, and the index of a ps only if it was not
 * given. All this lies in *ret, which coxi_view_fini frees; ret->source is NULL if
 * nothing was taken. An index that was not given (negative) is 0 then. COX_EINVAL: the
 * environment is wrong, or this process is something else there.
 */
int coxi_daemon_view(enum coxi_cluster_role role, struct coxi_daemon_options *options,
                     const char **client, struct coxi_etcd_settings *etcd,
                     struct coxi_view *ret);

/* Logs what was taken, if anything was. */
void coxi_daemon_view_log(const struct coxi_view *view);

#endif
