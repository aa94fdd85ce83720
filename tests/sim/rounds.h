/*
 * The rounds of a storm that has them: which calls are in one follows from its plan. A
 * member adds to its own places as every call does, and pushes gradients to places of
 * its round, in variables "r<ps>": 2^i for the i-th member. It also pulls one of these
 * variables, which shows the rounds that were applied by then.
 *
 * A member of a sequence whose rounds follow one another assigns its round to the places
 * of this round and of the next one in "e<ps>": so one sees which of these two was applied
 * last on each ps.
 *
 * A member of a deterministic sequence also adds to its place in the variables "d<ps>" a
 * number that follows from all that these have of its sequence. So what they have in the
 * end is that of a serial run, or some attempt that counts has seen other rounds than
 * those before it.
 */
#ifndef COXI_SIM_ROUNDS_H
#define COXI_SIM_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "coxswain/coxswain.h"
#include "tests/sim/ledger.h"
#include "tests/sim/plan.h"

struct cox_step;

/* The rounds in one client; zeroed: the storm has none. */
struct sim_rounds {
    struct cox_coordinator *c;
    struct cox_rounds *sequences[SIM_SEQUENCES_MAX];
    struct cox_variable *sums[SIM_PS_MAX];
    struct cox_variable *chains[SIM_PS_MAX];
    struct cox_variable *last[SIM_PS_MAX];
    struct cox_future *ends[SIM_CALLS_MAX]; /* by first call; NULL: not held */
};

void sim_rounds_begin(const struct sim_plan *plan);

/* Creates variables and sequences. These return the code of a call of the library that
 * went wrong. */
int sim_rounds_create(struct sim_rounds *rounds, struct cox_coordinator *c);

/* Schedules the round whose first call is `first`. */
int sim_rounds_schedule(struct sim_rounds *rounds, uint32_t first,
                        struct cox_function *function, const struct cox_call *calls,
                        struct cox_future **futures);

/* Cancels the round of the call; false: its end is not held. */
bool sim_rounds_cancel(struct sim_rounds *rounds, uint32_t number);

/* A call is settled: takes what it returned; and if it is the last one of its round,
 * looks at the end. */
int sim_rounds_settle(struct sim_rounds *rounds, uint32_t number,
                      struct cox_future *future);

/* Reads what members have left. */
int sim_rounds_read(const struct sim_rounds *rounds, struct sim_found *found);

/* What a member adds to its chains that has pulled these; the library knows nothing of
 * it. */
int64_t sim_rounds_link(const struct sim_plan *of_plan, uint32_t number,
                        int64_t chains[SIM_PS_MAX][SIM_CALLS_MAX]);

/* ---- in a step */

/* Pulls the chains, one after the other, and adds to them; if it is a member of a
 * deterministic sequence. */
int sim_rounds_chain(struct cox_step *step, const int64_t *of);

/* Notes which rounds its pulls show, in `seen`. */
int sim_rounds_look(struct cox_step *step, const int64_t *of,
                    uint64_t seen[SIM_SEEN_WORDS]);

/* Pushes the gradients of a segment, and with the first one the round. */
int sim_rounds_push(struct cox_step *step, const int64_t *of, uint32_t segment);

#endif
