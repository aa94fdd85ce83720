/*
 * The closures of one dispatch, while they are in line: one block of memory with their heads,
 * their arguments and what else they are called with, freed when the last of them has run or
 * was handed back.
 *
 * Threads: any; whoever holds some of its closures gives them back by coxi_batch_done.
 */
#ifndef COXI_WORKER_BATCH_H
#define COXI_WORKER_BATCH_H

#include "worker/attempt.h"
#include "worker/run.h"

struct coxi_batch {
    struct coxi_batch *next;
    struct coxi_run *run;
    uint64_t layouts; /* of the run, when it came */
    uint32_t grace_ms;
    size_t n;
    size_t n_taken;
    atomic_size_t n_left;    /* neither run nor handed back */
    struct coxi_call *calls; /* beside the heads */
    struct coxi_closure_head heads[];
};

/* Copies heads, inputs and arguments. The batch has a reference of `run`. COX_EPROTO: they are
 * malformed, or do not fit the payload. COX_ENOMEM. */
int coxi_batch_new(struct coxi_run *run, const struct coxi_dispatch *dispatch,
                   const void *payload, size_t len, struct coxi_batch **ret);

/* n closures of it are done with; the last frees it. */
void coxi_batch_done(struct coxi_batch *batch, size_t n);

#endif
