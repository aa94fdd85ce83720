/*
 * The way between the parties of a storm, which can be cut: nothing gets through then, and
 * nobody is told. What was sent meanwhile arrives when it is healed, as if it had been sent
 * again; connections that were dialled meanwhile are there then.
 *
 * Proxies in front of the daemons do it (chaos_proxy.c).
 */
#ifndef COXI_BENCH_CHAOS_NET_H
#define COXI_BENCH_CHAOS_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/chaos_journal.h"
#include "coordinator/cluster.h"

enum chaos_cut {
    CHAOS_CUT_CLIENT_PS, /* the client and ps `index` */
    CHAOS_CUT_WORKER_PS, /* ps `index` and all workers, or one of them */
    CHAOS_CUT_WORKER,    /* the client and worker `index` */
    CHAOS_CUT_KINDS,
};

struct chaos_net;

/* Proxies in directory `dir` for the daemons of `cluster`; the client is to be given
 * *ret_cluster, which the workers are told of by it. */
int chaos_proxy_start(const struct cox_cluster *cluster, const char *dir,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster);
void chaos_proxy_stop(struct chaos_net *net); /* takes NULL */

/* Cuts for so long; true where there was a connection there. One of a kind at a time: it takes
 * the place of the one before. `draw` decides what is left to chance. The storm's thread. */
bool chaos_net_cut(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                   uint64_t draw, uint64_t while_ms);

/* Heals all of it. */
void chaos_net_heal(struct chaos_net *net);

#endif
