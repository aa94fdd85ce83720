/* See click_job.h. */
#include "bench/click_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/ctr/clicks.h"

static const struct cox_optimizer adagrad = {.kind = COX_ADAGRAD,
                                             .learning_rate = 0.1F,
                                             .epsilon = 1e-7F,
                                             .initial_accumulator = 100};

void click_job_init(struct bench *bench, struct click_job *ret)
{
    struct data_error error;
    (void)snprintf(ret->path, sizeof(ret->path), "%s/clicks", bench->dir);
    (void)snprintf(ret->module, sizeof(ret->module), "%s", bench->self);
    (void)strcpy(strrchr(ret->module, '/') + 1, "click_steps.so");
    const struct clicks clicks = {.n_rows = CLICK_ROWS, .seed = 1, .ids = 5000};
    if (clicks_generate(ret->path, &clicks, 0) != 0) {
        bench_die("cannot write %s", ret->path);
    }
    if (ranges_of(ret->path, CLICK_ROWS_PER_STEP, &ret->ranges, &ret->n_ranges,
                  &error) != 0) {
        bench_die("%s", error.text);
    }
}

void click_job_fini(struct click_job *job)
{
    free(job->ranges);
}

void click_job_args(const struct click_job *job, size_t i, const double *l2,
                    struct cox_value args[5])
{
    const struct range *range = &job->ranges[i % job->n_ranges];
    args[0] =
        (struct cox_value)COX_VECTOR("path", COX_U8, strlen(job->path), job->path);
    args[1] = (struct cox_value)COX_SCALAR("offset", COX_I64, &range->offset);
    args[2] = (struct cox_value)COX_SCALAR("len", COX_I64, &range->len);
    args[3] = (struct cox_value)COX_SCALAR("line", COX_I64, &range->line);
    args[4] = (struct cox_value)COX_SCALAR("l2", COX_F64, l2);
}

struct cox_coordinator *click_job_open(const struct click_job *job, uint32_t dim,
                                       int n_workers, const struct cox_options *options,
                                       const char *step, struct cox_function **ret)
{
    struct cox_cluster *cluster;
    struct cox_coordinator *c;
    struct cox_module *module;
    struct cox_table *table;
    struct cox_variable *bias;
    struct cox_table_spec weights = COX_TABLE_SPEC_INIT;
    struct cox_variable_spec spec = COX_VARIABLE_SPEC_INIT;
    bench_check(cox_cluster_local(1, n_workers, &cluster), "cluster");
    bench_check(cox_open(cluster, options, &c), "open");
    cox_cluster_free(cluster);
    weights.name = "weights";
    weights.dim = dim;
    weights.optimizer = adagrad;
    weights.initializer = (struct cox_initializer){COX_NORMAL, 0, 0.01F, 1};
    bench_check(cox_table_create(c, &weights, &table), "table");
    spec.name = "bias";
    spec.dtype = COX_F32;
    spec.rank = 1;
    spec.shape[0] = 1;
    spec.optimizer = adagrad;
    bench_check(cox_variable_create(c, &spec, &bias), "variable");
    bench_check(cox_module_load(c, job->module, &module), "module");
    bench_check(cox_function_get(module, step, ret), "function");
    return c;
}

double click_job_pass(const struct click_job *job, struct cox_coordinator *c,
                      struct cox_function *train)
{
    const double l2 = 0.01;
    for (size_t i = 0; i < job->n_ranges; i++) {
        struct cox_value args[5];
        struct cox_call call = COX_CALL_INIT;
        click_job_args(job, i, &l2, args);
        call.args = args;
        call.n_args = 5;
        bench_check(cox_schedule(c, train, &call, NULL), "schedule");
    }
    bench_check(cox_join(c, -1), "join");
    return CLICK_ROWS;
}
