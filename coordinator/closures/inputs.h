/* Futures as arguments: calls that wait for the results of others. */
#ifndef COXI_COORDINATOR_CLOSURES_INPUTS_H
#define COXI_COORDINATOR_CLOSURES_INPUTS_H

#include "coordinator/closures/closure.h"

/*
 * Makes the inputs of a call; each holds a reference to its future. COX_EINVAL: an
 * input is malformed, or its future belongs to another coordinator; COX_ENOMEM. Any
 * thread.
 */
int coxi_inputs_new(struct cox_coordinator *c, const struct cox_input *inputs, size_t n,
                    struct coxi_inputs **ret);

/* Releases the futures and frees the inputs. Returns the closures to which no reference
 * is left, as a list by `next`: the caller must free them. Takes NULL. Any thread. */
struct coxi_closure *coxi_inputs_free(struct coxi_inputs *inputs);

/* Takes in a closure with inputs: it waits for them, or is queued at once. Loop. */
void coxi_inputs_wait(struct coxi_closure *closure);

/* Puts back a closure that was taken from its queue or worker: it goes to the head of
 * the queue, or waits for results that were kept where it was to run. Loop. */
void coxi_inputs_put_back(struct coxi_closure *closure);

/* The same for a closure that was VOIDING, or WAITING in no list. Loop. */
void coxi_inputs_go_again(struct coxi_closure *closure);

/*
 * coxi_inputs_settled: the closure is settled. coxi_inputs_tell: only its results have
 * come, or will not come. The closures that wait for it go on in the next
 * coxi_inputs_go_on. Loop.
 */
void coxi_inputs_settled(struct coxi_closure *closure);
void coxi_inputs_tell(struct coxi_closure *closure);

/* The replay needs the closure: closures that make its inputs again become urgent.
 * Loop. */
void coxi_inputs_hurry(struct coxi_closure *closure);

/* True if the current batch waits for the closure's results. Loop. */
bool coxi_inputs_are_urgent(const struct coxi_closure *closure);

/* The closure's results are at the client: its inputs are no longer needed to make them
 * again. Loop. */
void coxi_inputs_drop(struct coxi_closure *closure);

/* Queues the closures whose inputs have all come, and ends those whose inputs never
 * will. Loop. */
void coxi_inputs_go_on(struct cox_coordinator *c);

/*
 * Describes the arguments of a call that is not settled, so that another client can run
 * it: appends the known values to `args`, and to `inputs` a struct coxi_backlog_input
 * for each missing one; *ret_n: the number of these structs. Loop, after
 * coxi_inputs_go_on.
 */
int coxi_inputs_export(struct coxi_closure *closure, struct coxi_buffer *args,
                       struct coxi_buffer *inputs, size_t *ret_n);

/*
 * coxi_inputs_count: how many inputs the call has. coxi_inputs_pending: the closure
 * that will provide the i-th, or that keeps it elsewhere; NULL if the value is known.
 * Loop.
 */
size_t coxi_inputs_count(const struct coxi_closure *closure);
struct coxi_closure *coxi_inputs_pending(const struct coxi_closure *closure, size_t i);

/* The packed arguments of a QUEUED closure, including the results of its inputs, except
 * those that its home keeps. */
const void *coxi_inputs_args(const struct coxi_closure *closure, size_t *ret_len);

/* Appends a struct coxi_kept_input for each result that its home keeps; `at`: the
 * closure's number in the dispatch. COX_ENOMEM. */
int coxi_inputs_collect(const struct coxi_closure *closure, uint32_t at,
                        struct coxi_buffer *inputs);

/* The longest chain of closures that would have to run again for the closure's
 * inputs. */
uint32_t coxi_inputs_lineage(const struct coxi_closure *closure);

/*
 * coxi_closure_again makes a closure that repeats `of`, which is done: with the same id
 * and arguments, and without a user. coxi_closure_begin queues it, or lets it wait for
 * its inputs. COX_ENOMEM. Loop.
 */
int coxi_closure_again(struct coxi_closure *of, struct coxi_closure **ret);
void coxi_closure_begin(struct coxi_closure *closure);

#endif
