/* Ways in which steps wait for a test, or for their cancellation. */
#ifndef COXI_TESTS_STEPS_WAIT_H
#define COXI_TESTS_STEPS_WAIT_H

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <coxswain/step.h>

/* Opens the FIFO `path`, once the test has opened it for writing; then the test knows
 * that the step runs. Negative: there is no FIFO. */
static inline int open_gate(struct cox_step *step)
{
    const struct cox_value *path = cox_step_argument(step, "path");
    int fd = path != NULL ? open((const char *)path->data, O_RDONLY | O_CLOEXEC) : -1;
    return fd >= 0 ? fd : cox_step_fail(step, -1, "there is no FIFO");
}

/* Waits at the gate until its writer has closed it, or the process is killed. */
static inline int wait_at(struct cox_step *step)
{
    char byte;
    int fd = open_gate(step);
    if (fd < 0) {
        return fd;
    }
    while (read(fd, &byte, 1) > 0) {
    }
    (void)close(fd);
    return 0;
}

static inline void await_cancel(struct cox_step *step)
{
    while (!cox_step_cancelled(step)) {
        (void)poll(NULL, 0, 1);
    }
}

/* Waits until it is cancelled. */
static inline int wait_cancelled(struct cox_step *step)
{
    int fd = open_gate(step);
    if (fd < 0) {
        return fd;
    }
    await_cancel(step);
    (void)close(fd);
    return 0;
}

#endif
