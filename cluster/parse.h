/* Descriptions of clusters as JSON that was parsed already. */
#ifndef COXI_CLUSTER_PARSE_H
#define COXI_CLUSTER_PARSE_H

#include <jansson.h>

#include "cluster/cluster.h"

/* As cox_cluster_parse, for the object that has "cluster", or for the inner one. */
int coxi_cluster_from_json(const json_t *root, struct cox_cluster **ret);

#endif
