/*
 * Stragglers. A closure that has run for three times as long as its function takes on
 * average gets a second attempt on an idle worker. On each ps the attempt that commits
 * first counts, and the closure is closed on every ps before it ends (voiding.c),
 * because the two attempts may have touched different ps. Closures that are queued
 * after a long one on a worker are handed back if other workers are idle, and given to
 * those.
 *
 * Workers do not report which closure runs; it is taken to be the oldest that the
 * worker has (a worker runs them in order), running since the tick that first saw it as
 * the oldest.
 *
 * Bounds: one second attempt for each closure at a time, one for each idle worker.
 *
 * Threads: loop. Cost: O(workers) in a tick, while some are idle and others are not.
 */
#include "coordinator/closures/stragglers.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/base/ps_set.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/seat.h"
#include "coordinator/workers/module.h"

enum {
    AVERAGES = 3,
    STRAGGLER_MIN_US = 100 * 1000,
    WAITING_MIN_MS = 100, /* time for which the oldest closure keeps others waiting */
    HAND_BACK_MAX = 64,   /* closures of one worker at a time */
};

static bool is_straggler(const struct coxi_closure *closure, uint64_t ran_ms)
{
    const struct cox_function *function = closure->function;
    double limit_us = function->average_us * AVERAGES;
    if (limit_us < STRAGGLER_MIN_US) {
        limit_us = STRAGGLER_MIN_US;
    }
    return closure->future.c->options.speculate >= 0 &&
           function->n_samples == COXI_SAMPLES && (double)ran_ms * 1000 > limit_us &&
           closure->second == NULL && closure->asked.only == NULL &&
           closure->home == NULL && !closure->attempts.cancelled;
}

/* ---- second attempts */

/* Takes the second attempt away from its worker, and frees it. */
static void forget(struct coxi_second *second)
{
    struct coxi_seat *seat = second->seat;
    if (second->prev != NULL) {
        second->prev->next = second->next;
    } else {
        seat->seconds = second->next;
    }
    if (second->next != NULL) {
        second->next->prev = second->prev;
    }
    second->closure->second = NULL;
    coxi_seat_let_go_second(seat);
    free(second);
}

void coxi_straggler_drop(struct coxi_closure *closure)
{
    if (closure->second != NULL) {
        coxi_send_recall(closure->second->seat, closure->future.id,
                         closure->second->attempt, true);
        forget(closure->second);
    }
}

void coxi_stragglers_lost(struct coxi_seat *seat)
{
    for (struct coxi_second *second = seat->seconds; second != NULL;) {
        struct coxi_second *next = second->next;
        forget(second);
        second = next;
    }
}

bool coxi_straggler_promote(struct coxi_closure *closure)
{
    struct coxi_second *second = closure->second;
    if (second == NULL) {
        return false;
    }
    closure->seat = second->seat;
    closure->attempts.current = second->attempt;
    forget(second);
    coxi_seat_take(closure->seat, closure);
    return true;
}

bool coxi_straggler_ended(struct coxi_seat *seat, struct coxi_closure *closure,
                          const struct coxi_done_head *head)
{
    struct coxi_second *second = closure->second;
    if (second == NULL || second->seat != seat || second->attempt != head->attempt) {
        return false;
    }
    forget(second);
    if (head->code == COX_ECANCELLED || head->code == COX_EOVERRUN) {
        return false; /* the first attempt continues */
    }
    if (head->code == 0) {
        struct cox_coordinator *c = closure->future.c;
        coxi_lock(&c->lock);
        c->counts.stats.speculation_won++;
        coxi_unlock(&c->lock);
    }
    coxi_send_recall(closure->seat, closure->future.id, closure->attempts.current,
                     true);
    coxi_seat_let_go(closure->seat, closure);
    return true;
}

static void race(struct coxi_closure *closure, struct coxi_seat *seat)
{
    struct cox_coordinator *c = closure->future.c;
    struct coxi_second *second = calloc(1, sizeof(*second));
    if (second == NULL ||
        coxi_send_add(seat, closure, closure->attempts.last + 1) != 0) {
        free(second); /* the first attempt continues */
        return;
    }
    closure->attempts.last++;
    closure->effect.uncertain = true;
    *second = (struct coxi_second){.closure = closure,
                                   .seat = seat,
                                   .attempt = closure->attempts.last,
                                   .next = seat->seconds};
    if (second->next != NULL) {
        second->next->prev = second;
    }
    seat->seconds = second;
    closure->second = second;
    coxi_seat_take_second(seat);
    coxi_send_flush(seat);
    coxi_event(c, COX_EVENT_CLOSURE_AGAIN,
               COXI_OF(.closure = closure->future.id,
                       .worker = coxi_maybe_of(seat->worker->index)),
               "closure %llu (%s) takes long on worker %u (%.0f ms on average): worker "
               "%u runs it, too",
               (unsigned long long)closure->future.id.n, closure->function->name,
               closure->seat->worker->index, closure->function->average_us / 1000,
               seat->worker->index);
    coxi_lock(&c->lock);
    c->counts.stats.speculated++;
    coxi_unlock(&c->lock);
}

/* ---- closures that are queued after a long one */

/* Asks for up to `n` closures back that the worker cannot have started; returns how
 * many. */
static size_t call_back(struct coxi_seat *seat, size_t n)
{
    struct coxi_closure *closure = seat->in_flight.last;
    size_t n_may = seat->in_flight.n - seat->worker->slots;
    size_t n_called = 0;
    for (size_t i = 0; i < n_may && n_called < n; i++, closure = closure->prev) {
        if (!closure->attempts.called_back && closure->asked.only == NULL) {
            closure->attempts.called_back = true;
            coxi_send_recall(seat, closure->future.id, closure->attempts.current,
                             false);
            n_called++;
        }
    }
    return n_called;
}

/* ---- looking */

/* The next ready and idle worker from *i on, or NULL. */
static struct coxi_seat *next_idle(struct cox_coordinator *c, uint32_t *i)
{
    while (*i < c->workers->n) {
        struct coxi_seat *seat = c->workers->all[(*i)++]->seat;
        if (seat->worker->state == COXI_WORKER_READY && coxi_seat_load(seat) == 0) {
            return seat;
        }
    }
    return NULL;
}

/* For how long the oldest closure of the worker has been its oldest, in ms. */
static uint64_t watch_oldest(struct coxi_seat *seat, uint64_t now)
{
    const struct coxi_closure *closure = seat->in_flight.first;
    if (seat->oldest_id != closure->future.id.n ||
        seat->oldest_attempt != closure->attempts.current) {
        seat->oldest_id = closure->future.id.n;
        seat->oldest_attempt = closure->attempts.current;
        seat->oldest_since_ms = now;
    }
    return now - seat->oldest_since_ms;
}

uint64_t coxi_straggler_ran_ms(const struct coxi_seat *seat, uint64_t now_ms)
{
    const struct coxi_closure *first = seat->in_flight.first;
    bool same = first != NULL && seat->oldest_id == first->future.id.n &&
                seat->oldest_attempt == first->attempts.current;
    return same ? now_ms - seat->oldest_since_ms : 0;
}

void coxi_stragglers_tick(struct cox_coordinator *c)
{
    uint64_t now = coxi_now_ms();
    uint32_t at = 0;
    /* While ps are recovered, idle workers may only get replayed closures. */
    bool recovery = coxi_ps_recovering(c);
    size_t n_in_line = recovery ? c->closures->replay_queue.n : c->closures->queue.n;
    struct coxi_seat *idle =
        n_in_line == 0 && !c->closures->recalled ? next_idle(c, &at) : NULL;
    for (uint32_t i = 0; i < c->workers->n; i++) {
        struct coxi_seat *seat = c->workers->all[i]->seat;
        if (seat->worker->state != COXI_WORKER_READY || seat->in_flight.n == 0) {
            continue;
        }
        uint64_t ran_ms = watch_oldest(seat, now);
        if (idle == NULL ||
            (seat->in_flight.n > seat->worker->slots && ran_ms >= WAITING_MIN_MS &&
             call_back(seat, idle->worker->slots) > 0)) {
            continue;
        }
        if (!recovery && is_straggler(seat->in_flight.first, ran_ms)) {
            race(seat->in_flight.first, idle);
            idle = next_idle(c, &at);
        }
    }
}
