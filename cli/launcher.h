/* Runs the daemons of a local cluster, or one host's daemons of a cluster: starts them,
 * restarts those that die, and ends them all. Single-threaded, on a loop of the
 * caller's. */
#ifndef COXI_CLI_LAUNCHER_H
#define COXI_CLI_LAUNCHER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/cluster.h"
#include "common/loop.h"

struct coxi_launcher;

/* A daemon of a cluster that other hosts reach. */
struct coxi_launcher_place {
    uint32_t index;  /* in the cluster's list */
    const char *url; /* at which it listens; borrowed */
};

struct coxi_launcher_options {
    uint32_t n_ps;
    uint32_t n_workers;
    /* of the ps, then of the workers (borrowed); NULL: a local cluster, with sockets in
     * `dir` */
    const struct coxi_launcher_place *places;
    uint32_t slots;
    int peer_timeout_ms;
    uint64_t step_memory_max;    /* of each worker, bytes; 0: no limit */
    const char *checkpoint_root; /* of each ps; NULL: it has none */
    /* the run's key; NULL: the file that $COX_KEY_FILE names, or a new key in `dir` */
    const char *key_file;
    /* a file with the run's key, which daemons inherit instead of `key_file`
     * (coxi_key_pass; borrowed); 0: none */
    int key_fd;
    const char *dir;     /* for sockets, made if missing; NULL: a new one in /tmp */
    bool dir_is_ours;    /* remove `dir` at the end, as a new one is removed */
    const char *log_dir; /* made if missing; NULL: the logs are removed with `dir` */
    int prints_fd;       /* without log_dir: what steps print goes here (cli/relay.h) */
    /* The cluster ends on its own. Called with the reason before any running daemon is
     * ended. */
    void (*on_fail)(void *arg, const char *text);
    /* The cluster has ended, after coxi_launcher_stop or (`failed`) on its own. */
    void (*on_end)(void *arg, bool failed);
    void *arg;
};

/* Starts everything. COX_EIO. After that the loop must run. */
int coxi_launcher_start(struct coxi_loop *loop,
                        const struct coxi_launcher_options *options,
                        struct coxi_launcher **ret);

/* The local cluster's addresses (with `places`: NULL), and the file with its key; NULL:
 * $COX_KEY_FILE names it. */
const struct cox_cluster *coxi_launcher_cluster(const struct coxi_launcher *launcher);
const char *coxi_launcher_key_file(const struct coxi_launcher *launcher);

/* The directory of the daemons' programs: that of this program, or libexec beside it.
 * COX_EIO. */
int coxi_launcher_find_daemons(char ret[PATH_MAX]);

/* Ends the daemons; kills those that have not ended after 1.5 s. */
void coxi_launcher_stop(struct coxi_launcher *launcher);

/* Call after on_end, before the loop is freed. Takes NULL. */
void coxi_launcher_free(struct coxi_launcher *launcher);

#endif
