/*
 * The door: where workers that no cluster lists dial the client. Each says its name, and
 * becomes the worker of that name, new or known. Without a door they have nowhere to go.
 */
#ifndef COXI_COORDINATOR_WORKERS_DOOR_H
#define COXI_COORDINATOR_WORKERS_DOOR_H

#include "coordinator/coordinator.h"

struct coxi_door;

/*
 * Listens at `listen` ("host:port" or a URL); whoever dials has to wait until it opens.
 * COX_EADDRESS: it is no address, or other hosts reach it, or it is in use. COX_ENOMEM.
 */
int coxi_door_new(struct cox_coordinator *c, const char *listen,
                  struct coxi_door **ret);

/* Lets them in, once the ps are there. Any thread; the loop runs. */
void coxi_door_open(struct coxi_door *door);

/* The address to dial, as long as the door is not shut. */
const char *coxi_door_url(const struct coxi_door *door);

/* Sends away who has not said for long who it is. Loop. Takes NULL, as all below. */
void coxi_door_tick(struct coxi_door *door, uint64_t now_ms);

/* Nobody else comes in; c->workers->n_conns says when the last one who had is gone. Loop. */
void coxi_door_shut(struct coxi_door *door);

/* Not before the loop has ended. */
void coxi_door_free(struct coxi_door *door);

#endif
