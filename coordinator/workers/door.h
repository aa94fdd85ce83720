/*
 * The door: the address at which workers that the cluster does not list dial the
 * client. Each gives its name, and becomes the worker of that name, a new or a known
 * one. Without a door such workers cannot come.
 */
#ifndef COXI_COORDINATOR_WORKERS_DOOR_H
#define COXI_COORDINATOR_WORKERS_DOOR_H

#include "coordinator/coordinator.h"

struct coxi_door;

/*
 * Listens at `listen` ("host:port" or a URL); peers that dial must wait until the door
 * opens. COX_EADDRESS: it is no address, or other hosts can reach it, or it is in use.
 * COX_ENOMEM.
 */
int coxi_door_new(struct cox_coordinator *c, const char *listen,
                  struct coxi_door **ret);

/* Lets workers in. Call when the ps are claimed. Any thread; the loop must run. */
void coxi_door_open(struct coxi_door *door);

/* The address to dial, as long as the door is not shut. */
const char *coxi_door_url(const struct coxi_door *door);

/* Closes connections that have not greeted for too long. Loop. Takes NULL, like all
 * functions below. */
void coxi_door_tick(struct coxi_door *door, uint64_t now_ms);

/* Lets nobody in any more; c->workers->n_conns tells when the last worker is gone.
 * Loop. */
void coxi_door_shut(struct coxi_door *door);

/* Call after the loop has ended. */
void coxi_door_free(struct coxi_door *door);

#endif
