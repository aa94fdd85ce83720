/*
 * What the program of a storm knows of its calls, kept outside of it, so that it outlives
 * the program; and what the variables must hold for that.
 */
#ifndef COXI_SIM_LEDGER_H
#define COXI_SIM_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/plan.h"

/* What the variables hold: [call][segment], of each ps; and rows of the table. */
struct sim_found {
    int64_t counted[SIM_PS_MAX][SIM_CALLS_MAX][SIM_SEGMENTS];
    int64_t assigned[SIM_PS_MAX][SIM_CALLS_MAX][SIM_SEGMENTS];
    float rows[SIM_CALLS_MAX];
};

void sim_ledger_begin(const struct sim_plan *plan);

/* A client goes on behind that many calls; what it has scheduled before is forgotten. */
void sim_ledger_go_on(uint32_t n_covered);

/* It may count from now on. `replaced`: by a client that another one has replaced, or will. */
void sim_ledger_schedule(uint32_t number, bool replaced);
void sim_ledger_cancel(uint32_t number);

/* How a call ended: 0, or an error and its text. */
void sim_ledger_settle(uint32_t number, int code, const char *text);
bool sim_ledger_is_settled(uint32_t number);

/* Compares; `n` calls have been scheduled, and settled if the program has joined. */
void sim_ledger_check(const struct sim_found *found, uint32_t n, bool joined,
                      const char *when);

/* A rule is broken: the run ends. The first counts. */
void sim_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Why the run was broken, or NULL. */
const char *sim_ledger_violation(void);

#endif
