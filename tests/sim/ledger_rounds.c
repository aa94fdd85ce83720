/*
 * The rounds in the ledger (ledger.h). A round is applied once and as a whole, or not at
 * all: its sums have the weights of exactly those members that count. An attempt sees all
 * rounds of its sequence but the last ones, as many as its bound says; an attempt that
 * counts sees no round that may not begin before its own one has ended. Rounds that
 * must follow one another do so on each ps. Members of
 * deterministic rounds have computed what they would have in a serial run.
 *
 * What an attempt has seen is compared when it is known which rounds were applied. An
 * attempt is looked at only while the client runs that has dispatched it: a client that
 * is started again runs from a checkpoint on.
 */
#include <math.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/round.h"
#include "coxswain/types.h"
#include "tests/sim/ledger_internal.h"
#include "tests/sim/rounds.h"

/* What all attempts of a call have seen that the client of that generation has
 * dispatched; 0: none. */
struct look {
    uint64_t generation;
    uint64_t seen[SIM_SEEN_WORDS];
};

static struct {
    const struct sim_plan *plan;
    const struct sim_call *calls;
    uint64_t generation; /* of the client that runs */
    struct look looks[SIM_CALLS_MAX];
} rounds;

void sim_ledger_rounds_begin(const struct sim_plan *plan, const struct sim_call *calls)
{
    memset(&rounds, 0, sizeof(rounds));
    rounds.plan = plan;
    rounds.calls = calls;
}

void sim_ledger_rounds_go_on(uint32_t n_covered, uint64_t generation)
{
    const struct sim_place *place = &rounds.plan->places[n_covered];
    if (generation <= rounds.generation) {
        memset(rounds.looks, 0, sizeof(rounds.looks)); /* of another run */
    }
    rounds.generation = generation;
    if (n_covered < rounds.plan->n_calls && place->n > 0 && place->first != n_covered) {
        sim_violation("a client goes on with call %u, amidst the round of calls %u to "
                      "%u",
                      n_covered, place->first, place->first + place->n - 1);
    }
}

/* ---- what steps have seen */

static bool has(const uint64_t seen[SIM_SEEN_WORDS], uint32_t first)
{
    return (seen[first / 64] >> (first % 64) & 1) != 0;
}

void sim_ledger_look(uint32_t number, uint64_t generation,
                     const uint64_t seen[SIM_SEEN_WORDS])
{
    struct look *look = &rounds.looks[number];
    if (generation > look->generation) {
        look->generation = generation;
        memcpy(look->seen, seen, sizeof(look->seen));
    }
    for (uint32_t i = 0; generation == look->generation && i < SIM_SEEN_WORDS; i++) {
        look->seen[i] &= seen[i];
    }
}

/* The first call of the round behind the one at `first`; n_calls: there is none. */
static uint32_t next_round(uint32_t first)
{
    const struct sim_plan *plan = rounds.plan;
    uint32_t next = first + plan->places[first].n;
    while (next < plan->n_calls && plan->places[next].n == 0) {
        next++;
    }
    return next;
}

static uint32_t first_round(void)
{
    return rounds.plan->places[0].n > 0 ? 0 : next_round(0);
}

/* True if round `later` cannot begin before round `first` has ended. */
static bool follows(uint32_t later, uint32_t first)
{
    const struct sim_place *a = &rounds.plan->places[first];
    const struct sim_place *b = &rounds.plan->places[later];
    uint32_t staleness = rounds.plan->sequences[b->sequence].staleness;
    return later > first && a->sequence == b->sequence &&
           staleness != COX_STALENESS_ANY &&
           (uint32_t)b->number - a->number > staleness;
}

void sim_ledger_saw(uint32_t number, bool again, const uint64_t seen[SIM_SEEN_WORDS])
{
    uint32_t own = rounds.plan->places[number].first;
    for (uint32_t i = own; i < rounds.plan->n_calls; i = next_round(i)) {
        if (has(seen, i) && ((i == own && !again) || follows(i, own))) {
            sim_violation("call %u of round %u counts, and has seen round %u", number,
                          own, i);
        }
    }
}

/* True if a client that has left round `first` to this one makes round `later` wait. */
static bool is_older(uint32_t first, uint32_t later)
{
    uint32_t sequence = rounds.plan->places[later].sequence;
    return rounds.calls[first].state == COVERED &&
           rounds.calls[later].state != COVERED &&
           rounds.plan->sequences[sequence].staleness != COX_STALENESS_ANY;
}

/* Checks that all attempts of a call have seen the rounds that they must see. */
static void check_seen(const struct sim_found *found, uint32_t number, const char *when)
{
    const struct look *look = &rounds.looks[number];
    uint32_t own = rounds.plan->places[number].first;
    int64_t of[SIM_ARGUMENTS];
    if (look->generation != rounds.generation) {
        return;
    }
    sim_plan_call(rounds.plan, number, of);
    for (uint32_t i = first_round(); i < own; i = next_round(i)) {
        const float *sums = found->sums[of[SIM_MARK]][i];
        bool applied = sums[0] != 0 || sums[1] != 0;
        if (applied && !has(look->seen, i) && (follows(own, i) || is_older(i, own))) {
            sim_violation("%s: an attempt of call %u, in round %u, has not seen round "
                          "%u on ps %u",
                          when, number, own, i, (unsigned)of[SIM_MARK]);
        }
    }
}

/* ---- which members count */

/* A round: which of its members count. */
struct round {
    uint32_t first;
    uint32_t n;
    uint32_t needed;
    uint32_t n_counted;
    uint32_t n_excused; /* they may fail, or be cancelled, on their own */
    bool settled;       /* all of them are */
    bool counts[SIM_ROUND_MAX];
    int64_t of[SIM_ROUND_MAX][SIM_ARGUMENTS];
};

/* True if the call may fail without its round, or has. */
static bool is_excused(const struct sim_call *call, const int64_t of[SIM_ARGUMENTS])
{
    bool well = of[SIM_ENDING] == SIM_OK || of[SIM_ENDING] == SIM_CRASHES;
    bool lost = call->state == SETTLED && call->code != 0 &&
                call->code != COX_ECANCELLED && call->code != COX_ELATE;
    return !well || call->asked || lost;
}

/* `found`: NULL if the members are settled. */
static struct round look_at(uint32_t first, const struct sim_found *found)
{
    const struct sim_place *place = &rounds.plan->places[first];
    struct round round = {.first = first, .n = place->n, .settled = true};
    round.needed = round.n - rounds.plan->sequences[place->sequence].backups;
    for (uint32_t i = 0; i < round.n; i++) {
        const struct sim_call *call = &rounds.calls[first + i];
        sim_plan_call(rounds.plan, first + i, round.of[i]);
        bool settled = call->state == SETTLED;
        round.settled = round.settled && settled;
        round.counts[i] = settled || found == NULL
                              ? settled && call->code == 0
                              : sim_ledger_is_there(found, first + i, round.of[i]);
        round.n_counted += round.counts[i];
        /* a replay that fails ends the run, and cancels what runs */
        round.n_excused += rounds.plan->brittle || is_excused(call, round.of[i]);
    }
    return round;
}

/* Enough of its members count, or none for a reason. */
static void check_whole(const struct round *round, const char *when)
{
    if (round->n_counted > 0 ? round->n_counted < round->needed
                             : round->n - round->n_excused >= round->needed) {
        sim_violation("%s: of the %u calls of round %u %u count, and it needs %u; %u "
                      "had a reason not to",
                      when, round->n, round->first, round->n_counted, round->needed,
                      round->n_excused);
    }
}

/* Checks why a member was cancelled, or late. */
static void check_code(const struct round *round, uint32_t i)
{
    const struct sim_call *call = &rounds.calls[round->first + i];
    bool applied = round->n_counted > 0;
    if ((call->code == COX_ELATE && (!applied || round->needed == round->n)) ||
        (call->code == COX_ECANCELLED && applied && !call->asked &&
         !rounds.plan->brittle)) {
        sim_violation("call %u of round %u, of which %u count, ends as %s",
                      round->first + i, round->first, round->n_counted,
                      coxi_error_name(call->code));
    }
}

void sim_ledger_end_round(uint32_t first, bool held, int code)
{
    const struct round round = look_at(first, NULL);
    if (!round.settled) {
        return; /* another client has begun */
    }
    check_whole(&round, "its end");
    for (uint32_t i = 0; i < round.n; i++) {
        check_code(&round, i);
    }
    if (held && (code == 0) != (round.n_counted > 0)) {
        sim_violation("the end of round %u, of which %u count, has %s", first,
                      round.n_counted, coxi_error_name(code));
    }
}

/* ---- sums */

static bool is_near(float found, double expected)
{
    return fabs((double)found - expected) <= 1e-5 * expected;
}

/* The weights of the members that count, each times 2^i if `powers`, that have touched
 * the ps in the segment (ps SIM_PS_MAX: of all). */
static double sum_of(const struct round *round, uint32_t ps, uint32_t segment)
{
    double sum = 0;
    for (uint32_t i = 0; i < round->n; i++) {
        const int64_t *of = round->of[i];
        int64_t mask = of[segment == 0 ? SIM_MASK : SIM_AFTER];
        bool pushes = ps == SIM_PS_MAX || (mask >> ps & 1) != 0;
        double gradient = ps == SIM_PS_MAX ? 1 : (double)(1U << i);
        sum += round->counts[i] && pushes ? (double)of[SIM_HALVES] / 2 * gradient : 0;
    }
    return sum;
}

static void check_sums(const struct sim_found *found, const struct round *round,
                       const char *when)
{
    const struct sim_place *place = &rounds.plan->places[round->first];
    bool mean = !rounds.plan->sequences[place->sequence].sums;
    double whole = mean && round->n_counted > 0 ? sum_of(round, SIM_PS_MAX, 0) : 1;
    for (uint32_t ps = 0; ps < rounds.plan->n_ps; ps++) {
        for (uint32_t s = 0; s < SIM_SEGMENTS; s++) {
            float sum = found->sums[ps][round->first][s];
            double expected = sum_of(round, ps, s) / whole;
            if (!is_near(sum, expected)) {
                sim_violation("%s: round %u, of which %u calls count, adds up to %g on "
                              "ps %u, segment %u, not %g",
                              when, round->first, round->n_counted, (double)sum, ps, s,
                              expected);
            }
        }
    }
    for (uint32_t i = 0; i < round->n; i++) {
        float row = found->rows[round->first + i];
        double weight = (double)round->of[i][SIM_HALVES] / 2 / whole;
        if (row != 0 && !is_near(row, weight)) {
            sim_violation("%s: call %u counts %g times in round %u, not %g", when,
                          round->first + i, (double)row, round->first, weight);
        }
    }
}

/* ---- deterministic sequences */

/* Checks that a member of a deterministic round has seen what a serial run has before
 * that round. */
static void check_chain(const struct sim_found *found, const struct round *round,
                        uint32_t i, const char *when)
{
    static int64_t before[SIM_PS_MAX][SIM_CALLS_MAX];
    const struct sim_plan *plan = rounds.plan;
    uint32_t number = round->first + i;
    for (uint32_t ps = 0; ps < plan->n_ps; ps++) {
        memset(before[ps], 0, sizeof(before[ps]));
        memcpy(before[ps], found->chains[ps], round->first * sizeof(before[ps][0]));
    }
    int64_t link = sim_rounds_link(plan, number, before);
    for (uint32_t ps = 0; ps < plan->n_ps; ps++) {
        bool adds = round->counts[i] && (round->of[i][SIM_MASK] >> ps & 1) != 0;
        if (found->chains[ps][number] != (adds ? link : 0)) {
            sim_violation("%s: call %u, in round %u of a deterministic sequence, %s on "
                          "ps %u",
                          when, number, round->first,
                          adds ? "has computed from other rounds than those before it"
                               : "does not count, and has left something",
                          ps);
        }
    }
}

static bool is_deterministic(const struct round *round)
{
    uint32_t sequence = rounds.plan->places[round->first].sequence;
    return rounds.plan->sequences[sequence].deterministic;
}

/* ---- the order of rounds */

/* True if a member that counts has touched the ps in its first segment. */
static bool is_on(const struct round *round, uint32_t ps)
{
    uint32_t i = 0;
    while (i < round->n &&
           !(round->counts[i] && (round->of[i][SIM_MASK] >> ps & 1) != 0)) {
        i++;
    }
    return i < round->n;
}

/* Checks that the round was applied after the one before it. */
static void check_order(const struct sim_found *found, const struct round *round,
                        const char *when)
{
    const struct sim_plan *plan = rounds.plan;
    uint32_t sequence = plan->places[round->first].sequence;
    if (plan->sequences[sequence].staleness != 0) {
        return;
    }
    for (uint32_t ps = 0; ps < plan->n_ps; ps++) {
        int64_t last = found->last[ps][round->first] - 1;
        if (is_on(round, ps) && last != (int64_t)round->first) {
            sim_violation("%s: round %u was applied before round %d on ps %u", when,
                          round->first, (int)last, ps);
        }
    }
}

/* ---- */

static void check_round(const struct sim_found *found, uint32_t first, bool joined,
                        const char *when)
{
    struct round round = look_at(first, found);
    bool unknown = rounds.calls[first].state == UNKNOWN;
    if (!joined && !round.settled && !unknown) {
        return; /* it may be under way */
    }
    if (!round.settled && !unknown) {
        check_whole(&round, when);
    }
    check_sums(found, &round, when);
    for (uint32_t i = 0; joined && !unknown && i < round.n; i++) {
        check_seen(found, first + i, when);
    }
    if (joined) {
        check_order(found, &round, when);
    }
    for (uint32_t i = 0; joined && is_deterministic(&round) && i < round.n; i++) {
        check_chain(found, &round, i, when);
    }
}

void sim_ledger_rounds_check(const struct sim_found *found, bool joined,
                             const char *when)
{
    for (uint32_t i = first_round(); i < rounds.plan->n_calls; i = next_round(i)) {
        check_round(found, i, joined, when);
    }
}
