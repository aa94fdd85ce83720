/* The local cluster as the client sees it: a launcher process that runs the daemons. */
#ifndef COXI_CLUSTER_LOCAL_H
#define COXI_CLUSTER_LOCAL_H

#include "cluster/cluster.h"
#include "net/key.h"

struct coxi_local;

/*
 * Starts `coxswain cluster`, which it finds in bin_dir, $COX_BIN_DIR, the directory of
 * this program, or an installation's bin, libexec/coxswain or libexec relative to this
 * library. Its ps write beneath options->checkpoint_dir only, which exists.
 * `key` is the run's; if it is none, this makes one for the cluster. *ret_cluster has the addresses. COX_EIO.
 */
int coxi_local_start(const struct cox_cluster *cluster,
                     const struct cox_options *options, struct coxi_key *key,
                     struct coxi_local **ret, struct cox_cluster **ret_cluster);

/* The file with the key that coxi_local_start has made, which lives as long as the
 * cluster; NULL: it has made none. */
const char *coxi_local_key_file(const struct coxi_local *local);

/* 0 while the launcher lives; otherwise COX_EIO with its last message, or if it has told
 * nothing with how it has ended. Any thread. */
int coxi_local_check(struct coxi_local *local);

/* The same, for a daemon that is missing: the launcher tells why before it ends its
 * daemons, and may outlive them. Any thread. Cost: reads a small file. */
int coxi_local_check_lost(struct coxi_local *local);

/* Ends the daemons, removes the directory, and waits until all that is done. Takes
 * NULL. */
void coxi_local_stop(struct coxi_local *local);

#endif
