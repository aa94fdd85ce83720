/*
 * A process's part in its job, in etcd: it registers where it can be dialled, and watches
 * where others can be. Keys beneath the job's prefix:
 *
 *   ps/INDEX      the ps of that index. Only one living process has it
 *   client        the client, which workers dial. The newest process has it; one that
 *                 was replaced takes its own back
 *   worker/NAME   a worker that dials the client. For people
 *
 * A value is JSON: {"address", "incarnation", "run", "since", "ttl", "host", "pid"}. A key
 * lives as long as the process keeps its lease; when the lease or the key was lost,
 * although the process lives, it is made again. When etcd cannot be reached, all stays as
 * it was last known, and etcd is asked again for as long as the process lives.
 *
 * Threads: one of its own, which calls the callbacks.
 */
#ifndef COXI_CLUSTER_MEMBERSHIP_H
#define COXI_CLUSTER_MEMBERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "cluster/etcd_settings.h"

struct coxi_membership;

enum coxi_member_news {
    COXI_MEMBER_REGISTERED, /* the key is ours, with the address in the text */
    COXI_MEMBER_HELD,       /* another process has the key: it is waited for */
    COXI_MEMBER_TAKEN,      /* that process lives, so this one must end; told once */
    COXI_ETCD_LOST,         /* etcd cannot be reached, or refuses us */
    COXI_ETCD_BACK,
};

/* What a process registers. */
struct coxi_member {
    const char *key; /* "ps/0"; copied, like the others */
    const char *url; /* where it listens; "": nowhere */
    uint64_t run;    /* 0: not known */
    bool exclusive;  /* the key of a living process is left to it */
    /* False: the process must not be found (any more); asked whenever the lease is kept,
     * and at least every third of its time. Optional. On a thread of the membership. */
    bool (*may)(void *arg);
    void *arg;
};

struct coxi_membership_options {
    const struct coxi_etcd_settings *settings; /* filled in; copied */
    /* The keys beneath the prefix of which on_member is told: "client", or "ps/" for all
     * of them. NULL: none */
    const char *watch;
    /* Key `key` (beneath the prefix) has an address now: a URL that is well-formed. Told
     * again for all keys whenever one of them has changed. */
    void (*on_member)(void *arg, const char *key, const char *url);
    /* Optional. */
    void (*on_news)(void *arg, enum coxi_member_news news, const char *text);
    void *arg;
};

/* COX_EINVAL: the file with the password; COX_ENOMEM. */
int coxi_membership_start(const struct coxi_membership_options *options,
                          struct coxi_membership **ret);

/* Registers, from now on. Call it once, or never. Any thread. COX_ENOMEM. */
int coxi_membership_register(struct coxi_membership *membership,
                             const struct coxi_member *member);

/* Removes what was registered, if etcd can be reached within a second, and ends the
 * callbacks. Not in a callback. Takes NULL. */
void coxi_membership_stop(struct coxi_membership *membership);

/*
 * The URL at which peers reach a process that listens at `url`, as coxi_member is
 * registered: `advertise` ("HOST" or "HOST:PORT"; or NULL) goes first; a host that means
 * every address of this one is replaced by own_host. COX_EADDRESS, COX_ENOMEM.
 */
int coxi_member_url(const char *url, const char *advertise, const char *own_host,
                    char **ret);

#endif
