/* See plan.h. */
#include "tests/sim/plan.h"

#include <string.h>

#include "coxswain/round.h"
#include "tests/sim/sched.h"

/* A sequence of random numbers: number n follows from the seed and n. */
struct draw {
    uint64_t seed;
    uint64_t n;
};

static uint64_t below(struct draw *draw, uint64_t n)
{
    return sim_hash(draw->seed, draw->n++) % n;
}

static bool one_in(struct draw *draw, uint64_t n)
{
    return below(draw, n) == 0;
}

static struct sim_sequence plan_sequence(struct draw *draw)
{
    static const uint32_t bounds[] = {0, 0, 0, 0, 1, 1, 2, 3, COX_STALENESS_ANY};
    return (struct sim_sequence){
        .staleness = bounds[below(draw, sizeof(bounds) / sizeof(*bounds))],
        .backups = one_in(draw, 3) ? 1 + (uint32_t)below(draw, 2) : 0,
        .sums = one_in(draw, 2)};
}

/* Makes the sequence such that it leaves the same values whatever dies. */
static void be_deterministic(struct sim_sequence *sequence)
{
    sequence->deterministic = true;
    sequence->staleness = 0;
    sequence->backups = 0;
}

/* Divides the calls into rounds, and asynchronous calls between them. */
static void plan_rounds(struct draw *draw, struct sim_plan *ret)
{
    uint16_t numbers[SIM_SEQUENCES_MAX] = {0};
    ret->n_sequences = 1 + (uint32_t)below(draw, SIM_SEQUENCES_MAX);
    for (uint32_t i = 0; i < ret->n_sequences; i++) {
        ret->sequences[i] = plan_sequence(draw);
    }
    if (sim_hash(ret->seed, 3003) % 3 == 0) {
        be_deterministic(&ret->sequences[0]);
    }
    bool narrow = sim_hash(ret->seed, 3004) % 2 == 0;
    uint64_t one_async_in = 1 + below(draw, 6);
    for (uint32_t first = 0; first < ret->n_calls;) {
        uint32_t sequence = (uint32_t)below(draw, ret->n_sequences);
        uint32_t least = ret->sequences[sequence].backups + 1;
        uint32_t n = least + (uint32_t)below(draw, SIM_ROUND_MAX - least + 1);
        if (one_in(draw, one_async_in + 1) || n > ret->n_calls - first) {
            first++;
            continue;
        }
        struct sim_place place = {.first = (uint16_t)first,
                                  .number = numbers[sequence],
                                  .n = (uint8_t)n,
                                  .sequence = (uint8_t)sequence};
        if (narrow && sim_hash(ret->seed ^ 3005, first) % 4 != 0) {
            place.only_ps =
                (uint8_t)(1 + sim_hash(ret->seed ^ 3006, first) % ret->n_ps);
        }
        for (uint32_t i = 0; i < n; i++) {
            ret->places[first + i] = place;
        }
        numbers[sequence]++;
        first += n;
    }
}

void sim_plan_make(uint64_t seed, uint32_t n_calls, struct sim_plan *ret)
{
    struct draw draw = {seed, 0};
    *ret = (struct sim_plan){.seed = seed, .n_calls = n_calls};
    ret->n_ps = 1 + (uint32_t)below(&draw, 3);
    ret->n_workers = 1 + (uint32_t)below(&draw, 3);
    ret->n_slots = 1 + (uint32_t)below(&draw, 2);
    ret->n_faults = one_in(&draw, 8) ? 0 : 1 + (uint32_t)below(&draw, 8);
    ret->commit_window = one_in(&draw, 3) ? 1 + (uint32_t)below(&draw, 4) : 256;
    ret->checkpoints = !one_in(&draw, 16);
    ret->incremental = (uint32_t)below(&draw, 4);
    ret->keep = one_in(&draw, 3) ? 1 + (uint32_t)below(&draw, 2) : 0;
    ret->in_flight = 4 + (uint32_t)below(&draw, 60);
    ret->log_bytes = one_in(&draw, 4) ? 2000 + below(&draw, 8000) : 0;
    ret->every_closures = one_in(&draw, 2) ? 20 + below(&draw, 100) : 0;
    ret->speculates = one_in(&draw, 2);
    ret->brittle = sim_hash(seed, 1000) % 16 == 0;
    ret->rough = one_in(&draw, 2) ? 12 : 40;
    if (sim_hash(seed, 2000) % 3 == 0) {
        ret->n_tasks = 1 + (uint32_t)(sim_hash(seed, 2001) % (SIM_TASKS_MAX / 2));
        ret->n_epochs = 1 + (uint32_t)(sim_hash(seed, 2002) % 2);
    }
    if (sim_hash(seed, 3000) % 3 == 0) {
        struct draw rounds = {seed ^ UINT64_C(0x1b873593), 0};
        plan_rounds(&rounds, ret);
    }
    if (ret->n_tasks > 0 && sim_hash(seed, 2003) % 2 == 0) {
        ret->task_round = 1 + (uint32_t)(sim_hash(seed, 2004) % 4);
        ret->task_backups = (uint32_t)(sim_hash(seed, 2005) % ret->task_round);
        ret->task_staleness = (uint32_t)(sim_hash(seed, 2006) % 3);
    }
}

static bool straggles(const struct sim_plan *plan, uint32_t number)
{
    return plan->speculates &&
           sim_hash(plan->seed ^ UINT64_C(0x27d4eb2f), number) % 16 == 0;
}

/* The members of some rounds that touch one ps read another one only. */
static void plan_reads(const struct sim_plan *plan, const struct sim_place *place,
                       int64_t ret[SIM_ARGUMENTS])
{
    if (sim_hash(plan->seed ^ 3007, place->first) % 2 == 0) {
        ret[SIM_PULLS] = 0;
        ret[SIM_MARK] = (int64_t)place->only_ps % plan->n_ps;
    }
}

/* Makes a call a member of a round, if it is in one. */
static void plan_member(const struct sim_plan *plan, uint32_t number, struct draw *draw,
                        int64_t ret[SIM_ARGUMENTS])
{
    const struct sim_place *place = &plan->places[number];
    ret[SIM_ROUND] = place->n > 0 ? (int64_t)place->first : -1;
    ret[SIM_HALVES] = place->n > 0 ? (int64_t)(1 + below(draw, 4)) : 0;
    if (place->n > 0 && ret[SIM_MASK] == 0) {
        ret[SIM_MASK] = 1; /* so that one sees whether it counts */
    }
    if (place->only_ps != 0) {
        ret[SIM_MASK] = INT64_C(1) << (place->only_ps - 1);
        ret[SIM_AFTER] = ret[SIM_ENDING] == SIM_FAILS_FLUSHED ? ret[SIM_MASK] : 0;
        ret[SIM_ROW] = 0;
        plan_reads(plan, place, ret);
    }
}

void sim_plan_call(const struct sim_plan *plan, uint32_t number,
                   int64_t ret[SIM_ARGUMENTS])
{
    struct draw draw = {plan->seed ^ UINT64_C(0x5bf03635), (uint64_t)number << 16};
    uint64_t all = (UINT64_C(1) << plan->n_ps) - 1;
    ret[SIM_NUMBER] = (int64_t)number;
    ret[SIM_MASK] = (int64_t)(one_in(&draw, 24) ? 0 : 1 + below(&draw, all));
    ret[SIM_AFTER] = one_in(&draw, 6) ? (int64_t)(1 + below(&draw, all)) : 0;
    ret[SIM_WORK_US] = (int64_t)below(&draw, one_in(&draw, 10) ? 20000 : 2000);
    ret[SIM_STRAGGLE_US] = straggles(plan, number) ? (int64_t)below(&draw, 800000) : 0;
    ret[SIM_ENDING] =
        one_in(&draw, plan->rough) ? (int64_t)(1 + below(&draw, 3)) : SIM_OK;
    ret[SIM_ROW] = one_in(&draw, 4);
    ret[SIM_PULLS] = one_in(&draw, 3) || straggles(plan, number);
    ret[SIM_MARK] = (int64_t)below(&draw, plan->n_ps);
    ret[SIM_MARKED] = 0;
    if (plan->brittle && ret[SIM_ENDING] == SIM_OK && one_in(&draw, 8)) {
        ret[SIM_ENDING] = SIM_BRITTLE;
    }
    if (ret[SIM_ENDING] == SIM_FAILS_FLUSHED) {
        ret[SIM_AFTER] = ret[SIM_AFTER] != 0 ? ret[SIM_AFTER] : 1;
    }
    plan_member(plan, number, &draw, ret);
}

void sim_plan_task(const struct sim_plan *plan, uint32_t position,
                   int64_t ret[SIM_ARGUMENTS])
{
    static const enum sim_ending endings[] = {SIM_FAILS, SIM_FAILS_FLUSHED, SIM_CRASHES,
                                              SIM_FAILS_FIRST, SIM_FAILS_FIRST};
    struct draw draw = {plan->seed ^ UINT64_C(0x6c62272e), (uint64_t)position << 16};
    uint64_t all = (UINT64_C(1) << plan->n_ps) - 1;
    memset(ret, 0, SIM_ARGUMENTS * sizeof(*ret));
    ret[SIM_NUMBER] = (int64_t)position;
    ret[SIM_MASK] = (int64_t)(1 + below(&draw, all));
    ret[SIM_AFTER] = one_in(&draw, 3) ? (int64_t)(1 + below(&draw, all)) : 0;
    ret[SIM_WORK_US] = (int64_t)below(&draw, one_in(&draw, 10) ? 20000 : 2000);
    ret[SIM_ENDING] = one_in(&draw, 4)
                          ? endings[below(&draw, sizeof(endings) / sizeof(*endings))]
                          : SIM_OK;
    if (ret[SIM_ENDING] == SIM_FAILS_FLUSHED && ret[SIM_AFTER] == 0) {
        ret[SIM_AFTER] = 1;
    }
}

unsigned sim_plan_actions(const struct sim_plan *plan, uint32_t number)
{
    struct draw draw = {plan->seed ^ UINT64_C(0x2545f491), (uint64_t)number << 16};
    unsigned actions = 0;
    if (plan->places[number].n > 0 && plan->places[number].first != number) {
        return 0; /* a round is scheduled as a whole */
    }
    actions |= one_in(&draw, plan->rough) ? SIM_ASSIGN : 0U;
    actions |= one_in(&draw, plan->rough) ? SIM_JOIN : 0U;
    actions |= plan->checkpoints && one_in(&draw, plan->rough * 6) ? SIM_SAVE : 0U;
    actions |=
        plan->checkpoints && one_in(&draw, plan->rough * 6) ? SIM_SAVE_BESIDE : 0U;
    bool beside =
        (actions & SIM_ASSIGN) != 0 && one_in(&draw, 3); /* a write amidst it */
    actions |= plan->checkpoints && beside ? SIM_SAVE_BESIDE : 0U;
    bool joins = (actions & SIM_JOIN) != 0;
    actions |= one_in(&draw, joins ? 4 : plan->rough * 2) ? SIM_READ : 0U;
    actions |= one_in(&draw, plan->rough) ? SIM_CANCEL : 0U;
    actions |= one_in(&draw, plan->rough * 2) ? SIM_CREATE : 0U;
    /* A second attempt that overtakes the replay of an assignment sees an old mark. */
    actions |= straggles(plan, number) && one_in(&draw, 2) ? SIM_ASSIGN : 0U;
    bool lingers = one_in(&draw, straggles(plan, number - 1) ? 3 : plan->rough * 4);
    actions |= lingers ? SIM_LINGER : 0U;
    return actions;
}
