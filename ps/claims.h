/*
 * Claims: a client takes the ps for its run. Another run may take it if the present
 * client is gone; those whose place was taken are told. Threads: any.
 */
#ifndef COXI_PS_CLAIMS_H
#define COXI_PS_CLAIMS_H

#include "common/sync.h"
#include "net/server.h"
#include "ps/store.h"

/* A claim, and the answer that it got. */
struct coxi_claimed {
    uint64_t run;
    uint64_t generation;
    int code;
};

struct coxi_claims {
    struct coxi_mutex lock; /* leaf */
    /* the last claim that was logged */
    struct coxi_claimed told COXI_GUARDED_BY(lock);
};

void coxi_claims_init(struct coxi_claims *claims);
void coxi_claims_fini(struct coxi_claims *claims);

/* Carries out the claim `request` of a peer of the ps's server, and answers it. Returns
 * an error if the connection must be closed. */
int coxi_claims_answer(struct coxi_claims *claims, struct coxi_store *store,
                       struct coxi_peer *peer, const struct coxi_message *request);

#endif
