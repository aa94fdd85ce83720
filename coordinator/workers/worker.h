/* A worker as the coordinator knows it. All on the loop. */
#ifndef COXI_COORDINATOR_WORKERS_WORKER_H
#define COXI_COORDINATOR_WORKERS_WORKER_H

#include "coordinator/coordinator.h"
#include "coordinator/workers/module.h"
#include "coordinator/workers/workers.h"

struct coxi_conn;
struct coxi_seat;

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
    struct coxi_seat *seat; /* what closures keep of it, which only they look into */
    const char *url;        /* where it is dialled; in texts */
    char *name;             /* it dials us, as this, which is its `url`, too; or NULL */
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
    uint32_t n_layout; /* variables it has been told of (layout.c) */
    uint32_t making;   /* the resource whose answer is awaited, by id; or 0 */
    uint64_t making_since_ms;
    uint32_t resource_told; /* the last that it was told of; ids rise */

    uint8_t
        *unreached; /* by ps: it has said that it cannot reach it (reach.c); or NULL */
    uint32_t n_unreached; /* of those */
};

/* How a worker went. */
struct coxi_worker_loss {
    bool was_there; /* it had greeted */
    bool has_left;  /* it had said that it leaves */
    const char *text;
};

/*
 * What workers tell of what happens to them. All on the loop, without c->lock. Whoever is told
 * finds the worker's new state in place, and must not change it.
 */
struct coxi_worker_events {
    /* It is known from now on, AWAY. COX_ENOMEM: it is not. */
    int (*added)(struct coxi_worker *worker);
    /* The last that is heard of it. */
    void (*freed)(struct coxi_worker *worker);
    /* Its state, or how many slots it has. */
    void (*changed)(struct coxi_worker *worker);
    /* It has greeted, and is the process that was here before: that has not died. */
    void (*returned)(struct coxi_worker *worker);
    /* It has said that it cannot reach a ps. */
    void (*cut_off)(struct coxi_worker *worker);
    /* It has said that it leaves. */
    void (*leaving)(struct coxi_worker *worker);
    /* True where it has nothing in hand: one that leaves may go. */
    bool (*is_idle)(const struct coxi_worker *worker);
    /* It is away, or gone: nothing that it had comes any more. */
    void (*lost)(struct coxi_worker *worker, const struct coxi_worker_loss *loss);
    /* Ends of attempts, with what they returned. COX_EPROTO. */
    int (*done)(struct coxi_worker *worker, const struct coxi_done *message,
                const uint8_t *payload, size_t len);
    /* What it was asked to send of the results that it keeps. COX_EPROTO. */
    int (*result)(struct coxi_worker *worker, const struct coxi_result *message,
                  const uint8_t *payload, size_t len);
    /* Which steps its last process was at when that died. */
    void (*crashed)(struct coxi_worker *worker, const struct coxi_crashed *message);
};

/* None yet; `events` is told of all that come. COX_ENOMEM. */
int coxi_workers_new(struct cox_coordinator *c,
                     const struct coxi_worker_events *events);

/* Adds those that the cluster lists. COX_ENOMEM. */
int coxi_workers_list(struct cox_coordinator *c);

/* When the loop has ended. Nothing where coxi_workers_new has failed. */
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

/* It is READY, or is making a resource, which may take as long as a step, and then will be. */
bool coxi_worker_will_be_ready(const struct coxi_worker *worker);

/* Sends it a message over its control connection, or gives that connection up: it is lost
 * then. */
int coxi_worker_send(struct coxi_worker *worker, const struct coxi_message *message,
                     const struct coxi_payload *payload);
void coxi_worker_give_up(struct coxi_worker *worker, int code, const char *text);

/* ---- for contact.c */

void coxi_worker_set_state(struct coxi_worker *worker, enum coxi_worker_state state);

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

/* Dials who is away, lets go of who leaves. Every COXI_TICK_MS. */
void coxi_workers_tick(struct cox_coordinator *c);

/* Tells workers of modules that they do not know yet. */
void coxi_workers_modules(struct cox_coordinator *c);

/* Has workers make and drop resources that they do not know of yet. */
void coxi_workers_resources(struct cox_coordinator *c);

/* Closes every connection for good; c->workers->n_conns says when that is done. */
void coxi_workers_shutdown(struct cox_coordinator *c);

#endif
