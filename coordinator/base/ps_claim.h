/*
 * A ps becomes this client's: connecting to it, claiming it, and whether it sees the checkpoint
 * directory. Any thread but the loop.
 */
#ifndef COXI_COORDINATOR_BASE_PS_CLAIM_H
#define COXI_COORDINATOR_BASE_PS_CLAIM_H

#include "coordinator/coordinator.h"

/* A client of ps `ps` at the address that the cluster has of it. c->ps.on_lost is called when
 * the ps is lost. */
int coxi_ps_connect(struct cox_coordinator *c, uint32_t ps, struct coxi_psc **ret);

/* Declares a ps lost, for the reason in `text`, as if its connection had gone. Any thread. */
void coxi_ps_lost(struct cox_coordinator *c, uint32_t ps, const char *text);

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
