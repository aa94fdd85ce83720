/*
 * The simulated network: connections between processes (net.c has the functions of
 * net/link.h). A frame takes time, never overtakes another one on its connection, and
 * has no fixed order with frames of other connections. A connection may be slow, be
 * cut, or lead to a host that cannot be reached. When it is cut, frames that were under
 * way arrive up to some point.
 */
#ifndef COXI_SIM_NET_H
#define COXI_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

struct coxi_message;
struct sim_proc;

enum { SIM_NODES_MAX = 16 };

/* Begins without connections. */
void sim_net_begin(void);

/* A process has died: ends its connections, and removes its listeners. */
void sim_net_drop(struct sim_proc *proc);

/* Two hosts cannot reach each other until `until`. */
void sim_net_part(uint32_t a, uint32_t b, uint64_t until);

/* Breaks one of the existing connections (between those hosts, if a is not b); false:
 * there is none. */
bool sim_net_cut(uint32_t a, uint32_t b);

/* Host a gives up its connections to b. What it had sent over them still arrives, and b
 * learns only after that, and after the hosts are not parted any more. */
void sim_net_hang_up(uint32_t a, uint32_t b);

/* Frames from a to b take `delay` longer, over the connections that exist now; they
 * arrive even if their sender has died. */
void sim_net_slow(uint32_t a, uint32_t b, uint64_t delay);

/* A message that is being sent. */
struct sim_sending {
    struct sim_proc *from;
    struct sim_proc *to;
    const struct coxi_message *message;
    /* additional time on the way, also for later messages of this connection */
    uint64_t *delay;
};

/* Calls `seen` for each message from now on; NULL: calls nothing. `seen` must neither
 * wait nor kill. */
void sim_net_watch(void (*seen)(const struct sim_sending *sending));

/* How many messages were sent. */
uint64_t sim_net_sent(void);

#endif
