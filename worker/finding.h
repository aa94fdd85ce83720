/* How a worker finds its client, if there is an etcd (cluster/membership.h): it dials
 * whatever process is registered as the client there, also when that changes. */
#ifndef COXI_WORKER_FINDING_H
#define COXI_WORKER_FINDING_H

#include <stdbool.h>

#include "cluster/etcd_settings.h"

struct coxi_membership;
struct coxi_server;

/* Zeroed: nothing is looked for. */
struct coxi_finding {
    struct coxi_membership *membership;
    struct coxi_server *server;
    bool may_use_tcp;
};

/*
 * Lets `server` dial the client that is registered, and registers this worker under its
 * name, for people. Without `may_use_tcp` it dials sockets of this host only. Does
 * nothing if `settings` is NULL. COX_EINVAL, COX_ENOMEM.
 */
int coxi_finding_start(struct coxi_finding *finding,
                       const struct coxi_etcd_settings *settings, const char *name,
                       bool may_use_tcp, struct coxi_server *server);
void coxi_finding_stop(struct coxi_finding *finding);

#endif
