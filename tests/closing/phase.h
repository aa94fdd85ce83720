/*
 * The phases of a client's life in which it is closed, or killed. A step, a ps or a
 * callback is held to reach a phase, so it is certain that the client is in it when
 * `reach` returns.
 */
#ifndef COXI_TESTS_CLOSING_PHASE_H
#define COXI_TESTS_CLOSING_PHASE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/sync.h"
#include "tests/coordinator/crew.h"

/*
 * The time that a call may take beyond its deadline. The launcher waits 1.5 s for
 * daemons that do not end by themselves. With a sanitizer there is a second more,
 * because processes then take long to exit.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { PHASE_GRACE_MS = 3000 };
#else
enum { PHASE_GRACE_MS = 2000 };
#endif

enum { PHASE_CALLERS_MAX = 4 };

/* A thread in a call of the library. */
struct phase_caller {
    pthread_t thread;
    struct phase *phase;
    int (*call)(struct phase *phase);
    _Atomic(pid_t) tid;
    int code; /* the call's result */
};

struct phase {
    struct crew crew; /* a local cluster: two ps, one worker, a checkpoint directory */
    struct cox_variable *counters[2]; /* c0 and c1, each on a ps */
    struct cox_future *future;        /* of the held step; or NULL */
    struct crew_hold hold;
    bool holds;
    int shard; /* held with coxi_test_hold_file, if holds_shard */
    bool holds_shard;
    struct phase_caller callers[PHASE_CALLERS_MAX];
    size_t n_callers;
    atomic_int n_called; /* calls of the callback */
    atomic_bool called_back;
};

/* Each opens a client and brings it to its phase. */
void phase_reach_idle(struct phase *phase);
void phase_reach_step(struct phase *phase); /* a step runs and does not end */
/* a step runs, and its worker is stopped */
void phase_reach_stopped_worker(struct phase *phase);
/* a ps is stopped, and nobody has noticed yet */
void phase_reach_stopped_ps(struct phase *phase);
/* a ps is lost and has not come back */
void phase_reach_lost_ps(struct phase *phase);
void phase_reach_restore(struct phase *phase); /* a ps waits for its shard */
/* a step runs again and does not end */
void phase_reach_replay(struct phase *phase);
void phase_reach_voiding(struct phase *phase);      /* a ps does not answer */
void phase_reach_held_voiding(struct phase *phase); /* ... because it is lost */
void phase_reach_checkpoint(struct phase *phase);   /* a ps does not write */
void phase_reach_triggered_checkpoint(struct phase *phase);
/* fsync of the client's own file does not return */
void phase_reach_slow_disk(struct phase *phase);
void phase_reach_slow_disk_triggered(struct phase *phase);
void phase_reach_resume(struct phase *phase);   /* the backlog waits for its modules */
void phase_reach_full_log(struct phase *phase); /* a thread waits in cox_schedule */
/* a callback waits for the held step's future */
void phase_reach_callback(struct phase *phase);
void phase_reach_join(struct phase *phase); /* a thread waits in cox_join */
void phase_reach_wait(struct phase *phase); /* ... in cox_future_wait */
void phase_reach_read(struct phase *phase); /* ... in a read from a lost ps */
/* ... in cox_schedule, for room in the queue */
void phase_reach_schedule(struct phase *phase);

/* A call on a thread of its own. (ThreadSanitizer does not support joins with a
 * deadline.) */
struct phase_run {
    void (*run)(void *arg);
    void *arg;
    pthread_t thread;
    struct coxi_mutex lock; /* guards the next field */
    pthread_cond_t changed;
    bool ended;
};

void phase_run_start(struct phase_run *run, void (*call)(void *arg), void *arg);

/* Returns false if the call has not ended by then; its thread goes on. */
bool phase_run_join(struct phase_run *run, const struct timespec *until);

bool phase_run_has_ended(struct phase_run *run);

/* Frees what the test holds. Call after the client is closed. */
void phase_end(struct phase *phase);

/* Stops a process and waits until all its threads have stopped. */
void phase_stop(pid_t pid);

#endif
