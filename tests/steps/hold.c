/* Steps that a test holds and releases, so that it knows which step runs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <coxswain/step.h>

/*
 * Opens the FIFO that argument `fifo` (text with its NUL) names and reads until its
 * writer has closed it: the writer's open returns once this runs.
 */
static int hold(struct cox_step *step)
{
    const struct cox_value *fifo = cox_step_argument(step, "fifo");
    char byte;
    if (fifo == NULL) {
        return cox_step_fail(step, 1, "hold needs an argument fifo");
    }
    int fd = open((const char *)fifo->data, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return cox_step_fail(step, 2, "cannot open %s", (const char *)fifo->data);
    }
    while (read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    return 0;
}

/* As hold, and adds 1 to c0: a commit that is made late. */
static int hold_and_count(struct cox_step *step)
{
    const int64_t one = 1;
    struct cox_variable *counter;
    int r = hold(step);
    if (r == 0) {
        r = cox_step_variable(step, "c0", &counter);
    }
    return r != 0 ? r : cox_step_add(step, counter, &one);
}

/* Adds 1 to metric "m"; with an argument "fifo" it first waits, like hold. */
static int measure(struct cox_step *step)
{
    struct cox_variable *metric;
    int r = cox_step_argument(step, "fifo") != NULL ? hold(step) : 0;
    if (r == 0) {
        r = cox_step_variable(step, "m", &metric);
    }
    return r != 0 ? r : cox_step_metric_add(step, metric, 1, 1);
}

/* Like hold_and_count, but checks whether it is cancelled, and then returns 0. With an
 * argument "flush" it flushes before it waits. */
static int watch_and_count(struct cox_step *step)
{
    const int64_t one = 1;
    const struct cox_value *fifo = cox_step_argument(step, "fifo");
    struct cox_variable *counter;
    struct pollfd end = {.fd = -1};
    int r = fifo == NULL ? cox_step_fail(step, 1, "it needs an argument fifo") : 0;
    if (r == 0) {
        r = cox_step_variable(step, "c0", &counter);
    }
    if (r == 0) {
        r = cox_step_add(step, counter, &one);
    }
    if (r == 0 && cox_step_argument(step, "flush") != NULL) {
        r = cox_step_flush(step);
    }
    if (r != 0) {
        return r;
    }
    end.fd = open((const char *)fifo->data, O_RDONLY | O_CLOEXEC);
    while (!cox_step_cancelled(step) && poll(&end, 1, 1) == 0) {
    }
    (void)close(end.fd);
    return 0;
}

/* Like hold_and_count if there is an argument "fifo", but its second attempt does not
 * wait. Returns "attempt". */
static int straggle(struct cox_step *step)
{
    const int64_t one = 1;
    const int32_t attempt = (int32_t)cox_step_attempt(step);
    const struct cox_value result = COX_SCALAR("attempt", COX_I32, &attempt);
    struct cox_variable *counter;
    int r = attempt == 1 && cox_step_argument(step, "fifo") != NULL ? hold(step) : 0;
    if (r == 0) {
        r = cox_step_variable(step, "c0", &counter);
    }
    if (r == 0) {
        r = cox_step_add(step, counter, &one);
    }
    return r != 0 ? r : cox_step_return(step, &result);
}

/* Returns the value of c0 before it added 1, as "order", and its worker as "worker". */
static int number_off(struct cox_step *step)
{
    static int64_t before;
    static int64_t worker;
    const int64_t one = 1;
    struct cox_pull pull = {.values = &before};
    struct cox_value results[2] = {COX_SCALAR("order", COX_I64, &before),
                                   COX_SCALAR("worker", COX_I64, &worker)};
    int r = cox_step_variable(step, "c0", &pull.variable);
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    if (r == 0) {
        r = cox_step_add(step, pull.variable, &one);
    }
    worker = cox_step_worker(step);
    for (int i = 0; r == 0 && i < 2; i++) {
        r = cox_step_return(step, &results[i]);
    }
    return r;
}

/* Adds 1 to c0 and c1 in its first attempt, and fails in any other. */
static int count_or_fail(struct cox_step *step)
{
    static const char *const names[] = {"c0", "c1"};
    const int64_t one = 1;
    struct cox_variable *counter;
    int r = 0;
    if (cox_step_attempt(step) > 1) {
        return cox_step_fail(step, 7, "attempt %u", (unsigned)cox_step_attempt(step));
    }
    for (int i = 0; r == 0 && i < 2; i++) {
        r = cox_step_variable(step, names[i], &counter);
        if (r == 0) {
            r = cox_step_add(step, counter, &one);
        }
    }
    return r;
}

/* Adds the value of c1 to c0. */
static int carry(struct cox_step *step)
{
    int64_t value;
    struct cox_variable *counter;
    struct cox_pull pull = {.values = &value};
    int r = cox_step_variable(step, "c1", &pull.variable);
    if (r == 0) {
        r = cox_step_pull(step, &pull, 1);
    }
    if (r == 0) {
        r = cox_step_variable(step, "c0", &counter);
    }
    return r != 0 ? r : cox_step_add(step, counter, &value);
}

/* As hold, and then as carry. */
static int hold_and_carry(struct cox_step *step)
{
    int r = hold(step);
    return r != 0 ? r : carry(step);
}

/* Returns its arguments. */
static int echo(struct cox_step *step)
{
    const struct cox_value *args;
    size_t n = cox_step_arguments(step, &args);
    int r = 0;
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = cox_step_return(step, &args[i]);
    }
    return r;
}

static int fail(struct cox_step *step)
{
    return cox_step_fail(step, 9, "no luck");
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEPS(COX_STEP("hold", hold), COX_STEP("hold_and_count", hold_and_count),
          COX_STEP("count_or_fail", count_or_fail), COX_STEP("number_off", number_off),
          COX_STEP("nothing", nothing), COX_STEP("echo", echo), COX_STEP("fail", fail),
          COX_STEP("straggle", straggle), COX_STEP("carry", carry),
          COX_STEP("hold_and_carry", hold_and_carry), COX_STEP("measure", measure),
          COX_STEP("watch_and_count", watch_and_count));
