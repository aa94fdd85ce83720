/*
 * A gatherer: one thread that receives from many links on the local path (link.h), so
 * that answers of many peers that come together wake one thread once. Offer a link with
 * a gatherer: once the link is local, the gatherer receives from it. Before that, and
 * for the end of the link, the thread that called coxi_link_run receives; in between it
 * waits.
 *
 * For links with short frames that are handled at once: a slow on_frame delays all
 * links of the gatherer.
 *
 * Threads: any; coxi_gather_receive only on the thread of coxi_link_run.
 */
#ifndef COXI_NET_GATHER_H
#define COXI_NET_GATHER_H

struct coxi_bell;
struct coxi_gather;
struct coxi_link;

int coxi_gather_new(struct coxi_gather **ret);     /* COX_ENOMEM */
void coxi_gather_free(struct coxi_gather *gather); /* after its links; takes NULL */

/* ---- only for links: the bell of their rings; and receiving from a link until it is
 * closed. */
struct coxi_bell *coxi_gather_bell(struct coxi_gather *gather);
void coxi_gather_receive(struct coxi_gather *gather, struct coxi_link *link);

#endif
