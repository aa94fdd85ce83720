/* What ps_client.c and ps_client_channel.c share. Not for others. */
#ifndef COXI_NET_PS_CLIENT_INTERNAL_H
#define COXI_NET_PS_CLIENT_INTERNAL_H

#include <pthread.h>

#include "common/sync.h"
#include "common/window.h"
#include "net/address.h"
#include "net/ps_client.h"

/* An encoded message, kept for sending it again. */
struct coxi_psc_meta {
    struct coxi_psc_meta *next; /* of those that are not in use */
    size_t capacity;
    size_t len;
    _Alignas(8) uint8_t bytes[];
};

/* A connection to the ps, or the lack of one. */
struct coxi_psc_channel {
    struct coxi_psc *psc;
    enum coxi_channel kind;
    pthread_t thread;
    bool started;           /* all below: guarded by psc->lock */
    struct coxi_link *link; /* being greeted or up */
    bool up;
    uint64_t incarnation; /* of the ps that it leads, or led, to */
    uint64_t up_ms;       /* since when it does */
    uint64_t n_moves;     /* of the ps, when it was dialled */
    bool greeted;         /* these: this thread only */
    int verdict;          /* why trying again would not help, or 0 */
    char verdict_text[256];
};

struct coxi_psc {
    struct coxi_psc_options options;
    struct coxi_address address;
    struct coxi_psc_channel channels[2];

    struct coxi_mutex lock; /* guards all below and the channels; leaf */
    pthread_cond_t changed;
    struct coxi_window waiting;
    size_t waiting_bytes;
    struct coxi_psc_meta *metas; /* not in use: as many as ever were at a time */
    uint64_t next_id;
    uint64_t incarnation;
    uint64_t told;    /* the one to follow; 0: any */
    uint64_t n_moves; /* how often there was another address or another one to follow */
    uint64_t reached_ms; /* when the one to follow was heard last */
    bool unreached;
    uint64_t claim; /* the last request that was one */
    int failed;     /* 0, or why nothing works any more */
    char failed_text[256];
    char last_text[256]; /* why the last connection failed */
    bool misnamed; /* that was it: the address leads nowhere, or has no such host */
};

/* ---- ps_client.c */

/* Takes a request out of `waiting`; NULL: it is not there. Locked. */
struct coxi_psc_request *coxi_psc_delist(struct coxi_psc *psc, uint64_t id);

/* Puts the request in line; true: it is time for a flush, without the lock. Locked. */
bool coxi_psc_put(struct coxi_link *link, const struct coxi_psc_request *request,
                  bool later);

/* Fails everything from now on. Returns true the first time. */
bool coxi_psc_fail(struct coxi_psc *psc, int code, const char *text);

/* ---- ps_client_channel.c */

/* Starts the channel's thread on first need. Locked. */
int coxi_psc_start_channel(struct coxi_psc *psc, enum coxi_channel kind);

#endif
