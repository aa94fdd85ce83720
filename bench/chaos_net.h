/*
 * The connections between the parties of a storm, which can be cut: then nothing gets
 * through, and no party is told. Bytes that were sent meanwhile arrive when the cut is
 * healed, as if they had been sent again; connections that were dialled meanwhile exist
 * then.
 *
 * Done by proxies in front of the daemons (chaos_proxy.c), or by putting each party
 * into a network namespace of its own (chaos_netns.c), where packets are lost.
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

/* The functions of an implementation. */
struct chaos_net_way {
    bool (*cut)(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                uint64_t draw, uint64_t while_ms);
    void (*heal)(struct chaos_net *net);
    void (*stop)(struct chaos_net *net);
};

/* Both implementations begin with this. */
struct chaos_net {
    const struct chaos_net_way *way;
    struct chaos_journal *journal;
};

/* Starts proxies in directory `dir` for the daemons of `cluster`. Give the client
 * *ret_cluster, which it passes on to the workers. */
int chaos_proxy_start(const struct cox_cluster *cluster, const char *dir,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster);

struct chaos_netns_options {
    uint32_t n_ps;
    uint32_t n_workers;
    uint32_t slots;
    int peer_timeout_ms;
    const char *bin_dir; /* borrowed until the end, like the next one */
    const char *log_dir;
};

/* Makes namespaces and starts daemons in them, again whenever they end. Needs root. */
int chaos_netns_start(const struct chaos_netns_options *options,
                      struct chaos_journal *journal, struct chaos_net **ret,
                      struct cox_cluster **ret_cluster);

/* The namespace in which the client must run. */
const char *chaos_netns_client(const struct chaos_net *net);

/*
 * Cuts for `while_ms`. True, and counted, if there was a connection. There is one cut
 * of a kind at a time: a new one replaces the one before. `draw` makes the random
 * choices. The storm's thread.
 */
bool chaos_net_cut(struct chaos_net *net, enum chaos_cut kind, uint32_t index,
                   uint64_t draw, uint64_t while_ms);

/* Heals all cuts. */
void chaos_net_heal(struct chaos_net *net);

/* Ends everything, with its daemons; takes NULL. */
void chaos_net_stop(struct chaos_net *net);

#endif
