/* Shared by ps_client.c and ps_client_channel.c; not for others. */
#ifndef COXI_NET_PS_CLIENT_INTERNAL_H
#define COXI_NET_PS_CLIENT_INTERNAL_H

#include <pthread.h>

#include "common/sync.h"
#include "common/window.h"
#include "net/address.h"
#include "net/ps_client.h"

/* An encoded message, kept for sending it again. */
struct coxi_psc_meta {
    struct coxi_psc_meta *next; /* list of those not in use */
    size_t capacity;
    size_t len;
    _Alignas(8) uint8_t bytes[];
};

struct coxi_psc {
    struct coxi_psc_options options;
    struct coxi_address address;

    struct coxi_mutex lock; /* leaf */
    pthread_cond_t changed;
    /* A channel: a connection to the ps, which may be down. */
    struct coxi_psc_channel {
        struct coxi_psc *psc;
        enum coxi_channel kind;
        pthread_t thread;
        bool started COXI_GUARDED_BY(lock);
        /* to abort it; its lock comes after ours; NULL: retired */
        struct coxi_dial *dial;
        struct coxi_link *link COXI_GUARDED_BY(lock); /* being greeted or up */
        bool up COXI_GUARDED_BY(lock);
        /* the incarnation of the ps to which the connection leads, or led last */
        uint64_t incarnation COXI_GUARDED_BY(lock);
        uint64_t up_ms COXI_GUARDED_BY(lock);   /* since when it is up */
        uint64_t n_moves COXI_GUARDED_BY(lock); /* psc->n_moves when it was dialled */
        /* used by its own thread only, like the next two */
        bool greeted;
        int verdict; /* why another attempt would not help, or 0 */
        char verdict_text[256];
    } channels[2];
    struct coxi_window waiting COXI_GUARDED_BY(lock);
    size_t waiting_bytes COXI_GUARDED_BY(lock);
    /* free encoded messages, kept for reuse */
    struct coxi_psc_meta *metas COXI_GUARDED_BY(lock);
    uint64_t next_id COXI_GUARDED_BY(lock);
    uint64_t incarnation COXI_GUARDED_BY(lock);
    uint64_t told COXI_GUARDED_BY(lock); /* the incarnation to follow; 0: any */
    /* how often the address or the incarnation to follow has changed */
    uint64_t n_moves COXI_GUARDED_BY(lock);
    /* when the followed ps was heard last */
    uint64_t reached_ms COXI_GUARDED_BY(lock);
    bool unreached COXI_GUARDED_BY(lock);
    uint64_t claim COXI_GUARDED_BY(lock); /* the last request that was a claim */
    int failed COXI_GUARDED_BY(lock);     /* 0, or why nothing works any more */
    char failed_text[256] COXI_GUARDED_BY(lock);
    char last_text[256] COXI_GUARDED_BY(lock); /* why the last connection failed */
    /* the last connection failed because the address has no such host, or is
     * malformed */
    bool misnamed COXI_GUARDED_BY(lock);
    /* since when the ps has denied us at every attempt; 0: the last one failed for
     * another reason, or not */
    uint64_t denied_ms COXI_GUARDED_BY(lock);
};

/* ---- ps_client.c */

/* Takes a request out of `waiting`; NULL: it is not there. */
struct coxi_psc_request *coxi_psc_delist(struct coxi_psc *psc, uint64_t id)
    COXI_REQUIRES(psc->lock);

/* Puts the request in line; true: a flush is due, without the lock. Call it under the
 * ps client's lock. */
bool coxi_psc_put(struct coxi_link *link, const struct coxi_psc_request *request,
                  bool later);

/* Makes all requests fail from now on. Returns true the first time. */
bool coxi_psc_fail(struct coxi_psc *psc, int code, const char *text);

/* A channel's link calls these; `arg` is the channel. */
int coxi_psc_on_frame(void *arg, struct coxi_link *link,
                      const struct coxi_frame *frame);
void *coxi_psc_on_payload(void *arg, struct coxi_link *link,
                          const struct coxi_frame *frame);
void coxi_psc_on_batch(void *arg, struct coxi_link *link);

/* ---- ps_client_channel.c */

/* Reads the first frame, which is the ps's greeting. */
int coxi_psc_greet(struct coxi_psc_channel *channel, struct coxi_link *link,
                   const struct coxi_frame *frame);

/* Handles the only message that a ps sends unasked, which says that another client has
 * taken the ps. */
int coxi_psc_told(struct coxi_psc_channel *channel, const struct coxi_message *message);

/* Starts the channel's thread, which was not started yet. */
int coxi_psc_start_channel(struct coxi_psc *psc, enum coxi_channel kind)
    COXI_REQUIRES(psc->lock);

#endif
