/* A crew with the test module "lines", and files of records with a row's number each. */
#ifndef COXI_TESTS_COORDINATOR_DATASETS_DATASET_H
#define COXI_TESTS_COORDINATOR_DATASETS_DATASET_H

#include "tests/coordinator/crew.h"

/* The files have ROWS_N lines in all: rows 0 to ROWS_N - 1, each once. File i has those
 * that are i modulo ROWS_FILES. */
enum { ROWS_N = 600, ROWS_FILES = 3, ROWS_TASK_BYTES = 100, ROWS_BATCH = 4 };

/* The rows with which the second and the third task begin; the first begins with 0. */
enum { ROWS_SECOND = 45, ROWS_THIRD = 87 };

struct rows {
    struct crew crew;
    struct cox_variable *counts; /* how often each row was counted */
    struct cox_dataset *dataset;
};

/* The spec of a data set of these files, which this writes when called first. */
struct cox_dataset_spec rows_spec(void);

/* Opens a crew of 2 ps, and a data set (`spec` NULL: rows_spec). */
void rows_open(struct rows *rows, int n_workers, const struct cox_options *options,
               const struct cox_dataset_spec *spec);
/* Creates the variable and the data set in a crew with the module. */
void rows_create(struct rows *rows, const struct cox_dataset_spec *spec);
void rows_close(struct rows *rows);

/* A call with up to 4 integers as arguments, for one call of cox_schedule_next. */
struct rows_arg {
    const char *name;
    int64_t n;
};

/* Schedules step `step` with tasks until there are none; returns what ended that. */
int rows_run(struct rows *rows, const char *step, const struct rows_arg *args,
             size_t n_args);

/* The same with step count_lines in rounds of n tasks. */
int rows_run_rounds(struct rows *rows, struct cox_rounds *rounds, size_t n,
                    const struct rows_arg *args, size_t n_args);

/* A sequence of rounds, one after the other. */
struct cox_rounds *rows_rounds(struct rows *rows, uint32_t backups);

/* Schedules one task; *ret is for cox_future_free. */
int rows_next(struct rows *rows, const char *step, struct cox_future **ret);

/* Asserts that every row was counted `times` times. */
void rows_assert_all(struct rows *rows, int64_t times);

/* Reads the counts. */
void rows_read(struct rows *rows, int64_t ret[ROWS_N]);

struct cox_dataset_progress rows_progress(struct rows *rows);

#endif
