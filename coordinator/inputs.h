/* Futures as arguments: calls that wait for the results of others. */
#ifndef COXI_COORDINATOR_INPUTS_H
#define COXI_COORDINATOR_INPUTS_H

#include "coordinator/coordinator.h"

/*
 * The inputs of a call, each holding a reference to its future. COX_EINVAL: a malformed
 * one, or of another coordinator; COX_ENOMEM. Any thread.
 */
int coxi_inputs_new(struct cox_coordinator *c, const struct cox_input *inputs, size_t n,
                    struct coxi_inputs **ret);

/*
 * Lets go of the futures and frees it: those that nobody holds any more, for the caller to
 * free, as a list by `next`. Takes NULL. Any thread.
 */
struct cox_future *coxi_inputs_free(struct coxi_inputs *inputs);

/* A closure with inputs has come: it waits for them, or is in line at once. Loop. */
void coxi_inputs_wait(struct cox_future *f);

/* `f` is settled: who waits for it goes on in the next coxi_inputs_go_on. Loop. */
void coxi_inputs_settled(struct cox_future *f);

/* Puts in line whose inputs are all there now, and ends whose never will be. Loop. */
void coxi_inputs_go_on(struct cox_coordinator *c);

/*
 * The arguments of a call that is not settled, for it to be run by another client: appends the
 * values that are there to `args`, and to `inputs` a struct coxi_backlog_input for each that is
 * not; *ret_n of these. Loop, after coxi_inputs_go_on.
 */
int coxi_inputs_export(struct cox_future *f, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n);

/* The packed arguments of a closure that is in line, its inputs' results among them. */
const void *coxi_inputs_args(const struct cox_future *f, size_t *ret_len);

#endif
