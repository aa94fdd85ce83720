/*
 * The phases of a client's life in which it is closed, or killed. Each is reached for certain: a
 * step, a ps or a callback is held there, and that it is has been seen when `reach` returns.
 */
#ifndef COXI_TESTS_CLOSING_PHASE_H
#define COXI_TESTS_CLOSING_PHASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/sync.h"
#include "tests/coordinator/crew.h"

/* No call takes longer beyond its deadline. With a sanitizer programs need a second more to end:
 * 1.5 s are the launcher's, for daemons that do not end by themselves, and exits are slow. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PHASE_GRACE_MS = 3000 };
#else
enum { PHASE_GRACE_MS = 2000 };
#endif

enum { PHASE_CALLERS_MAX = 4 };

/* A thread that is in a call of the library. */
struct phase_caller {
    pthread_t thread;
    struct phase *phase;
    int (*call)(struct phase *phase);
    _Atomic(pid_t) tid;
    int code; /* what the call has returned */
};

struct phase {
    struct crew crew; /* a local cluster: two ps, one worker, a checkpoint directory */
    struct cox_variable *counters[2]; /* c0 and c1, on a ps each */
    struct cox_future *future;        /* of the step that is held; or NULL */
    struct crew_hold hold;
    bool holds;
    struct phase_caller callers[PHASE_CALLERS_MAX];
    size_t n_callers;
    atomic_int n_called; /* callbacks */
    atomic_bool called_back;
};

/* Each opens a client and brings it to its phase. */
void phase_reach_idle(struct phase *phase);
void phase_reach_step(struct phase *phase); /* one runs, and does not end */
void phase_reach_stopped_worker(
    struct phase *phase);                           /* the same, and it stands still */
void phase_reach_stopped_ps(struct phase *phase);   /* that nobody knows to be lost */
void phase_reach_lost_ps(struct phase *phase);      /* nor has it come back */
void phase_reach_restore(struct phase *phase);      /* a ps does not get its shard */
void phase_reach_replay(struct phase *phase);       /* a step that does not end */
void phase_reach_voiding(struct phase *phase);      /* a ps does not answer */
void phase_reach_held_voiding(struct phase *phase); /* ... as it is lost */
void phase_reach_checkpoint(struct phase *phase);   /* a ps does not write */
void phase_reach_triggered_checkpoint(struct phase *phase);
void phase_reach_slow_disk(struct phase *phase); /* its own fsync does not return */
void phase_reach_slow_disk_triggered(struct phase *phase);
void phase_reach_resume(struct phase *phase);   /* the backlog waits for its modules */
void phase_reach_full_log(struct phase *phase); /* cox_schedule waits */
void phase_reach_callback(struct phase *phase); /* it waits for a future of its own */
void phase_reach_join(struct phase *phase);     /* another thread is in cox_join */
void phase_reach_wait(struct phase *phase);     /* ... in cox_future_wait */
void phase_reach_read(struct phase *phase);     /* ... reads of a lost ps */
void phase_reach_schedule(struct phase *phase); /* ... waits for room in the queue */

/* A call on a thread of its own. (ThreadSanitizer does not know joins with a deadline.) */
struct phase_run {
    void (*run)(void *arg);
    void *arg;
    pthread_t thread;
    struct coxi_mutex lock; /* guards the next */
    pthread_cond_t changed;
    bool ended;
};

void phase_run_start(struct phase_run *run, void (*call)(void *arg), void *arg);

/* False: the call has not ended by then, and the thread is left alone. */
bool phase_run_join(struct phase_run *run, const struct timespec *until);

bool phase_run_has_ended(struct phase_run *run);

/* Lets go of what the test itself holds, when the client is closed. */
void phase_end(struct phase *phase);

/* A process stands still: signalled, and seen to. */
void phase_stop(pid_t pid);

#endif
