/* See turns.h. */
#include "bench/turns.h"

#include <stdio.h>
#include <time.h>

enum {
    GAP_MS = 50,     /* for what background threads have left to do */
    WARM_TURNS = 4,  /* of each side: until the table has all its rows */
    ROUND_TURNS = 12 /* of each side in a round, at most */
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

static void take_turn(const struct turns_side *side, int turn_ms, struct sum *sum)
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
    } while (now - start < 1e-3 * turn_ms);
    sum->seconds += now - start;
    if (side->end != NULL) {
        side->end(side->arg);
    }
    (void)nanosleep(&gap, NULL);
    sum->cpu += cpu_of(side) - cpu;
}

/* The sides alternate, so that each comes after the other one and never after itself. */
static void run_round(const struct turns *turns, int first, int n_turns,
                      struct sum sums[2])
{
    struct sum ignored[2] = {{0}};
    for (int i = 0; i < 2 * (WARM_TURNS + n_turns); i++) {
        int k = (first + i) % 2;
        take_turn(&turns->sides[k], turns->turn_ms,
                  i < 2 * WARM_TURNS ? &ignored[k] : &sums[k]);
    }
}

/* `n` turns in all, in rounds that are as many as give short ones. */
static int rounds_of(int n)
{
    int rounds = n / ROUND_TURNS;
    return rounds < BENCH_ROUNDS       ? BENCH_ROUNDS
           : rounds > BENCH_ROUNDS_MAX ? BENCH_ROUNDS_MAX
                                       : rounds;
}

void turns_compare(struct bench *bench, struct turns *turns)
{
    char cpu_name[64];
    int turns_each = (int)(bench->seconds * 1000 / turns->turn_ms / 2);
    int n_rounds = rounds_of(turns_each);
    int n_turns = turns_each > n_rounds ? turns_each / n_rounds : 1;
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
    for (int i = 0; i < n_rounds; i++) {
        struct sum sums[2] = {{0}};
        turns->open(turns->arg, i, turns);
        run_round(turns, i % 2, n_turns, sums);
        turns->close(turns->arg);
        rate.value[i].value = sums[1].n / sums[1].seconds;
        rate.baseline[i] = sums[0].n / sums[0].seconds;
        cpu.value[i].value = 1e6 * sums[1].cpu / sums[1].n;
        cpu.baseline[i] = 1e6 * sums[0].cpu / sums[0].n;
    }
    rate.n_rounds = cpu.n_rounds = n_rounds;
    rate.of_rounds = cpu.of_rounds = true;
    bench_report(bench, turns->case_name, &rate);
    bench_report(bench, turns->case_name, &cpu);
}
