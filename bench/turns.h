/*
 * Compares two sides that run in turns, for case `visible`.
 *
 * Two clusters of the same program differ by up to a tenth, because their threads and their
 * memory lie otherwise. So each round opens a new pair, the sides of a pair take several
 * short turns, and each of them is first as often as the other.
 */
#ifndef COXI_BENCH_TURNS_H
#define COXI_BENCH_TURNS_H

#include "bench/bench.h"

struct turns_side {
    void *arg;
    /* Runs a batch to its end; returns how many operations it had. */
    double (*run)(void *arg);

    /* Begin and end a turn; NULL: nothing to do. */
    void (*begin)(void *arg);
    void (*end)(void *arg);

    /* The child whose CPU time does not count, because it stands for other hosts. NULL:
     * none. */
    const struct bench_child *apart;
};

struct turns {
    const char *case_name;
    const char *name;
    const char *params;
    const char *baseline_name;
    void *arg;
    /* Opens a pair and fills `sides`: the baseline, then what is compared with it. */
    void (*open)(void *arg, int round, struct turns *turns);
    void (*close)(void *arg);
    struct turns_side sides[2];
};

/*
 * Runs all rounds, for about bench->seconds (30 s and more are needed for a ratio that is
 * right to 0.02), and reports `name`, operations a second, and `name`_cpu, the CPU time of
 * all processes for an operation.
 */
void turns_compare(struct bench *bench, struct turns *turns);

#endif
