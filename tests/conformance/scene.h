/* The setting of the conformance tests: a crew with a counter on each ps, and what most
 * tests do with it. */
#ifndef COXI_TESTS_CONFORMANCE_SCENE_H
#define COXI_TESTS_CONFORMANCE_SCENE_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/conformance/faulty.h"
#include "tests/coordinator/crew.h"
#include "tests/program.h"
#include "tests/test.h"

struct setup {
    uint32_t queue_max; /* 0: the default */
    int n_ps;
    int n_workers;
    bool late; /* the workers dial the client, once scene_let_come lets them */
};

enum { SCENE_PS_MAX = 4, SCENE_WORKERS_MAX = 4, SCENE_HANDS = 1 + 1 };

struct scene {
    struct crew crew; /* with the step module conformance */
    struct setup setup;
    struct program ps[SCENE_PS_MAX]; /* only if workers are late, like the next field */
    struct program workers[SCENE_WORKERS_MAX];
    int n_started;
    const char *dialled; /* the address that late workers dial */
    struct faulty links;
    struct cox_variable *counters[SCENE_PS_MAX]; /* c0 on ps 0, ... */
};

/*
 * One closure is sent ahead to each worker (so each has SCENE_HANDS closures); a
 * cancelled step has a minute of grace. With late workers there is no local cluster, so
 * tests/coordinator/crew.h finds no processes.
 */
void scene_open(struct scene *scene, const struct setup *setup);
void scene_open_with(struct scene *scene, const struct setup *setup,
                     struct cox_options *options);
void scene_close(struct scene *scene);

/* If workers are late: starts all of them. */
void scene_let_come(struct scene *scene);

/* If workers are late: starts one more, which dials the client under a name. */
struct program *scene_start_worker(struct scene *scene, const char *name);

/* Waits until n workers take closures. */
void scene_wait_ready(struct scene *scene, uint64_t n);

/* Schedules a step without arguments; on worker `only` - 1, unless `only` is 0. */
struct cox_future *scene_schedule(struct scene *scene, const char *step, uint32_t only);

/* Schedules the step `fail`, whose error names the number; `only` as above. */
struct cox_future *scene_schedule_failure(struct scene *scene, int64_t number,
                                          uint32_t only);

/* A resource that `function` makes on every worker, from the number `value` (argument
 * `arg`; NULL: no argument). */
struct cox_resource *scene_resource(struct scene *scene, const char *name,
                                    const char *function, const char *arg,
                                    int64_t value);

/* Schedules n counting steps, without futures. */
void scene_count(struct scene *scene, int n);

/* Asserts that every ps has counted n times. */
void scene_assert_count(struct scene *scene, int64_t n);

/* Asserts that n more steps count exactly once each, and that then everything is
 * settled; `before`: the count so far. */
void scene_assert_usable(struct scene *scene, int64_t before, int n);

/* Asserts that worker `index` runs a closure that only it may run. */
void scene_assert_works(struct scene *scene, int index);

/* Asserts that cox_done and cox_join report all as settled (`settled`), or not. */
void scene_assert_settled(struct scene *scene, bool settled);

struct cox_stats scene_stats(struct scene *scene);

/* Waits until n closures are queued for a worker. */
void scene_wait_queued(struct scene *scene, uint64_t n);

/* Waits for a future, asserts that its code is `code`, and frees it. */
void scene_end(struct cox_future *future, int code);

/* The I64 result `name` of a step. */
int64_t scene_result(struct cox_future *future, const char *name);

/*
 * Kills with kill -9 the step process of a worker; _host: its supervisor, too. Waits
 * until they have ended. `held`, if not NULL, is a step that runs there: crew_hold_wait
 * then waits for its next attempt.
 */
void scene_kill(struct scene *scene, int worker, struct crew_hold *held);
void scene_kill_host(struct scene *scene, int worker, struct crew_hold *held);

/* Waits until `n` workers have been lost since the start, and all workers take
 * closures. */
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
    struct scene *scene); /* schedules a counting step; leaves no future if refused */
int scene_try_put(struct scene *scene);
int scene_wait(struct scene *scene);

void caller_start(struct caller *caller, struct scene *scene,
                  int (*call)(struct scene *scene));
bool caller_has_returned(struct caller *caller);

/* Waits until the call has returned; returns its code. Then `text` has the error's
 * text. */
int caller_join(struct caller *caller);

#endif
