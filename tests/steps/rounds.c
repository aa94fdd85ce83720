/* Steps of rounds, with two variables of one number each, "w0" and "w1". */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <coxswain/step.h>

/* Waits at the FIFO that argument "path" names until its writer has closed it. */
static int wait_at(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    char byte;
    int fd = open((const char *)path->data, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cox_step_fail(step, 1, "there is no FIFO %s", (const char *)path->data);
    }
    while (read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    return 0;
}

/* Pushes the gradient -1 for variable `name`. */
static int push(struct cox_step *step, const char *name)
{
    const float gradient = -1;
    struct cox_variable *w;
    int r = cox_step_variable(step, name, &w);
    return r != 0 ? r : cox_step_push(step, w, &gradient);
}

/* Returns the values that it sees, as "w0" and "w1". */
static int see(struct cox_step *step)
{
    static const char *const names[] = {"w0", "w1"};
    float seen[2];
    struct cox_pull pulls[2] = {{.values = &seen[0]}, {.values = &seen[1]}};
    int r = 0;
    for (int i = 0; r == 0 && i < 2; i++) {
        r = cox_step_variable(step, names[i], &pulls[i].variable);
    }
    r = r != 0 ? r : cox_step_pull(step, pulls, 2);
    for (int i = 0; r == 0 && i < 2; i++) {
        const struct cox_value value = COX_SCALAR(names[i], COX_F32, &seen[i]);
        r = cox_step_return(step, &value);
    }
    return r;
}

/*
 * Pushes the gradient -1 for both, after it has seen them. With an argument "weight" it
 * counts that much; with "path" its first attempt waits at a FIFO, between the two
 * pushes if there is an argument "flush"; with "fail" it fails. With "half" it pushes for
 * "w0" only, with "other" for "w1" only. With "stray", which a step must not do, its later
 * attempts push for "w0" only.
 */
static int advance(struct cox_step *step)
{
    const struct cox_value *weight = cox_step_argument(step, "weight");
    bool waits = cox_step_attempt(step) == 1 && cox_step_argument(step, "path") != NULL;
    bool flushes = cox_step_argument(step, "flush") != NULL;
    bool strays =
        cox_step_attempt(step) > 1 && cox_step_argument(step, "stray") != NULL;
    int r = see(step);
    if (r == 0 && weight != NULL) {
        r = cox_step_weight(step, *(const double *)weight->data);
    }
    if (r == 0 && waits && !flushes) {
        r = wait_at(step);
    }
    if (r == 0 && cox_step_argument(step, "other") == NULL) {
        r = push(step, "w0");
    }
    if (r == 0 && flushes) {
        r = cox_step_flush(step);
    }
    if (r == 0 && waits && flushes) {
        r = wait_at(step);
    }
    if (r == 0 && cox_step_argument(step, "half") == NULL && !strays) {
        r = push(step, "w1");
    }
    if (r == 0 && cox_step_argument(step, "fail") != NULL) {
        r = cox_step_fail(step, 5, "asked to");
    }
    return r;
}

/* Ends its process. */
static int die(struct cox_step *step)
{
    (void)step;
    abort();
}

/*
 * Linear regression: pushes the gradient of the mean squared error of "w" on its
 * examples, which are in "rows" (the numbers of an example, then its target). Returns
 * nothing.
 */
static int fit(struct cox_step *step)
{
    enum { DIM = 16 };
    const struct cox_value *rows = cox_step_argument(step, "rows");
    float w[DIM];
    float gradient[DIM] = {0};
    struct cox_pull pull = {.values = w};
    int r = cox_step_variable(step, "w", &pull.variable);
    r = r != 0 ? r : cox_step_pull(step, &pull, 1);
    if (r != 0) {
        return r;
    }
    const float *row = rows->data;
    size_t n = rows->shape[0] / (DIM + 1);
    for (size_t i = 0; i < n; i++, row += DIM + 1) {
        float error = -row[DIM];
        for (int k = 0; k < DIM; k++) {
            error += w[k] * row[k];
        }
        for (int k = 0; k < DIM; k++) {
            gradient[k] += 2 * error * row[k] / (float)n;
        }
    }
    return cox_step_push(step, pull.variable, gradient);
}

/* Waits at a FIFO in its first attempt, and returns its argument "w0" as "w0". */
static int follow(struct cox_step *step)
{
    int r = cox_step_attempt(step) == 1 ? wait_at(step) : 0;
    return r != 0 ? r : cox_step_return(step, cox_step_argument(step, "w0"));
}

COX_STEPS(COX_STEP("advance", advance), COX_STEP("die", die),
          COX_STEP("follow", follow), COX_STEP("fit", fit));
