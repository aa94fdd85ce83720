/*
 * A client whose recoveries stop where a test wants. A step of the replay waits at a
 * FIFO, the gate, so the recovery stays where it is until the test opens the gate.
 */
#ifndef COXI_TESTS_COORDINATOR_RECOVERY_GATED_H
#define COXI_TESTS_COORDINATOR_RECOVERY_GATED_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/coordinator/crew.h"

enum {
    /* How long a test waits for an event that must not happen, and that would happen
     * within a few ticks. */
    GATED_NOT_WITHIN_MS = 400,
    /* How long a test waits for an event that must happen. */
    GATED_SOON_MS = 8000,
};

struct gated {
    struct crew crew;  /* with module hold */
    struct crew other; /* the same crew, with `module` of gated_open */
    struct cox_variable *c0;
    struct cox_variable *c1; /* on ps 1, if there is one */
    struct crew_hold gate;
};

/* Opens the client, with `module` as well (NULL: none). It saves a checkpoint in which
 * all values are 0, so the log starts here. Close it with crew_close(&s->crew). */
void gated_open(struct gated *s, int n_ps, int n_workers, const char *module,
                const struct cox_options *options);

void gated_join(struct gated *s);

/* Runs a step that adds 1 to c0. When it is replayed it waits at the gate, where
 * crew_hold_wait(&s->gate) finds it. */
void gated_pass(struct gated *s);

void gated_assign(struct gated *s, struct cox_variable *counter, int64_t value);

/* Runs `n` calls of `step`, and joins. */
void gated_run_many(struct gated *s, const char *step, int n);

struct cox_stats gated_stats(struct gated *s);

/* Conditions for coxi_test_until: ps have come back `n` times; `n` workers are
 * ready. */
struct gated_count {
    struct gated *s;
    uint64_t n;
};

bool gated_have_recovered(void *arg);
bool gated_are_ready(void *arg);

/* Kills ps `index`; returns when ps have come back `n` times in all. */
void gated_lose_ps(struct gated *s, int index, uint64_t n);

/* Kills worker `index`; it is the `n`th worker that is lost. */
void gated_lose_worker(struct gated *s, int index, uint64_t n);

#endif
