/* Futures as arguments: calls that wait for the results of others. */
#ifndef COXI_COORDINATOR_CLOSURES_INPUTS_H
#define COXI_COORDINATOR_CLOSURES_INPUTS_H

#include "coordinator/closures/closure.h"

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
struct coxi_closure *coxi_inputs_free(struct coxi_inputs *inputs);

/* A closure with inputs has come: it waits for them, or is in line at once. Loop. */
void coxi_inputs_wait(struct coxi_closure *closure);

/* One that was in line or with a worker, and in no list now, is in line again, before the
 * others; or waits for what was kept where it was to run. Loop. */
void coxi_inputs_put_back(struct coxi_closure *closure);

/* The same for one that was VOIDING. Loop. */
void coxi_inputs_go_again(struct coxi_closure *closure);

/* The closure is settled; or only what it returned is here now, or will not be: who waits for it
 * goes on in the next coxi_inputs_go_on. Loop. */
void coxi_inputs_settled(struct coxi_closure *closure);
void coxi_inputs_tell(struct coxi_closure *closure);

/* The closure is needed by what is replayed: so is all that makes its inputs again. Loop. */
void coxi_inputs_hurry(struct coxi_closure *closure);

/* True if the current batch waits for what the closure returned. Loop. */
bool coxi_inputs_are_urgent(const struct coxi_closure *closure);

/* What it has returned is at the client: what it took is not needed for that any more.
 * Loop. */
void coxi_inputs_drop(struct coxi_closure *closure);

/* Puts in line whose inputs are all there now, and ends whose never will be. Loop. */
void coxi_inputs_go_on(struct cox_coordinator *c);

/*
 * The arguments of a call that is not settled, for it to be run by another client: appends the
 * values that are there to `args`, and to `inputs` a struct coxi_backlog_input for each that is
 * not; *ret_n of these. Loop, after coxi_inputs_go_on.
 */
int coxi_inputs_export(struct coxi_closure *closure, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n);

/* How many inputs it has; the future of the i-th, where the value of that is still to come,
 * from there or from where it is kept; else NULL. Loop. */
size_t coxi_inputs_count(const struct coxi_closure *closure);
struct coxi_closure *coxi_inputs_pending(const struct coxi_closure *closure, size_t i);

/* The packed arguments of a closure that is in line, its inputs' results among them, but for
 * those that the worker keeps which is its home. */
const void *coxi_inputs_args(const struct coxi_closure *closure, size_t *ret_len);

/* Appends those, struct coxi_kept_input; `at`: its number in the dispatch. COX_ENOMEM. */
int coxi_inputs_collect(const struct coxi_closure *closure, uint32_t at,
                        struct coxi_buffer *inputs);

/* How many closures in a line would have to run again for what it takes. */
uint32_t coxi_inputs_lineage(const struct coxi_closure *closure);

/*
 * A closure that does again what `of`, which is done, has done: under its id, with its
 * arguments, in no user's hands; begun, it waits for its inputs or is in line. COX_ENOMEM.
 * Loop.
 */
int coxi_closure_again(struct coxi_closure *of, struct coxi_closure **ret);
void coxi_closure_begin(struct coxi_closure *closure);

#endif
