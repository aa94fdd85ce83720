/* The content of a cluster description. */
#ifndef COXI_CLUSTER_CLUSTER_H
#define COXI_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "coxswain/coxswain.h"

enum {
    COXI_LOCAL_MAX = 64,
    COXI_WORKERS_MAX = 65536, /* in a cluster's list */
    /* workers that dial the client, besides those in the list */
    COXI_NAMED_MAX = 16384,
};

struct cox_cluster {
    bool local; /* a cluster to be started here: it has counts, but no addresses */
    uint32_t n_ps;
    uint32_t n_workers;
    char **ps; /* URLs */
    char **workers;
    /* Where the client listens for workers, if cox_options.listen does not say; NULL:
     * nowhere. */
    char *listen;
    /* where the addresses are found (etcd_settings.h), owned: those of `ps` are "" until
     * then, and workers dial the client. NULL: they are in the lists */
    struct coxi_etcd_settings *etcd;
};

/* An owned copy. */
int coxi_cluster_copy(const struct cox_cluster *cluster, struct cox_cluster **ret);

/* The JSON that cox_cluster_parse reads, for free(). NULL: out of memory. */
char *coxi_cluster_json(const struct cox_cluster *cluster);

/* The URL for "host:port" or a URL (coxi_url_from), for free(). COX_EADDRESS: it is
 * neither. */
int coxi_cluster_url(const char *address, char **ret);

/* A cluster with the addresses that a local cluster in `dir` has. */
int coxi_cluster_at(const char *dir, uint32_t n_ps, uint32_t n_workers,
                    struct cox_cluster **ret);

#endif
