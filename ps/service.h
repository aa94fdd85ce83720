/* Handles each message that a ps receives: calls the store, and sends the answer. The
 * daemon's main.c only opens it and ticks. */
#ifndef COXI_PS_SERVICE_H
#define COXI_PS_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/quota.h"

struct coxi_key;
struct coxi_keyring;
struct coxi_ps;
struct coxi_tenants;

struct coxi_ps_options {
    const char *listen;
    uint32_t index;
    int peer_timeout_ms;
    uint64_t memory_max;         /* bytes of variables and tables; 0: no limit */
    struct coxi_quota run_quota; /* of each run */
    bool local_path; /* use shared memory if a peer on the same host offers it */
    /* the directory beneath which all its files lie; NULL: anywhere; borrowed */
    const char *checkpoint_root;
    const struct coxi_key *key; /* the run's (net/key.h), borrowed; or NULL */
    /* of the runs that share the ps, in place of `key`: borrowed; or NULL */
    struct coxi_keyring *keys;
    uint32_t runs_max; /* with `keys`: how many of the runs may have the ps at a time */
    bool timed;        /* counts how long pulls and commits take */
};

/* Listens; serving begins at once. COX_EADDRESS, COX_ENOMEM. */
int coxi_ps_open(const struct coxi_ps_options *options, struct coxi_ps **ret);

/* The runs that it serves. */
struct coxi_tenants *coxi_ps_tenants(struct coxi_ps *ps);

/* The address that peers dial. */
const char *coxi_ps_url(const struct coxi_ps *ps);

/* With `keys`: somebody has removed or added some. Refuses runs whose key was removed
 * from now on, closes their connections, and frees what they have; blocks until that is
 * done. One thread at a time, which is not the one that ticks; before coxi_ps_close. */
void coxi_ps_take_keys(struct coxi_ps *ps);

/* Sends heartbeats. Call several times in a quarter of peer_timeout_ms. */
void coxi_ps_tick(struct coxi_ps *ps);

/* Whether a client is connected. *ret_left_ms: when the last one went (coxi_now_ms); 0:
 * none has gone yet. Any thread. */
bool coxi_ps_has_client(struct coxi_ps *ps, uint64_t *ret_left_ms);

/* Closes every connection, ends every thread. Takes NULL. */
void coxi_ps_close(struct coxi_ps *ps);

#endif
