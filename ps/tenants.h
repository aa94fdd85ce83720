/*
 * The runs that a ps serves: one, or, with a keyring, one for each of its keys. Each
 * has a store, a budget for payloads and threads of its own, so it does not see another
 * run's values, names or files, nor wait for its disk.
 */
#ifndef COXI_PS_TENANTS_H
#define COXI_PS_TENANTS_H

#include <stdatomic.h>

#include "common/log.h"
#include "common/sync.h"
#include "net/keyring.h"
#include "ps/carry.h"
#include "ps/deferred.h"
#include "ps/payloads.h"
#include "ps/quota.h"
#include "ps/request_times.h"
#include "ps/store.h"

struct coxi_tenants;

/* A claim, and the answer that it got. */
struct coxi_claimed {
    uint64_t run;
    uint64_t generation;
    int code;
};

/* The seats of a ps: how many runs may have it at a time (claims.c). */
struct coxi_seats {
    struct coxi_mutex lock; /* comes before that of the server; nobody waits with it */
    uint32_t n;             /* fixed */
};

/* A run has a seat while a session owns it, or while a claim for it is under way. */
struct coxi_seat {
    bool is_owned;
    struct coxi_session owner;
    uint32_t n_claims;
};

/* Each connection adds to one of these, so that few threads write to the same lines of their
 * cores' caches. */
enum { COXI_TIMES_OF = 8 };

struct coxi_times_of {
    struct coxi_request_times pulls;
    struct coxi_request_times commits;
    char apart[64]; /* keeps the next one off the last line of this one */
};

struct coxi_tenant {
    struct coxi_tenants *tenants;
    const char *name; /* of its key; "" if there is no keyring */
    uint32_t ps_index;
    uint32_t key; /* its index */
    char *root;   /* the directory beneath which its files lie; NULL: anywhere */
    struct coxi_seat seat COXI_GUARDED_BY_OF(struct coxi_seats, lock);
    struct coxi_store *store;
    struct coxi_deferred *snapshots;
    struct coxi_deferred *restores; /* runs restores and probes */
    /* shards on their way to the client, and from it */
    struct coxi_carry *outgoing;
    struct coxi_carry *incoming;
    struct coxi_payloads payloads;
    atomic_uint n_connections; /* that have greeted */
    /* how long requests took; counted if the ps is timed */
    struct coxi_times_of times[COXI_TIMES_OF];
    /* held while a description is made and sent, because however many peers ask for
     * one, there must be memory for one only; nobody waits for a peer with it */
    struct coxi_mutex describing;
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t left;    /* n_connections has become 0, with `lock` held */
    /* lines that its members cause: of requests that succeeded, and that failed */
    struct {
        struct coxi_seldom claims[2];
        struct coxi_seldom snapshots[2];
        struct coxi_seldom restores[2];
        struct coxi_seldom seats_lost;
    } told_of;
    /* the last claim that was logged (claims.c) */
    struct coxi_claimed told COXI_GUARDED_BY(lock);
};

struct coxi_tenants_options {
    uint32_t ps_index;
    uint64_t memory_max;     /* bytes of all variables and tables; 0: no limit */
    struct coxi_quota quota; /* of each run */
    /* the directory beneath which all files lie, borrowed; NULL: anywhere. With a
     * keyring, the files of a run lie beneath its directory ROOT/NAME, which is made */
    const char *root;
    struct coxi_keyring *keys;     /* borrowed; NULL: one run, without a name */
    uint32_t seats;                /* how many runs may have the ps at a time */
    coxi_deferred_run do_snapshot; /* called with the coxi_tenant */
    coxi_deferred_run do_reading;
};

/* COX_ENOMEM. */
int coxi_tenants_new(const struct coxi_tenants_options *options,
                     struct coxi_tenants **ret);

/* The run of the key with this index (0 without a keyring), which is made at its first
 * use and stays. COX_EIO: its directory cannot be made; COX_ENOMEM. Any thread; only
 * callers with the same key wait for the disk. */
int coxi_tenants_get(struct coxi_tenants *tenants, uint32_t key,
                     struct coxi_tenant **ret);

/* Counts a connection that has greeted; call coxi_tenant_leave when it is gone.
 * COX_ELIMIT: the run has as many as it may. Those that it has stay. Any thread. */
int coxi_tenant_enter(struct coxi_tenant *tenant);
void coxi_tenant_leave(struct coxi_tenant *tenant);

/* How many keys there are; and the run of a key, or NULL: nobody has used it yet. Any
 * thread. */
uint32_t coxi_tenants_count(const struct coxi_tenants *tenants);

/* True if the run's key was removed (coxi_keyring_reload): nobody may enter. To be asked
 * after coxi_tenant_enter. Any thread. */
bool coxi_tenant_is_removed(const struct coxi_tenant *tenant);

/* Waits until no connection is there that has entered. False: there still is one after
 * this time. */
bool coxi_tenant_await_left(struct coxi_tenant *tenant, int wait_ms);

/* Frees what a removed run has in its store, once its connections are gone. */
void coxi_tenant_forget(struct coxi_tenant *tenant);

/* Keys have been added or removed. */
void coxi_tenants_note_count(struct coxi_tenants *tenants);
struct coxi_tenant *coxi_tenants_made(struct coxi_tenants *tenants, uint32_t key);

struct coxi_seats *coxi_tenants_seats(struct coxi_tenants *tenants);

/* Abandons restores whose clients are gone. Waits for nobody. */
void coxi_tenants_tick(struct coxi_tenants *tenants);

/* Ends the threads of all runs, whose requests nobody may add any more. Takes NULL. */
void coxi_tenants_stop(struct coxi_tenants *tenants);
void coxi_tenants_free(struct coxi_tenants *tenants); /* stops them; takes NULL */

#endif
