/*
 * Case `recovery`: the cost of losing one worker of two, on a local cluster.
 *
 *   worker_killed  kill -9 of supervisor and step process with closures in flight: the
 *                  time until the last of those closures runs again; for 95 of 100
 *   step_killed    the same, for the step process alone
 *   one_dead       closures a second while one of two workers stays dead, against the
 *                  rate of both
 *
 * Steps take their time without computing, so that two workers can do twice the work of
 * one.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/crew.h"

enum {
    KILLS = 50,
    CLOSURES = 64, /* for each kill */
    RUNNING = 6,   /* closures that have ended when the kill comes */
    STEP_US = 1000,
    SHARE_STEP_US = 2000,
    SHARE_BATCH = 100,
};

/* ---- the worker's processes */

static void send_signal(const struct chaos_proc *proc, int signum)
{
    int fd = chaos_proc_pin(proc);
    if (fd >= 0) {
        (void)pidfd_send_signal(fd, signum, NULL, 0);
        (void)close(fd);
    }
}

/* Waits until both workers take closures. */
static void await_both(struct crew *crew)
{
    for (uint32_t worker = 1; worker <= 2; worker++) {
        struct cox_future *future;
        crew_spend(crew, 0, worker, &future);
        bench_check(cox_future_wait(future, -1), "future");
        cox_future_free(future);
    }
}

/* ---- closures that were in flight */

/* Kills worker `index`; returns the milliseconds until its last closure ran again; 0:
 * it had none. */
static double kill_once(struct crew *crew, uint32_t index, bool supervisor)
{
    struct cox_future *futures[CLOSURES];
    struct chaos_worker worker;
    struct crew_spent spent;
    double last = 0;
    await_both(crew);
    chaos_procs_worker(index, &worker);
    for (int i = 0; i < CLOSURES; i++) {
        crew_spend(crew, STEP_US, 0, &futures[i]);
    }
    bench_check(cox_future_wait(futures[RUNNING - 1], -1), "future");
    double killed = bench_now();
    if (supervisor) {
        send_signal(&worker.supervisor, SIGKILL);
    }
    send_signal(&worker.step, SIGKILL);
    for (int i = 0; i < CLOSURES; i++) {
        crew_spent(futures[i], &spent);
        double after = spent.started - killed;
        if (spent.attempt > 1 && after > last) {
            last = after;
        }
        cox_future_free(futures[i]);
    }
    return last * 1e3;
}

static void measure_kills(struct bench *bench, struct crew *crew, const char *name,
                          bool supervisor)
{
    double ms[KILLS];
    size_t n = 0;
    for (uint32_t i = 0; n < KILLS && i < 2 * KILLS; i++) {
        ms[n] = kill_once(crew, i % 2, supervisor);
        n += ms[n] > 0;
    }
    struct bench_measurement m = {
        .name = name,
        .params = "{\"workers\":2,\"kills\":50,\"quantile\":0.95}",
        .unit = "ms",
        .baseline_name = "what it may take",
        .baseline = {50},
        .n_rounds = 1,
    };
    m.value[0] = (struct bench_sample){
        .value = bench_quantile(ms, n, 0.95),
        .p50_us = bench_quantile(ms, n, 0.5) * 1e3,
        .p99_us = bench_quantile(ms, n, 0.99) * 1e3,
    };
    bench_report(bench, "recovery", &m);
}

/* ---- a worker that stays dead */

static double rate(struct crew *crew, double seconds)
{
    size_t n = 0;
    double start = bench_now();
    do {
        for (int i = 0; i < SHARE_BATCH; i++) {
            crew_spend(crew, SHARE_STEP_US, 0, NULL);
        }
        bench_check(cox_join(crew->c, -1), "join");
        n += SHARE_BATCH;
    } while (bench_now() - start < seconds);
    return (double)n / (bench_now() - start);
}

/* Waits until the client has noticed that a worker is gone. */
static void await_loss(struct crew *crew)
{
    struct cox_stats stats = COX_STATS_INIT;
    do {
        crew_spend(crew, SHARE_STEP_US, 0, NULL);
        bench_check(cox_join(crew->c, -1), "join");
        bench_check(cox_stats(crew->c, &stats), "stats");
    } while (stats.workers_ready == 2);
}

static void measure_share(struct bench *bench, struct crew *crew)
{
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    struct bench_measurement m = {
        .name = "one_dead",
        .params = "{\"workers\":2,\"dead\":1,\"step_us\":2000}",
        .unit = "1/s",
        .baseline_name = "both workers",
    };
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        struct chaos_worker worker;
        await_both(crew);
        m.baseline[m.n_rounds] = rate(crew, seconds);
        chaos_procs_worker(1, &worker);
        /* A stopped supervisor starts no other step process. */
        send_signal(&worker.supervisor, SIGSTOP);
        send_signal(&worker.step, SIGKILL);
        await_loss(crew);
        m.value[m.n_rounds] = (struct bench_sample){.value = rate(crew, seconds)};
        send_signal(&worker.supervisor, SIGCONT);
    }
    await_both(crew);
    bench_report(bench, "recovery", &m);
}

void bench_recovery(struct bench *bench)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.speculate = -1; /* second attempts would be taken for recoveries */
    crew_open(bench, 1, 2, &options, &crew);
    measure_kills(bench, &crew, "worker_killed", true);
    measure_kills(bench, &crew, "step_killed", false);
    measure_share(bench, &crew);
    crew_close(&crew);
}
