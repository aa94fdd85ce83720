/*
 * The client of another run, which uses ps 0 for a moment while the storm's client
 * cannot reach that ps.
 */
#ifndef COXI_SIM_STRANGER_H
#define COXI_SIM_STRANGER_H

/* Cuts the client off from ps 0, and starts the other run when the ps has noticed. */
void sim_stranger_come(void);

#endif
