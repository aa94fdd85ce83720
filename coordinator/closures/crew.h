/* What happens to closures when something happens to a worker. */
#ifndef COXI_COORDINATOR_CLOSURES_CREW_H
#define COXI_COORDINATOR_CLOSURES_CREW_H

struct coxi_worker_events;

/* For coxi_workers_new. */
extern const struct coxi_worker_events coxi_crew_events;

#endif
