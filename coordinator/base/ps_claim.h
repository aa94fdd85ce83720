/* Takes over a ps: connects to it, claims it, and checks that it sees the checkpoint
 * directory. Any thread except the loop's. */
#ifndef COXI_COORDINATOR_BASE_PS_CLAIM_H
#define COXI_COORDINATOR_BASE_PS_CLAIM_H

#include "coordinator/coordinator.h"

/* Opens a client of ps `ps` at the address that the cluster has for it. c->ps.on_lost
 * is called when the ps is lost. */
int coxi_ps_connect(struct cox_coordinator *c, uint32_t ps, struct coxi_psc **ret);

/* Declares a ps lost, for the reason in `text`, as if its connection had ended. Any
 * thread. */
void coxi_ps_lost(struct cox_coordinator *c, uint32_t ps, const char *text);

/*
 * Claims a ps that was reached. If another run has it, and that run's client has not
 * been heard of since we came, the client may have vanished with its host. Then asks
 * again until `end_ms`, because a ps notices a vanished client only after its
 * --peer-timeout-ms. COX_EBUSY: the other client is alive, or the time was too short;
 * COX_EFENCED; the error that has ended the run or the ps meanwhile. A ps whose
 * incarnation is `leaves` begins another one, and is empty then; 0: no.
 */
int coxi_ps_claim(struct cox_coordinator *c, struct coxi_psc *psc, uint64_t leaves,
                  uint64_t end_ms);

/*
 * Checks that a claimed ps sees the client's checkpoint directory: the ps opens a file
 * of the client's and makes another (`writes`), which the client looks for. Both files
 * are removed. Returns 0 also if there is no directory, and (unless `writes`) if the
 * client cannot make its own file, because a full disk is no reason not to restore.
 * COX_EIO, naming the ps; COX_ETIMEDOUT if it has not answered by `end_ms` (UINT64_MAX:
 * as for any request).
 */
int coxi_ps_probe(struct cox_coordinator *c, struct coxi_psc *psc, bool writes,
                  uint64_t end_ms);

#endif
