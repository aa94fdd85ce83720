/* See dataset.h. */
#include "tests/coordinator/datasets/dataset.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

enum { ARGS_MAX = 4 };

/* Writes file `i`, with every ROWS_FILES-th row. */
static void write_file(int i)
{
    char name[32];
    char text[16 * ROWS_N] = "";
    size_t len = 0;
    (void)snprintf(name, sizeof(name), "rows-%d", i);
    for (int row = i; row < ROWS_N; row += ROWS_FILES) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "0 %d:1\n", row);
    }
    coxi_test_write(coxi_test_path(name), text, len);
}

struct cox_dataset_spec rows_spec(void)
{
    static const char *pattern;
    struct cox_dataset_spec spec = COX_DATASET_SPEC_INIT;
    for (int i = 0; pattern == NULL && i < ROWS_FILES; i++) {
        write_file(i);
    }
    pattern = coxi_test_path("rows-*");
    spec.name = "rows";
    spec.files = &pattern;
    spec.n_files = 1;
    spec.format = COX_LIBSVM;
    spec.batch_size = ROWS_BATCH;
    spec.task_bytes = ROWS_TASK_BYTES;
    return spec;
}

void rows_open(struct rows *rows, int n_workers, const struct cox_options *options,
               const struct cox_dataset_spec *spec)
{
    crew_open(&rows->crew, 2, n_workers, "lines", options);
    rows_create(rows, spec);
}

void rows_create(struct rows *rows, const struct cox_dataset_spec *spec)
{
    struct cox_dataset_spec plain = rows_spec();
    struct cox_variable_spec counts = COX_VARIABLE_SPEC_INIT;
    counts.name = "rows";
    counts.dtype = COX_I64;
    counts.rank = 1;
    counts.shape[0] = ROWS_N;
    counts.shards = 2;
    assert_code(0, cox_variable_create(rows->crew.c, &counts, &rows->counts));
    assert_code(0, cox_dataset_create(rows->crew.c, spec != NULL ? spec : &plain,
                                      &rows->dataset));
}

void rows_close(struct rows *rows)
{
    crew_close(&rows->crew);
}

/* A call with the arguments, which `values` has. */
static struct cox_call call_with(const struct rows_arg *args, size_t n_args,
                                 struct cox_value values[ARGS_MAX])
{
    struct cox_call call = COX_CALL_INIT;
    for (size_t i = 0; i < n_args; i++) {
        values[i] = (struct cox_value)COX_SCALAR(args[i].name, COX_I64, &args[i].n);
    }
    call.args = values;
    call.n_args = n_args;
    return call;
}

int rows_run(struct rows *rows, const char *step, const struct rows_arg *args,
             size_t n_args)
{
    struct cox_value values[ARGS_MAX];
    struct cox_call call = call_with(args, n_args, values);
    struct cox_function *function = crew_function(&rows->crew, step);
    int r = 0;
    while (r == 0) {
        r = cox_schedule_next(rows->crew.c, function, rows->dataset, &call, NULL);
    }
    return r;
}

int rows_run_rounds(struct rows *rows, struct cox_rounds *rounds, size_t n,
                    const struct rows_arg *args, size_t n_args)
{
    struct cox_value values[ARGS_MAX];
    struct cox_call call = call_with(args, n_args, values);
    struct cox_function *function = crew_function(&rows->crew, "count_lines");
    int r = 0;
    while (r == 0) {
        r = cox_round_schedule_next(rounds, function, rows->dataset, &call, n, NULL,
                                    NULL);
    }
    return r;
}

struct cox_rounds *rows_rounds(struct rows *rows, uint32_t backups)
{
    struct cox_rounds *rounds;
    struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    spec.backups = backups;
    assert_code(0, cox_rounds_create(rows->crew.c, &spec, &rounds));
    return rounds;
}

int rows_next(struct rows *rows, const char *step, struct cox_future **ret)
{
    return cox_schedule_next(rows->crew.c, crew_function(&rows->crew, step),
                             rows->dataset, NULL, ret);
}

void rows_read(struct rows *rows, int64_t ret[ROWS_N])
{
    assert_code(
        0, cox_variable_read(rows->crew.c, rows->counts, ret, ROWS_N * sizeof(*ret)));
}

void rows_assert_all(struct rows *rows, int64_t times)
{
    int64_t counts[ROWS_N];
    rows_read(rows, counts);
    for (int i = 0; i < ROWS_N; i++) {
        if (counts[i] != times) {
            fail_msg("row %d was counted %lld times, not %lld", i, (long long)counts[i],
                     (long long)times);
        }
    }
}

struct cox_dataset_progress rows_progress(struct rows *rows)
{
    struct cox_dataset_progress progress = COX_DATASET_PROGRESS_INIT;
    assert_code(0, cox_dataset_progress(rows->crew.c, rows->dataset, &progress));
    return progress;
}
