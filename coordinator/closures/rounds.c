/*
 * See round.h: sequences of rounds, and scheduling a round. The members of a round and
 * its end get their ids together, so that they follow one another. Any thread.
 */
#include <stdlib.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/run_place.h"
#include "common/structs.h"
#include "common/sync.h"
#include "coordinator/closures/callback.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/round.h"
#include "coordinator/closures/schedule.h"
#include "coordinator/workers/module.h"

/* ---- sequences */

static int check_deterministic(const struct cox_rounds_spec *spec)
{
    if (spec->deterministic > 1) {
        return coxi_error(COX_EINVAL, "deterministic is 0 or 1, not %u",
                          spec->deterministic);
    }
    if (spec->deterministic != 0 && spec->staleness != 0) {
        return coxi_error(COX_EINVAL,
                          "deterministic rounds need staleness 0: with a bound above 0 "
                          "it depends on the time which rounds a step sees");
    }
    if (spec->deterministic != 0 && spec->backups != 0) {
        return coxi_error(
            COX_EINVAL, "deterministic rounds have no backups: it depends on the time "
                        "which closures would be left out");
    }
    return 0;
}

static int check_spec(const struct cox_rounds_spec *spec)
{
    if (spec->staleness > COX_STALENESS_MAX && spec->staleness != COX_STALENESS_ANY) {
        return coxi_error(COX_EINVAL,
                          "a staleness of %u: it is at most %d, or COX_STALENESS_ANY",
                          spec->staleness, COX_STALENESS_MAX);
    }
    if (spec->backups >= COX_ROUND_MAX) {
        return coxi_error(COX_EINVAL, "%u backups: a round has at most %d closures",
                          spec->backups, COX_ROUND_MAX);
    }
    if (spec->reduce > COX_REDUCE_SUM) {
        return coxi_error(COX_EINVAL, "%u is no enum cox_reduce", spec->reduce);
    }
    return check_deterministic(spec);
}

static void put(struct cox_rounds *rounds) COXI_REQUIRES(rounds->c->lock)
{
    struct coxi_rounds_state *state = &rounds->c->closures->rounds;
    rounds->next = state->sequences;
    state->sequences = rounds;
    if (rounds->spec.deterministic != 0) {
        atomic_store(&rounds->c->ps.sets_all_back, true);
    }
}

int cox_rounds_create(struct cox_coordinator *c, const struct cox_rounds_spec *spec,
                      struct cox_rounds **ret)
{
    struct cox_rounds_spec known;
    if (c == NULL || spec == NULL || ret == NULL) {
        return coxi_error(COX_EINVAL, "cox_rounds_create needs a coordinator, a "
                                      "specification and a place for its result");
    }
    int r = coxi_struct_copy(&known, COXI_STRUCT_ROUNDS_SPEC, spec);
    r = r == 0 ? check_spec(&known) : r;
    if (r != 0) {
        return r;
    }
    struct cox_rounds *rounds = calloc(1, sizeof(*rounds));
    if (rounds == NULL) {
        return coxi_error_memory("a sequence of rounds");
    }
    rounds->c = c;
    rounds->spec = known;
    coxi_lock(&c->lock);
    rounds->id = c->session.generation << 32 | c->closures->rounds.n_sequences++;
    put(rounds);
    coxi_unlock(&c->lock);
    *ret = rounds;
    return 0;
}

int coxi_rounds_inherit(struct cox_coordinator *c, uint64_t id,
                        const struct cox_rounds_spec *spec, struct cox_rounds **ret)
{
    coxi_lock(&c->lock);
    struct cox_rounds *rounds = c->closures->rounds.sequences;
    while (rounds != NULL && rounds->id != id) {
        rounds = rounds->next;
    }
    if (rounds == NULL && (rounds = calloc(1, sizeof(*rounds))) != NULL) {
        rounds->c = c;
        rounds->spec = *spec;
        rounds->inherited = true;
        rounds->id = id;
        put(rounds);
    }
    coxi_unlock(&c->lock);
    *ret = rounds;
    return rounds != NULL ? 0 : coxi_error_memory("a sequence of rounds");
}

uint64_t coxi_rounds_whole(struct cox_coordinator *c, uint64_t id)
{
    coxi_lock(&c->lock);
    const struct cox_rounds *rounds = c->closures->rounds.sequences;
    coxi_unlock(&c->lock);
    for (; rounds != NULL; rounds = rounds->next) {
        const struct coxi_round *round = rounds->first;
        while (round != NULL && (id < round->first || id >= round->first + round->n)) {
            round = round->next;
        }
        if (round != NULL) {
            return round->first + round->n;
        }
    }
    return id;
}

uint64_t coxi_rounds_next_place(struct cox_coordinator *c, uint64_t id)
{
    uint64_t next = c->closures->rounds.listed_place;
    coxi_lock(&c->lock);
    const struct cox_rounds *rounds = c->closures->rounds.sequences;
    coxi_unlock(&c->lock);
    for (; rounds != NULL; rounds = rounds->next) {
        for (const struct coxi_round *round = rounds->first;
             round != NULL && rounds->spec.deterministic != 0; round = round->next) {
            next = round->first > id && round->place < next ? round->place : next;
        }
    }
    return next;
}

/* ---- rounds */

/* The function of ends, for texts. */
static struct cox_module no_module = {.name = (char *)(uintptr_t)"coxswain"};
static struct cox_function end_function = {.module = &no_module,
                                           .name = "end of a round"};

int coxi_round_new(struct cox_rounds *rounds, uint32_t n, uint32_t needed,
                   struct coxi_round **ret)
{
    struct cox_coordinator *c = rounds->c;
    size_t n_words = (c->ps.n + 63) / 64;
    size_t words = (n + 1) * n_words; /* of each member, and of the ps that have it */
    struct coxi_round *round = calloc(1, sizeof(*round) + n * sizeof(*round->members));
    struct coxi_round_part *parts = calloc(n, sizeof(*parts));
    uint64_t *touched = calloc(words, sizeof(*touched));
    uint32_t *n_waiting = calloc(c->ps.n, sizeof(*n_waiting));
    struct coxi_closure *end = NULL;
    const struct coxi_closure_spec spec = {.function = &end_function, .waits = true};
    int r = round == NULL || parts == NULL || touched == NULL || n_waiting == NULL
                ? coxi_error_memory("a round")
                : coxi_closure_new(c, &spec, &end);
    if (r != 0) {
        free(round);
        free(parts);
        free(touched);
        free(n_waiting);
        return r;
    }
    round->rounds = rounds;
    round->end = end;
    round->n = n;
    round->needed = needed;
    round->parts = parts;
    round->touched = touched;
    round->n_words = (uint32_t)n_words;
    round->acked = touched + n * n_words;
    round->n_waiting = n_waiting;
    end->round = round;
    *ret = round;
    return 0;
}

/* ---- scheduling */

/* A round that is being scheduled. */
struct scheduling {
    const struct coxi_round_plan *plan;
    struct coxi_round *round;
    struct coxi_closure **closures; /* its members, then its end */
    size_t n;                       /* made so far */
};

/* Makes the members. */
static int make(struct scheduling *s)
{
    const struct coxi_round_plan *plan = s->plan;
    int r = 0;
    for (size_t i = 0; r == 0 && i < plan->n; i++) {
        struct coxi_closure *closure;
        r = plan->make(plan, i, plan->futures != NULL, &closure);
        if (r == 0) {
            coxi_round_join(s->round, closure);
            s->closures[s->n++] = closure;
        } else {
            r = coxi_error(r, "closure %zu of the round: %.400s", i, coxi_error_text());
        }
    }
    return r;
}

/* The user holds the futures that were asked for (before the loop may settle them). */
static void hold(const struct scheduling *s)
{
    for (size_t i = 0; s->plan->futures != NULL && i < s->plan->n; i++) {
        coxi_schedule_hold(s->closures[i]);
    }
    if (s->plan->ret_end != NULL) {
        coxi_schedule_hold(s->round->end);
    }
}

/* Gives them to the user; or, if they were not scheduled, takes them back. */
static void give(const struct scheduling *s, bool scheduled)
{
    const struct coxi_round_plan *plan = s->plan;
    for (size_t i = 0; plan->futures != NULL && i < plan->n; i++) {
        if (scheduled) {
            plan->futures[i] = &s->closures[i]->future;
        } else {
            cox_future_free(&s->closures[i]->future);
        }
    }
    if (plan->ret_end != NULL && scheduled) {
        *plan->ret_end = &s->round->end->future;
    } else if (plan->ret_end != NULL) {
        cox_future_free(&s->round->end->future);
    }
}

/* A closure whose call has a cursor, if there is one (schedule.c, forget_cancelled). */
static const struct coxi_closure *with_cursor(const struct scheduling *s)
{
    size_t i = 0;
    while (i + 1 < s->n && s->closures[i]->asked.cursor == 0) {
        i++;
    }
    return s->closures[i];
}

/* Gives the members of a deterministic round their places. Together with their ids, so
 * that both rise. */
static void place(struct cox_coordinator *c, const struct scheduling *s)
    COXI_REQUIRES(c->lock)
{
    struct coxi_rounds_state *state = &c->closures->rounds;
    uint64_t before = atomic_load(&c->ids.steps_before);
    if (s->round->rounds->spec.deterministic == 0) {
        return;
    }
    s->round->place = state->next_place;
    for (uint32_t i = 0; i < s->round->n; i++) {
        uint64_t at = state->next_place + i;
        coxi_run_place_write(
            s->closures[i]->args,
            &(struct coxi_run_place){coxi_hash_key(c->options.seed ^ coxi_hash_key(at)),
                                     at + before});
    }
    state->next_place += s->round->n + 1;
}

/* Gives the ids, once there is room. */
static int enter(const struct scheduling *s)
{
    struct cox_rounds *rounds = s->round->rounds;
    struct cox_coordinator *c = rounds->c;
    bool alone = false;
    hold(s);
    coxi_lock(&c->lock);
    int r = coxi_schedule_await(c, with_cursor(s), true);
    if (r == 0) {
        s->round->number = rounds->n_scheduled++;
        s->round->first = c->ids.next;
        place(c, s);
        /* the user's before the loop's: it may free what nobody holds */
        give(s, true);
        for (size_t i = 0; s->plan->tasks != NULL && i < s->plan->n; i++) {
            coxi_schedule_give_task(s->closures[i], s->plan->tasks[i].handout);
        }
        alone = coxi_schedule_enter(c, s->closures, s->n);
    }
    coxi_unlock(&c->lock);
    if (r == 0) {
        coxi_schedule_wake(c, alone);
    } else {
        give(s, false);
    }
    return r;
}

static void scheduling_fini(struct scheduling *s, bool scheduled)
{
    for (size_t i = 0; !scheduled && i < s->n; i++) {
        if (s->closures[i] != s->round->end) {
            coxi_future_unref(&s->closures[i]->future);
        }
    }
    if (!scheduled) {
        coxi_future_unref(&s->round->end->future);
    }
    free(s->closures);
}

int coxi_round_check(const struct cox_rounds *rounds, const char *what, size_t n)
{
    if (rounds == NULL) {
        return coxi_error(COX_EINVAL, "%s needs a sequence of rounds", what);
    }
    if (n == 0 || n > COX_ROUND_MAX) {
        return coxi_error(COX_EINVAL, "%s: a round has 1 to %d closures, not %zu", what,
                          COX_ROUND_MAX, n);
    }
    return rounds->spec.backups < n
               ? 0
               : coxi_error(COX_EINVAL,
                            "a round of %zu closures cannot have %u backups: it would "
                            "be complete without any",
                            n, rounds->spec.backups);
}

int coxi_round_schedule(const struct coxi_round_plan *plan)
{
    struct scheduling s = {.plan = plan};
    int r = coxi_round_new(plan->rounds, (uint32_t)plan->n, plan->needed, &s.round);
    if (r != 0) {
        return r;
    }
    s.closures = calloc(plan->n + 1, sizeof(struct coxi_closure *));
    r = s.closures == NULL ? coxi_error_memory("a round") : make(&s);
    if (r == 0) {
        s.closures[s.n++] = s.round->end;
        r = enter(&s);
    }
    scheduling_fini(&s, r == 0);
    return r;
}

/* The closure of a call. */
static int make_call(const struct coxi_round_plan *plan, size_t i, bool held,
                     struct coxi_closure **ret)
{
    const struct cox_round_call *call = (const struct cox_round_call *)plan->arg + i;
    return (plan->rounds->spec.deterministic != 0 ? coxi_schedule_make_placed
                                                  : coxi_schedule_make)(
        plan->rounds->c, call->function, call->call, held, ret);
}

int cox_round_schedule(struct cox_rounds *rounds, const struct cox_round_call *calls,
                       size_t n, struct cox_future **futures,
                       struct cox_future **ret_end)
{
    int r = coxi_round_check(rounds, "cox_round_schedule", n);
    if (r == 0 && calls == NULL) {
        r = coxi_error(COX_EINVAL, "cox_round_schedule needs calls");
    }
    return r != 0 ? r
                  : coxi_round_schedule(&(struct coxi_round_plan){
                        .rounds = rounds,
                        .n = n,
                        .needed = (uint32_t)n - rounds->spec.backups,
                        .make = make_call,
                        .arg = calls,
                        .futures = futures,
                        .ret_end = ret_end,
                    });
}
