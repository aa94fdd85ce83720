/* Shared by net/server.c and net/server_peers.c only. */
#ifndef COXI_NET_SERVER_INTERNAL_H
#define COXI_NET_SERVER_INTERNAL_H

#include "common/log.h"
#include "common/sync.h"
#include "net/address.h"
#include "net/server.h"

enum {
    COXI_SERVER_CODES_MAX = 64, /* codes of errors */
    COXI_SERVER_CONNECTIONS_MAX = 16384,
};

struct coxi_server {
    struct coxi_server_options options;
    struct coxi_links *links;
    struct coxi_listener *listener;
    pthread_t dialler;
    bool dials;               /* its dialling thread exists */
    struct coxi_mutex lock;   /* comes before the lock of the links */
    pthread_cond_t changed;   /* signals `started`, `stopping` and `dial` */
    struct coxi_address dial; /* of the peer that is dialled; written under the lock */
    bool has_dial COXI_GUARDED_BY(lock);             /* it is known */
    uint64_t n_redials COXI_GUARDED_BY(lock);        /* how often it has changed */
    struct coxi_link *dialled COXI_GUARDED_BY(lock); /* the connection to it; or NULL */
    bool started COXI_GUARDED_BY(lock);
    bool stopping COXI_GUARDED_BY(lock); /* nothing is dialled any more */
    /* the peer has been away for long, so failures to dial it are not logged */
    bool quiet COXI_GUARDED_BY(lock);
    struct coxi_connection *connections COXI_GUARDED_BY(lock);
    /* the connection that ended last; nobody has joined its thread yet */
    struct coxi_connection *ended COXI_GUARDED_BY(lock);
    /* lines about connections that were dropped, and that closed, by code */
    struct coxi_seldom dropped;
    struct coxi_seldom closed[COXI_SERVER_CODES_MAX];
    size_t n_connections COXI_GUARDED_BY(lock);
    size_t room; /* fixed; the connections that there are descriptors for (shares) */
    /* connections begun so far, which is also the number of the newest */
    uint64_t n_begun COXI_GUARDED_BY(lock);
};

struct coxi_connection {
    struct coxi_peer peer; /* hello: written once, under the lock */
    struct coxi_connection
        *next; /* in the server's list, or in a list of those taken out */
    /* where the server's list has it; NULL: it is not there any more */
    struct coxi_connection **at COXI_GUARDED_BY_OF(struct coxi_server, lock);
    pthread_t thread;
    uint64_t begun_ms;         /* if accepted: when (coxi_now_ms) */
    bool dialled;              /* we dialled it: our greeting comes first */
    enum coxi_channel channel; /* if dialled: which one */
    /* if it is a data connection that we dialled: the control link */
    struct coxi_link *control;
    atomic_bool greeted; /* written under the server's lock */
};

/* Closes accepted connections whose peer has not greeted within the time after which a
 * silent peer is given up. Heartbeats do not help. */
void coxi_server_close_late(struct coxi_server *server);

/* Waits until there is somebody to dial, or the server stops. */
void coxi_server_await_dial(struct coxi_server *server, uint64_t *ret_n_redials);

/* Pauses between two connections, or until there is another address: then there are more
 * than *n_redials. `quiet`: later failures are not logged. False: the server stops. */
bool coxi_server_rest(struct coxi_server *server, int rest_ms, bool quiet,
                      uint64_t *n_redials);

/*
 * Shares. The members of a run on a server that runs share, and a run's readers on any
 * server, may have as many connections as are free at that moment. So however many they
 * open, some are left for others. The members of the only run have no such bound.
 */
size_t coxi_server_room(void);

/* COX_ELIMIT: the peer of this new connection has its share already. */
int coxi_server_check_share(const struct coxi_server *server,
                            const struct coxi_connection *connection)
    COXI_REQUIRES(server->lock);

#endif
