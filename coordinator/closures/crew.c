/*
 * See crew.h: passes events of workers on to their seats (seat.h). Everything that a
 * worker reports, and every change of its state, arrives here first and goes on to the
 * file that handles it.
 *
 * Threads: loop.
 */
#include "coordinator/closures/crew.h"

#include <stdio.h>

#include "common/sync.h"
#include "coordinator/base/event.h"
#include "coordinator/closures/attempts.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/dispatch.h"
#include "coordinator/closures/handout.h"
#include "coordinator/closures/kept.h"
#include "coordinator/closures/losses.h"
#include "coordinator/closures/seat.h"
#include "coordinator/closures/settle.h"

/* ---- reports to the user */

/* Tells the user that the worker is ready, once each time that it comes. */
static void tell_ready(struct coxi_seat *seat)
{
    struct cox_coordinator *c = seat->c;
    const struct coxi_worker *worker = seat->worker;
    if (seat->is_told) {
        return;
    }
    coxi_lock(&c->lock);
    bool quiet = !c->life.opened && !seat->was_told; /* cox_open waits for it anyway */
    coxi_unlock(&c->lock);
    coxi_event(c, seat->was_told ? COX_EVENT_WORKER_BACK : COX_EVENT_WORKER_JOINED,
               COXI_OF(.worker = coxi_maybe_of(worker->index),
                       .level = quiet ? 1 + COX_EVENT_DEBUG : 0),
               "worker %u at %.300s %s", worker->index, worker->url,
               seat->was_told ? "is back" : "has joined");
    seat->n_back += seat->was_told;
    seat->is_told = seat->was_told = true;
}

static void tell_lost(struct coxi_seat *seat, const struct coxi_worker_loss *loss)
{
    const struct coxi_worker *worker = seat->worker;
    bool has_left = loss->has_left;
    size_t n = seat->in_flight.n;
    char moved[64] = "";
    if (n > 0) {
        (void)snprintf(moved, sizeof(moved), "; %zu closure%s elsewhere", n,
                       n == 1 ? " runs" : "s run");
    }
    seat->is_told = false;
    seat->n_lost += !has_left;
    coxi_event(seat->c, has_left ? COX_EVENT_WORKER_LEFT : COX_EVENT_WORKER_LOST,
               COXI_OF(.worker = coxi_maybe_of(worker->index),
                       .error = has_left ? 0 : COX_ELOST),
               "worker %u at %.150s %s: %.250s%s", worker->index, worker->url,
               has_left ? "has left" : "is lost", loss->text, moved);
}

/* ---- coming and going */

static int added(struct coxi_worker *worker)
{
    struct cox_coordinator *c = worker->c;
    int r = coxi_pool_reserve(&c->closures->pool, c->workers->capacity);
    return r == 0 ? coxi_seat_new(worker) : r;
}

static void freed(struct coxi_worker *worker)
{
    coxi_seat_free(worker->seat);
}

static void changed(struct coxi_worker *worker)
{
    if (worker->state == COXI_WORKER_READY) {
        tell_ready(worker->seat);
    }
    coxi_seat_update(worker->seat);
}

/* The worker's process has not died, so none of its steps ended with it. */
static void returned(struct coxi_worker *worker)
{
    coxi_losses_told(worker->seat, &(struct coxi_crashed){NULL, 0});
}

static void cut_off(struct coxi_worker *worker)
{
    coxi_send_recall_waiting(worker->seat);
}

static void leaving(struct coxi_worker *worker)
{
    coxi_closures_leave_home(worker->seat);
    coxi_kept_rescue(worker->seat);
}

static bool is_idle(const struct coxi_worker *worker)
{
    return coxi_seat_load(worker->seat) == 0 && worker->seat->n_asked_results == 0;
}

static void lost(struct coxi_worker *worker, const struct coxi_worker_loss *loss)
{
    struct coxi_seat *seat = worker->seat;
    seat->ways = (struct coxi_ways){0};
    coxi_seat_drop_collected(seat);
    if (loss->was_there && !worker->c->phase.shutting_down) {
        tell_lost(seat, loss);
    }
    coxi_kept_lost(seat);
    /* a worker that leaves has finished its running steps */
    coxi_attempts_put_back(seat, loss->has_left ? 0 : worker->slots);
}

/* ---- messages of workers */

static int result(struct coxi_worker *worker, const struct coxi_result *message,
                  const uint8_t *payload, size_t len)
{
    return coxi_kept_sent(worker->seat, message, payload, len);
}

static void wanted(struct coxi_worker *worker, uint64_t request,
                   const struct coxi_file_read *message)
{
    worker->c->closures->handouts->wanted(worker, request, message);
}

static void crashed(struct coxi_worker *worker, const struct coxi_crashed *message)
{
    coxi_attempts_crashed(worker->seat, message);
}

const struct coxi_worker_events coxi_crew_events = {
    .added = added,
    .freed = freed,
    .changed = changed,
    .returned = returned,
    .cut_off = cut_off,
    .leaving = leaving,
    .is_idle = is_idle,
    .lost = lost,
    .done = coxi_attempts_done,
    .result = result,
    .wanted = wanted,
    .crashed = crashed,
};
