/*
 * One thread that receives what comes over many links on the local path (link.h), so that
 * answers of many peers which come together wake one thread once. A link that is offered with
 * a gatherer is received from by it once it is local; until then, and again for its end, by
 * the thread that called coxi_link_run, which waits meanwhile.
 *
 * For links whose frames are short and are handled at once: whoever takes long in on_frame
 * keeps all links of the gatherer waiting.
 *
 * Threads: any, but coxi_gather_receive: that of coxi_link_run.
 */
#ifndef COXI_NET_GATHER_H
#define COXI_NET_GATHER_H

struct coxi_bell;
struct coxi_gather;
struct coxi_link;

int coxi_gather_new(struct coxi_gather **ret);     /* COX_ENOMEM */
void coxi_gather_free(struct coxi_gather *gather); /* after its links; takes NULL */

/* ---- for links alone: where their rings ring; and to have one received from until it
 * is closed. */
struct coxi_bell *coxi_gather_bell(struct coxi_gather *gather);
void coxi_gather_receive(struct coxi_gather *gather, struct coxi_link *link);

#endif
