/* See rounds.h. */
#include "tests/sim/rounds.h"

#include <stdio.h>
#include <string.h>

#include "coxswain/step.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"
#include "worker/attempt.h"
#include "worker/run.h"

static const struct sim_plan *plan;

void sim_rounds_begin(const struct sim_plan *with)
{
    plan = with;
}

/* ---- in the program */

static int create(struct sim_rounds *rounds, char kind, uint32_t ps, uint64_t n,
                  struct cox_variable **ret)
{
    char name[16];
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    (void)snprintf(name, sizeof(name), "%c%u", kind, ps);
    spec.name = name;
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = n;
    if (kind == 'r') {
        spec.dtype = COX_F32;
        spec.optimizer.kind = COX_SGD;
        spec.optimizer.learning_rate = 1;
    }
    return cox_variable_create(rounds->c, &spec, ret);
}

static bool has_chains(void)
{
    return plan->n_sequences > 0 && plan->sequences[0].deterministic;
}

/* One kind after the other: so variable i of each kind is on the same ps. */
int sim_rounds_create(struct sim_rounds *rounds, struct cox_coordinator *c)
{
    int r = 0;
    rounds->c = c;
    for (uint32_t i = 0; r == 0 && plan->n_sequences > 0 && i < plan->n_ps; i++) {
        r = create(rounds, 'r', i, (uint64_t)plan->n_calls * SIM_SEGMENTS,
                   &rounds->sums[i]);
    }
    for (uint32_t i = 0; r == 0 && plan->n_sequences > 0 && i < plan->n_ps; i++) {
        r = create(rounds, 'e', i, plan->n_calls, &rounds->last[i]);
    }
    for (uint32_t i = 0; r == 0 && has_chains() && i < plan->n_ps; i++) {
        r = create(rounds, 'd', i, plan->n_calls, &rounds->chains[i]);
    }
    for (uint32_t i = 0; r == 0 && i < plan->n_sequences; i++) {
        struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
        spec.staleness = plan->sequences[i].staleness;
        spec.backups = plan->sequences[i].backups;
        spec.reduce = plan->sequences[i].sums ? COX_REDUCE_SUM : COX_REDUCE_MEAN;
        spec.deterministic = plan->sequences[i].deterministic;
        r = cox_rounds_create(c, &spec, &rounds->sequences[i]);
    }
    return r;
}

int sim_rounds_schedule(struct sim_rounds *rounds, uint32_t first,
                        struct cox_function *function, const struct cox_call *calls,
                        struct cox_future **futures)
{
    const struct sim_place *place = &plan->places[first];
    struct cox_round_call members[SIM_ROUND_MAX];
    bool holds_end = sim_hash(plan->seed ^ 3001, first) % 2 == 0;
    for (uint32_t i = 0; i < place->n; i++) {
        members[i] = (struct cox_round_call){function, &calls[i]};
    }
    return cox_round_schedule(rounds->sequences[place->sequence], members, place->n,
                              futures, holds_end ? &rounds->ends[first] : NULL);
}

bool sim_rounds_cancel(struct sim_rounds *rounds, uint32_t number)
{
    const struct sim_place *place = &plan->places[number];
    struct cox_future *end = rounds->ends[place->first];
    if (place->n == 0 || end == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < place->n; i++) {
        sim_ledger_cancel(place->first + i);
    }
    (void)cox_future_cancel(end);
    return true;
}

static void take_seen(uint32_t number, struct cox_future *future)
{
    struct cox_value value;
    struct cox_value attempt;
    uint64_t seen[SIM_SEEN_WORDS];
    if (cox_future_result(future, "seen", &value) == 0 &&
        cox_future_result(future, "attempt", &attempt) == 0) {
        memcpy(seen, value.data, sizeof(seen));
        sim_ledger_saw(number, *(const int64_t *)attempt.data > 1, seen);
    }
}

int sim_rounds_settle(struct sim_rounds *rounds, uint32_t number,
                      struct cox_future *future)
{
    const struct sim_place *place = &plan->places[number];
    if (place->n == 0) {
        return 0;
    }
    if (cox_future_wait(future, 0) == 0) {
        take_seen(number, future);
    }
    if (number + 1 < (uint32_t)place->first + place->n) {
        return 0;
    }
    struct cox_future *end = rounds->ends[place->first];
    int r = end != NULL ? cox_future_wait(end, -1) : 0;
    rounds->ends[place->first] = NULL;
    if (r == COX_EPSLOST || r == COX_EFENCED || r == COX_ECLOSED || r == COX_EREPLAY) {
        return r == COX_ECLOSED ? COX_EFENCED : r;
    }
    sim_ledger_end_round(place->first, end != NULL, r);
    cox_future_free(end);
    return 0;
}

int sim_rounds_read(const struct sim_rounds *rounds, struct sim_found *found)
{
    int r = 0;
    size_t bytes = (size_t)plan->n_calls * sizeof(found->sums[0][0]);
    for (uint32_t i = 0; r == 0 && rounds->sums[i] != NULL && i < plan->n_ps; i++) {
        r = cox_variable_read(rounds->c, rounds->sums[i], found->sums[i], bytes);
    }
    bytes = (size_t)plan->n_calls * sizeof(int64_t);
    for (uint32_t i = 0; r == 0 && rounds->last[i] != NULL && i < plan->n_ps; i++) {
        r = cox_variable_read(rounds->c, rounds->last[i], found->last[i], bytes);
    }
    for (uint32_t i = 0; r == 0 && rounds->chains[i] != NULL && i < plan->n_ps; i++) {
        r = cox_variable_read(rounds->c, rounds->chains[i], found->chains[i], bytes);
    }
    return r;
}

int64_t sim_rounds_link(const struct sim_plan *of_plan, uint32_t number,
                        int64_t chains[SIM_PS_MAX][SIM_CALLS_MAX])
{
    const struct sim_place *places = of_plan->places;
    uint64_t hash = number;
    for (uint32_t ps = 0; ps < of_plan->n_ps; ps++) {
        for (uint32_t i = 0; i < of_plan->n_calls; i++) {
            if (places[i].n > 0 && places[i].sequence == places[number].sequence &&
                chains[ps][i] != 0) {
                hash = sim_hash(hash ^ (uint64_t)chains[ps][i], i);
            }
        }
    }
    return (int64_t)(hash >> 1 | 1);
}

/* ---- in a step */

int sim_rounds_look(struct cox_step *step, const int64_t *of,
                    uint64_t seen[SIM_SEEN_WORDS])
{
    float sums[SIM_CALLS_MAX * SIM_SEGMENTS];
    char name[16];
    uint32_t n = plan->n_calls * SIM_SEGMENTS;
    struct cox_pull pull = {.values = sums, .rows = cox_rows_all()};
    (void)snprintf(name, sizeof(name), "r%u", (unsigned)of[SIM_MARK]);
    int r = cox_step_variable(step, name, &pull.variable);
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    if (r != 0) {
        return r;
    }
    memset(seen, 0, SIM_SEEN_WORDS * sizeof(*seen));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = i / SIM_SEGMENTS;
        seen[first / 64] |= (uint64_t)(sums[i] != 0) << (first % 64);
    }
    const struct coxi_attempt *attempt = (const struct coxi_attempt *)step;
    sim_ledger_look((uint32_t)of[SIM_NUMBER], attempt->run->session.generation, seen);
    return 0;
}

/* The first call of the next round of a sequence; n_calls: there is none. */
static uint32_t next_of(uint32_t first)
{
    uint32_t next = first + plan->places[first].n;
    while (next < plan->n_calls &&
           (plan->places[next].n == 0 ||
            plan->places[next].sequence != plan->places[first].sequence)) {
        next++;
    }
    return next;
}

static int assign_last(struct cox_step *step, const int64_t *of, uint32_t ps)
{
    const int64_t round = of[SIM_ROUND] + 1;
    uint32_t first = (uint32_t)of[SIM_ROUND];
    uint32_t next = next_of(first);
    struct cox_variable *last;
    char name[16];
    if (plan->sequences[plan->places[first].sequence].staleness != 0) {
        return 0;
    }
    (void)snprintf(name, sizeof(name), "e%u", ps);
    int r = cox_step_variable(step, name, &last);
    r = r != 0 ? r
               : cox_step_update(step, last, COX_UPDATE_ASSIGN,
                                 cox_rows_slice(first, 1), &round);
    return r != 0 || next == plan->n_calls
               ? r
               : cox_step_update(step, last, COX_UPDATE_ASSIGN, cox_rows_slice(next, 1),
                                 &round);
}

int sim_rounds_push(struct cox_step *step, const int64_t *of, uint32_t segment)
{
    int64_t mask = of[segment == 0 ? SIM_MASK : SIM_AFTER];
    float gradient = -(float)(1U << (of[SIM_NUMBER] - of[SIM_ROUND]));
    uint64_t row = (uint64_t)of[SIM_ROUND] * SIM_SEGMENTS + segment;
    int r = cox_step_weight(step, (double)of[SIM_HALVES] / 2);
    for (uint32_t ps = 0; r == 0 && ps < SIM_PS_MAX; ps++) {
        char name[16];
        struct cox_variable *sums;
        if ((mask >> ps & 1) == 0) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "r%u", ps);
        r = cox_step_variable(step, name, &sums);
        r = r != 0 ? r
                   : cox_step_update(step, sums, COX_UPDATE_GRADIENT,
                                     cox_rows_slice(row, 1), &gradient);
        r = r != 0 || segment != 0 ? r : assign_last(step, of, ps);
    }
    return r;
}

int sim_rounds_chain(struct cox_step *step, const int64_t *of)
{
    int64_t chains[SIM_PS_MAX][SIM_CALLS_MAX];
    uint32_t number = (uint32_t)of[SIM_NUMBER];
    struct cox_variable *variables[SIM_PS_MAX];
    int r = 0;
    if (of[SIM_ROUND] < 0 ||
        !plan->sequences[plan->places[number].sequence].deterministic) {
        return 0;
    }
    for (uint32_t ps = 0; r == 0 && ps < plan->n_ps; ps++) {
        char name[16];
        struct cox_pull pull = {.values = chains[ps], .rows = cox_rows_all()};
        (void)snprintf(name, sizeof(name), "d%u", ps);
        r = cox_step_variable(step, name, &variables[ps]);
        pull.variable = variables[ps];
        r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    }
    const int64_t link = r == 0 ? sim_rounds_link(plan, number, chains) : 0;
    for (uint32_t ps = 0; r == 0 && ps < plan->n_ps; ps++) {
        if ((of[SIM_MASK] >> ps & 1) != 0) {
            r = cox_step_update(step, variables[ps], COX_UPDATE_ADD,
                                cox_rows_slice(number, 1), &link);
        }
    }
    return r;
}
