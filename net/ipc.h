/*
 * Which users' processes may connect at the ipc addresses of this process: those of
 * this user and of root, who could take what it wants anyway; and, if a daemon is told
 * so, those of a group's members. The kernel names the user of the process that has
 * connected or that listens.
 */
#ifndef COXI_NET_IPC_H
#define COXI_NET_IPC_H

#include <stdatomic.h>

#include <nng/nng.h>

/* Lets the members of the group in, too, a name or a number. Main thread, before others
 * start. COX_EINVAL: there is no such group. */
int coxi_ipc_let_group_in(const char *group);

/* For so long a user who is no member is not asked about again: 10 s, which tests
 * shorten. */
extern atomic_uint coxi_ipc_no_ms;

/* COX_EDENIED if the user of the peer is not let in. */
int coxi_ipc_check_user(uint64_t uid);
int coxi_ipc_check_stream(nng_stream *stream);

/* The mode of a socket, and what else it needs once it is there. COX_EADDRESS. */
int coxi_ipc_mode(void);
int coxi_ipc_give_away(const char *path);

#endif
