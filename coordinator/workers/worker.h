/* A worker as the coordinator knows it. Loop. */
#ifndef COXI_COORDINATOR_WORKERS_WORKER_H
#define COXI_COORDINATOR_WORKERS_WORKER_H

#include "coordinator/coordinator.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/workers.h"

struct coxi_conn;
struct coxi_seat;

/*
 *   AWAY -> DIALLING -> GREETING -> SETUP -> READY    a worker that the cluster lists
 *   AWAY -> SETUP -> READY                            a worker that dials us (door.c)
 *   READY -> SETUP -> READY    a module is loaded, a resource made, or it cannot reach
 *                              a ps
 *   SETUP | READY -> DRAINING  it reports that it leaves: it finishes what runs, hands
 *                              back the rest, and gets nothing new
 *   DRAINING -> GONE           its connection is closed; by us, once it has answered
 *                              for everything that it had. It has left, which is no
 *                              loss
 *   any other -> AWAY          its connection is closed, or was never made: it is lost
 *
 * GONE is like AWAY: a listed worker is dialled again after a rest, others may dial
 * again.
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
    struct coxi_seat *seat; /* the closures' state for it; opaque to others */
    const char *url;        /* the address to dial; also used in texts */
    /* its name if it dials us, which is its `url`, too; or NULL */
    char *name;
    struct coxi_worker *next_named; /* in its bucket of the door */
    uint64_t incarnation;
    enum coxi_worker_state state;
    struct coxi_conn *control;
    struct coxi_conn *data; /* NULL: not needed so far */
    bool data_up;
    bool data_asked; /* a worker that dials us was told to open it */
    bool hopeless;   /* dialling again will not help */
    /* since when it has denied us at every attempt; 0: the last one failed for another
     * reason, or not */
    uint64_t denied_ms;
    bool tried; /* it has greeted, or failed to, at least once */
    uint32_t slots;
    uint64_t dial_at_ms;
    uint32_t rest_ms;
    uint8_t asked[COXI_MODULES_MAX]; /* modules for which its answer is awaited */
    /* modules whose bytes wait for the data connection */
    uint8_t wanted[COXI_MODULES_MAX];
    uint32_t n_asked;
    uint32_t n_told;   /* modules that it was told of */
    uint32_t n_layout; /* variables that it was told of (layout.c) */
    uint32_t making;   /* id of the resource for which its answer is awaited; or 0 */
    uint64_t making_since_ms;
    uint32_t resource_told; /* the last resource that it was told of; ids rise */

    /* by ps: it has reported that it cannot reach the ps (reach.c); or NULL */
    uint8_t *unreached;
    uint32_t n_unreached; /* number of such ps */
    uint64_t resident;    /* bytes of memory of its step process; 0: not known */
};

/* How a worker was lost. */
struct coxi_worker_loss {
    bool was_there; /* it had greeted */
    bool has_left;  /* it had reported that it leaves */
    const char *text;
};

/* The events of workers. All on the loop, without c->lock. A handler finds the worker's
 * new state in place, and must not change it. */
struct coxi_worker_events {
    /* A new worker, AWAY. COX_ENOMEM: it is not added. */
    int (*added)(struct coxi_worker *worker);
    /* The last event of a worker. */
    void (*freed)(struct coxi_worker *worker);
    /* Its state, or its number of slots, has changed. */
    void (*changed)(struct coxi_worker *worker);
    /* It has greeted, and is the same process as before, which has not died. */
    void (*returned)(struct coxi_worker *worker);
    /* It has reported that it cannot reach a ps. */
    void (*cut_off)(struct coxi_worker *worker);
    /* It has reported that it leaves. */
    void (*leaving)(struct coxi_worker *worker);
    /* True if it has no closure: a leaving worker may go. */
    bool (*is_idle)(const struct coxi_worker *worker);
    /* It is AWAY or GONE: no answer for anything that it had will come. */
    void (*lost)(struct coxi_worker *worker, const struct coxi_worker_loss *loss);
    /* Attempts have ended, with these results. COX_EPROTO. */
    int (*done)(struct coxi_worker *worker, const struct coxi_done *message,
                const uint8_t *payload, size_t len);
    /* A kept result that it was asked for. COX_EPROTO. */
    int (*result)(struct coxi_worker *worker, const struct coxi_result *message,
                  const uint8_t *payload, size_t len);
    /* It wants bytes of a file of a data set; the answer repeats `request`. */
    void (*wanted)(struct coxi_worker *worker, uint64_t request,
                   const struct coxi_file_read *wanted);
    /* The steps that its last process was running when it died. */
    void (*crashed)(struct coxi_worker *worker, const struct coxi_crashed *message);
};

/* Makes an empty set, whose events go to `events`. COX_ENOMEM. */
int coxi_workers_new(struct cox_coordinator *c,
                     const struct coxi_worker_events *events);

/* Adds the workers that the cluster lists. COX_ENOMEM. */
int coxi_workers_list(struct cox_coordinator *c);

/* Call when the loop has ended. Does nothing if coxi_workers_new has failed. */
void coxi_workers_free(struct cox_coordinator *c);

/* Adds a worker with the next index, AWAY. Either the cluster lists it at `url`, which
 * must outlive it, or it has dialled us as `name`. COX_ENOMEM. */
int coxi_worker_add(struct cox_coordinator *c, const char *url, const char *name,
                    struct coxi_worker **ret);

/* True if it has greeted and has not gone since. */
bool coxi_worker_is_there(const struct coxi_worker *worker);

/* True if closures may be sent to it, now or soon. */
bool coxi_worker_takes_work(const struct coxi_worker *worker);

/* True if it is READY, or is making a resource (which may take as long as a step) and
 * will be READY then. */
bool coxi_worker_will_be_ready(const struct coxi_worker *worker);

/* coxi_worker_send sends the worker a message over its control connection.
 * coxi_worker_give_up closes that connection, so that the worker is lost. */
int coxi_worker_send(struct coxi_worker *worker, const struct coxi_message *message,
                     const struct coxi_payload *payload);
void coxi_worker_give_up(struct coxi_worker *worker, int code, const char *text);

/* ---- for contact.c */

void coxi_worker_set_state(struct coxi_worker *worker, enum coxi_worker_state state);

/* The first contact is over: it has greeted, or failed to. */
void coxi_worker_tried(struct coxi_worker *worker);

/* It has greeted: begins to set it up. */
void coxi_worker_set_up(struct coxi_worker *worker);

/* Handles its answer for a module; COX_EPROTO. */
int coxi_worker_module_loaded(struct coxi_worker *worker,
                              const struct coxi_status *answer);

/* Handles its answer for a resource; COX_EPROTO. */
int coxi_worker_resource_made(struct coxi_worker *worker,
                              const struct coxi_status *answer);

/* Continues to give a connected worker what it needs before it takes closures. */
void coxi_worker_go_on(struct coxi_worker *worker);

/* Its data connection is up: sends what has waited for that. */
void coxi_worker_send_wanted(struct coxi_worker *worker);

/* It has reported that it leaves. */
void coxi_worker_leave(struct coxi_worker *worker);

/* The worker is lost or has left: its closures are put back. */
void coxi_worker_lose(struct coxi_worker *worker, int code, const char *text);

/* ---- all of them */

/* Dials workers that are away, lets leaving ones go. Call every COXI_TICK_MS. */
void coxi_workers_tick(struct cox_coordinator *c);

/* Tells workers of new modules. */
void coxi_workers_modules(struct cox_coordinator *c);

/* Tells workers to make and drop resources. */
void coxi_workers_resources(struct cox_coordinator *c);

/* Closes every connection for good; c->workers->n_conns tells when that is done. */
void coxi_workers_shutdown(struct cox_coordinator *c);

#endif
