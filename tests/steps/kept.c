/* Steps whose results are kept, and taken by other calls. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <coxswain/step.h>

static int add_to_c0(struct cox_step *step, int64_t value)
{
    struct cox_variable *counter;
    int r = cox_step_variable(step, "c0", &counter);
    return r != 0 ? r : cox_step_add(step, counter, &value);
}

/*
 * Counts, and returns the sum of its I64 arguments as "x", its worker as "worker", the
 * names of its arguments in their order as "names", and the bytes of an argument "blob"
 * as "blob".
 */
static int sum(struct cox_step *step)
{
    const struct cox_value *args;
    size_t n = cox_step_arguments(step, &args);
    int64_t x = 0;
    int64_t worker = cox_step_worker(step);
    char names[1024] = "";
    int r = add_to_c0(step, 1);
    for (size_t i = 0; r == 0 && i < n; i++) {
        x += args[i].dtype == COX_I64 ? *(const int64_t *)args[i].data : 0;
        (void)strncat(names, args[i].name, sizeof(names) - strlen(names) - 2);
        (void)strcat(names, " ");
        r = strcmp(args[i].name, "blob") == 0 ? cox_step_return(step, &args[i]) : 0;
    }
    const struct cox_value results[] = {
        COX_SCALAR("x", COX_I64, &x), COX_SCALAR("worker", COX_I64, &worker),
        COX_VECTOR("names", COX_U8, strlen(names) + 1, names)};
    for (size_t i = 0; r == 0 && i < sizeof(results) / sizeof(*results); i++) {
        r = cox_step_return(step, &results[i]);
    }
    return r;
}

/* As sum, but fails in any attempt but the first. */
static int sum_once(struct cox_step *step)
{
    return cox_step_attempt(step) == 1
               ? sum(step)
               : cox_step_fail(step, 5, "attempt %u is one too many",
                               (unsigned)cox_step_attempt(step));
}

/* Adds the sum of its I64 arguments to c0, and returns it as "x"; in its first attempt
 * it waits at the FIFO "fifo", if that is given. */
static int add(struct cox_step *step)
{
    const struct cox_value *args;
    size_t n = cox_step_arguments(step, &args);
    const struct cox_value *fifo = cox_step_argument(step, "fifo");
    int64_t x = 0;
    char byte;
    for (size_t i = 0; i < n; i++) {
        x += args[i].dtype == COX_I64 ? *(const int64_t *)args[i].data : 0;
    }
    if (fifo != NULL && cox_step_attempt(step) == 1) {
        int fd = open((const char *)fifo->data, O_RDONLY | O_CLOEXEC);
        while (read(fd, &byte, 1) > 0) {
        }
        (void)close(fd);
    }
    const struct cox_value result = COX_SCALAR("x", COX_I64, &x);
    int r = add_to_c0(step, x);
    return r != 0 ? r : cox_step_return(step, &result);
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEPS(COX_STEP("sum", sum), COX_STEP("sum_once", sum_once), COX_STEP("add", add),
          COX_STEP("nothing", nothing));
