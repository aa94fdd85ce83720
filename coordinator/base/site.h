/* The place where a client runs: its cluster, and its connections to it. From open to
 * close. */
#ifndef COXI_COORDINATOR_BASE_SITE_H
#define COXI_COORDINATOR_BASE_SITE_H

#include <stdbool.h>

#include "net/key.h"

struct cox_cluster;
struct coxi_links;
struct coxi_local;
struct coxi_ps_watch;

struct coxi_site {
    struct cox_cluster *cluster;    /* the addresses of its ps are guarded by ps.lock */
    struct coxi_local *local;       /* the processes of a local cluster; or NULL */
    struct coxi_ps_watch *ps_watch; /* of a cluster in etcd; or NULL */
    struct coxi_links *links;
    bool loop_runs;      /* used only by the threads that open and close the client */
    struct coxi_key key; /* the run's, or none; fixed */
};

#endif
