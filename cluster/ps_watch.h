/*
 * The ps of a job as etcd tells them: which are registered, and where. For clients and
 * readers. Threads: that of the membership calls the callbacks; any other the functions.
 */
#ifndef COXI_CLUSTER_PS_WATCH_H
#define COXI_CLUSTER_PS_WATCH_H

#include <stdint.h>

#include "cluster/cluster.h"
#include "cluster/membership.h"

struct coxi_ps_watch;

struct coxi_ps_watch_options {
    const struct cox_cluster *cluster; /* with settings of etcd */
    /* ps `ps` is at `url` from now on, for the first time or not. Optional. */
    void (*on_moved)(void *arg, uint32_t ps, const char *url);
    /* As in cluster/membership.h. Optional. */
    void (*on_news)(void *arg, enum coxi_member_news news, const char *text);
    void *arg;
};

/* COX_EINVAL, COX_ENOMEM. coxi_ps_watch_stop takes NULL, and ends the callbacks. */
int coxi_ps_watch_start(const struct coxi_ps_watch_options *options,
                        struct coxi_ps_watch **ret);
void coxi_ps_watch_stop(struct coxi_ps_watch *watch);

/* Waits until every ps is registered. COX_ETIMEDOUT: the text says which are missing, or
 * what is wrong with etcd. */
int coxi_ps_watch_wait(struct coxi_ps_watch *watch, int timeout_ms);

/* Copies the addresses that are known into the cluster's list. COX_ENOMEM. */
int coxi_ps_watch_take(struct coxi_ps_watch *watch, struct cox_cluster *cluster);

/* The membership, to register with. */
struct coxi_membership *coxi_ps_watch_membership(struct coxi_ps_watch *watch);

#endif
