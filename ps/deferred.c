/* See deferred.h. A queued request is a copy of its frame's metadata, which is decoded
 * only when the request runs. Threads: one that runs the requests; any other thread may
 * add one. */
#include "ps/deferred.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/disk.h"
#include "common/error.h"
#include "common/sync.h"

enum { IN_LINE_MAX = 4096 }; /* a chain has fewer files */

struct request {
    struct request *next;
    struct coxi_link *link;
    size_t len;
    uint64_t meta[]; /* aligned like a frame's */
};

struct coxi_deferred {
    coxi_deferred_run run;
    void *arg;
    struct coxi_payloads *payloads;
    pthread_t thread;
    bool started;
    atomic_bool gives_up; /* the thread waits for no disk or store any more */

    struct coxi_mutex lock; /* leaf, except for the links' own locks */
    pthread_cond_t changed;
    /* the one that is running, if `busy` */
    struct request *first COXI_GUARDED_BY(lock);
    struct request **end COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
    bool busy COXI_GUARDED_BY(lock);
    bool stopping COXI_GUARDED_BY(lock);
};

static void request_free(struct coxi_deferred *deferred, struct request *request)
{
    coxi_payloads_drop(deferred->payloads, request->len);
    coxi_link_unref(request->link);
    free(request);
}

static int request_new(struct coxi_deferred *deferred, struct coxi_link *link,
                       const struct coxi_frame *frame, struct request **ret)
{
    int r = coxi_payloads_hold(deferred->payloads, frame->meta_len);
    if (r != 0) {
        return r;
    }
    struct request *request = calloc(1, sizeof(*request) + frame->meta_len);
    if (request == NULL) {
        coxi_payloads_drop(deferred->payloads, frame->meta_len);
        return coxi_error_memory("a request that takes long");
    }
    memcpy(request->meta, frame->meta, frame->meta_len);
    request->len = frame->meta_len;
    request->link = coxi_link_ref(link);
    *ret = request;
    return 0;
}

static struct request *take_first(struct coxi_deferred *deferred)
    COXI_REQUIRES(deferred->lock)
{
    struct request *request = deferred->first;
    deferred->first = request->next;
    deferred->end = request->next == NULL ? &deferred->first : deferred->end;
    deferred->n--;
    return request;
}

/* Runs a request, without holding the lock. */
static void do_request(const struct coxi_deferred *deferred,
                       const struct request *request)
{
    const struct coxi_frame frame = {.meta = request->meta, .meta_len = request->len};
    struct coxi_message message;
    if (!coxi_link_closed(request->link) && coxi_message_read(&frame, &message) == 0) {
        deferred->run(deferred->arg, request->link, &message);
    }
}

static void *deferred_thread(void *arg)
{
    struct coxi_deferred *deferred = arg;
    coxi_disk_give_up_when(&deferred->gives_up);
    coxi_lock(&deferred->lock);
    while (!deferred->stopping) {
        if (deferred->first == NULL) {
            coxi_wait_for_work(&deferred->changed, &deferred->lock);
            continue;
        }
        struct request *request = deferred->first;
        deferred->busy = true;
        coxi_unlock(&deferred->lock);
        do_request(deferred, request);
        coxi_lock(&deferred->lock);
        deferred->busy = false;
        (void)take_first(deferred);
        coxi_unlock(&deferred->lock);
        request_free(deferred, request);
        coxi_lock(&deferred->lock);
    }
    coxi_unlock(&deferred->lock);
    return NULL;
}

int coxi_deferred_new(const char *name, coxi_deferred_run run, void *arg,
                      struct coxi_payloads *payloads, struct coxi_deferred **ret)
{
    struct coxi_deferred *deferred = calloc(1, sizeof(*deferred));
    if (deferred == NULL) {
        return coxi_error_memory("requests that take long");
    }
    deferred->run = run;
    deferred->arg = arg;
    deferred->payloads = payloads;
    coxi_mutex_init(&deferred->lock);
    coxi_unshared(&deferred->lock);
    deferred->end = &deferred->first;
    coxi_cond_init(&deferred->changed);
    int r = coxi_thread_start(&deferred->thread, name, deferred_thread, deferred);
    if (r != 0) {
        coxi_deferred_free(deferred);
        return r;
    }
    deferred->started = true;
    *ret = deferred;
    return 0;
}

int coxi_deferred_add(struct coxi_deferred *deferred, struct coxi_link *link,
                      const struct coxi_frame *frame)
{
    struct request *request = NULL;
    int r = request_new(deferred, link, frame, &request);
    if (r != 0) {
        return r;
    }
    coxi_lock(&deferred->lock);
    if (deferred->n == IN_LINE_MAX) {
        r = coxi_error(COX_ELIMIT, "%zu long requests are already in line",
                       deferred->n);
    } else {
        *deferred->end = request;
        deferred->end = &request->next;
        deferred->n++;
        (void)pthread_cond_signal(&deferred->changed);
    }
    coxi_unlock(&deferred->lock);
    if (r != 0) {
        request_free(deferred, request);
    }
    return r;
}

bool coxi_deferred_is_orphaned(struct coxi_deferred *deferred)
{
    coxi_lock(&deferred->lock);
    bool orphaned = deferred->busy;
    for (const struct request *r = deferred->first; r != NULL && orphaned;
         r = r->next) {
        orphaned = coxi_link_closed(r->link);
    }
    coxi_unlock(&deferred->lock);
    return orphaned;
}

void coxi_deferred_free(struct coxi_deferred *deferred)
{
    if (deferred == NULL) {
        return;
    }
    atomic_store(&deferred->gives_up, true);
    coxi_lock(&deferred->lock);
    deferred->stopping = true;
    (void)pthread_cond_signal(&deferred->changed);
    coxi_unlock(&deferred->lock);
    if (deferred->started) {
        (void)pthread_join(deferred->thread, NULL);
    }
    coxi_unshared(&deferred->lock);
    while (deferred->first != NULL) {
        request_free(deferred, take_first(deferred));
    }
    (void)pthread_cond_destroy(&deferred->changed);
    coxi_mutex_fini(&deferred->lock);
    free(deferred);
}
