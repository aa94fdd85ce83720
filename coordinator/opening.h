/*
 * What cox_open waits for: the ps, which it claims, and the workers. What cannot come right by
 * waiting is told at once, and by name: the same address twice, a name that cannot be resolved,
 * a daemon whose --index contradicts its place in the list, a ps without the checkpoint
 * directory. Threads: who opens; coxi_ps_claim and coxi_ps_probe: any but the loop.
 */
#ifndef COXI_COORDINATOR_OPENING_H
#define COXI_COORDINATOR_OPENING_H

#include "coordinator/coordinator.h"

/* COX_EINVAL: an address is listed twice. */
int coxi_opening_check(const struct cox_cluster *cluster);

/* Reaches every ps, claims it, and probes the directory there, one after the other, until `end_ms`
 * (coxi_now_ms). A ps that will never come is told at once, whichever is waited for then:
 * COX_ECONFLICT, COX_EVERSION, COX_EADDRESS. */
int coxi_opening_ps(struct cox_coordinator *c, uint64_t end_ms);

/* Waits for min_workers workers. */
int coxi_opening_workers(struct cox_coordinator *c, uint64_t end_ms);

/*
 * Claims a ps that has been reached. Where another run has it whose client has not been heard of
 * since we came, that may have vanished with its host: asks again until `end_ms`, for the ps
 * notices that after its --peer-timeout-ms. COX_EBUSY: the other is alive, or that was not long
 * enough; COX_EFENCED; what has ended the run or the ps meanwhile.
 */
int coxi_ps_claim(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t end_ms);

/*
 * Whether a ps that was claimed sees the client's checkpoint directory: it opens a file of the
 * client's, makes another (`writes`), and the client sees that. Neither is there any more then.
 * 0 also where there is no directory, and, unless it `writes`, where the client cannot make its
 * own file, for a full disk is no reason not to restore. COX_EIO, naming the ps; COX_ETIMEDOUT
 * where it has not answered by `end_ms` (UINT64_MAX: as for any request).
 */
int coxi_ps_probe(struct cox_coordinator *c, struct coxi_psc *psc, bool writes,
                  uint64_t end_ms);

#endif
