/* Steps for the benchmark. */
#include <time.h>

#include <coxswain/step.h>

#include "bench/fan.h"
#include "bench/keys.h"
#include "bench/many.h"
#include "bench/spend.h"
#include "bench/visit.h"

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

/* Pushes a gradient to one row of the table "rows". */
static int push_row(struct cox_step *step)
{
    static const float gradient[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct cox_variable *rows;
    uint64_t key = cox_step_seed(step) % 100000;
    int r = cox_step_variable(step, "rows", &rows);
    return r != 0 ? r : cox_step_push_rows(step, rows, &key, 1, gradient);
}

/* The same, and logs a scalar. */
static int log_row(struct cox_step *step)
{
    int r = push_row(step);
    return r != 0 ? r
                  : cox_step_log_scalar(step, "loss", (double)cox_step_closure(step));
}

/* Returns its argument. */
static int echo(struct cox_step *step)
{
    const struct cox_value *values;
    size_t n = cox_step_arguments(step, &values);
    return n == 1 ? cox_step_return(step, values) : 1;
}

static int64_t now_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Takes argument `us` microseconds without computing; returns "spent" (spend.h). */
static int spend(struct cox_step *step)
{
    const int64_t *us = (const int64_t *)cox_step_scalar(step, "us", COX_I64);
    int64_t spent[SPEND_RESULT];
    const struct cox_value result = COX_VECTOR("spent", COX_I64, SPEND_RESULT, spent);
    struct timespec rest = {0};
    spent[SPEND_STARTED_NS] = now_ns();
    spent[SPEND_ATTEMPT] = cox_step_attempt(step);
    spent[SPEND_WORKER] = cox_step_worker(step);
    if (us != NULL) {
        rest = (struct timespec){(time_t)(*us / 1000000), (long)(*us % 1000000) * 1000};
    }
    (void)nanosleep(&rest, NULL);
    return cox_step_return(step, &result);
}

/* Makes rows of the table "visited" (visit.h). */
static int fill(struct cox_step *step)
{
    static const float gradients[VISIT_FILL * VISIT_DIM] = {0};
    const int64_t *first = (const int64_t *)cox_step_scalar(step, "first", COX_I64);
    uint64_t keys[VISIT_FILL];
    struct cox_variable *visited;
    if (first == NULL) {
        return cox_step_fail(step, 1, "no argument first");
    }
    for (size_t i = 0; i < VISIT_FILL; i++) {
        keys[i] = bench_key((uint64_t)*first + i);
    }
    int r = cox_step_variable(step, "visited", &visited);
    return r != 0 ? r : cox_step_push_rows(step, visited, keys, VISIT_FILL, gradients);
}

/* Updates some rows of the table "visited", and counts itself on each ps (visit.h). */
static int visit(struct cox_step *step)
{
    static const float gradients[VISIT_ROWS * VISIT_DIM] = {1};
    static const int64_t ones[VISIT_PS] = {1, 1, 1};
    const int64_t *rows = (const int64_t *)cox_step_scalar(step, "rows", COX_I64);
    int64_t result[VISIT_RESULT];
    const struct cox_value value = COX_VECTOR("visit", COX_I64, VISIT_RESULT, result);
    uint64_t keys[VISIT_ROWS];
    struct cox_variable *visited;
    struct cox_variable *visits;
    if (rows == NULL || *rows < VISIT_ROWS) {
        return cox_step_fail(step, 1, "argument rows is missing, or too small");
    }
    result[VISIT_STARTED_NS] = now_ns();
    for (size_t i = 0; i < VISIT_ROWS; i++) {
        keys[i] = bench_key((cox_step_seed(step) + i) % (uint64_t)*rows);
    }
    int r = cox_step_variable(step, "visited", &visited);
    r = r != 0 ? r : cox_step_variable(step, "visits", &visits);
    const struct cox_pull pull = {visits, cox_rows_all(), result + VISIT_COUNTS, 0};
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    r = r != 0 ? r : cox_step_push_rows(step, visited, keys, VISIT_ROWS, gradients);
    r = r != 0 ? r : cox_step_add(step, visits, ones);
    return r != 0 ? r : cox_step_return(step, &value);
}

/* Finds variables by their names (many.h); returns "ns", the time for each. */
static int find(struct cox_step *step)
{
    enum { NAMES = 4096, ROUNDS = 64 };
    static char names[NAMES][MANY_NAME];
    struct cox_variable *variable;
    double ns;
    const struct cox_value result = COX_SCALAR("ns", COX_F64, &ns);
    int r = 0;
    for (int i = 0; i < NAMES; i++) {
        many_name(i * (MANY / NAMES), names[i]);
    }
    struct timespec start = {0};
    struct timespec end = {0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    for (int i = 0; r == 0 && i < ROUNDS * NAMES; i++) {
        r = cox_step_variable(step, names[i % NAMES], &variable);
    }
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    ns = 1e9 * (double)(end.tv_sec - start.tv_sec) +
         (double)(end.tv_nsec - start.tv_nsec);
    ns /= ROUNDS * NAMES;
    return r != 0 ? r : cox_step_return(step, &result);
}

/* Pulls "fanned" and adds 1 to each of its elements. */
static int fan(struct cox_step *step)
{
    int64_t values[FAN_PS_MAX];
    int64_t ones[FAN_PS_MAX];
    struct cox_variable *fanned;
    int r = cox_step_variable(step, "fanned", &fanned);
    const struct cox_pull pull = {fanned, cox_rows_all(), values, 0};
    for (int i = 0; i < FAN_PS_MAX; i++) {
        ones[i] = 1;
    }
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    return r != 0 ? r : cox_step_add(step, fanned, ones);
}

COX_STEPS(COX_STEP("nothing", nothing), COX_STEP("push_row", push_row),
          COX_STEP("log_row", log_row), COX_STEP("echo", echo),
          COX_STEP("spend", spend), COX_STEP("fill", fill), COX_STEP("visit", visit),
          COX_STEP("find", find), COX_STEP("fan", fan));
