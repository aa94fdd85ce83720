/*
 * Requests for the shards of checkpoints. They wait for the disk, so each kind runs on a
 * thread of its own (ps/deferred.h).
 */
#ifndef COXI_PS_SHARDS_H
#define COXI_PS_SHARDS_H

#include "net/message.h"
#include "ps/tenants.h"

/* Writes a shard, as a Snapshot asks, and answers. `arg`: the run, a coxi_tenant. On its
 * thread for snapshots. */
void coxi_shards_write(void *arg, struct coxi_link *link,
                       const struct coxi_message *request);

/* The same for a Restore or a Probe, on the thread for restores. */
void coxi_shards_read(void *arg, struct coxi_link *link,
                      const struct coxi_message *request);

/* Takes a turn of a carry, and answers it now or later. Only the client that has the ps
 * gets its shards, or brings them. Returns 0. A connection's thread. */
int coxi_shards_turn(struct coxi_tenant *tenant, struct coxi_link *link,
                     const struct coxi_message *request,
                     const struct coxi_frame *frame);

/* Takes a piece of another checkpoint, as a Load says, and answers. Returns the code of
 * sending. A connection's thread. */
int coxi_shards_load(struct coxi_tenant *tenant, struct coxi_link *link,
                     const struct coxi_message *request,
                     const struct coxi_frame *frame);

#endif
