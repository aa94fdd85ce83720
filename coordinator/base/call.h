/*
 * Calls of users' threads, and other waits that may last: a list of those under way,
 * with the reason why each waits. Nothing blocks in silence, because the loop looks at
 * all of them. When one has lasted for 10 s, the loop emits COX_EVENT_BLOCKED, and
 * repeats it at longer intervals; when the wait is over, it emits COX_EVENT_UNBLOCKED.
 */
#ifndef COXI_COORDINATOR_BASE_CALL_H
#define COXI_COORDINATOR_BASE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/sync.h"
#include "schema/maybe.h"

struct cox_coordinator;

enum { COXI_WHY_MAX = 400 };

/* A call or wait, on the stack of the thread that waits. */
struct coxi_call {
    struct cox_coordinator *c;
    const char *what;     /* names what waits: "cox_variable_read" */
    bool counted;         /* a user's call, for which cox_close waits */
    struct coxi_maybe ps; /* the ps for which it waits */
    struct coxi_patience patience;
    struct coxi_call *outer; /* the enclosing call of the same thread */
    struct coxi_call *next;  /* list of all calls of the coordinator */
    struct coxi_call *prev;
    char why[COXI_WHY_MAX]; /* the reason; guarded by c->lock, like the list */
};

/*
 * A call of a user's thread that may wait, or that uses memory which cox_close frees.
 * Its waits end when the coordinator is closed, and cox_close frees nothing before it
 * has returned. COXI_CALL marks the rest of a block as a call. Any thread; without
 * c->lock.
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

/* The same, with c->lock held. */
void coxi_call_begin_locked(struct coxi_call *call);
void coxi_call_end_locked(struct coxi_call *call);

/* Ends a call that was only counted, in c->life.n_calls, because it reports its waits
 * in another way. With c->lock. */
void coxi_call_ended(struct cox_coordinator *c);

/* A wait of one of the library's own threads, maybe for one ps, from here to
 * coxi_call_end. cox_close does not wait for it. */
void coxi_wait_begin(struct cox_coordinator *c, struct coxi_call *wait,
                     const char *what, struct coxi_maybe ps);

/* Sets the reason for which this thread's innermost call waits now; does nothing
 * without a call. _locked: with c->lock; otherwise without. */
void coxi_call_why(struct cox_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void coxi_call_why_locked(struct cox_coordinator *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * COX_EDEADLK if `calls_for` is `c`, otherwise 0. `calls_for` is the coordinator for
 * which this thread is calling a function of the program (`where` in the error text);
 * NULL: it is calling none. `what` would wait for that function to return.
 */
int coxi_call_check(const struct cox_coordinator *c,
                    const struct cox_coordinator *calls_for, const char *what,
                    const char *where);

/*
 * Calls `run` on the loop, waits until it has returned, and returns its result, with
 * its error text. Any thread except the loop's, while the loop runs; without c->lock.
 */
int coxi_call_on_loop(struct cox_coordinator *c,
                      int (*run)(struct cox_coordinator *c, void *arg), void *arg);

/* Milliseconds until `end_ms` (coxi_now_ms), at most `most`; 0 once it has passed. */
int coxi_left_ms(uint64_t end_ms, int most);

/* Reports calls and waits that last. Loop. */
void coxi_calls_tick(struct cox_coordinator *c, uint64_t now);

#endif
