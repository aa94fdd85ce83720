/*
 * The simulated network: connections between processes (net.c has the functions of
 * net/link.h). A frame takes its time, never overtakes another of its connection, and
 * keeps no order with those of others. A connection may be slow, cut, or lead to a host
 * that cannot be reached; what was on its way when it is cut arrives up to some point.
 */
#ifndef COXI_SIM_NET_H
#define COXI_SIM_NET_H

#include <stdbool.h>
#include <stdint.h>

struct sim_proc;

enum { SIM_NODES_MAX = 16 };

/* Nothing is connected. */
void sim_net_begin(void);

/* A process has died: its connections end, nobody listens where it did. */
void sim_net_drop(struct sim_proc *proc);

/* Two hosts do not reach each other until `until`. */
void sim_net_part(uint32_t a, uint32_t b, uint64_t until);

/* One of the connections that there are (between those hosts, if a is not b) breaks; false:
 * there is none. */
bool sim_net_cut(uint32_t a, uint32_t b);

/* What is sent from a to b takes as much longer, over the connections that there are now;
 * it arrives even if its sender has died. */
void sim_net_slow(uint32_t a, uint32_t b, uint64_t delay);

/* How many messages have been sent. */
uint64_t sim_net_sent(void);

#endif
