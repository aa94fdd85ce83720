/* See turns.h. */
#include "bench/turns.h"

#include <stdio.h>
#include <time.h>

enum {
    TURN_MS = 500,
    GAP_MS = 150 /* for what background threads have left to do */
};

struct sum {
    double n;
    double seconds;
    double cpu;
};

/* CPU time of all processes but the one that is apart. */
static double cpu_of(const struct turns_side *side)
{
    return bench_cpu_all() - (side->apart != NULL ? bench_cpu_of(side->apart->pid) : 0);
}

static void take_turn(const struct turns_side *side, struct sum *sum)
{
    const struct timespec gap = {.tv_nsec = GAP_MS * 1000000L};
    if (side->begin != NULL) {
        side->begin(side->arg);
    }
    double cpu = cpu_of(side);
    double start = bench_now();
    double now;
    do {
        sum->n += side->run(side->arg);
        now = bench_now();
    } while (now - start < 1e-3 * TURN_MS);
    sum->seconds += now - start;
    if (side->end != NULL) {
        side->end(side->arg);
    }
    (void)nanosleep(&gap, NULL);
    sum->cpu += cpu_of(side) - cpu;
}

static void run_round(const struct turns *turns, int n_turns, struct sum sums[2])
{
    for (int k = 0; k < 2; k++) { /* warms up */
        struct sum ignored = {0};
        take_turn(&turns->sides[k], &ignored);
    }
    for (int i = 0; i < n_turns; i++) {
        int first = i % 2;
        take_turn(&turns->sides[first], &sums[first]);
        take_turn(&turns->sides[1 - first], &sums[1 - first]);
    }
}

void turns_compare(struct bench *bench, struct turns *turns)
{
    char cpu_name[64];
    double each_s = bench->seconds / BENCH_ROUNDS / 2;
    int n_turns =
        each_s * 1000 / TURN_MS > 1 ? (int)(each_s * 1000 / TURN_MS + 0.5) : 1;
    (void)snprintf(cpu_name, sizeof(cpu_name), "%s_cpu", turns->name);
    struct bench_measurement rate = {.name = turns->name,
                                     .params = turns->params,
                                     .unit = "1/s",
                                     .baseline_name = turns->baseline_name};
    struct bench_measurement cpu = {.name = cpu_name,
                                    .params = turns->params,
                                    .unit = "us",
                                    .baseline_name = turns->baseline_name};
    if (!bench_wants(bench, turns->name)) {
        return;
    }
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        struct sum sums[2] = {{0}};
        turns->open(turns->arg, i, turns);
        run_round(turns, n_turns, sums);
        turns->close(turns->arg);
        rate.value[i].value = sums[1].n / sums[1].seconds;
        rate.baseline[i] = sums[0].n / sums[0].seconds;
        cpu.value[i].value = 1e6 * sums[1].cpu / sums[1].n;
        cpu.baseline[i] = 1e6 * sums[0].cpu / sums[0].n;
    }
    rate.n_rounds = cpu.n_rounds = BENCH_ROUNDS;
    rate.of_rounds = cpu.of_rounds = true;
    bench_report(bench, turns->case_name, &rate);
    bench_report(bench, turns->case_name, &cpu);
}
