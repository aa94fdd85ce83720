/* Steps that log. */
#include <coxswain/step.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Adds 1 to c0 and logs "loss" = 1 / id, and "id". */
static int train(struct cox_step *step)
{
    const int64_t one = 1;
    struct cox_variable *counter;
    uint64_t id = cox_step_closure(step);
    int r = cox_step_variable(step, "c0", &counter);
    r = r == 0 ? cox_step_add(step, counter, &one) : r;
    r = r == 0 ? cox_step_log_scalar(step, "loss", 1 / (double)id) : r;
    return r == 0 ? cox_step_log_scalar(step, "id", (double)id) : r;
}

/* The same, once the file `gate` is gone. */
static int train_behind(struct cox_step *step)
{
    const struct cox_value *gate = cox_step_argument(step, "gate");
    while (gate != NULL && access((const char *)gate->data, F_OK) == 0) {
        (void)poll(NULL, 0, 1);
    }
    return train(step);
}

/* The same, but the first attempt crashes at its end. */
static int crash_first(struct cox_step *step)
{
    int r = train(step);
    if (cox_step_attempt(step) == 1) {
        __builtin_trap();
    }
    return r;
}

static int fails(struct cox_step *step)
{
    int r = cox_step_log_scalar(step, "failed", 1);
    return r != 0 ? r : cox_step_fail(step, 1, "as it should");
}

/* Logs as much as is allowed, and then more. */
static int too_much(struct cox_step *step)
{
    char name[129];
    int r = 0;
    for (int i = 0; r == 0 && i < 256; i++) {
        (void)snprintf(name, sizeof(name), "<b>%d", i);
        r = cox_step_log_scalar(step, name, i);
    }
    if (r != 0 || cox_step_log_scalar(step, "more", 1) != COX_ELIMIT) {
        return cox_step_fail(step, 2, "not refused: %s", cox_step_error(step));
    }
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = (char)(i < 128 ? 'x' : 0);
    }
    if (cox_step_log_scalar(step, name, 1) != COX_EINVAL ||
        cox_step_log_scalar(step, "", 1) != COX_EINVAL) {
        return cox_step_fail(step, 3, "not refused: %s", cox_step_error(step));
    }
    return 0;
}

/* Logs 8 scalars, whose names have the number n in them. */
static int names(struct cox_step *step)
{
    const int64_t *n = (const int64_t *)cox_step_scalar(step, "n", COX_I64);
    int r = n != NULL ? 0 : 1;
    for (int i = 0; r == 0 && i < 8; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "name %lld.%d", (long long)*n, i);
        r = cox_step_log_scalar(step, name, i);
    }
    return r;
}

COX_STEPS(COX_STEP("train", train), COX_STEP("crash_first", crash_first),
          COX_STEP("fails", fails), COX_STEP("too_much", too_much),
          COX_STEP("names", names), COX_STEP("train_behind", train_behind));
