/* A worker as the coordinator knows it. All on the loop. */
#ifndef COXI_COORDINATOR_WORKERS_WORKER_H
#define COXI_COORDINATOR_WORKERS_WORKER_H

#include "coordinator/closures/ahead.h"
#include "coordinator/coordinator.h"

struct coxi_conn;

/*
 *   AWAY -> DIALLING -> GREETING -> SETUP -> READY    one that the cluster lists
 *   AWAY -> SETUP -> READY                            one that dials us (door.c)
 *   READY -> SETUP -> READY    a module is being loaded, a resource made, a ps out of its
 *                              reach
 *   SETUP | READY -> DRAINING  it says that it leaves: it finishes what runs, hands back
 *                              the rest, and gets nothing new
 *   DRAINING -> GONE           its connection is closed, by us once it has answered for all
 *                              that it had: it has left, which is no loss
 *   any other -> AWAY          its connection is closed, or did not come about: lost
 *
 * GONE is like AWAY: who is listed is dialled again after a rest, others may dial again.
 */
enum coxi_worker_state {
    COXI_WORKER_AWAY,
    COXI_WORKER_DIALLING,
    COXI_WORKER_GREETING,
    COXI_WORKER_SETUP,
    COXI_WORKER_READY,
    COXI_WORKER_DRAINING,
    COXI_WORKER_GONE,
};

struct coxi_worker {
    struct cox_coordinator *c;
    uint32_t index;
    bool is_told; /* that it is ready; and once before (losses.c) */
    bool was_told;
    const char *url; /* where it is dialled; in texts */
    char *name;      /* it dials us, as this, which is its `url`, too; or NULL */
    struct coxi_worker *next_named; /* in its bucket of the door's */
    uint64_t incarnation;
    enum coxi_worker_state state;
    struct coxi_conn *control;
    struct coxi_conn *data; /* NULL: not needed yet */
    bool data_up;
    bool data_asked; /* one that dials us has been told to open it */
    bool hopeless;   /* dialling again will not help */
    bool tried;      /* it has greeted, or failed to, once */
    uint32_t slots;
    uint64_t dial_at_ms;
    uint32_t rest_ms;
    uint8_t asked[COXI_MODULES_MAX];  /* modules whose answer is awaited */
    uint8_t wanted[COXI_MODULES_MAX]; /* whose bytes wait for the data connection */
    uint32_t n_asked;
    uint32_t n_told;   /* modules it has been told of */
    uint32_t n_layout; /* variables, in the order of the registry */
    uint32_t making;   /* the resource whose answer is awaited, by id; or 0 */
    uint64_t making_since_ms;
    uint32_t resource_told; /* the last that it was told of; ids rise */

    struct coxi_queue queue; /* QUEUED, and only this worker may run it */
    bool is_owner;           /* in the list of those who have one */
    struct coxi_worker *next_owner;
    uint64_t wanted_since_ms;    /* it has a queue and is not ready since then; or 0 */
    struct coxi_list in_flight;  /* ASSIGNED to it, oldest first */
    struct coxi_second *seconds; /* second attempts that it has */
    size_t n_seconds;
    struct coxi_buffer
        suspects;       /* struct coxi_recall_head: what may have run (losses.c) */
    uint64_t oldest_id; /* in_flight.first at the last tick, and its attempt */
    uint32_t oldest_attempt;
    uint64_t oldest_since_ms;
    double average_us; /* of its closures' running time; 0: not known */
    struct coxi_ways ways;
    struct coxi_buffer heads; /* of the dispatch being made */
    struct coxi_buffer args;
    size_t args_expected;      /* bytes, the next time that some are collected */
    struct coxi_buffer keep;   /* of the same: whose results are to stay there */
    struct coxi_buffer alone;  /* of the same: which are suspects, and run alone */
    struct coxi_buffer inputs; /* and what it takes of those that are there */
    bool is_collected;         /* in the list of those with something to be sent */
    struct coxi_worker *next_collected;

    uint8_t
        *unreached; /* by ps: it has said that it cannot reach it (reach.c); or NULL */
    uint32_t n_unreached; /* of those */

    struct coxi_kept *kept;     /* results that it keeps */
    size_t n_asked_results;     /* of those, asked for and not answered */
    struct coxi_buffer dropped; /* that it is to be told nobody needs any more */
    bool is_dropper;            /* in the list of those with some */
    struct coxi_worker *next_dropper;
};

/* Those that the cluster lists. */
int coxi_workers_new(struct cox_coordinator *c);
void coxi_workers_free(struct cox_coordinator *c);

/*
 * One more, known as the next index, AWAY: the cluster lists it at `url`, which must last,
 * or it has dialled us as `name`. COX_ENOMEM.
 */
int coxi_worker_add(struct cox_coordinator *c, const char *url, const char *name,
                    struct coxi_worker **ret);

/* It has greeted and has not gone since. */
bool coxi_worker_is_there(const struct coxi_worker *worker);

/* Closures may be sent to it, now or soon. */
bool coxi_worker_takes_work(const struct coxi_worker *worker);

/* ---- for contact.c */

void coxi_worker_set_state(struct coxi_worker *worker, enum coxi_worker_state state);

/* Keeps why a worker is not there, for whoever waits for it. */
void coxi_worker_note_failure(struct coxi_worker *worker, int code, const char *text);

/* It has greeted, or cannot: the first contact is over. */
void coxi_worker_tried(struct coxi_worker *worker);

/* It has greeted: tells it what there is. */
void coxi_worker_set_up(struct coxi_worker *worker);

/* Its answer for a module; COX_EPROTO. */
int coxi_worker_module_loaded(struct coxi_worker *worker,
                              const struct coxi_status *answer);

/* Its answer for a resource; COX_EPROTO. */
int coxi_worker_resource_made(struct coxi_worker *worker,
                              const struct coxi_status *answer);

/* Goes on with what a worker that is there needs before it takes closures. */
void coxi_worker_go_on(struct coxi_worker *worker);

/* Its data connection is up: sends what has waited for that. */
void coxi_worker_send_wanted(struct coxi_worker *worker);

/* It has said that it leaves. */
void coxi_worker_leave(struct coxi_worker *worker);

/* It is away from now on, lost or since it has left; what it had is put back. */
void coxi_worker_lose(struct coxi_worker *worker, int code, const char *text);

/* ---- all of them */

/* Dials who is away, watches for a cluster without workers. Every COXI_TICK_MS. */
void coxi_workers_tick(struct cox_coordinator *c);

/* Tells workers of modules that they do not know yet. */
void coxi_workers_modules(struct cox_coordinator *c);

/* Has workers make and drop resources that they do not know of yet. */
void coxi_workers_resources(struct cox_coordinator *c);

/* How many closures, and second attempts, the worker has; and should have at hand. */
size_t coxi_worker_load(const struct coxi_worker *worker);
size_t coxi_worker_capacity(const struct coxi_worker *worker);

/*
 * What it can take may have changed: its state, its slots, how long its closures run, or
 * what it has. Before the next closures are given to workers.
 */
void coxi_worker_update(struct coxi_worker *worker);

/* What it has: closures, with those that are sent next; and second attempts. */
void coxi_worker_take(struct coxi_worker *worker, struct cox_future *f);
void coxi_worker_let_go(struct coxi_worker *worker, struct cox_future *f);
void coxi_worker_take_second(struct coxi_worker *worker);
void coxi_worker_let_go_second(struct coxi_worker *worker);

/* Adds an attempt of `f` to what is sent next; COX_ENOMEM: it is not there. */
int coxi_worker_collect(struct coxi_worker *worker, const struct cox_future *f,
                        uint32_t attempt);

/* Asks for attempts back that it has not started and, where `running` (or all of them),
 * has those that run cancelled. */
void coxi_worker_recall(struct coxi_worker *worker, uint64_t closure, uint32_t attempt,
                        bool running);
void coxi_worker_recall_all(struct coxi_worker *worker);

/* Asks for all back that it has not started. */
void coxi_worker_recall_waiting(struct coxi_worker *worker);

/* Sends what has been collected in heads and args; forgets it. */
void coxi_worker_send(struct coxi_worker *worker);
void coxi_worker_drop_collected(struct coxi_worker *worker);

/* Closes every connection for good; c->n_conns says when that is done. */
void coxi_workers_shutdown(struct cox_coordinator *c);

#endif
