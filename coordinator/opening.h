/*
 * Waits in cox_open for the ps, which it claims, and for the workers. Errors that
 * waiting cannot cure are reported at once, with names: an address that is listed
 * twice, a name that cannot be resolved, a daemon whose --index contradicts its place
 * in the list, a ps without the checkpoint directory. Threads: the one that calls
 * cox_open.
 */
#ifndef COXI_COORDINATOR_OPENING_H
#define COXI_COORDINATOR_OPENING_H

#include "coordinator/coordinator.h"

/* COX_EINVAL: an address is listed twice. */
int coxi_opening_check(const struct cox_cluster *cluster);

/*
 * Reaches every ps, claims it, and probes the directory there, one ps after the other,
 * until `end_ms` (coxi_now_ms). A ps that will never come is reported at once, even
 * while another ps is waited for: COX_ECONFLICT, COX_EVERSION, COX_EADDRESS.
 */
int coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms);

/* COX_ETIMEDOUT instead of the code of what was given up because cox_open's time was over;
 * the error text says so. */
int coxi_opening_code(const struct cox_coordinator *c, int code);

/* Waits for min_workers workers. */
int coxi_opening_workers(struct cox_coordinator *c, uint64_t end_ms);

/* The reason why cox_open fails, which has `code` and the error's text: if a local cluster has
 * ended, because one of its daemons could not start, that. Its other daemons were ended then,
 * and their loss may be noticed first. 0 stays 0. */
int coxi_opening_reason(struct cox_coordinator *c, int code);

#endif
