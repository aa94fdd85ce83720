/*
 * Case `variables`: programs with very many variables.
 *
 *   create           seconds for 65,536 variables, with 4 workers
 *   create_memory    bytes by which the client's peak grows for that
 *   find             nanoseconds that a step takes to find one of them by its name
 */
#include <string.h>
#include <sys/resource.h>

#include "bench/crew.h"
#include "bench/many.h"

enum { WORKERS = 4 };

static double peak_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? 1024.0 * (double)usage.ru_maxrss : 0;
}

static void create_all(struct crew *crew)
{
    for (int i = 0; i < MANY; i++) {
        struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
        struct cox_variable *variable;
        char name[MANY_NAME];
        many_name(i, name);
        spec.name = name;
        spec.dtype = COX_F32;
        spec.rank = 1;
        spec.shape[0] = 4;
        bench_check(cox_variable_create(crew->c, &spec, &variable), "create");
    }
}

static void report(struct bench *bench, const char *name, const char *unit,
                   double value, double bound)
{
    struct bench_measurement m = {.name = name,
                                  .params = "{\"variables\":65536,\"workers\":4}",
                                  .unit = unit,
                                  .baseline_name = "what it may take",
                                  .baseline = {bound},
                                  .n_rounds = 1};
    m.value[0].value = value;
    bench_report(bench, "variables", &m);
}

static double find_ns(struct crew *crew)
{
    struct cox_future *future;
    struct cox_value value;
    double ns;
    bench_check(cox_schedule(crew->c, crew_function(crew, "find"), NULL, &future),
                "schedule");
    bench_check(cox_future_wait(future, -1), "find");
    bench_check(cox_future_result(future, "ns", &value), "result");
    memcpy(&ns, value.data, sizeof(ns));
    cox_future_free(future);
    return ns;
}

void bench_variables(struct bench *bench)
{
    struct crew crew;
    crew_open(bench, 1, WORKERS, NULL, &crew);
    double memory = peak_bytes();
    double start = bench_now();
    create_all(&crew);
    double seconds = bench_now() - start;
    double ns = find_ns(&crew);
    report(bench, "create", "s", seconds, 3);
    report(bench, "create_memory", "bytes", peak_bytes() - memory, 1e8);
    report(bench, "find", "ns", ns, 100);
    crew_close(&crew);
}
