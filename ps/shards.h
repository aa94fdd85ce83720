/*
 * Requests for the shards of checkpoints. They wait for the disk, so each kind runs on a
 * thread of its own (ps/deferred.h).
 */
#ifndef COXI_PS_SHARDS_H
#define COXI_PS_SHARDS_H

#include "net/message.h"

/* Writes a shard, as a Snapshot asks, and answers. `arg`: the run, a coxi_tenant. On its
 * thread for snapshots. */
void coxi_shards_write(void *arg, struct coxi_link *link,
                       const struct coxi_message *request);

/* The same for a Restore or a Probe, on the thread for restores. */
void coxi_shards_read(void *arg, struct coxi_link *link,
                      const struct coxi_message *request);

#endif
