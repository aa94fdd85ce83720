/* See turns.h. */
#include "bench/turns.h"

#include <limits.h>
#include <stdio.h>
#include <time.h>

enum {
    TURN_LEAST_MS = 250, /* as long as a few batches take */
    GAP_MS = 50,         /* for what background threads have left to do */
    WARM_MS = 1000,      /* of each side: until the table has all its rows */
    ROUND_TURNS = 12     /* of each side, if there is time for more than BENCH_ROUNDS */
};

struct sum {
    double n;
    double seconds;
    double cpu;
};

/* How a measurement's time is divided. */
struct plan {
    int n_rounds;
    int turn_ms;
    int n_warm;  /* turns of each side in a round that do not count, ... */
    int n_turns; /* ... and that do */
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
static void run_round(const struct turns *turns, const struct plan *plan, int first,
                      struct sum sums[2])
{
    struct sum ignored[2] = {{0}};
    for (int i = 0; i < 2 * (plan->n_warm + plan->n_turns); i++) {
        int k = (first + i) % 2;
        take_turn(&turns->sides[k], plan->turn_ms,
                  i < 2 * plan->n_warm ? &ignored[k] : &sums[k]);
    }
}

static int within(int least, int n, int most)
{
    return n < least ? least : n > most ? most : n;
}

/* Divides the time. If it is short, turns are shorter than they should be. */
static struct plan make_plan(double seconds, int turn_ms)
{
    int each_ms = (int)(seconds * 1000 / 2); /* of each side */
    struct plan plan = {.turn_ms =
                            within(TURN_LEAST_MS, each_ms / BENCH_ROUNDS, turn_ms)};
    int n = each_ms / plan.turn_ms;
    plan.n_rounds = within(BENCH_ROUNDS, n / ROUND_TURNS, BENCH_ROUNDS_MAX);
    plan.n_turns = within(1, n / plan.n_rounds, INT_MAX);
    plan.n_warm = within(1, WARM_MS / plan.turn_ms, INT_MAX);
    return plan;
}

void turns_compare(struct bench *bench, struct turns *turns)
{
    char cpu_name[64];
    const struct plan plan = make_plan(bench->seconds, turns->turn_ms);
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
    for (int i = 0; i < plan.n_rounds; i++) {
        struct sum sums[2] = {{0}};
        turns->open(turns->arg, i, turns);
        run_round(turns, &plan, i % 2, sums);
        turns->close(turns->arg);
        rate.value[i].value = sums[1].n / sums[1].seconds;
        rate.baseline[i] = sums[0].n / sums[0].seconds;
        cpu.value[i].value = 1e6 * sums[1].cpu / sums[1].n;
        cpu.baseline[i] = 1e6 * sums[0].cpu / sums[0].n;
    }
    rate.n_rounds = cpu.n_rounds = plan.n_rounds;
    rate.of_rounds = cpu.of_rounds = true;
    bench_report(bench, turns->case_name, &rate);
    bench_report(bench, turns->case_name, &cpu);
}
