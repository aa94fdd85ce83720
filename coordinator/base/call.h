/*
 * Waits that may last, and calls of users' threads: which are under way, and what each waits
 * for. Nothing blocks in silence: the loop looks at all of them, and where one has lasted for
 * 10 s tells COX_EVENT_BLOCKED, and again at longer intervals; then COX_EVENT_UNBLOCKED.
 */
#ifndef COXI_COORDINATOR_BASE_CALL_H
#define COXI_COORDINATOR_BASE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/patience.h"
#include "schema/maybe.h"

struct cox_coordinator;

enum { COXI_WHY_MAX = 400 };

/* On the stack of the thread that waits. */
struct coxi_call {
    struct cox_coordinator *c;
    const char *what;     /* waits: "cox_variable_read" */
    bool counted;         /* it is a user's call, which cox_close waits for */
    struct coxi_maybe ps; /* that it waits for */
    struct coxi_patience patience;
    struct coxi_call *outer; /* of the same thread */
    struct coxi_call *next;  /* of the coordinator's */
    struct coxi_call *prev;
    char why[COXI_WHY_MAX]; /* guarded by c->lock, as the list */
};

/*
 * A call of a user's thread that may wait, or use what cox_close frees. What it waits for ends
 * when the coordinator is closed, and cox_close frees nothing before it has returned.
 * COXI_CALL marks the rest of a block as one. Any thread; without c->lock.
 */
void coxi_call_begin(struct coxi_call *call);
void coxi_call_end(struct coxi_call *call);
#define COXI_CALL_AS(c_, what_)                                                        \
    struct coxi_call coxi_called __attribute__((cleanup(coxi_call_end), unused));      \
    coxi_called.c = (c_);                                                              \
    coxi_called.what = (what_);                                                        \
    coxi_called.counted = true;                                                        \
    coxi_call_begin(&coxi_called)
#define COXI_CALL(c_) COXI_CALL_AS(c_, __func__)

/* The same with c->lock. */
void coxi_call_begin_locked(struct coxi_call *call);
void coxi_call_end_locked(struct coxi_call *call);

/* The end of a call that was only counted, in c->life.n_calls: one that says in other ways what it
 * waits for. With c->lock. */
void coxi_call_ended(struct cox_coordinator *c);

/* A wait of one of the library's threads, maybe for one ps, which no cox_close waits
 * for: from here to coxi_call_end. */
void coxi_wait_begin(struct cox_coordinator *c, struct coxi_call *wait,
                     const char *what, struct coxi_maybe ps);

/* What this thread's innermost call waits for now; nothing without a call. With c->lock
 * (_locked), or without. */
void coxi_call_why(struct cox_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void coxi_call_why_locked(struct cox_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * COX_EDEADLK where `c` is the coordinator for which this thread calls the program: `what`
 * would wait for the return of the program's function, `where`. `calls_for` is NULL in
 * other threads.
 */
int coxi_call_check(const struct cox_coordinator *c,
                    const struct cox_coordinator *calls_for, const char *what,
                    const char *where);

/* Has `run` called on the loop, waits until it has been, and returns what it returned, with its
 * error text, which is the loop thread's until then. Any thread but the loop, while that runs;
 * without c->lock. */
int coxi_call_on_loop(struct cox_coordinator *c,
                      int (*run)(struct cox_coordinator *c, void *arg), void *arg);

/* Milliseconds until `end_ms` (coxi_now_ms), at most `most`; 0 once it has passed. */
int coxi_left_ms(uint64_t end_ms, int most);

/* Tells of those that last. Loop. */
void coxi_calls_tick(struct cox_coordinator *c, uint64_t now);

#endif
