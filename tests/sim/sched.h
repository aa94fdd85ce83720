/*
 * The simulated world's clock, its processes, and their threads, which are fibers. One
 * fiber runs at a time; the run's seed decides which one continues next, and where one
 * is interrupted. Time passes only when all fibers wait (and a little with each turn),
 * so a storm of minutes takes milliseconds.
 */
#ifndef COXI_SIM_SCHED_H
#define COXI_SIM_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/fiber.h"

#define SIM_US    UINT64_C(1000)
#define SIM_MS    UINT64_C(1000000)
#define SIM_S     UINT64_C(1000000000)
#define SIM_NEVER UINT64_MAX

struct sim_fiber;

/* Fibers that wait for the same thing, in the order in which they came. */
struct sim_queue {
    struct sim_fiber *first;
    struct sim_fiber *last;
};

/* A process: its fibers die together. */
struct sim_proc {
    char name[24];
    uint32_t node; /* the host that it runs on (net.h) */
    bool alive;
    bool paused; /* SIGSTOP: none of its fibers continues */
    struct sim_fiber *fibers;
    struct sim_proc *next;
    void (*on_death)(struct sim_proc *proc, int signal);
    void *arg;
};

struct sim_fiber {
    struct sim_context context;
    char name[16];
    struct sim_proc *proc;
    void *(*run)(void *arg);
    void *arg;
    void *result;
    uint64_t id;
    uint64_t waits; /* how often it has waited; tells its timers apart */
    uint64_t held_until;
    bool woken;     /* not by its timer */
    bool was_woken; /* ... when its process was found stopped */
    bool ended;
    bool detached;
    int place;        /* index among the fibers that can continue; -1: it waits */
    const char *what; /* what it waits for, for the trace of a run that is stuck */
    struct sim_queue *queue;
    struct sim_fiber *prev;
    struct sim_fiber *next;
    struct sim_fiber *next_of_proc;
    struct sim_queue joiners;
};

/* ---- a run */

/* The reason why a run ended. */
enum sim_end { SIM_END_DONE, SIM_END_LATE, SIM_END_STEPS };

/* Begins a run: the clock is at one second, and the world is empty. */
void sim_begin(uint64_t seed);

/* Runs until sim_stop is called, the clock is at `until`, or there were too many
 * turns. */
enum sim_end sim_run(uint64_t until);
void sim_stop(void);

/* Ends everything that is left of a run. */
void sim_end(void);

/* Prints to standard error what each fiber waits for. */
void sim_dump(void);

uint64_t sim_now(void);
uint64_t sim_turns(void);

/* ---- chance */

uint64_t sim_rand(void);
uint64_t sim_below(uint64_t n);   /* 0 to n - 1 */
bool sim_chance(uint64_t one_in); /* true once in `one_in` calls; 0: never */
uint64_t sim_between(uint64_t a, uint64_t b);
uint64_t sim_hash(uint64_t seed,
                  uint64_t number); /* does not depend on earlier draws */

/* ---- processes and fibers */

struct sim_proc *sim_proc_new(const char *name, uint32_t node);

/* kill -9. Does not return if it kills the process that calls it. */
void sim_proc_kill(struct sim_proc *proc, int signal);

/* SIGSTOP and SIGCONT. */
void sim_proc_pause(struct sim_proc *proc, bool paused);

struct sim_proc *sim_procs(void);

struct sim_fiber *sim_spawn(struct sim_proc *proc, const char *name,
                            void *(*run)(void *arg), void *arg);
struct sim_fiber *sim_self(void); /* NULL: the scheduler */
struct sim_proc *sim_self_proc(void);

/* Waits in `queue` (NULL: none) until woken, or until `until`; true: woken. */
bool sim_wait(struct sim_queue *queue, uint64_t until, const char *what);

/* Take a fiber out of its queue and wake it; false: there was none. */
bool sim_wake(struct sim_fiber *fiber);
bool sim_wake_one(struct sim_queue *queue);
void sim_wake_all(struct sim_queue *queue);

/* The waiting fiber continues at `at`, if it is still in the same wait. */
void sim_wake_at(struct sim_fiber *fiber, uint64_t at);

/* Lets other fibers run first. */
void sim_yield(void);
void sim_sleep(uint64_t ns);

/* A point where a thread might be interrupted: now and then it is. */
void sim_maybe_preempt(void);

/* Threads of that name get no core until then, from their next such point on. */
void sim_hold(struct sim_proc *proc, const char *name, uint64_t until);

/* Calls `run(arg)` at `at`, between two turns: it must not wait. */
void sim_at(uint64_t at, void (*run)(void *arg), void *arg);

#endif
