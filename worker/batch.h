/*
 * A batch: the queued closures of one dispatch, in one block of memory with their
 * heads, arguments and inputs. It is freed when the last closure has run or was handed
 * back.
 *
 * Threads: any. Every holder of closures gives them back by coxi_batch_done.
 */
#ifndef COXI_WORKER_BATCH_H
#define COXI_WORKER_BATCH_H

#include "worker/attempt.h"
#include "worker/run.h"

struct coxi_batch {
    struct coxi_batch *next;
    struct coxi_run *run;
    uint64_t layouts; /* layouts that the run had received when the batch came */
    uint32_t grace_ms;
    size_t n;
    size_t n_taken;
    atomic_size_t n_left;    /* closures neither run nor handed back */
    struct coxi_call *calls; /* one for each head */
    struct coxi_closure_head heads[];
};

/* Copies heads, inputs and arguments. The batch has a reference of `run`. COX_EPROTO:
 * they are malformed, or do not fit the payload. COX_ENOMEM. */
int coxi_batch_new(struct coxi_run *run, const struct coxi_dispatch *dispatch,
                   const void *payload, size_t len, struct coxi_batch **ret);

/* Gives back n closures; the last one frees the batch. */
void coxi_batch_done(struct coxi_batch *batch, size_t n);

#endif
