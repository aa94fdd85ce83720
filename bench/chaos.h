/* Shared by the client of a storm (chaos.c), its steps and the storm itself. */
#ifndef COXI_BENCH_CHAOS_H
#define COXI_BENCH_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The elements of a step's argument "plan", I64. */
enum chaos_plan {
    CHAOS_NUMBER,      /* of the step, from 0 */
    CHAOS_MASK,        /* the ps to whose counters it adds */
    CHAOS_US,          /* its duration */
    CHAOS_BUSY,        /* 1: it computes instead of sleeping */
    CHAOS_CRASH,       /* 0, or an enum chaos_crash for its first attempt */
    CHAOS_STRAGGLE_US, /* additional time of its first attempt */
    CHAOS_FLUSH,       /* 1: it flushes after half of its time */
    CHAOS_AFTER,       /* the ps to whose counters it adds after its flush; 0: none */
    CHAOS_RESOURCE,    /* 0, or 1 + the version of the resource that it uses */
    CHAOS_TAKES,       /* 0, or the number of an earlier step whose result it takes */
    CHAOS_FADES,       /* 1: it updates the table that drops old rows */
    CHAOS_ROUND_PS,    /* in a round: the number of ps; otherwise 0 */
    CHAOS_ROUND_LEAST, /* in a round: the least that it must see of earlier rounds */
    CHAOS_LEARNS,      /* 1: it trains the model of --deterministic */
    CHAOS_PLAN,
};

enum chaos_crash { CHAOS_CRASH_ABORT = 1, CHAOS_CRASH_NULL = 2 };

enum { CHAOS_PS_MAX = 16 };

/* Each step adds 1 to one row of a table, too: the row with key number % CHAOS_KEYS. */
#define CHAOS_TABLE "rows"
enum { CHAOS_KEYS = 997 };

/*
 * With --evict each step adds 1, as a gradient, to one row of this table: the row with
 * key number % CHAOS_FADING_KEYS. A row is evicted if no gradient has come to it for
 * CHAOS_FADING_AGE updates of its ps, or if it has had only one by that time after it
 * was made. Each row gets a gradient every CHAOS_FADING_KEYS steps, so no row is
 * evicted, however the steps of all workers are mixed.
 */
#define CHAOS_FADING "fading"
enum { CHAOS_FADING_KEYS = 31, CHAOS_FADING_AGE = 400 };

/* With --mode: each step sends a gradient of minus one for both numbers of each of
 * these variables, CHAOS_ROUNDS "0" and so on; SGD with rate 1 adds 1. */
#define CHAOS_ROUNDS "rounds-"
enum { CHAOS_ROUND_MAX = 64 }; /* steps */

/*
 * With --deterministic: a dense variable with a part on each ps, and a table. Each
 * gradient depends on the step's seed and on everything that the step pulls, so values
 * that another run does not have change the bits of all that follows.
 */
#define CHAOS_EXACT      "exact"
#define CHAOS_EXACT_ROWS "exact-rows"
enum {
    CHAOS_EXACT_WEIGHTS = 64,
    CHAOS_EXACT_KEYS = 64,
    CHAOS_EXACT_DIM = 4,
    CHAOS_EXACT_LISTED = 8, /* rows of a step */
};

/* With --dataset: the record of key i adds 1 to row i of this table. */
#define CHAOS_VISITED "visited"

/* The elements of argument "plan" of step "visit", I64; chances are of each batch of a
 * first attempt, in millionths. */
enum chaos_visit {
    CHAOS_VISIT_SEED,
    CHAOS_VISIT_US,        /* average time of a batch */
    CHAOS_VISIT_PS,        /* the number of ps, each of which has a counter */
    CHAOS_VISIT_CRASHES,   /* the chance that it crashes */
    CHAOS_VISIT_STRAGGLES, /* 1: some first attempts take long */
    CHAOS_VISIT_SEGMENTS,  /* 1: it flushes after each batch */
    CHAOS_VISIT,
};
enum { CHAOS_VISIT_MILLION = 1000000 };

/*
 * With --resources: the client assigns one number to all elements of the model, each
 * time a greater one. Then it creates a resource that is made from the model, with the
 * argument "floor": the model's number at that time, below which no element may be. A
 * step that uses the resource adds 1 to the variable CHAOS_GOOD if no element is below
 * the floor, otherwise to CHAOS_BAD.
 */
#define CHAOS_MODEL_NAME "model"
#define CHAOS_GOOD       "good"
#define CHAOS_BAD        "bad"
enum { CHAOS_MODEL_MAX = 8 * CHAOS_PS_MAX }; /* elements */

/* ---- chaos_procs.c: the descendants of this program. Any thread. */

enum { CHAOS_PROCS_MAX = 1024 };

struct chaos_proc {
    pid_t pid;
    pid_t parent;
    char name[16]; /* the program's name, cut */
};

/* Lists the living descendants, parents before their children; returns how many. */
size_t chaos_procs(struct chaos_proc ret[CHAOS_PROCS_MAX]);

/* True if process `pid` runs the program. */
bool chaos_proc_is(pid_t pid, const char *program);

/* The processes of a local worker; pid 0: there is none now. */
struct chaos_worker {
    struct chaos_proc supervisor;
    struct chaos_proc step;
};
void chaos_procs_worker(uint32_t index, struct chaos_worker *ret);

/* The process of a local ps; pid 0: there is none now. */
struct chaos_proc chaos_procs_ps(uint32_t index);

/* A child of this process; pid 0: none. */
struct chaos_proc chaos_procs_child(pid_t pid);

/* A file descriptor for exactly this process, or -1: it has gone. */
int chaos_proc_pin(const struct chaos_proc *proc);

/* Shuts down one of the process's connections, chosen by `draw`; false: it has none, or
 * this program may not do so. */
bool chaos_proc_reset(const struct chaos_proc *proc, uint64_t draw);

/* Pins all descendants that exist now, so that one can ask later whether they have
 * ended. */
struct chaos_pins {
    int fds[CHAOS_PROCS_MAX];
    size_t n;
};
void chaos_pins_take(struct chaos_pins *ret);

/* Waits at most `patience_ms` for them to end, then kills them; returns how many it
 * killed. */
size_t chaos_pins_end(struct chaos_pins *pins, int patience_ms);

/* ---- chaos_storm.c: a thread that kills and stops workers, cuts connections, and
 * watches the clock */

struct chaos_storm_counts {
    uint64_t kills;
    uint64_t kills_ps;
    uint64_t kills_client;
    uint64_t stops;
    uint64_t resets;
    uint64_t full_disks;
    uint64_t partitions;
};

struct chaos_journal;
struct chaos_net;

struct chaos_storm_options {
    uint64_t seed;
    uint32_t n_workers;
    uint32_t n_ps;
    int kill_every_ms;        /* 0: never */
    int kill_ps_every_ms;     /* 0: never */
    int kill_client_every_ms; /* 0: never */
    int stop_every_ms;        /* 0: never */
    int reset_every_ms;       /* 0: never */
    int full_disk_every_ms;   /* 0: never */
    int partition_every_ms;   /* 0: never */
    int peer_timeout_ms;
    int deadline_s;
    int grace_ms; /* for the client to end after it was asked to */
    struct chaos_journal *journal;
    /* Called if the run has not ended by its deadline; ends the program. */
    void (*on_stuck)(void *arg, const char *why,
                     const struct chaos_storm_counts *counts);
    void *arg;
};

struct chaos_storm;

/* Starts the storm's thread. Threads that are started from now on do not get SIGINT and
 * SIGTERM. */
int chaos_storm_start(const struct chaos_storm_options *options,
                      struct chaos_storm **ret);

/* Lets the storm rage, or stops it: no process is left stopped then. */
void chaos_storm_rage(struct chaos_storm *storm, bool on);

/* Tells the storm the process of the client; 0: there is none. */
void chaos_storm_client(struct chaos_storm *storm, pid_t pid);

/* The connections that the storm cuts from now on, until it is calm. */
void chaos_storm_net(struct chaos_storm *storm, struct chaos_net *net);

/* The reason why the client must end early, or NULL. */
const char *chaos_storm_why(struct chaos_storm *storm);

/* Ends the thread; takes NULL. */
void chaos_storm_stop(struct chaos_storm *storm, struct chaos_storm_counts *ret);

#endif
