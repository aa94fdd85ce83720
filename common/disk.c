/*
 * See disk.h. fsync cannot be interrupted, so a call that may be given up runs on a
 * thread of its own. The thread that is done last frees the job, which both share. The
 * extra thread costs about 50 us; the call itself takes a millisecond if there is
 * anything to write.
 */
#include "common/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/sync.h"

enum { GIVE_UP_MS = 20 };

static _Thread_local const atomic_bool *gives_up;
static _Thread_local uint64_t gives_up_ms = UINT64_MAX;

struct job {
    struct coxi_mutex lock;
    pthread_cond_t ended;
    int fd;                         /* a duplicate, owned by the job */
    int code COXI_GUARDED_BY(lock); /* errno of fsync, or 0 */
    bool has_ended COXI_GUARDED_BY(lock);
    bool is_given_up COXI_GUARDED_BY(lock); /* the job's thread frees the job */
};

static void job_free(struct job *job)
{
    (void)close(job->fd);
    (void)pthread_cond_destroy(&job->ended);
    coxi_mutex_fini(&job->lock);
    free(job);
}

static void *run(void *arg)
{
    struct job *job = arg;
    int code = fsync(job->fd) == 0 ? 0 : errno;
    coxi_lock(&job->lock);
    job->code = code;
    job->has_ended = true;
    bool given_up = job->is_given_up;
    (void)pthread_cond_signal(&job->ended);
    coxi_unlock(&job->lock);
    if (given_up) {
        job_free(job);
    }
    return NULL;
}

/* Starts a job and its thread; NULL: there is no memory, or no descriptor, for it. */
static struct job *job_start(int fd, pthread_t *ret_thread)
{
    struct job *job = calloc(1, sizeof(*job));
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (job == NULL || own < 0) {
        free(job);
        if (own >= 0) {
            (void)close(own);
        }
        return NULL;
    }
    job->fd = own;
    coxi_mutex_init(&job->lock);
    coxi_cond_init(&job->ended);
    if (coxi_thread_start(ret_thread, "cox:disk", run, job) != 0) {
        job_free(job);
        return NULL;
    }
    return job;
}

/* Waits for the job; false: it was given up. */
static bool await(struct job *job, const atomic_bool *flag)
{
    coxi_lock(&job->lock);
    while (!job->has_ended && !atomic_load(flag)) {
        struct timespec until = coxi_deadline(GIVE_UP_MS);
        (void)coxi_wait_until(&job->ended, &job->lock, &until);
    }
    bool ended = job->has_ended;
    job->is_given_up = !ended;
    coxi_unlock(&job->lock);
    return ended;
}

int coxi_disk_sync(int fd)
{
    pthread_t thread;
    struct job *job = gives_up != NULL ? job_start(fd, &thread) : NULL;
    if (job == NULL) {
        return fsync(fd);
    }
    if (!await(job, gives_up)) {
        (void)pthread_detach(thread);
        errno = ECANCELED;
        return -1;
    }
    (void)pthread_join(thread, NULL);
    coxi_unshared(&job->lock);
    int code = job->code;
    job_free(job);
    errno = code;
    return code == 0 ? 0 : -1;
}

void coxi_disk_give_up_when(const atomic_bool *flag)
{
    gives_up = flag;
}

const atomic_bool *coxi_disk_flag(void)
{
    return gives_up;
}

void coxi_disk_give_up_at(uint64_t end_ms)
{
    gives_up_ms = end_ms;
}

bool coxi_disk_gives_up(void)
{
    return (gives_up != NULL && atomic_load(gives_up)) ||
           (gives_up_ms != UINT64_MAX && coxi_now_ms() >= gives_up_ms);
}
