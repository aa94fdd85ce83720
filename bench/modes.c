/*
 * Case `modes`: rounds of MODES_MEMBERS closures on a local cluster of a ps and 2 workers
 * with one slot each. Each step pulls a small dense variable and pushes its gradient (SGD).
 * Closures a second, unless the unit says rounds; reduce steps do not count. NAME_cpu: CPU
 * time of all processes for one. What others do on the machine delays rounds more than
 * closures that do not wait for each other.
 *
 *   sync        one round after the other, against the same closures without rounds
 *   stale_1, stale_3
 *               the same with a bound of staleness
 *   counted     closures without rounds, whose staleness is counted as always, against the
 *               same with workers that do not ask for versions (uncounted.c)
 *   deterministic
 *               rounds that are deterministic, against the same rounds that are not
 *   join, wait, chain
 *               one round after the other, against rounds made by hand: the closures
 *               return their gradients, and a further one takes these futures as inputs
 *               and pushes the mean. The client joins, or waits for that one, before the
 *               next round; `chain`: the closures of the next round take its result as an
 *               input
 *   backups     rounds of steps of a millisecond, which are complete with all closures but
 *               one, while a worker takes MODES_SLOW times as long; against the same with
 *               the other worker alone
 *   no_backups  the same, with rounds that are complete with all closures
 *   backups_fast
 *               as `backups`, against two workers of which none is slow
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/modes.h"
#include "coxswain/coxswain.h"

enum { ROUNDS = 500, SLOW_ROUNDS = 50, CHAIN = 64, STEP_US = 1000 };

struct stage {
    struct cox_coordinator *c;
    struct cox_function *train;
    struct cox_function *member;
    struct cox_function *reduce;
};

static void create_weights(struct cox_coordinator *c)
{
    struct cox_variable *weights;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    spec.name = "weights";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = MODES_WEIGHTS;
    spec.optimizer = (struct cox_optimizer){.kind = COX_SGD, .learning_rate = 0.01F};
    bench_check(cox_variable_create(c, &spec, &weights), "variable");
}

/* `bin_dir`: where the daemons are, as in struct cox_options. */
static void stage_open(const struct bench *bench, int n_workers, const char *bin_dir,
                       struct stage *ret)
{
    char path[sizeof(bench->self) + 32];
    struct cox_cluster *cluster;
    struct cox_module *module;
    struct cox_options options = COX_OPTIONS_INIT;
    options.min_workers = (uint32_t)n_workers;
    options.bin_dir = bin_dir;
    bench_check(cox_cluster_local(1, n_workers, &cluster), "cluster");
    bench_check(cox_open(cluster, &options, &ret->c), "open");
    cox_cluster_free(cluster);
    create_weights(ret->c);
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "mode_steps.so");
    bench_check(cox_module_load(ret->c, path, &module), "module");
    bench_check(cox_function_get(module, "train", &ret->train), "step");
    bench_check(cox_function_get(module, "member", &ret->member), "step");
    bench_check(cox_function_get(module, "reduce", &ret->reduce), "step");
}

static void stage_close(struct stage *stage)
{
    bench_check(cox_close(stage->c, 5000), "close");
}

/* ---- ways to run `n` rounds */

/* A way to run rounds: where, and what it needs. */
struct way {
    struct stage *stage;
    void (*run)(const struct way *way);
    int n;
    struct cox_rounds *rounds;
    const struct cox_call *call;
};

static void run_plain(const struct way *way)
{
    for (int i = 0; i < way->n * MODES_MEMBERS; i++) {
        bench_check(cox_schedule(way->stage->c, way->stage->train, way->call, NULL),
                    "schedule");
    }
    bench_check(cox_join(way->stage->c, -1), "join");
}

static void run_rounds(const struct way *way)
{
    struct cox_round_call calls[MODES_MEMBERS];
    for (int i = 0; i < MODES_MEMBERS; i++) {
        calls[i] = (struct cox_round_call){way->stage->train, way->call};
    }
    for (int i = 0; i < way->n; i++) {
        bench_check(cox_round_schedule(way->rounds, calls, MODES_MEMBERS, NULL, NULL),
                    "round");
    }
    bench_check(cox_join(way->stage->c, -1), "join");
}

/* A round by hand, behind the closure `after` (or NULL). Returns the future of the step
 * that applies the mean. */
static struct cox_future *by_hand(struct stage *stage, struct cox_future *after)
{
    static const char *const names[MODES_MEMBERS] = {"0", "1", "2", "3"};
    const struct cox_input behind = {"after", after, "done"};
    struct cox_input inputs[MODES_MEMBERS];
    struct cox_future *reduced;
    struct cox_call call = COX_CALL_INIT;
    call.inputs = &behind;
    call.n_inputs = after != NULL;
    for (int i = 0; i < MODES_MEMBERS; i++) {
        inputs[i] = (struct cox_input){names[i], NULL, "gradient"};
        bench_check(cox_schedule(stage->c, stage->member, &call, &inputs[i].future),
                    "schedule");
    }
    call.inputs = inputs;
    call.n_inputs = MODES_MEMBERS;
    bench_check(cox_schedule(stage->c, stage->reduce, &call, &reduced), "schedule");
    for (int i = 0; i < MODES_MEMBERS; i++) {
        cox_future_free(inputs[i].future);
    }
    return reduced;
}

static void run_join(const struct way *way)
{
    for (int i = 0; i < way->n; i++) {
        cox_future_free(by_hand(way->stage, NULL));
        bench_check(cox_join(way->stage->c, -1), "join");
    }
}

static void run_wait(const struct way *way)
{
    for (int i = 0; i < way->n; i++) {
        struct cox_future *reduced = by_hand(way->stage, NULL);
        bench_check(cox_future_wait(reduced, -1), "future");
        cox_future_free(reduced);
    }
}

static void run_chain(const struct way *way)
{
    struct cox_future *last = NULL;
    for (int i = 0; i < way->n; i++) {
        struct cox_future *reduced = by_hand(way->stage, last);
        cox_future_free(last);
        last = reduced;
        if (i % CHAIN == CHAIN - 1) {
            bench_check(cox_future_wait(last, -1), "future");
        }
    }
    cox_future_free(last);
    bench_check(cox_join(way->stage->c, -1), "join");
}

/* ---- measurements */

struct speed {
    double rate; /* rounds a second */
    double cpu;  /* seconds of all processes for a round */
};

static struct speed speed(const struct way *way, double seconds)
{
    double rounds = 0;
    double cpu = bench_cpu_all();
    double start = bench_now();
    do {
        way->run(way);
        rounds += way->n;
    } while (bench_now() - start < seconds);
    return (struct speed){rounds / (bench_now() - start),
                          (bench_cpu_all() - cpu) / rounds};
}

/* Reports rounds a second times `scale`, which is the number of closures that a round
 * counts, and in NAME_cpu their CPU time. */
static void measure(struct bench *bench, const struct bench_measurement *m,
                    const char *name, const struct way *way, const struct way *baseline,
                    double scale)
{
    char cpu_name[32];
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    struct bench_measurement rate = *m;
    struct bench_measurement cpu = *m;
    if (!bench_wants(bench, name)) {
        return;
    }
    (void)snprintf(cpu_name, sizeof(cpu_name), "%s_cpu", name);
    rate.name = name;
    cpu.name = cpu_name;
    cpu.unit = "us";
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        const struct speed other = speed(baseline, seconds);
        const struct speed own = speed(way, seconds);
        rate.baseline[i] = scale * other.rate;
        rate.value[i].value = scale * own.rate;
        cpu.baseline[i] = 1e6 * other.cpu / scale;
        cpu.value[i].value = 1e6 * own.cpu / scale;
    }
    rate.n_rounds = cpu.n_rounds = BENCH_ROUNDS;
    bench_report(bench, "modes", &rate);
    bench_report(bench, "modes", &cpu);
}

static struct cox_rounds *rounds_with(const struct stage *stage,
                                      const struct cox_rounds_spec *spec)
{
    struct cox_rounds *rounds;
    bench_check(cox_rounds_create(stage->c, spec, &rounds), "rounds");
    return rounds;
}

static struct cox_rounds *rounds_of(const struct stage *stage, uint32_t staleness,
                                    uint32_t backups)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.staleness = staleness;
    spec.backups = backups;
    return rounds_with(stage, &spec);
}

static void measure_sync(struct bench *bench, struct stage *stage)
{
    static const struct {
        const char *name;
        uint32_t staleness;
    } bounds[] = {{"sync", 0}, {"stale_1", 1}, {"stale_3", 3}};
    static const struct {
        const char *name;
        void (*run)(const struct way *way);
    } hands[] = {{"join", run_join}, {"wait", run_wait}, {"chain", run_chain}};
    const struct way plain = {stage, run_plain, ROUNDS, NULL, NULL};
    const struct way sync = {stage, run_rounds, ROUNDS, rounds_of(stage, 0, 0), NULL};
    struct bench_measurement m = {.unit = "1/s",
                                  .params = "{\"ps\":1,\"workers\":2,\"members\":4}",
                                  .baseline_name = "closures without rounds"};
    (void)speed(&plain, 0.1); /* warms up */
    (void)speed(&sync, 0.1);
    for (size_t i = 0; i < sizeof(bounds) / sizeof(*bounds); i++) {
        struct way way = sync;
        way.rounds = rounds_of(stage, bounds[i].staleness, 0);
        measure(bench, &m, bounds[i].name, &way, &plain, MODES_MEMBERS);
    }
    m.baseline_name = "rounds by hand";
    for (size_t i = 0; i < sizeof(hands) / sizeof(*hands); i++) {
        const struct way hand = {stage, hands[i].run, ROUNDS, NULL, NULL};
        measure(bench, &m, hands[i].name, &sync, &hand, MODES_MEMBERS);
    }
}

/* How many gradients were counted by their staleness. */
static uint64_t n_aged(const struct stage *stage)
{
    struct cox_staleness_counts counts = COX_STALENESS_COUNTS_INIT;
    bench_check(cox_staleness(stage->c, NULL, 0, &counts), "staleness");
    return counts.gradients;
}

static void measure_counted(struct bench *bench, struct stage *stage)
{
    struct stage uncounted;
    char bin_dir[sizeof(bench->self) + 32];
    struct bench_measurement m = {.unit = "1/s",
                                  .params = "{\"ps\":1,\"workers\":2}",
                                  .baseline_name = "staleness is not counted"};
    if (!bench_wants(bench, "counted")) {
        return;
    }
    (void)snprintf(bin_dir, sizeof(bin_dir), "%s", bench->self);
    (void)strcpy(strrchr(bin_dir, '/') + 1, "uncounted");
    stage_open(bench, 2, bin_dir, &uncounted);
    const struct way way = {stage, run_plain, ROUNDS, NULL, NULL};
    const struct way baseline = {&uncounted, run_plain, ROUNDS, NULL, NULL};
    (void)speed(&way, 0.1); /* warms up */
    (void)speed(&baseline, 0.1);
    measure(bench, &m, "counted", &way, &baseline, MODES_MEMBERS);
    if (n_aged(stage) == 0 || n_aged(&uncounted) != 0) {
        bench_die("staleness is counted where it should not be, or the reverse");
    }
    stage_close(&uncounted);
}

static void measure_deterministic(struct bench *bench, struct stage *stage)
{
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct bench_measurement m = {.unit = "1/s",
                                  .params = "{\"ps\":1,\"workers\":2,\"members\":4}",
                                  .baseline_name = "rounds that are not deterministic"};
    struct way sync = {stage, run_rounds, ROUNDS, rounds_of(stage, 0, 0), NULL};
    struct way way = sync;
    spec.deterministic = 1;
    way.rounds = rounds_with(stage, &spec);
    measure(bench, &m, "deterministic", &way, &sync, MODES_MEMBERS);
}

static void measure_backups(struct bench *bench, struct stage *two)
{
    struct stage one;
    const int64_t us = STEP_US;
    const int64_t slow = 2;
    const struct cox_value args[] = {COX_SCALAR("us", COX_I64, &us),
                                     COX_SCALAR("slow", COX_I64, &slow)};
    struct cox_call even = COX_CALL_INIT; /* without a slow worker */
    struct cox_call uneven = COX_CALL_INIT;
    even.args = uneven.args = args;
    even.n_args = 1;
    uneven.n_args = 2;
    stage_open(bench, 1, NULL, &one);
    const struct way both = {two, run_rounds, SLOW_ROUNDS, rounds_of(two, 0, 1), &even};
    struct way with_slow = both;
    struct way alone = both;
    with_slow.call = &uneven;
    alone.stage = &one;
    alone.rounds = rounds_of(&one, 0, 1);
    struct way all_slow = with_slow;
    struct way all_alone = alone;
    all_slow.rounds = rounds_of(two, 0, 0);
    all_alone.rounds = rounds_of(&one, 0, 0);
    struct bench_measurement m = {
        .unit = "rounds/s",
        .params = "{\"ps\":1,\"workers\":2,\"members\":4,\"step_us\":1000,\"slow\":10}",
        .baseline_name = "the other worker alone"};
    measure(bench, &m, "backups", &with_slow, &alone, 1);
    measure(bench, &m, "no_backups", &all_slow, &all_alone, 1);
    m.baseline_name = "no worker is slow";
    measure(bench, &m, "backups_fast", &with_slow, &both, 1);
    stage_close(&one);
}

void bench_modes(struct bench *bench)
{
    struct stage stage;
    stage_open(bench, 2, NULL, &stage);
    measure_sync(bench, &stage);
    measure_counted(bench, &stage);
    measure_deterministic(bench, &stage);
    measure_backups(bench, &stage);
    stage_close(&stage);
}
