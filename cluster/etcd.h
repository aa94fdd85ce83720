/*
 * A client of etcd's JSON gateway (etcd 3.4 and later): leases, keys of text with values
 * of text, and one watch. Every call asks the current endpoint, once; the caller decides
 * what follows a failure (coxi_etcd_next).
 *
 * Thread: one, but for coxi_etcd_wake and coxi_etcd_abort.
 */
#ifndef COXI_CLUSTER_ETCD_H
#define COXI_CLUSTER_ETCD_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/etcd_settings.h"

struct coxi_etcd;

struct coxi_etcd_item {
    char *key;
    char *value;
    int64_t revision; /* that of its last change */
};

/* Keys with their values at one moment. Zeroed: none. */
struct coxi_etcd_list {
    struct coxi_etcd_item *items;
    size_t n;
    int64_t revision; /* of etcd, at that moment */
};

void coxi_etcd_list_fini(struct coxi_etcd_list *list);

/*
 * Reads the password; connects to nothing yet. `settings` are borrowed for the client's
 * life, and were filled in (coxi_etcd_settings_fill). A request may take timeout_ms.
 * COX_EINVAL: the file with the password; COX_ENOMEM.
 */
int coxi_etcd_new(const struct coxi_etcd_settings *settings, int timeout_ms,
                  struct coxi_etcd **ret);
void coxi_etcd_free(struct coxi_etcd *etcd); /* takes NULL */

/* coxi_etcd_wait and coxi_etcd_pause that are under way, or the next one, end at once.
 * Any thread. */
void coxi_etcd_wake(struct coxi_etcd *etcd);

/* From now on (true) all calls end with COX_ECANCELLED, also those under way. Any
 * thread. */
void coxi_etcd_abort(struct coxi_etcd *etcd, bool aborts);

/* From now on a request may take timeout_ms. */
void coxi_etcd_limit(struct coxi_etcd *etcd, int timeout_ms);

/* The endpoint of calls, and the address of this host from which the last answered call
 * reached it; "": none was answered yet. */
const char *coxi_etcd_endpoint(const struct coxi_etcd *etcd);
const char *coxi_etcd_own_host(const struct coxi_etcd *etcd);

/* Ends the watch, and asks the next endpoint from now on, as a user who has just given
 * the password. Returns false if that was the last one of the list: the next one is the
 * first. */
bool coxi_etcd_next(struct coxi_etcd *etcd);

/*
 * The calls that follow have these errors, besides their own: COX_ECANCELLED (aborted);
 * COX_EDENIED: etcd refuses this user, or the password; COX_EIO: no answer, one that
 * makes no sense, or another error of etcd; COX_ELIMIT: the answer is too long.
 */

/* *ret_lease lives for ttl_s seconds after each coxi_etcd_keep. COX_ENOENT: it lives no
 * longer. */
int coxi_etcd_grant(struct coxi_etcd *etcd, int64_t ttl_s, int64_t *ret_lease);
int coxi_etcd_keep(struct coxi_etcd *etcd, int64_t lease);
/* Ends a lease: its keys are gone. */
int coxi_etcd_revoke(struct coxi_etcd *etcd, int64_t lease);

/* Lists the key `key`, or (`all`) the keys that begin with it; without those whose value
 * is no text of up to 48 KiB. */
int coxi_etcd_list(struct coxi_etcd *etcd, const char *key, bool all,
                   struct coxi_etcd_list *ret);

/* Puts a value that ends with the lease, if the key is still as it was at `revision`
 * (0: there was none). COX_ECONFLICT: it is not; COX_ENOENT: the lease lives no
 * longer. */
int coxi_etcd_put(struct coxi_etcd *etcd, const char *key, const char *value,
                  int64_t lease, int64_t revision);

/* Watches `key`, or (`all`) the keys that begin with it, from `revision` on, in place of
 * what was watched before. Whether etcd agrees, coxi_etcd_wait tells. */
int coxi_etcd_watch(struct coxi_etcd *etcd, const char *key, bool all,
                    int64_t revision);

/*
 * Waits until something that is watched has changed at `revision` or later.
 * COX_ETIMEDOUT: nothing has, or coxi_etcd_wake was called; COX_EAGAIN: etcd has
 * forgotten changes that the watch was to tell (compaction): list, and watch anew.
 * COX_EIO: the watch has ended.
 */
int coxi_etcd_wait(struct coxi_etcd *etcd, int64_t revision, int timeout_ms);

/* Waits for `ms`, or until coxi_etcd_wake or coxi_etcd_abort is called. */
void coxi_etcd_pause(struct coxi_etcd *etcd, int ms);

#endif
