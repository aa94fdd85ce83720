/* Ensures that no closure waits for ever, or for long without a report. Loop. */
#ifndef COXI_COORDINATOR_CLOSURES_WATCH_H
#define COXI_COORDINATOR_CLOSURES_WATCH_H

struct cox_coordinator;

/* Ends closures that have waited too long for a worker; reports why none is settled.
 * Every COXI_TICK_MS. */
void coxi_watch_tick(struct cox_coordinator *c);

#endif
