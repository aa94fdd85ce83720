/*
 * The plan of a storm: how many ps, workers and calls, which options, and what the step
 * of each call does. All of it follows from the seed, so a program that is started
 * again makes the same plan.
 */
#ifndef COXI_SIM_PLAN_H
#define COXI_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_PS_MAX = 4,
    SIM_WORKERS_MAX = 4,
    SIM_CALLS_MAX = 400,
    SIM_SEGMENTS = 2,
    SIM_TASKS_MAX = 32, /* of all epochs */
    SIM_SEQUENCES_MAX = 2,
    SIM_ROUND_MAX = 6, /* calls of a round */
    SIM_SEEN_WORDS = (SIM_CALLS_MAX + 63) / 64,
};

/* How a step ends. */
enum sim_ending {
    SIM_OK,
    SIM_FAILS,         /* before its updates are sent */
    SIM_FAILS_FLUSHED, /* after its first segment was applied */
    SIM_CRASHES,       /* its first attempt crashes its process */
    SIM_BRITTLE,       /* later attempts fail, also in a replay, in the first lives */
    SIM_FAILS_FIRST,   /* of a task: its first closure fails, the next one does not */
};

/* The argument "plan" of a step, as I64. */
enum sim_argument {
    SIM_NUMBER,      /* of the call, from 0 */
    SIM_MASK,        /* the ps to which it adds in its first segment */
    SIM_AFTER,       /* ... and in its second one; 0: it does not flush */
    SIM_WORK_US,     /* duration of each segment */
    SIM_STRAGGLE_US, /* additional time of its first attempt */
    SIM_ENDING,      /* enum sim_ending */
    SIM_ROW,         /* 1: it adds to its row of the table, too */
    SIM_PULLS,       /* 1: it first reads what it adds to, and a mark */
    SIM_MARK,        /* the number of that mark */
    SIM_MARKED,      /* what was assigned to marks before the call was scheduled */
    SIM_ROUND,       /* the first call of its round; -1: it is in none */
    SIM_HALVES,      /* its weight in the round, times 2 */
    SIM_ARGUMENTS,
};

/* What the program does before it schedules a call. */
enum sim_action {
    SIM_ASSIGN = 1,       /* sets the assigned variables to zeros */
    SIM_JOIN = 2,         /* waits for all earlier calls, before an assignment, too */
    SIM_SAVE = 4,         /* takes a checkpoint */
    SIM_READ = 8,         /* reads and compares everything, after SIM_JOIN */
    SIM_CANCEL = 16,      /* cancels a call that was scheduled recently */
    SIM_CREATE = 32,      /* creates a variable that later calls do not use */
    SIM_SAVE_BESIDE = 64, /* takes a checkpoint on another thread */
    SIM_LINGER = 128,     /* a ps is lost; then it joins and reads several times */
};

/* A sequence of rounds. */
struct sim_sequence {
    uint32_t staleness;
    uint32_t backups;
    bool sums; /* otherwise the rounds take means */
    bool deterministic;
};

/* The place of a call in a round. */
struct sim_place {
    uint16_t first;  /* call of the round */
    uint16_t number; /* of the round in its sequence */
    uint8_t n;       /* calls of the round; 0: the call is in none */
    uint8_t sequence;
    uint8_t only_ps; /* 1 + the ps that all of its calls touch; 0: each has its own */
};

struct sim_plan {
    uint64_t seed;
    uint32_t n_ps;
    uint32_t n_workers;
    uint32_t n_slots;
    uint32_t n_calls;
    uint32_t n_faults;
    uint32_t commit_window;
    uint32_t incremental;
    uint32_t keep;
    uint32_t in_flight; /* the most calls whose futures the program holds */
    uint64_t log_bytes;
    uint64_t every_closures;
    bool speculates;
    bool checkpoints;
    bool brittle;     /* some calls are: a replay may fail, which ends the run */
    uint32_t n_tasks; /* of an epoch of the data set; 0: there is none */
    uint32_t n_epochs;
    uint32_t task_round; /* tasks are given out in rounds of so many; 0: one by one */
    uint32_t task_backups;
    uint32_t task_staleness;
    uint32_t rough;       /* actions and unusual endings come once in this many calls */
    uint32_t n_sequences; /* of rounds; 0: all calls are asynchronous */
    struct sim_sequence sequences[SIM_SEQUENCES_MAX];
    struct sim_place places[SIM_CALLS_MAX];
};

void sim_plan_make(uint64_t seed, uint32_t n_calls, struct sim_plan *ret);
void sim_plan_call(const struct sim_plan *plan, uint32_t number,
                   int64_t ret[SIM_ARGUMENTS]);

/* The same for the task at a position of the data set. */
void sim_plan_task(const struct sim_plan *plan, uint32_t position,
                   int64_t ret[SIM_ARGUMENTS]);
unsigned sim_plan_actions(const struct sim_plan *plan, uint32_t number);

#endif
