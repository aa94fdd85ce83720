/*
 * What a process's environment says of its cluster: COX_CLUSTER, TF_CONFIG, Open MPI,
 * Slurm or PMI. The client, the daemons and `coxswain cluster explain` all ask here. Reads
 * variables only: no file, no name is resolved. Any thread.
 */
#ifndef COXI_CLUSTER_VIEW_H
#define COXI_CLUSTER_VIEW_H

#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/environment.h"
#include "common/buffer.h"
#include "net/link.h"

/* The facts of which `from` tells where they come from. */
enum coxi_fact {
    COXI_FACT_ROLE,
    COXI_FACT_INDEX,
    COXI_FACT_LISTEN,
    COXI_FACT_CLIENT,
    COXI_FACT_PS,
    COXI_FACT_WORKER,
    COXI_FACTS,
};

struct coxi_view {
    const char *source; /* "TF_CONFIG"; NULL: there is none */
    enum coxi_cluster_role role;
    uint32_t index;                /* of the task */
    struct cox_cluster *cluster;   /* the ps, and the workers that the client dials */
    char client[COXI_URL_MAX + 1]; /* where workers dial the client; "": nowhere */
    char listen[COXI_URL_MAX + 1]; /* where this process listens; "": nowhere */
    char from[COXI_FACTS][64];     /* variables; "": the fact is missing */
};

/*
 * Finds the cluster and this process's place in it. With several sources the first one
 * counts: COX_CLUSTER, TF_CONFIG, Open MPI, Slurm, PMI. Without any, or if there is only
 * one task, of which nobody has said what it is, ret->source is NULL. coxi_view_fini
 * frees what it holds; after an error that is nothing. COX_EINVAL, COX_ELIMIT: the text
 * says which variable to set.
 */
int coxi_view_find(const struct coxi_environment *environment, struct coxi_view *ret);
void coxi_view_fini(struct coxi_view *view);

/*
 * Sets `listen` from the address at which others reach this process: all interfaces at
 * its port, because a name may not resolve yet, or to an address that this host does not
 * have; the address itself if only this host can reach it.
 */
void coxi_view_listen(struct coxi_view *view, const char *url, const char *from);

/* Appends a line for each fact: its name, its value, where it comes from. COX_ENOMEM. */
int coxi_view_table(const struct coxi_view *view, struct coxi_buffer *ret);

/* The same as a JSON object, for free(). NULL: out of memory. */
char *coxi_view_json(const struct coxi_view *view);

#endif
