/*
 * The ledger of a storm: what its program knows of its calls, kept outside of the
 * program, so that it outlives the program; and what the variables must hold
 * accordingly.
 */
#ifndef COXI_SIM_LEDGER_H
#define COXI_SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/plan.h"

/* The content of the variables: [call][segment] for each ps; and rows of the table. Sums
 * of a round are at its first call. */
struct sim_found {
    int64_t counted[SIM_PS_MAX][SIM_CALLS_MAX][SIM_SEGMENTS];
    int64_t assigned[SIM_PS_MAX][SIM_CALLS_MAX][SIM_SEGMENTS];
    float sums[SIM_PS_MAX][SIM_CALLS_MAX][SIM_SEGMENTS];
    float rows[SIM_CALLS_MAX];
    int64_t chains[SIM_PS_MAX][SIM_CALLS_MAX]; /* rounds.h, like `last` */
    int64_t last[SIM_PS_MAX][SIM_CALLS_MAX];
};

void sim_ledger_begin(const struct sim_plan *plan);

/* The client of that generation continues after `n_covered` calls; forgets later calls
 * that were scheduled before. */
void sim_ledger_go_on(uint32_t n_covered, uint64_t generation);

/* The call may count from now on. `replaced`: its client was replaced by another, or
 * will be. */
void sim_ledger_schedule(uint32_t number, bool replaced);
void sim_ledger_cancel(uint32_t number);

/* Notes how a call ended: 0, or an error and its text. */
void sim_ledger_settle(uint32_t number, int code, const char *text);
bool sim_ledger_is_settled(uint32_t number);

/* Compares the variables with the ledger; `n` calls were scheduled, and are settled if
 * the program has joined. */
void sim_ledger_check(const struct sim_found *found, uint32_t n, bool joined,
                      const char *when);

/* The step of a call has read `found` where `least` was written before the call was
 * scheduled: a violation. */
void sim_ledger_read_old(uint32_t number, const char *name, int64_t found,
                         int64_t least);

/* ---- rounds (ledger_rounds.c) */

/* In an attempt of a member, dispatched by the client of that generation, a pull has
 * shown these rounds: bits of their first calls. */
void sim_ledger_look(uint32_t number, uint64_t generation,
                     const uint64_t seen[SIM_SEEN_WORDS]);

/* The attempt whose results came has seen these. `again`: it was not the first one. If a ps
 * had ended the round with the first, it ran for its results only, and saw its own round. */
void sim_ledger_saw(uint32_t number, bool again, const uint64_t seen[SIM_SEEN_WORDS]);

/* All members of a round are settled; if `held`, its end has that code. */
void sim_ledger_end_round(uint32_t first, bool held, int code);

/* ---- violations */

/* A rule is broken: ends the run. Only the first call counts. */
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text of the violation, or NULL. */
const char *sim_ledger_violation(void);

#endif
