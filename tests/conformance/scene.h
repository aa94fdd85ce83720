/*
 * What the conformance tests have in common: a crew in a set-up, with a counter on each
 * ps, and what is done with it in every other line.
 */
#ifndef COXI_TESTS_CONFORMANCE_SCENE_H
#define COXI_TESTS_CONFORMANCE_SCENE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

struct setup {
    uint32_t queue_max; /* 0: the default */
    int n_ps;
    int n_workers;
    bool late; /* the workers dial the client, when they are let come */
};

enum { SCENE_PS_MAX = 4, SCENE_WORKERS_MAX = 4, SCENE_HANDS = 1 + 1 };

struct scene {
    struct crew crew; /* with the step module conformance */
    struct setup setup;
    struct program ps[SCENE_PS_MAX]; /* only where workers are late, as the next */
    struct program workers[SCENE_WORKERS_MAX];
    int n_started;
    struct cox_variable *counters[SCENE_PS_MAX]; /* c0 on ps 0, ... */
};

/*
 * One closure is sent ahead to a worker (SCENE_HANDS are at it, then); a step that is
 * cancelled has a minute. With late workers there is no local cluster: tests/coordinator/crew.h
 * finds no processes.
 */
void scene_open(struct scene *scene, const struct setup *setup);
void scene_open_with(struct scene *scene, const struct setup *setup,
                     struct cox_options *options);
void scene_close(struct scene *scene);

/* Where workers are late: they may come now. */
void scene_let_come(struct scene *scene);

/* Where workers are late: has one more dial the client, under a name. */
struct program *scene_start_worker(struct scene *scene, const char *name);

/* Waits until as many workers take closures. */
void scene_wait_ready(struct scene *scene, uint64_t n);

/* Schedules a step without arguments; on worker `only` - 1, if that is not 0. */
struct cox_future *scene_schedule(struct scene *scene, const char *step, uint32_t only);

/* The step `fail`, with the number that its message tells; `only` as above. */
struct cox_future *scene_schedule_failure(struct scene *scene, int64_t number,
                                          uint32_t only);

/* A resource made by `function` on every worker, from the number `value` (called `arg`;
 * NULL: none). */
struct cox_resource *scene_resource(struct scene *scene, const char *name,
                                    const char *function, const char *arg,
                                    int64_t value);

/* Schedules n steps that count, without futures. */
void scene_count(struct scene *scene, int n);

/* Every ps has counted so often. */
void scene_assert_count(struct scene *scene, int64_t n);

/* n steps more count exactly once each, and done and join agree that this is all;
 * `before` is what has been counted. */
void scene_assert_usable(struct scene *scene, int64_t before, int n);

/* Worker `index` runs what only it may run. */
void scene_assert_works(struct scene *scene, int index);

/* Whether done and join say that everything is settled, as they should. */
void scene_assert_settled(struct scene *scene, bool settled);

struct cox_stats scene_stats(struct scene *scene);

/* Waits until so many are in line for a worker. */
void scene_wait_queued(struct scene *scene, uint64_t n);

/* Waits for the end of a future and frees it. */
void scene_end(struct cox_future *future, int code);

/* The value of an i64 that a step has returned. */
int64_t scene_result(struct cox_future *future, const char *name);

/*
 * kill -9 of the process that runs the steps of a worker, or of its supervisor, too; waits
 * for its end. `held`, if not NULL, is a step that runs there: crew_hold_wait then waits
 * for its next attempt.
 */
void scene_kill(struct scene *scene, int worker, struct crew_hold *held);
void scene_kill_host(struct scene *scene, int worker, struct crew_hold *held);

/* Waits until `n` workers have been lost since the start, and all take closures. */
void scene_wait_back(struct scene *scene, uint64_t n);

/* A call of the client on a thread of its own. */
struct caller {
    pthread_t thread;
    struct scene *scene;
    int (*call)(struct scene *scene);
    atomic_bool returned;
    int code;
    char text[512];
};

int scene_put(
    struct scene *scene); /* a step that counts; leaves no future if refused */
int scene_try_put(struct scene *scene);
int scene_wait(struct scene *scene);

void caller_start(struct caller *caller, struct scene *scene,
                  int (*call)(struct scene *scene));
bool caller_has_returned(struct caller *caller);

/* Waits for its end: the code; what the error said is in `text`. */
int caller_join(struct caller *caller);

#endif
