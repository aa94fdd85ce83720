/* What the files of the ledger share: see ledger.h. */
#ifndef COXI_SIM_LEDGER_INTERNAL_H
#define COXI_SIM_LEDGER_INTERNAL_H

#include "tests/sim/ledger.h"

enum state {
    UNKNOWN,   /* not scheduled */
    SCHEDULED, /* by the client that runs */
    SETTLED,   /* its client has reported it */
    /* scheduled by an earlier client, and in the checkpoint from which this one
     * resumed */
    COVERED,
};

struct sim_call {
    enum state state;
    int code;
    bool cancelled; /* the program has cancelled it, or another call of its round */
    bool asked;     /* it has cancelled this one */
    bool scheduled; /* some client has scheduled it */
};

/* True if all that the step adds is there, and nothing else. */
bool sim_ledger_is_there(const struct sim_found *found, uint32_t number,
                         const int64_t of[SIM_ARGUMENTS]);

/* ---- rounds (ledger_rounds.c) */

void sim_ledger_rounds_begin(const struct sim_plan *plan, const struct sim_call *calls);
void sim_ledger_rounds_go_on(uint32_t n_covered, uint64_t generation);
void sim_ledger_rounds_check(const struct sim_found *found, bool joined,
                             const char *when);

#endif
