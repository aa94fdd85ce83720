/* What net.c and net_watch.c share: a link. */
#ifndef COXI_SIM_NET_INTERNAL_H
#define COXI_SIM_NET_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_link_events;
struct coxi_links;
struct piece; /* net.c */
struct sim_fiber;
struct sim_proc;

struct coxi_link {
    struct coxi_link *next; /* of all that are open */
    struct coxi_link **back;
    struct sim_proc *proc;
    uint32_t peer_node;
    struct coxi_link *peer;
    const struct coxi_link_events *events;
    void *arg;
    struct piece *first;
    struct piece *last;
    struct sim_fiber *receiver; /* while it waits */
    bool closed;
    int code;
    char text[256];
    uint64_t delay; /* additional delay of frames that are sent to this link */
    uint64_t heard_ms;
    struct coxi_links *links;
    struct coxi_link *watch_next;
};

/* When the two hosts reach each other again; a time in the past: they do now. */
uint64_t sim_net_parted_until(const struct coxi_link *link);

#endif
