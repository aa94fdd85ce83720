/* See ledger.h. */
#include "tests/sim/ledger_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"
#include "coxswain/types.h"
#include "tests/sim/sched.h"
#include "tests/sim/trace.h"

/* How much of a call may be applied. */
enum allowed {
    ALL,
    NOTHING,
    ANY_PART,
    ALL_OR_NOTHING, /* ledger_rounds.c says which */
};

static struct {
    const struct sim_plan *plan;
    struct sim_call calls[SIM_CALLS_MAX];
    bool joined; /* the program has joined before this comparison */
    /* an earlier client may have made assignments up to this call */
    uint32_t made_until;
    bool broken;
    char text[1000];
} ledger;

void sim_violation(const char *format, ...)
{
    if (!ledger.broken) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(ledger.text, sizeof(ledger.text), format, args);
        va_end(args);
        ledger.broken = true;
        sim_trace("VIOLATION: %s", ledger.text);
    }
    sim_stop();
}

const char *sim_ledger_violation(void)
{
    return ledger.broken ? ledger.text : NULL;
}

void sim_ledger_begin(const struct sim_plan *plan)
{
    memset(&ledger, 0, sizeof(ledger));
    ledger.plan = plan;
    sim_ledger_rounds_begin(plan, ledger.calls);
}

/* Assignments before this call may be covered: after the cursor there are only
 * cancelled calls. */
static uint32_t assigned_until(uint32_t n_covered)
{
    while (n_covered < ledger.plan->n_calls && ledger.calls[n_covered].cancelled) {
        n_covered++;
    }
    return n_covered;
}

void sim_ledger_go_on(uint32_t n_covered, uint64_t generation)
{
    ledger.made_until = assigned_until(n_covered);
    sim_ledger_rounds_go_on(n_covered, generation);
    for (uint32_t i = 0; i < ledger.plan->n_calls; i++) {
        struct sim_call *call = &ledger.calls[i];
        if (i < n_covered && !call->scheduled) {
            sim_violation("call %u is covered, and was never scheduled", i);
        }
        call->state = i < n_covered ? COVERED : UNKNOWN;
        call->cancelled = i < n_covered && call->cancelled;
        call->asked = call->cancelled && call->asked;
    }
}

void sim_ledger_schedule(uint32_t number, bool replaced)
{
    ledger.calls[number].scheduled = true;
    ledger.calls[number].state = replaced ? ledger.calls[number].state : SCHEDULED;
}

void sim_ledger_cancel(uint32_t number)
{
    const struct sim_place *place = &ledger.plan->places[number];
    ledger.calls[number].cancelled = ledger.calls[number].asked = true;
    for (uint32_t i = 0; i < place->n; i++) { /* its round may end because of that */
        ledger.calls[place->first + i].cancelled = true;
    }
}

bool sim_ledger_is_settled(uint32_t number)
{
    return ledger.calls[number].state != SCHEDULED;
}

/* True if a call that should succeed may end with this code. */
static bool may_fail(const struct sim_call *call, int code)
{
    return code == COX_ELOST || code == COX_EREPLAY || code == COX_ENOWORKER ||
           code == COX_EOVERRUN ||
           (code == COX_ECANCELLED && (call->cancelled || ledger.plan->brittle)) ||
           (call->cancelled && code == COX_EPARTIAL);
}

void sim_ledger_settle(uint32_t number, int code, const char *text)
{
    struct sim_call *call = &ledger.calls[number];
    int64_t of[SIM_ARGUMENTS];
    sim_plan_call(ledger.plan, number, of);
    bool well = of[SIM_ENDING] == SIM_OK || of[SIM_ENDING] == SIM_CRASHES;
    bool is_member = of[SIM_ROUND] >= 0;
    if (is_member && code == COX_EPARTIAL) {
        sim_violation("call %u is in a round, and applied in part: %s", number, text);
    } else if (is_member && (code == COX_ECANCELLED || code == COX_ELATE)) {
        /* sim_ledger_end_round asks why */
    } else if (of[SIM_ENDING] == SIM_BRITTLE) {
        /* Either is right. */
    } else if (code == 0 && !well) {
        sim_violation("call %u was to fail, and is done", number);
    } else if (code != 0 && well && !may_fail(call, code)) {
        sim_violation("call %u was to go well, and fails: %s: %s", number,
                      coxi_error_name(code), text);
    }
    call->state = SETTLED;
    call->code = code;
}

void sim_ledger_read_old(uint32_t number, const char *name, int64_t found,
                         int64_t least)
{
    /* otherwise it belongs to an earlier client */
    if (ledger.calls[number].state != UNKNOWN) {
        sim_violation("call %u reads %lld of %s, which was set to %lld before", number,
                      (long long)found, name, (long long)least);
    }
}

/* ---- what must be applied */

static enum allowed allowed_failed(int code)
{
    return code == COX_EREPLAY ? ALL : code == COX_EPARTIAL ? ANY_PART : NOTHING;
}

/* True if nothing that the step does will ever count. */
static bool has_no_effect(const int64_t of[SIM_ARGUMENTS])
{
    return of[SIM_ENDING] == SIM_FAILS ||
           (of[SIM_ENDING] == SIM_FAILS_FLUSHED && of[SIM_ROUND] >= 0);
}

static enum allowed allowed(const struct sim_call *call,
                            const int64_t of[SIM_ARGUMENTS])
{
    if (call->state == SETTLED) {
        return call->code == 0 ? ALL : allowed_failed(call->code);
    }
    if (call->state == UNKNOWN || has_no_effect(of)) {
        return NOTHING;
    }
    if (!ledger.joined && (call->state == SCHEDULED || call->state == COVERED)) {
        return ANY_PART; /* it may be under way */
    }
    if (of[SIM_ROUND] >= 0) {
        return ALL_OR_NOTHING;
    }
    if (of[SIM_ENDING] == SIM_FAILS_FLUSHED || of[SIM_ENDING] == SIM_BRITTLE) {
        return ANY_PART;
    }
    return call->cancelled ? ANY_PART : ALL; /* it may have ended as COX_EPARTIAL */
}

static const char *name_of(enum allowed allowed)
{
    switch (allowed) {
    case ALL:
        return "all of it";
    case NOTHING:
        return "nothing of it";
    case ANY_PART:
        return "at most once each part";
    case ALL_OR_NOTHING:
        return "all of it, or nothing";
    }
    return "";
}

/* What is applied of a call, and what its step adds: one bit for each part. */
struct parts {
    uint32_t there;
    uint32_t planned;
    bool wrong; /* something is neither 0 nor 1 */
};

static void add_part(struct parts *parts, uint32_t bit, int64_t found, bool planned)
{
    parts->there |= found != 0 ? UINT32_C(1) << bit : 0;
    parts->planned |= planned ? UINT32_C(1) << bit : 0;
    parts->wrong |= found != 0 && found != 1;
}

static struct parts parts_of(const struct sim_found *found, uint32_t number,
                             const int64_t of[SIM_ARGUMENTS])
{
    struct parts parts = {0};
    for (uint32_t ps = 0; ps < ledger.plan->n_ps; ps++) {
        for (uint32_t s = 0; s < SIM_SEGMENTS; s++) {
            int64_t mask = of[s == 0 ? SIM_MASK : SIM_AFTER];
            add_part(&parts, ps * SIM_SEGMENTS + s, found->counted[ps][number][s],
                     (mask >> ps & 1) != 0);
        }
    }
    float row = found->rows[number];
    bool good = row == 1.0F || of[SIM_ROUND] >= 0; /* ledger_rounds.c compares it */
    add_part(&parts, 31, row == 0.0F ? 0 : good ? 1 : 2, of[SIM_ROW] != 0);
    return parts;
}

bool sim_ledger_is_there(const struct sim_found *found, uint32_t number,
                         const int64_t of[SIM_ARGUMENTS])
{
    struct parts parts = parts_of(found, number, of);
    return parts.there == parts.planned;
}

static bool fits(const struct parts *parts, enum allowed allowed)
{
    if (parts->wrong || (parts->there & ~parts->planned) != 0) {
        return false;
    }
    switch (allowed) {
    case ALL:
        return parts->there == parts->planned;
    case NOTHING:
        return parts->there == 0;
    case ANY_PART:
        return true;
    case ALL_OR_NOTHING:
        return parts->there == 0 || parts->there == parts->planned;
    }
    return false;
}

static void check_call(const struct sim_found *found, uint32_t number, const char *when)
{
    const struct sim_call *call = &ledger.calls[number];
    int64_t of[SIM_ARGUMENTS];
    sim_plan_call(ledger.plan, number, of);
    struct parts parts = parts_of(found, number, of);
    enum allowed may = allowed(call, of);
    if (!fits(&parts, may)) {
        sim_violation("%s: call %u (%s %s) is to have %s: there is %08x of %08x%s",
                      when, number,
                      call->state == SETTLED   ? "settled as"
                      : call->state == COVERED ? "covered by"
                                               : "not scheduled",
                      call->state == SETTLED   ? coxi_error_name(call->code)
                      : call->state == COVERED ? "a checkpoint"
                                               : "",
                      name_of(may), parts.there, parts.planned,
                      parts.wrong ? ", some twice" : "");
    }
}

/* The last assignment before call `n`: the call before which it was made, or 0. */
static uint32_t last_assignment(uint32_t n, bool *ret_joined)
{
    uint32_t last = 0;
    for (uint32_t i = 1; i < n; i++) {
        unsigned actions = sim_plan_actions(ledger.plan, i);
        if ((actions & SIM_ASSIGN) != 0) {
            last = i;
            *ret_joined = (actions & SIM_JOIN) != 0;
        }
    }
    return last;
}

/* Checks that assigned variables have what was counted since the assignment, and
 * nothing from before a join. */
static void check_assigned(const struct sim_found *found, uint32_t n, const char *when)
{
    bool joined = false;
    uint32_t last = last_assignment(n, &joined);
    for (uint32_t i = 0; i < n; i++) {
        int64_t of[SIM_ARGUMENTS];
        sim_plan_call(ledger.plan, i, of);
        /* An earlier client may have made the next assignment. */
        bool made = ledger.calls[i].state == COVERED && n <= ledger.made_until;
        /* "m1" may lie on another ps than "c1". */
        bool partial = allowed(&ledger.calls[i], of) == ANY_PART;
        for (uint32_t ps = 0; ps < ledger.plan->n_ps; ps++) {
            for (uint32_t s = 0; s < SIM_SEGMENTS; s++) {
                int64_t counted = found->counted[ps][i][s];
                int64_t has = found->assigned[ps][i][s];
                bool good = i < last && joined            ? has == 0
                            : i < last || made || partial ? has == 0 || has == 1
                                                          : has == counted;
                if (!good) {
                    sim_violation("%s: m%u has %lld of call %u, segment %u, which "
                                  "counted %lld; zeros were assigned before call %u%s",
                                  when, ps, (long long)has, i, s, (long long)counted,
                                  last, joined ? ", behind a join" : "");
                }
            }
        }
    }
}

void sim_ledger_check(const struct sim_found *found, uint32_t n, bool joined,
                      const char *when)
{
    ledger.joined = joined;
    for (uint32_t i = 0; i < ledger.plan->n_calls; i++) {
        check_call(found, i, when);
    }
    check_assigned(found, n, when);
    if (ledger.plan->n_sequences > 0) {
        sim_ledger_rounds_check(found, joined, when);
    }
}
