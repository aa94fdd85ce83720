/*
 * A seat: the state that closures keep for a worker, one for each, from the moment that
 * the worker is known until it is freed. It has the closures that the worker has, the
 * closures that wait for this worker alone, the dispatch that is being collected, the
 * worker's speed, by which it gets closures in advance, and the results that it keeps.
 * All on the loop.
 */
#ifndef COXI_COORDINATOR_CLOSURES_SEAT_H
#define COXI_COORDINATOR_CLOSURES_SEAT_H

#include "common/clock.h"
#include "common/peer_clock.h"
#include "coordinator/closures/closure.h"
#include "coordinator/workers/worker.h"

/* An attempt that its worker has, though its closure has ended without it. */
struct coxi_leftover {
    struct coxi_leftover *next;
    struct coxi_closure_id closure;
    uint32_t attempt;
};

/* Round-trip times to and from a worker. */
struct coxi_ways {
    struct coxi_least client_us; /* from the client to the worker */
    /* from the worker to the ps, until commits are acknowledged; 0: not known */
    double ps_us;
    struct coxi_peer_clock clock; /* the worker's */
};

struct coxi_seat {
    struct cox_coordinator *c;
    struct coxi_worker *worker;
    /* the user knows that the worker is ready; was_told: has known it before */
    bool is_told;
    bool was_told;

    /* ---- counts (monitor/sampler.c) */
    uint64_t n_done; /* attempts that ended without an error */
    uint32_t n_lost; /* how often it was lost */
    uint32_t n_back; /* how often it has come back */

    /* ---- queued */
    struct coxi_queue queue; /* QUEUED closures that only this worker may run */
    bool is_owner;           /* in c->closures->owners */
    struct coxi_seat *next_owner;
    uint64_t wanted_since_ms; /* since when it has a queue and is not ready; or 0 */

    /* ---- in hand */
    struct coxi_list in_flight;  /* ASSIGNED to it, oldest first */
    struct coxi_second *seconds; /* second attempts that it has */
    size_t n_seconds;
    struct coxi_leftover *leftovers;
    size_t n_leftovers;
    /* struct coxi_recall_head: closures that may have run when the worker was lost
     * (losses.c) */
    struct coxi_buffer suspects;
    uint64_t oldest_id; /* in_flight.first at the last tick, and its attempt */
    uint32_t oldest_attempt;
    uint64_t oldest_since_ms;
    double average_us; /* running time of its closures; 0: not known */
    struct coxi_ways ways;

    /* ---- the dispatch that is being made (dispatch.c) */
    struct coxi_buffer heads;
    struct coxi_buffer args;
    size_t args_expected;      /* bytes, the next time that arguments are collected */
    struct coxi_buffer keep;   /* closures whose results stay there */
    struct coxi_buffer alone;  /* suspects, which run alone */
    struct coxi_buffer inputs; /* the results kept there that they take */
    struct coxi_buffer rounds; /* of each head; empty: none is in a round */
    bool is_collected;         /* in c->closures->collected */
    struct coxi_seat *next_collected;

    /* ---- results that it keeps (kept.c) */
    struct coxi_kept *kept;
    size_t n_asked_results;     /* results that we asked for and do not have yet */
    struct coxi_buffer dropped; /* results that it will be told to drop */
    bool is_dropper;            /* in c->closures->droppers */
    struct coxi_seat *next_dropper;
};

/* Makes the seat of a worker that was added. COX_ENOMEM. */
int coxi_seat_new(struct coxi_worker *worker);
void coxi_seat_free(struct coxi_seat *seat); /* takes NULL */

/* Drops the dispatch that is being made, and frees its memory. */
void coxi_seat_drop_collected(struct coxi_seat *seat);

/* How many closures, with second attempts and leftovers, the worker has; and how many it should have
 * at hand. */
size_t coxi_seat_load(const struct coxi_seat *seat);
size_t coxi_seat_capacity(const struct coxi_seat *seat);

/* Call it when the worker's room for closures may have changed (by its state, its
 * slots, the running time of its closures, or their number), before closures are next
 * given to workers. */
void coxi_seat_update(struct coxi_seat *seat);

/* Adds a closure to those that the worker has (or will have once the next dispatch is
 * sent), or removes it; the same for second attempts. */
void coxi_seat_take(struct coxi_seat *seat, struct coxi_closure *closure);
void coxi_seat_let_go(struct coxi_seat *seat, struct coxi_closure *closure);
/*
 * The closure ends without the attempt that the worker has: _leave lets it go, and notes
 * the attempt, which keeps a slot of the worker busy. _forget: the worker has answered
 * for it; false: it was not noted. _forget_all: the worker is lost.
 */
void coxi_seat_leave(struct coxi_seat *seat, struct coxi_closure *closure);
bool coxi_seat_forget(struct coxi_seat *seat, struct coxi_closure_id closure,
                      uint32_t attempt);
void coxi_seat_forget_all(struct coxi_seat *seat);

void coxi_seat_take_second(struct coxi_seat *seat);
void coxi_seat_let_go_second(struct coxi_seat *seat);

/* ---- how many closures a worker should have at hand */

/* A step of the worker has run for `run_us`. An attempt whose step never ran (it was
 * handed back, or could not start) says nothing about the running time. */
void coxi_seat_note_time(struct coxi_seat *seat, uint32_t run_us);

/* Measures the ways with `done`, which the worker has just sent. */
void coxi_ways_note(struct coxi_ways *ways, const struct coxi_done *done);

/* The sum of both; 0: not known. */
double coxi_ways_us(const struct coxi_ways *ways);

/*
 * How many closures of `average_us` (0: not known) a slot should have at hand besides
 * the one that it runs. A closure counts as the worker's from its dispatch until its
 * commits are acknowledged and the client knows of it; closures on the way therefore
 * come on top of some work at hand.
 */
size_t coxi_ahead(double average_us, double ways_us);

#endif
