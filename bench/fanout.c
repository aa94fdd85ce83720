/*
 * Case `fanout`: steps that pull from every ps and push to every ps, with 1 worker and
 * with 1, 8 and 64 ps, all processes of this host. A variable has one element on each
 * ps; a step pulls all of it and adds 1 to all.
 *
 *   local_1, local_8, local_64   CPU of the worker and of all ps for a step, us; the
 *                                client schedules steps ahead, so they follow each
 *                                other at once
 *   local_further                what each further ps adds to that, between 8 and 64
 *   local_one_1, ...             the same, but the client waits for each step
 *   stream_...                   the same without shared memory
 *
 * The baseline: bare processes, one for each ps, on futexes that they share. One thread
 * wakes all of them, and the last to answer wakes it: the time that the kernel takes to
 * wake N processes once.
 */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/chaos.h"
#include "bench/crew.h"
#include "bench/fan.h"

enum { BATCH = 200, SIZES = 3 };

static const int sizes[SIZES] = {1, 8, FAN_PS_MAX};

/* ---- bare processes */

struct bell {
    _Alignas(64) atomic_uint rung;
};

struct bare {
    struct bell bells[FAN_PS_MAX];
    struct bell answers;
    atomic_int left;
};

static void bell_wait(struct bell *bell, unsigned heard)
{
    while (atomic_load(&bell->rung) == heard) {
        (void)syscall(SYS_futex, &bell->rung, FUTEX_WAIT, heard, NULL, NULL, 0);
    }
}

static void bell_ring(struct bell *bell)
{
    (void)atomic_fetch_add(&bell->rung, 1);
    (void)syscall(SYS_futex, &bell->rung, FUTEX_WAKE, 1, NULL, NULL, 0);
}

__attribute__((noreturn)) static void bare_child(struct bare *bare, int i)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (unsigned heard = 0;; heard++) {
        bell_wait(&bare->bells[i], heard);
        if (atomic_fetch_sub(&bare->left, 1) == 1) {
            bell_ring(&bare->answers);
        }
    }
}

static void bare_round(struct bare *bare, int n, unsigned heard)
{
    atomic_store(&bare->left, n);
    for (int i = 0; i < n; i++) {
        bell_ring(&bare->bells[i]);
    }
    bell_wait(&bare->answers, heard);
}

/* CPU time of a round, us: of this process and of its children. */
static double bare_us(int n, double seconds)
{
    pid_t pids[FAN_PS_MAX];
    struct bare *bare = mmap(NULL, sizeof(*bare), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (bare == MAP_FAILED) {
        bench_die("out of memory");
    }
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        if (pids[i] < 0) {
            bench_die("cannot fork");
        }
        if (pids[i] == 0) {
            bare_child(bare, i);
        }
    }
    unsigned heard = 0;
    bare_round(bare, n, heard++); /* all children run */
    double before = bench_cpu_self();
    for (int i = 0; i < n; i++) {
        before += bench_cpu_of(pids[i]);
    }
    unsigned rounds = 0;
    for (double start = bench_now(); bench_now() - start < seconds; rounds++) {
        bare_round(bare, n, heard++);
    }
    double after = bench_cpu_self();
    for (int i = 0; i < n; i++) {
        after += bench_cpu_of(pids[i]);
    }
    for (int i = 0; i < n; i++) {
        (void)kill(pids[i], SIGKILL);
        (void)waitpid(pids[i], NULL, 0);
    }
    (void)munmap(bare, sizeof(*bare));
    return 1e6 * (after - before) / rounds;
}

/* ---- on a cluster */

static double cpu_of_daemons(void)
{
    static struct chaos_proc procs[CHAOS_PROCS_MAX];
    double sum = 0;
    size_t n = chaos_procs(procs);
    for (size_t i = 0; i < n; i++) {
        bool is_daemon = strcmp(procs[i].name, "coxswain-worker") == 0 ||
                         strcmp(procs[i].name, "coxswain-ps") == 0;
        sum += is_daemon ? bench_cpu_of(procs[i].pid) : 0;
    }
    return sum;
}

static void run_steps(struct crew *crew, bool one_at_a_time)
{
    struct cox_function *fan = crew_function(crew, "fan");
    for (int i = 0; i < BATCH; i++) {
        struct cox_future *future = NULL;
        bench_check(cox_schedule(crew->c, fan, NULL, one_at_a_time ? &future : NULL),
                    "schedule");
        if (future != NULL) {
            bench_check(cox_future_wait(future, -1), "step");
            cox_future_free(future);
        }
    }
    bench_check(cox_join(crew->c, -1), "join");
}

/* CPU time of a step, us; `value` is the same. */
static struct bench_sample steps(struct crew *crew, bool one_at_a_time, double seconds)
{
    size_t n = 0;
    double before = cpu_of_daemons();
    double start = bench_now();
    do {
        run_steps(crew, one_at_a_time);
        n += BATCH;
    } while (bench_now() - start < seconds);
    double elapsed = bench_now() - start;
    return (struct bench_sample){.value = 1e6 * (cpu_of_daemons() - before) / (double)n,
                                 .p50_us = 1e6 * elapsed / (double)n};
}

static void open_fan(struct bench *bench, int n_ps, struct crew *ret)
{
    struct cox_variable *variable;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    crew_open(bench, n_ps, 1, NULL, ret);
    spec.name = "fanned";
    spec.dtype = COX_I64;
    spec.rank = 1;
    spec.shape[0] = (uint64_t)n_ps;
    spec.shards = (uint32_t)n_ps;
    bench_check(cox_variable_create(ret->c, &spec, &variable), "variable");
}

/* A series of measurements on clusters of each size. */
struct sweep {
    const char *name;
    bool one_at_a_time;
    struct bench_measurement m[SIZES];
};

static void measure(struct bench *bench, int size, struct sweep *sweeps, size_t n,
                    double seconds)
{
    struct crew crew;
    open_fan(bench, sizes[size], &crew);
    run_steps(&crew, false); /* warms up */
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        for (size_t i = 0; i < n; i++) {
            struct bench_measurement *m = &sweeps[i].m[size];
            m->baseline[round] = bare_us(sizes[size], seconds / 4);
            m->value[round] = steps(&crew, sweeps[i].one_at_a_time, seconds);
            m->n_rounds = round + 1;
        }
    }
    crew_close(&crew);
}

static void report(struct bench *bench, const struct sweep *sweep, const char *what,
                   int n_ps, const struct bench_measurement *measured)
{
    struct bench_measurement m = *measured;
    char name[64];
    char params[64];
    (void)snprintf(name, sizeof(name), "%s%s", sweep->name, what);
    (void)snprintf(params, sizeof(params), "{\"workers\":1,\"ps\":%d}", n_ps);
    m.name = name;
    m.params = params;
    m.unit = "us";
    m.baseline_name = "bare processes woken once";
    bench_report(bench, "fanout", &m);
}

/* The slope from the second size to the last one. */
static struct bench_measurement further(const struct sweep *sweep)
{
    const struct bench_measurement *few = &sweep->m[1];
    const struct bench_measurement *many = &sweep->m[SIZES - 1];
    double more = sizes[SIZES - 1] - sizes[1];
    struct bench_measurement m = {.n_rounds = many->n_rounds};
    for (int i = 0; i < m.n_rounds; i++) {
        m.value[i].value = (many->value[i].value - few->value[i].value) / more;
        m.baseline[i] = (many->baseline[i] - few->baseline[i]) / more;
    }
    return m;
}

static void sweep_all(struct bench *bench, struct sweep *sweeps, size_t n)
{
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    for (int size = 0; size < SIZES; size++) {
        measure(bench, size, sweeps, n, seconds);
    }
    for (size_t i = 0; i < n; i++) {
        struct bench_measurement slope = further(&sweeps[i]);
        for (int size = 0; size < SIZES; size++) {
            char what[16];
            (void)snprintf(what, sizeof(what), "%d", sizes[size]);
            report(bench, &sweeps[i], what, sizes[size], &sweeps[i].m[size]);
        }
        report(bench, &sweeps[i], "further", FAN_PS_MAX, &slope);
    }
}

void bench_fanout(struct bench *bench)
{
    struct sweep local[] = {{.name = "local_"}, {"local_one_", true, {{0}}}};
    struct sweep stream[] = {{.name = "stream_"}, {"stream_one_", true, {{0}}}};
    if (bench_wants(bench, "local")) {
        sweep_all(bench, local, sizeof(local) / sizeof(*local));
    }
    if (bench_wants(bench, "stream")) {
        (void)setenv("COX_WORKER_LOCAL_PATH", "off", 1);
        sweep_all(bench, stream, sizeof(stream) / sizeof(*stream));
        (void)unsetenv("COX_WORKER_LOCAL_PATH");
    }
}
