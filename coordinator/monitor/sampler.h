/*
 * Records each second how the run, its ps and its workers do. One thread.
 *
 * The descriptions of workers are of those that have changed: each second of those whose
 * state has, and each second (with more than 64 workers: less often) of those whose
 * counts have. Once a minute all are described. On disk is what a minute says, and changes
 * of states. The longer a run goes on, the fewer samples it writes to disk: one a second
 * in the first hour, one in two seconds in the second hour, and so on.
 */
#ifndef COXI_COORDINATOR_MONITOR_SAMPLER_H
#define COXI_COORDINATOR_MONITOR_SAMPLER_H

#include <time.h>

struct cox_coordinator;
struct coxi_sampler;

/* COX_ENOMEM. */
int coxi_sampler_new(struct cox_coordinator *c, struct coxi_sampler **ret);
void coxi_sampler_free(struct coxi_sampler *sampler); /* takes NULL */

/* Takes a sample. Waits for the ps for a second at most, and for a turn of the loop. */
void coxi_sampler_take(struct coxi_sampler *sampler);

/* Takes the last sample of a client that is being closed, all of which goes to disk. Waits for the
 * ps no longer than `until`, too. */
void coxi_sampler_last(struct coxi_sampler *sampler, const struct timespec *until);

#endif
