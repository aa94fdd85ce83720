/*
 * What `coxswain launch` tells each host, and what it has learnt from it: which daemons
 * run where, at which addresses. ps 0, 1, ... and then the workers go to the hosts in
 * turn. One thread.
 */
#ifndef COXI_CLI_LAUNCH_PLAN_H
#define COXI_CLI_LAUNCH_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "cli/cluster_options.h"
#include "cli/hosts.h"
#include "common/buffer.h"

struct coxi_launch_plan {
    size_t n_hosts;
    uint32_t n_ps;
    uint32_t n_workers;
    int *ports;       /* of the ps, then of the workers; 0: not known yet */
    char **addresses; /* of the hosts; NULL: not known yet */
};

/* COX_ENOMEM; then, too, coxi_launch_plan_fini. */
int coxi_launch_plan_init(struct coxi_launch_plan *plan, size_t n_hosts, uint32_t n_ps,
                          uint32_t n_workers);
void coxi_launch_plan_fini(struct coxi_launch_plan *plan); /* takes a zeroed one */

/* Appends the request for a host (cli/host.c), with the key of `key_file`. A host that
 * has answered is asked for the same address and ports again. Errors of
 * coxi_key_open_member; COX_ENOMEM. */
int coxi_launch_plan_request(const struct coxi_launch_plan *plan, size_t host,
                             const struct coxi_cluster_options *options,
                             const char *key_file, struct coxi_buffer *to);

/* Sets the address that is listed for a host. COX_ENOMEM. */
int coxi_launch_plan_set_address(struct coxi_launch_plan *plan, size_t host,
                                 const char *address);

/* Takes a host's answer. COX_EFORMAT. */
int coxi_launch_plan_take(struct coxi_launch_plan *plan, size_t host, const char *json);

/* The COX_CLUSTER of hosts that have all answered, for free(). COX_EADDRESS: some hosts
 * have a loopback address, which other hosts cannot reach. */
int coxi_launch_plan_cluster(const struct coxi_launch_plan *plan,
                             const struct coxi_hosts *hosts, char **ret);

/* The command that runs `coxswain host` on a host. `ssh`: words. `bin_dir` NULL: it is
 * found through PATH there. For coxi_launch_plan_ssh_free. COX_EINVAL; COX_ENOMEM. */
int coxi_launch_plan_ssh(const struct coxi_host *host, const char *ssh,
                         const char *bin_dir, int timeout_ms, char ***ret);
void coxi_launch_plan_ssh_free(char **argv); /* takes NULL */

#endif
