/*
 * See seat.h. Workers get enough closures to keep their slots busy while results and
 * the next closures travel, and no more, so that closures remain for other workers and
 * for second attempts.
 *
 * Threads: loop.
 */
#include "coordinator/closures/seat.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/error.h"
#include "coordinator/closures/closure.h"

enum {
    AHEAD_US = 2000,     /* work that a worker should have at hand */
    AHEAD_MAX = 1024,    /* the most closures, even if they are very short */
    WAYS_MAX_US = 500000 /* longer round trips count as this */
};

int coxi_seat_new(struct coxi_worker *worker)
{
    struct coxi_seat *seat = calloc(1, sizeof(*seat));
    if (seat == NULL) {
        return coxi_error_memory("a worker");
    }
    seat->c = worker->c;
    seat->worker = worker;
    worker->seat = seat;
    return 0;
}

void coxi_seat_free(struct coxi_seat *seat)
{
    if (seat != NULL) {
        coxi_seat_drop_collected(seat);
        coxi_seat_forget_all(seat);
        coxi_buffer_fini(&seat->dropped);
        coxi_buffer_fini(&seat->suspects);
        free(seat);
    }
}

void coxi_seat_drop_collected(struct coxi_seat *seat)
{
    coxi_buffer_fini(&seat->heads);
    coxi_buffer_fini(&seat->args);
    coxi_buffer_fini(&seat->keep);
    coxi_buffer_fini(&seat->alone);
    coxi_buffer_fini(&seat->inputs);
    coxi_buffer_fini(&seat->rounds);
}

/* ---- how many closures it should have at hand */

void coxi_seat_note_time(struct coxi_seat *seat, uint32_t run_us)
{
    double us = run_us + 0.5;
    double weight = seat->average_us > 0 ? 0.1 : 1;
    seat->average_us += weight * (us - seat->average_us);
}

void coxi_ways_note(struct coxi_ways *ways, const struct coxi_done *done)
{
    uint64_t now_us = coxi_now_us();
    uint64_t away_us = now_us - done->echo_us;
    if (done->echo_us != 0 && away_us < UINT32_MAX && away_us >= done->held_us) {
        coxi_least_note(&ways->client_us, now_us, (double)(away_us - done->held_us));
        /* as if the dispatch had been held on its way there, and not at the worker */
        coxi_peer_clock_note(&ways->clock, done->echo_us + done->held_us, done->sent_us,
                             now_us);
    }
    ways->ps_us = done->commit_us;
}

double coxi_ways_us(const struct coxi_ways *ways)
{
    return coxi_least(&ways->client_us) + ways->ps_us;
}

size_t coxi_ahead(double average_us, double ways_us)
{
    /* Round trips within a host are too short to matter; the factor covers errors of
     * measurement. */
    double far_us =
        AHEAD_US / 2.0 + 1.25 * (ways_us < WAYS_MAX_US ? ways_us : WAYS_MAX_US);
    double cover_us = far_us > AHEAD_US ? far_us : AHEAD_US;
    /* Not known yet: a few, so that the first results give an average. */
    double ahead = average_us > 0 ? cover_us / average_us : 4;
    return ahead >= AHEAD_MAX ? AHEAD_MAX : (size_t)ahead + 1;
}

size_t coxi_seat_load(const struct coxi_seat *seat)
{
    return seat->in_flight.n + seat->n_seconds + seat->n_leftovers;
}

size_t coxi_seat_capacity(const struct coxi_seat *seat)
{
    size_t ahead = seat->c->options.prefetch != 0
                       ? seat->c->options.prefetch
                       : coxi_ahead(seat->average_us, coxi_ways_us(&seat->ways));
    return seat->worker->slots * (1 + ahead);
}

void coxi_seat_update(struct coxi_seat *seat)
{
    bool is_ready = seat->worker->state == COXI_WORKER_READY;
    coxi_pool_set(&seat->c->closures->pool, seat->worker->index,
                  (uint32_t)coxi_seat_load(seat),
                  is_ready ? (uint32_t)coxi_seat_capacity(seat) : 0);
}

void coxi_seat_take(struct coxi_seat *seat, struct coxi_closure *closure)
{
    closure->seat = seat;
    coxi_list_append(&seat->in_flight, closure);
}

void coxi_seat_let_go(struct coxi_seat *seat, struct coxi_closure *closure)
{
    coxi_list_remove(&seat->in_flight, closure);
}

void coxi_seat_leave(struct coxi_seat *seat, struct coxi_closure *closure)
{
    struct coxi_leftover *leftover = malloc(sizeof(*leftover));
    coxi_seat_let_go(seat, closure);
    if (leftover != NULL) { /* otherwise the worker gets its next closures too early */
        *leftover = (struct coxi_leftover){seat->leftovers, closure->future.id,
                                           closure->attempts.current};
        seat->leftovers = leftover;
        seat->n_leftovers++;
    }
    coxi_seat_update(seat);
}

bool coxi_seat_forget(struct coxi_seat *seat, struct coxi_closure_id closure,
                      uint32_t attempt)
{
    struct coxi_leftover **link = &seat->leftovers;
    while (*link != NULL &&
           ((*link)->closure.n != closure.n || (*link)->attempt != attempt)) {
        link = &(*link)->next;
    }
    struct coxi_leftover *found = *link;
    if (found != NULL) {
        *link = found->next;
        seat->n_leftovers--;
        free(found);
    }
    return found != NULL;
}

void coxi_seat_forget_all(struct coxi_seat *seat)
{
    while (seat->leftovers != NULL) {
        struct coxi_leftover *leftover = seat->leftovers;
        seat->leftovers = leftover->next;
        free(leftover);
    }
    seat->n_leftovers = 0;
}

void coxi_seat_take_second(struct coxi_seat *seat)
{
    seat->n_seconds++;
    coxi_seat_update(seat);
}

void coxi_seat_let_go_second(struct coxi_seat *seat)
{
    seat->n_seconds--;
    coxi_seat_update(seat);
}
