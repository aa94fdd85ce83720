/* A step that leaves a thread behind. */
#include <pthread.h>
#include <unistd.h>

#include <coxswain/step.h>

__attribute__((visibility("default"))) int
    linger_fds[2]; /* the thread reads from the first, then writes to the second */

static void *linger(void *arg)
{
    char byte;
    (void)arg;
    if (read(linger_fds[0], &byte, 1) == 1) {
        (void)!write(linger_fds[1], &byte, 1);
    }
    return NULL;
}

static int leave_thread(struct cox_step *step)
{
    pthread_t thread;
    (void)step;
    return pthread_create(&thread, NULL, linger, NULL) == 0 ? pthread_detach(thread)
                                                            : 1;
}

COX_STEPS(COX_STEP("leave_thread", leave_thread));
