/*
 * The way between the parties of a storm, which can be cut: nothing gets through then, and
 * nobody is told. What was sent meanwhile arrives when it is healed, as if it had been sent
 * again; connections that were dialled meanwhile are there then.
 *
 * By proxies in front of the daemons (chaos_proxy.c), or with each party in a network namespace
 * of its own (chaos_netns.c), where packets are lost.
 */
#ifndef COXI_BENCH_CHAOS_NET_H
#define COXI_BENCH_CHAOS_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/chaos_journal.h"
#include "cluster/cluster.h"

enum chaos_cut {
    CHAOS_CUT_CLIENT_PS, /* the client and ps `index` */
    CHAOS_CUT_WORKER_PS, /* ps `index` and all workers, or one of them */
    CHAOS_CUT_WORKER,    /* the client and worker `index` */
    CHAOS_CUT_KINDS,
};

struct chaos_net;

/* How it is done. */
struct chaos_net_way {
    bool (*cut)(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                uint64_t draw, uint64_t while_ms);
    void (*heal)(struct chaos_net *net);
    void (*stop)(struct chaos_net *net);
};

/* What begins either of them. */
struct chaos_net {
    const struct chaos_net_way *way;
    struct chaos_journal *journal;
};

/* Proxies in directory `dir` for the daemons of `cluster`; the client is to be given
 * *ret_cluster, which the workers are told of by it. */
int chaos_proxy_start(const struct cox_cluster *cluster, const char *dir,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster);

struct chaos_netns_options {
    uint32_t n_ps;
    uint32_t n_workers;
    uint32_t slots;
    int peer_timeout_ms;
    const char *bin_dir; /* borrowed until the end, as the next */
    const char *log_dir;
};

/* Namespaces, and daemons in them that are started again when they end. Needs root. */
int chaos_netns_start(const struct chaos_netns_options *options,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster);

/* The namespace in which the client is to run. */
const char *chaos_netns_client(const struct chaos_net *net);

/* Cuts for so long; true where there was a connection there, which is counted. One of a kind at a
 * time: it takes the place of the one before. `draw` decides what is left to chance. The storm's
 * thread. */
bool chaos_net_cut(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                   uint64_t draw, uint64_t while_ms);

/* Heals all of it. */
void chaos_net_heal(struct chaos_net *net);

/* Ends it, with its daemons; takes NULL. */
void chaos_net_stop(struct chaos_net *net);

#endif
