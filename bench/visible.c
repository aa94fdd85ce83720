/*
 * Case `visible`: what it costs that a run can be watched. All but `train` run closures from
 * cox_schedule to cox_join, each of which pushes one row, on a local cluster of 2 ps and 2
 * workers with one slot each. Every measurement is one of CPU time, too (turns.h).
 *
 *   same      both sides have nothing: how far from 1 the ratios of this machine are
 *   history   with the history on disk, which is sampled each second; against a client that
 *             has neither
 *   scalars   the same, and each step logs a scalar, which is written for TensorBoard, too
 *   schedule  everything on: history, TensorBoard, and the page that two browsers have open
 *             while Prometheus scrapes client, ps and workers (watchers.c)
 *   train     the same for examples a second of the click model (click_steps.c) on 1 ps and 1
 *             worker with 2 slots, where each step logs its loss; the baseline logs nothing
 *   trace, train_trace
 *             closures, and examples, while a trace is taken; against the same client, which
 *             takes none
 *   strangers a hostile crowd at the pages (http_strangers.c); against the same client
 *             without the crowd
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/click_job.h"
#include "bench/click_model.h"
#include "bench/crew.h"
#include "bench/turns.h"
#include "bench/watchers.h"
#include "coxswain/coxswain.h"

enum {
    BATCH = 20000,
    N_PS = 2,
    N_WORKERS = 2,
    TURN_MS = 250,
    TRACE_MS = 2000 /* traces take seconds, so that their beginning is a small part */
};

static const char params[] = "{\"workers\":2,\"ps\":2,\"slots\":1}";
static const char train_params[] =
    "{\"workers\":1,\"ps\":1,\"slots\":2,\"rows_per_step\":64}";

/* A client that is measured. */
struct side {
    struct bench *bench;
    struct crew crew;
    const struct click_job *job; /* NULL: closures that push a row */
    struct cox_function *step;
    char dir[96]; /* of its history, logs and curves */
    bool is_watched;
    struct bench_child watchers;
    struct bench_child crowd;
};

/* How a side differs from one that has nothing. */
struct way {
    const char *step;
    bool history;
    bool board; /* TensorBoard */
    bool http;
    bool watched; /* also by the daemons' metrics */
};

struct pair {
    struct bench *bench;
    const char *name;
    const struct click_job *job;
    struct way ways[2];
    struct side sides[2];
};

/* ---- a side */

static void on_event(void *arg, const struct cox_event *event)
{
    (void)arg;
    if (event->level >= COX_EVENT_WARNING) {
        (void)fprintf(stderr, "coxswain-bench: %s: %s\n", event->name, event->text);
    }
}

static double run(void *arg)
{
    const struct side *side = arg;
    if (side->job != NULL) {
        return click_job_pass(side->job, side->crew.c, side->step);
    }
    for (size_t i = 0; i < BATCH; i++) {
        bench_check(cox_schedule(side->crew.c, side->step, NULL, NULL), "schedule");
    }
    bench_check(cox_join(side->crew.c, -1), "join");
    return BATCH;
}

static void open_rows(struct side *side, const char *step,
                      const struct cox_options *options)
{
    struct cox_table *table;
    struct cox_table_spec spec = COX_TABLE_SPEC_INIT;
    crew_open(side->bench, N_PS, N_WORKERS, options, &side->crew);
    spec.name = "rows";
    spec.dim = 8;
    spec.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.01F};
    bench_check(cox_table_create(side->crew.c, &spec, &table), "table");
    side->step = crew_function(&side->crew, step);
}

/* Daemons that are started from now on serve over HTTP, or do not. */
static void serve_daemons(bool serve)
{
    static const char *const names[] = {"COX_PS_HTTP", "COX_WORKER_HTTP"};
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if ((serve ? setenv(names[i], "127.0.0.1:0", 1) : unsetenv(names[i])) != 0) {
            bench_die("out of memory");
        }
    }
}

static void open_side(struct side *side, const struct way *way)
{
    char curves[128];
    struct cox_options options = COX_OPTIONS_INIT;
    (void)snprintf(curves, sizeof(curves), "%s/curves", side->dir);
    options.on_event = on_event;
    options.history = way->history ? 0 : -1;
    options.log_dir = way->history ? side->dir : NULL;
    options.tensorboard_dir = way->board ? curves : NULL;
    options.http = way->http ? "127.0.0.1:0" : NULL;
    options.worker_slots = side->job != NULL ? 2 : 1;
    serve_daemons(way->watched);
    if (side->job != NULL) {
        side->crew.c = click_job_open(side->job, MODEL_LR_DIM, 1, &options, way->step,
                                      &side->step);
    } else {
        open_rows(side, way->step, &options);
    }
    side->is_watched = way->watched;
    if (side->is_watched) {
        watchers_start(side->bench, cox_http_address(side->crew.c), side->dir,
                       side->job != NULL ? 2 : N_PS + N_WORKERS, &side->watchers);
    }
}

static void close_side(struct side *side)
{
    if (side->is_watched) {
        bench_child_stop(&side->watchers);
    }
    crew_close(&side->crew);
}

static void begin_watching(void *arg)
{
    watchers_go(&((struct side *)arg)->watchers);
}

static void end_watching(void *arg)
{
    watchers_rest(&((struct side *)arg)->watchers);
}

/* ---- two clients */

static void open_pair(void *arg, int round, struct turns *turns)
{
    struct pair *pair = arg;
    for (int i = 0; i < 2; i++) { /* each is first as often as the other */
        int k = (i + round) % 2;
        struct side *side = &pair->sides[k];
        *side = (struct side){.bench = pair->bench, .job = pair->job};
        (void)snprintf(side->dir, sizeof(side->dir), "%s/%s.%d.%d", pair->bench->dir,
                       pair->name, round, k);
        open_side(side, &pair->ways[k]);
        turns->sides[k] = (struct turns_side){.arg = side, .run = run};
        if (side->is_watched) {
            turns->sides[k].begin = begin_watching;
            turns->sides[k].end = end_watching;
            turns->sides[k].apart = &side->watchers;
        }
    }
}

static void close_pair(void *arg)
{
    struct pair *pair = arg;
    close_side(&pair->sides[1]);
    close_side(&pair->sides[0]);
}

/* Compares a client with one that has nothing. */
static void compare(struct bench *bench, const struct click_job *job, const char *name,
                    struct way way)
{
    struct pair pair = {.bench = bench, .name = name, .job = job, .ways = {{0}, way}};
    struct turns turns = {.case_name = "visible",
                          .name = name,
                          .params = job != NULL ? train_params : params,
                          .baseline_name = "nothing on",
                          .turn_ms = TURN_MS,
                          .arg = &pair,
                          .open = open_pair,
                          .close = close_pair};
    pair.ways[0].step = job != NULL ? "train" : "push_row";
    turns_compare(bench, &turns);
}

/* ---- one client */

struct single {
    struct side side;
    struct way way;
    const struct turns_side *differs;
};

static void close_single(void *arg)
{
    close_side(&((struct single *)arg)->side);
}

static void begin_trace(void *arg)
{
    char path[128];
    const struct side *side = arg;
    (void)snprintf(path, sizeof(path), "%s/trace.json", side->bench->dir);
    bench_check(cox_trace_start(side->crew.c, path), "trace");
}

static void end_trace(void *arg)
{
    bench_check(cox_trace_stop(((struct side *)arg)->crew.c), "trace");
}

static void begin_crowd(void *arg)
{
    char what[64];
    struct side *side = arg;
    (void)snprintf(what, sizeof(what), "http-strangers=%s",
                   strrchr(cox_http_address(side->crew.c), ':') + 1);
    bench_child_start(side->bench, what, &side->crowd);
}

static void end_crowd(void *arg)
{
    bench_child_stop(&((struct side *)arg)->crowd);
}

static void open_single(void *arg, int round, struct turns *turns)
{
    struct single *single = arg;
    (void)round;
    open_side(&single->side, &single->way);
    turns->sides[0] = (struct turns_side){.arg = &single->side, .run = run};
    turns->sides[1] = *single->differs;
    turns->sides[1].arg = &single->side;
    turns->sides[1].run = run;
    if (single->differs->begin == begin_crowd) {
        turns->sides[1].apart = &single->side.crowd;
    }
}

/* Compares a client that is as `way` says with itself while it is `differs`. */
static void compare_self(struct bench *bench, const struct click_job *job,
                         const char *name, struct way way,
                         const struct turns_side *differs)
{
    struct single single = {
        .side = {.bench = bench, .job = job}, .way = way, .differs = differs};
    struct turns turns = {.case_name = "visible",
                          .name = name,
                          .params = job != NULL ? train_params : params,
                          .baseline_name = "without",
                          .turn_ms = differs->begin == begin_trace ? TRACE_MS : TURN_MS,
                          .arg = &single,
                          .open = open_single,
                          .close = close_single};
    turns_compare(bench, &turns);
}

void bench_visible(struct bench *bench)
{
    static const struct turns_side traced = {.begin = begin_trace, .end = end_trace};
    static const struct turns_side crowded = {.begin = begin_crowd, .end = end_crowd};
    const struct way everything = {"push_row", true, true, true, true};
    struct way logs = everything;
    struct click_job job;
    click_job_init(bench, &job);
    logs.step = "train_logged";
    compare(bench, NULL, "same", (struct way){.step = "push_row"});
    compare(bench, NULL, "history", (struct way){.step = "push_row", .history = true});
    compare(bench, NULL, "scalars",
            (struct way){.step = "log_row", .history = true, .board = true});
    compare(bench, NULL, "schedule", everything);
    compare(bench, &job, "train", logs);
    compare_self(bench, NULL, "trace", (struct way){.step = "push_row"}, &traced);
    compare_self(bench, &job, "train_trace", (struct way){.step = "train"}, &traced);
    compare_self(bench, NULL, "strangers",
                 (struct way){.step = "push_row", .http = true}, &crowded);
    click_job_fini(&job);
}
