/* The click model's job (click_steps.c): a file of rows, cut into ranges for the steps, and
 * local clusters that train on it. Of cases `train` and `visible`. */
#ifndef COXI_BENCH_CLICK_JOB_H
#define COXI_BENCH_CLICK_JOB_H

#include "bench/bench.h"
#include "bench/click_rows.h"
#include "coxswain/coxswain.h"

enum { CLICK_ROWS = 60000, CLICK_ROWS_PER_STEP = 64 };

struct click_job {
    char path[128];
    struct range *ranges;
    size_t n_ranges;
    char module[4200];
};

/* Writes the file. Free with click_job_fini. */
void click_job_init(struct bench *bench, struct click_job *ret);
void click_job_fini(struct click_job *job);

/* Opens a local cluster of one ps; `options`: further options for it; `step`: train, or
 * train_logged. */
struct cox_coordinator *click_job_open(const struct click_job *job, uint32_t dim,
                                       int n_workers, const struct cox_options *options,
                                       const char *step, struct cox_function **ret);

/* The arguments of step `i`, which refer to `l2` and the job. */
void click_job_args(const struct click_job *job, size_t i, const double *l2,
                    struct cox_value args[5]);

/* Trains on all rows once; returns how many there are. */
double click_job_pass(const struct click_job *job, struct cox_coordinator *c,
                      struct cox_function *train);

#endif
