/*
 * A gatherer: one thread that receives from many links on the local path (link.h), so
 * that answers that come from many peers at the same time wake one thread once. Offer a
 * link with a gatherer: once the link is local, the gatherer receives from it. Before
 * that, and when the link ends, the thread that called coxi_link_run receives; while
 * the gatherer receives, that thread waits.
 *
 * For links with short frames that are handled at once: a slow on_frame delays all
 * links of the gatherer.
 *
 * Threads: any; coxi_gather_receive only on the thread of coxi_link_run.
 */
#ifndef COXI_NET_GATHER_H
#define COXI_NET_GATHER_H

#include <pthread.h>
#include <stdbool.h>

struct coxi_bell;
struct coxi_gather;
struct coxi_rings;

int coxi_gather_new(struct coxi_gather **ret);     /* COX_ENOMEM */
void coxi_gather_free(struct coxi_gather *gather); /* after its links; takes NULL */

/* ---- only for links */

/* What the gatherer receives from. */
struct coxi_gathered {
    struct coxi_rings *rings; /* they ring the gatherer's bell */
    /* Handles the data that have come, without waiting. Sets *ret_any if there were
     * any. Not 0: no more data will come. Called on the gatherer's thread. */
    int (*receive)(void *arg, bool *ret_any);
    void *arg;
};

/* The bell for the rings of the gatherer's links; the thread that receives. */
struct coxi_bell *coxi_gather_bell(struct coxi_gather *gather);
pthread_t coxi_gather_thread(const struct coxi_gather *gather);

/* Lets the gatherer receive from `from`; returns when no more data will come. */
void coxi_gather_receive(struct coxi_gather *gather, const struct coxi_gathered *from);

#endif
