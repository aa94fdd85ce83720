/* See seat.h. */
#include "coordinator/closures/seat.h"

#include <stdlib.h>

#include "common/error.h"
#include "coordinator/closures/closure.h"
#include "coordinator/closures/closures.h"
#include "coordinator/closures/queue.h"

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
}

size_t coxi_seat_load(const struct coxi_seat *seat)
{
    return seat->in_flight.n + seat->n_seconds;
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
