/* The process that runs steps: it listens for the client, or dials it, and hands
 * closures to its slots. It runs on the calling thread until it is told to end. */
#ifndef COXI_WORKER_SERVICE_H
#define COXI_WORKER_SERVICE_H

#include <stdint.h>

#include "cluster/etcd_settings.h"
#include "worker/modules.h"
#include "worker/recorder.h"

struct coxi_worker_options {
    const char *listen;
    const char *client; /* the client to dial instead of listening; or NULL */
    /* the etcd that tells which client to dial, instead of `client`; or NULL; borrowed */
    const struct coxi_etcd_settings *etcd;
    bool may_use_tcp;         /* with `etcd`: the client may be on another host */
    const char *name;         /* the name under which to dial */
    const char *address_file; /* or NULL */
    /* writes it, if this process may not; or NULL; borrowed */
    struct coxi_announcer *announcer;
    struct coxi_module_rules modules;
    uint32_t index;
    uint32_t slots;
    uint32_t commit_window;
    const struct coxi_key *key; /* the run's (net/key.h), borrowed; or NULL */
    bool local_path;            /* use shared memory to a ps on the same host */
    size_t pull_cache_max;
    size_t data_cache_max;
    size_t kept_max;
    size_t step_rows_max;
    uint64_t step_memory_max; /* bytes; 0: no limit */
    int peer_timeout_ms;
    bool prints_apart; /* what steps print to standard error goes to standard output */
    struct coxi_recorder *recorder; /* borrowed */
};

/*
 * Serves until SIGTERM. Then it tells the client, hands back closures that have not
 * started, finishes the steps that run with their commits, and sends their results; the
 * client has a second to close after that. A second signal ends the process at once.
 * *ret_signal: the signal. COX_EADDRESS, ...
 */
int coxi_worker_serve(const struct coxi_worker_options *options, int *ret_signal);

#endif
