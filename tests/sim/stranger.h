/*
 * The client of another run, which uses ps 0 for a moment while the storm's client
 * cannot reach that ps.
 */
#ifndef COXI_SIM_STRANGER_H
#define COXI_SIM_STRANGER_H

#include <stdbool.h>

/* Cuts the client off from ps 0, and starts the other run when the ps has noticed. */
void sim_stranger_come(void);

/*
 * True while the other run exists, and for a moment after that: it may have claimed the
 * ps between the greeting and the next request of the storm's client, which is fenced
 * off then.
 */
bool sim_stranger_is_near(void);

/* A storm begins. */
void sim_stranger_begin(void);

#endif
