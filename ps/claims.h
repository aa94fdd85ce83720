/*
 * Claims: a client takes the ps for its run. A newer client of that run may take its
 * place, and another one if the present client is gone; those whose place was taken are
 * told. Threads: any.
 */
#ifndef COXI_PS_CLAIMS_H
#define COXI_PS_CLAIMS_H

#include "net/server.h"
#include "ps/tenants.h"

/* Carries out the claim `request` of a peer of `run`, and answers it. If all seats are
 * taken, a run whose client is gone loses its own; otherwise the claim gets COX_EBUSY.
 * Returns an error if the connection must be closed. */
int coxi_claims_answer(struct coxi_tenant *tenant, struct coxi_peer *peer,
                       const struct coxi_message *request);

/* Forgets the run, if `session` has it, and gives up its seat. COX_EFENCED. */
int coxi_claims_release(struct coxi_tenant *tenant, const struct coxi_session *session);

#endif
