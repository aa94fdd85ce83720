/* See crew.h. */
#include "bench/crew.h"

#include <stdio.h>
#include <string.h>

#include "bench/spend.h"

void crew_open(struct bench *bench, int n_ps, int n_workers,
               const struct cox_options *options, struct crew *ret)
{
    struct cox_cluster *cluster;
    struct cox_options o = COX_OPTIONS_INIT;
    char path[sizeof(bench->self) + 32];
    if (options != NULL) {
        o = *options;
    }
    o.min_workers = (uint32_t)n_workers;
    bench_check(cox_cluster_local(n_ps, n_workers, &cluster), "cluster");
    bench_check(cox_open(cluster, &o, &ret->c), "open");
    cox_cluster_free(cluster);
    (void)snprintf(path, sizeof(path), "%s", bench->self);
    (void)strcpy(strrchr(path, '/') + 1, "bench_steps.so");
    bench_check(cox_module_load(ret->c, path, &ret->module), "module");
}

void crew_close(struct crew *crew)
{
    bench_check(cox_close(crew->c, 5000), "close");
}

struct cox_function *crew_function(const struct crew *crew, const char *name)
{
    struct cox_function *function;
    bench_check(cox_function_get(crew->module, name, &function), name);
    return function;
}

void crew_spend(struct crew *crew, int64_t us, uint32_t only, struct cox_future **ret)
{
    const struct cox_value arg = COX_SCALAR("us", COX_I64, &us);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    call.only_worker = only;
    bench_check(cox_schedule(crew->c, crew_function(crew, "spend"), &call, ret),
                "schedule");
}

void crew_spent(struct cox_future *future, struct crew_spent *ret)
{
    struct cox_value value;
    int64_t spent[SPEND_RESULT];
    bench_check(cox_future_wait(future, -1), "future");
    bench_check(cox_future_result(future, "spent", &value), "result");
    memcpy(spent, value.data, sizeof(spent));
    *ret = (struct crew_spent){1e-9 * (double)spent[SPEND_STARTED_NS],
                               (uint32_t)spent[SPEND_ATTEMPT],
                               (uint32_t)spent[SPEND_WORKER]};
}
