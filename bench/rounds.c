/*
 * Case `rounds`: what a round costs the client, with workers that are simulated (crowd.h)
 * and real ps. Each round has MEMBERS closures, which touch every ps; ROUNDS of them are
 * scheduled at a time, without staleness. Their commits have no updates, so the ps have
 * nothing to apply.
 *
 *   workers_100   CPU time of the client for a round, with 100 workers and 1 ps
 *   ps_10         with 10 workers and 10 ps
 *   both          with 100 workers and 10 ps
 *
 * The baseline is the same with 10 workers and 1 ps. The closures are as many, so what
 * remains is the price of messages: one to and from each worker that has closures of the
 * round, and one to and from each ps.
 */
#include "bench/crowd.h"
#include "bench/simulated.h"
#include "coxswain/coxswain.h"

enum { MEMBERS = 100, ROUNDS = 100, FEW = 10, MANY = 100, MANY_PS = 10 };

struct stage {
    struct simulated simulated;
    struct cox_coordinator *c;
    struct cox_rounds *rounds;
    struct cox_function *nothing;
};

static void stage_open(struct bench *bench, uint32_t n_workers, uint32_t n_ps,
                       struct stage *ret)
{
    char line[128];
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    simulated_start(bench, n_workers, n_ps, &ret->simulated);
    bench_child_ask(&ret->simulated.crowd, line, "touch %u", n_ps);
    options.speculate = -1;
    (void)simulated_open(&ret->simulated, &options, &ret->c, &ret->nothing);
    bench_check(cox_rounds_create(ret->c, &spec, &ret->rounds), "rounds");
}

static void stage_close(struct stage *stage)
{
    simulated_close(stage->c);
    simulated_stop(&stage->simulated);
}

static void run(const struct stage *stage)
{
    struct cox_round_call calls[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        calls[i] = (struct cox_round_call){stage->nothing, NULL};
    }
    for (int i = 0; i < ROUNDS; i++) {
        bench_check(cox_round_schedule(stage->rounds, calls, MEMBERS, NULL, NULL),
                    "round");
    }
    bench_check(cox_join(stage->c, -1), "join");
}

/* CPU time of the client for a round, us. */
static double cost(const struct stage *stage, double seconds)
{
    double n = 0;
    double start = bench_now();
    double before = bench_cpu_self();
    do {
        run(stage);
        n += ROUNDS;
    } while (bench_now() - start < seconds);
    return 1e6 * (bench_cpu_self() - before) / n;
}

static void measure(struct bench *bench, const struct stage *few, const char *name,
                    uint32_t n_workers, uint32_t n_ps)
{
    struct stage stage;
    double seconds = bench->seconds / BENCH_ROUNDS / 2;
    if (!bench_wants(bench, name)) {
        return;
    }
    stage_open(bench, n_workers, n_ps, &stage);
    run(&stage); /* warms up */
    struct bench_measurement m = {.name = name,
                                  .params = stage.simulated.params,
                                  .unit = "us",
                                  .baseline_name = "10 workers, 1 ps"};
    for (; m.n_rounds < BENCH_ROUNDS; m.n_rounds++) {
        m.baseline[m.n_rounds] = cost(few, seconds);
        m.value[m.n_rounds].value = cost(&stage, seconds);
    }
    bench_report(bench, "rounds", &m);
    stage_close(&stage);
}

void bench_rounds(struct bench *bench)
{
    struct stage few;
    stage_open(bench, FEW, 1, &few);
    run(&few); /* warms up */
    measure(bench, &few, "workers_100", MANY, 1);
    measure(bench, &few, "ps_10", FEW, MANY_PS);
    measure(bench, &few, "both", MANY, MANY_PS);
    stage_close(&few);
}
