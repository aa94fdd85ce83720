/* The sources of view.h, one file each. Each fills in *ret, or leaves ret->source NULL
 * if its variables are not there. */
#ifndef COXI_CLUSTER_VIEW_INTERNAL_H
#define COXI_CLUSTER_VIEW_INTERNAL_H

#include "cluster/host_list.h"
#include "cluster/view.h"

/* view_json.c: COX_CLUSTER, TF_CONFIG. */
int coxi_view_from_json(const struct coxi_environment *environment,
                        struct coxi_view *ret);

/* view_slurm.c: a task that srun has started. */
int coxi_view_from_slurm(const struct coxi_environment *environment,
                         struct coxi_view *ret);

/* view_mpi.c: a process that mpirun has started; PMI_RANK of others. */
int coxi_view_from_mpi(const struct coxi_environment *environment,
                       struct coxi_view *ret);
int coxi_view_from_pmi(const struct coxi_environment *environment,
                       struct coxi_view *ret);

/* ---- view_ranks.c: processes that only have ranks */

/* Which rank is what, in order of ranks. */
struct coxi_roles {
    struct {
        enum coxi_cluster_role role;
        uint32_t n;
    } groups[8];
    size_t n;
};

/* What a source knows of ranks. */
struct coxi_ranks {
    const char *source;   /* "Slurm" */
    const char *rank_var; /* names of variables, for errors and the table */
    const char *size_var;
    const char *hosts_var;
    uint32_t rank;
    uint32_t n;
    /* the ranks of each host follow each other; empty: all are on this host */
    struct coxi_host_list hosts;
    const char *socket_dir; /* all are on this host, and have this directory; or NULL */
    uint32_t port;          /* of rank 0, if COX_PORT does not say; from port_var */
    const char *port_var;
    /* roles that the launcher tells; n 0: COX_ROLES has to */
    struct coxi_roles roles;
    const char *roles_var;
};

/* Reads COX_HOSTS in place of ranks->hosts, if it is set. `local` is the place of this
 * rank on its host; it is compared. COX_EINVAL. */
int coxi_ranks_read_hosts(const struct coxi_environment *environment,
                          struct coxi_ranks *ranks, uint32_t local);

/* Where a rank is: the place of its host, and its place there. */
void coxi_ranks_place(const struct coxi_ranks *ranks, uint32_t rank, size_t *ret_host,
                      uint32_t *ret_local);

/* Makes the cluster from the ranks, with COX_ROLES and COX_PORT. */
int coxi_ranks_settle(const struct coxi_environment *environment,
                      const struct coxi_ranks *ranks, struct coxi_view *ret);

/* Groups in the order client, ps, worker, evaluator, with these many ranks each; 3 or 4
 * of them. Others leave *ret empty. */
void coxi_roles_in_order(const uint32_t *counts, size_t n, struct coxi_roles *ret);

#endif
