/* Descriptions of clusters whose addresses are in etcd. Pure; any thread. */
#ifndef COXI_CLUSTER_CLUSTER_ETCD_H
#define COXI_CLUSTER_CLUSTER_ETCD_H

#include <jansson.h>

#include "cluster/cluster.h"

/* Reads the member "etcd" of a cluster: {"ps": 2, "endpoints": [...], "prefix": ...}; what
 * is not in it comes from the environment (etcd_settings.h). COX_EINVAL, COX_ELIMIT. */
int coxi_cluster_parse_etcd(const json_t *etcd, struct cox_cluster *cluster);

/* The member "etcd" that describes the cluster. NULL: no memory. */
json_t *coxi_cluster_etcd_json(const struct cox_cluster *cluster);

#endif
