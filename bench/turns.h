/*
 * Compares two sides that run in turns, for case `visible`.
 *
 * The rate of a cluster differs by a fifth from one quarter of a second to the next, because
 * how its threads happen to wake each other decides how many closures a message has, and two
 * clusters of the same program differ by a twentieth. So there are many short turns, and each
 * round opens a new pair.
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
    int turn_ms; /* how long a turn takes, if there is time for it */
    void *arg;
    /* Opens a pair and fills `sides`: the baseline, then what is compared with it. */
    void (*open)(void *arg, int round, struct turns *turns);
    void (*close)(void *arg);
    struct turns_side sides[2];
};

/*
 * Runs turns of bench->seconds in all, in as many rounds as that needs, and reports `name`,
 * operations a second, and `name`_cpu, the CPU time of all processes for an operation, with
 * the standard errors of their ratios: about 0.02 after 100 s.
 */
void turns_compare(struct bench *bench, struct turns *turns);

#endif
