/*
 * The client of another run, which uses ps 0 for a moment while the storm's client cannot
 * reach that ps.
 */
#ifndef COXI_SIM_STRANGER_H
#define COXI_SIM_STRANGER_H

/* Parts the client and ps 0, and starts the other run once the ps has noticed that. */
void sim_stranger_come(void);

#endif
