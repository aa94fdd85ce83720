/* Steps that crash their process, and steps that run beside or before those. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wait.h"

/* Writes to address NULL. UBSan does not check this function, because it would
 * abort. */
__attribute__((no_sanitize("undefined"))) static int null_write(struct cox_step *step)
{
    int *volatile nowhere = NULL;
    (void)step;
    *(volatile int *)nowhere = 1;
    return 0;
}

static int do_abort(struct cox_step *step)
{
    (void)step;
    abort();
}

/* Exits with argument `code`. */
static int do_exit(struct cox_step *step)
{
    const int64_t *code = (const int64_t *)cox_step_scalar(step, "code", COX_I64);
    exit(code != NULL ? (int)*code : 1);
}

/* Ends the process so that it is not known which step did. */
static int quit(struct cox_step *step)
{
    (void)step;
    _exit(3);
}

/* Ends its slot's thread alone. */
static int end_thread(struct cox_step *step)
{
    (void)step;
    pthread_exit(NULL);
}

/* Returns `bytes` bytes. */
static int give_bytes(struct cox_step *step)
{
    const int64_t *bytes = (const int64_t *)cox_step_scalar(step, "bytes", COX_I64);
    char *given = bytes != NULL ? malloc((size_t)*bytes) : NULL;
    if (given == NULL) {
        return cox_step_fail(step, 1, "no memory");
    }
    memset(given, 1, (size_t)*bytes);
    const struct cox_value value = COX_VECTOR("bytes", COX_U8, (uint64_t)*bytes, given);
    int r = cox_step_return(step, &value);
    free(given);
    return r;
}

/* Is busy for a while, so that the worker checks the memory of the process. */
static int linger(struct cox_step *step)
{
    for (int i = 0; i < 200 && !cox_step_cancelled(step); i++) {
        (void)poll(NULL, 0, 1);
    }
    return 0;
}

/* Takes `bytes` of memory, and keeps them. */
static int hoard(struct cox_step *step)
{
    const int64_t *bytes = (const int64_t *)cox_step_scalar(step, "bytes", COX_I64);
    volatile char *memory = bytes != NULL ? malloc((size_t)*bytes) : NULL;
    if (memory == NULL) {
        return cox_step_fail(step, 1, "no memory");
    }
    for (int64_t i = 0; i < *bytes; i += 1024) {
        memory[i] = 1;
    }
    await_cancel(step);
    free((void *)memory);
    return 0;
}

/* Adds 1 to `counter`. */
static int count(struct cox_step *step)
{
    const int64_t one = 1;
    struct cox_variable *counter;
    int r = cox_step_variable(step, "counter", &counter);
    return r != 0 ? r : cox_step_add(step, counter, &one);
}

/* Crashes in its first attempt, counts in the second. */
static int crash_once(struct cox_step *step)
{
    return cox_step_attempt(step) == 1 ? null_write(step) : count(step);
}

/* Crashes in its first attempt, which leaves a child that lives until the gate opens;
 * counts in the second. */
static int fork_and_crash(struct cox_step *step)
{
    if (cox_step_attempt(step) > 1) {
        return count(step);
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)wait_at(step);
        _exit(0);
    }
    return pid > 0 ? null_write(step) : cox_step_fail(step, 1, "no fork");
}

static int nothing(struct cox_step *step)
{
    (void)step;
    return 0;
}

COX_STEPS(COX_STEP("null_write", null_write), COX_STEP("do_abort", do_abort),
          COX_STEP("do_exit", do_exit), COX_STEP("wait_at", wait_at),
          COX_STEP("wait_cancelled", wait_cancelled), COX_STEP("hoard", hoard),
          COX_STEP("quit", quit), COX_STEP("end_thread", end_thread),
          COX_STEP("give_bytes", give_bytes), COX_STEP("linger", linger),
          COX_STEP("count", count), COX_STEP("crash_once", crash_once),
          COX_STEP("fork_and_crash", fork_and_crash), COX_STEP("nothing", nothing));
