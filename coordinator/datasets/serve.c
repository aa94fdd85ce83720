/* See serve.h. The thread starts with the first request. Files stay open: OPEN_MAX of
 * them, the least recently used one is closed first. */
#include "coordinator/datasets/serve.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/datasets/dataset.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/worker.h"
#include "data/sources.h"
#include "net/message.h"

enum {
    SERVED_MAX = 65536,
    OPEN_MAX = 16,
    READ_MAX = 1 << 20,   /* bytes of a request */
    SENT_MAX = 256 << 20, /* bytes that are queued for a worker */
};

struct request {
    struct request *next;
    struct coxi_link *link; /* of the worker that asks */
    uint64_t number;
    const char *file; /* in the data set's list, which stays as long as the thread */
    uint64_t offset;
    size_t len;
};

struct opened {
    const char *file;
    struct coxi_source source; /* closed: free */
    uint64_t used;             /* when, in requests */
};

struct coxi_served {
    struct coxi_mutex lock; /* leaf */
    pthread_cond_t more;
    struct request *first COXI_GUARDED_BY(lock);
    struct request *last COXI_GUARDED_BY(lock);
    size_t n COXI_GUARDED_BY(lock);
    bool closing COXI_GUARDED_BY(lock);
    bool started; /* loop; and free, after it */
    pthread_t thread;

    /* ---- only for the thread */
    struct opened opened[OPEN_MAX];
    uint64_t n_served;
};

/* ---- on the thread */

static void refuse(struct coxi_link *link, uint64_t number, int code, const char *text)
{
    struct coxi_message message = {.request = number, .kind = COXI_FILE_BYTES};
    message.file_bytes = (struct coxi_file_bytes){.code = code, .message = text};
    (void)coxi_message_send(link, &message, NULL, false);
}

/* The open file; opens it if need be. */
static int open_file(struct coxi_served *served, const char *file, struct opened **ret)
{
    struct opened *oldest = &served->opened[0];
    for (size_t i = 0; i < OPEN_MAX; i++) {
        struct opened *o = &served->opened[i];
        if (o->source.kind != NULL && o->file == file) {
            *ret = o;
            return 0;
        }
        oldest = o->used < oldest->used ? o : oldest;
    }
    if (oldest->source.kind != NULL) {
        coxi_source_close(&oldest->source);
    }
    oldest->used = 0;
    oldest->file = file;
    int r = coxi_source_open(file, &oldest->source);
    *ret = oldest;
    return r;
}

/* Reads, and looks at size and time before and after: the bytes are of one version. */
static int read_file(struct coxi_served *served, const struct request *request,
                     void *to, size_t *ret_len, struct coxi_file_mark *ret)
{
    struct opened *opened = NULL;
    struct coxi_file_mark after = {0};
    int r = open_file(served, request->file, &opened);
    if (r != 0) {
        return r;
    }
    const struct coxi_source *source = &opened->source;
    opened->used = ++served->n_served;
    r = source->kind->stat(source->self, ret);
    r = r == 0 ? coxi_source_read(source, request->offset, to, request->len, ret_len)
               : r;
    r = r == 0 ? source->kind->stat(source->self, &after) : r;
    if (r == 0 && (after.bytes != ret->bytes || after.changed_ns != ret->changed_ns)) {
        r = coxi_error(COX_ECONFLICT, "%s changed while it was read", request->file);
    }
    if (r != 0) {
        coxi_source_close(&opened->source);
        opened->used = 0;
    }
    return r;
}

static void serve(struct coxi_served *served, const struct request *request)
{
    struct coxi_message message = {.request = request->number, .kind = COXI_FILE_BYTES};
    struct coxi_file_mark mark = {0};
    size_t len = 0;
    uint8_t *bytes = malloc(request->len);
    int r = bytes != NULL ? read_file(served, request, bytes, &len, &mark)
                          : coxi_error_memory(request->file);
    if (r != 0) {
        refuse(request->link, request->number, r, coxi_error_text());
        free(bytes);
        return;
    }
    const struct iovec segment = {bytes, len};
    const struct coxi_payload payload = {&segment, len > 0, free, bytes};
    message.file_bytes = (struct coxi_file_bytes){0, NULL, mark.bytes, mark.changed_ns};
    (void)coxi_message_send(request->link, &message, &payload, false);
}

static struct request *next_request(struct coxi_served *served)
{
    coxi_lock(&served->lock);
    while (served->first == NULL && !served->closing) {
        coxi_wait_for_work(&served->more, &served->lock);
    }
    struct request *request = served->closing ? NULL : served->first;
    if (request != NULL) {
        served->first = request->next;
        served->n--;
    }
    coxi_unlock(&served->lock);
    return request;
}

static void request_free(struct request *request)
{
    coxi_link_unref(request->link);
    free(request);
}

static void *run(void *arg)
{
    struct coxi_served *served = arg;
    struct request *request;
    while ((request = next_request(served)) != NULL) {
        serve(served, request);
        request_free(request);
    }
    return NULL;
}

/* ---- on the loop */

/* Checks a request, and finds the name of its file in the data set's list. */
static int find_file(struct cox_coordinator *c, const struct coxi_file_read *wanted,
                     const char **ret)
{
    int r = 0;
    coxi_lock(&c->lock);
    const struct cox_dataset *dataset = coxi_dataset_find(c, wanted->dataset);
    if (dataset == NULL || !dataset->created) {
        r = coxi_error(COX_ENOTREADY, "%s: the program has not created data set '%s'",
                       wanted->file, wanted->dataset);
    } else if (dataset->spec.source != COX_SOURCE_CLIENT ||
               wanted->place >= dataset->files.n_tasks) {
        r = coxi_error(COX_EREFUSED, "%s is no file of the client in data set '%s'",
                       wanted->file, wanted->dataset);
    } else {
        *ret = coxi_files_task(&dataset->files, wanted->place).file->name;
        if (strcmp(*ret, wanted->file) != 0) {
            r = coxi_error(COX_EREFUSED, "%s is no file of the client in data set '%s'",
                           wanted->file, wanted->dataset);
        }
    }
    coxi_unlock(&c->lock);
    return r == 0 && (wanted->len == 0 || wanted->len > READ_MAX)
               ? coxi_error(COX_EINVAL, "%s: %u bytes at once", wanted->file,
                            wanted->len)
               : r;
}

static int start(struct coxi_served *served)
{
    int r = served->started
                ? 0
                : coxi_thread_start(&served->thread, "cox:files", run, served);
    served->started = r == 0;
    return r;
}

/* Takes the request on success. */
static int put(struct coxi_served *served, struct request *request)
{
    coxi_lock(&served->lock);
    bool full = served->n == SERVED_MAX;
    if (!full) {
        if (served->first != NULL) {
            served->last->next = request;
        } else {
            served->first = request;
        }
        served->last = request;
        served->n++;
        (void)pthread_cond_signal(&served->more);
    }
    coxi_unlock(&served->lock);
    return full ? coxi_error(COX_ELIMIT, "too many workers read files of the client")
                : 0;
}

void coxi_served_want(struct coxi_worker *worker, uint64_t request,
                      const struct coxi_file_read *wanted)
{
    struct coxi_served *served = worker->c->served;
    struct coxi_link *link = coxi_conn_link(worker->control);
    const char *file = NULL;
    struct request *made = NULL;
    int r = find_file(worker->c, wanted, &file);
    r = r == 0 ? start(served) : r;
    if (r == 0 && coxi_link_queued(link) > SENT_MAX) {
        r = coxi_error(COX_ELIMIT, "%s: the worker reads faster than it receives",
                       wanted->file);
    }
    if (r == 0) {
        made = calloc(1, sizeof(*made));
        r = made != NULL ? 0 : coxi_error_memory(wanted->file);
    }
    if (r == 0) {
        *made = (struct request){NULL, coxi_link_ref(link), request,
                                 file, wanted->offset,      wanted->len};
        r = put(served, made);
    }
    if (r != 0) {
        refuse(link, request, r, coxi_error_text());
        if (made != NULL) {
            request_free(made);
        }
    }
}

/* ---- life */

int coxi_served_new(struct cox_coordinator *c)
{
    c->served = calloc(1, sizeof(*c->served));
    if (c->served == NULL) {
        return coxi_error_memory("files for workers");
    }
    coxi_mutex_init(&c->served->lock);
    coxi_cond_init(&c->served->more);
    return 0;
}

void coxi_served_free(struct cox_coordinator *c)
{
    struct coxi_served *served = c->served;
    if (served == NULL) {
        return;
    }
    coxi_lock(&served->lock);
    served->closing = true;
    (void)pthread_cond_signal(&served->more);
    coxi_unlock(&served->lock);
    if (served->started) {
        (void)pthread_join(served->thread, NULL);
    }
    coxi_unshared(&served->lock);
    while (served->first != NULL) {
        struct request *request = served->first;
        served->first = request->next;
        request_free(request);
    }
    for (size_t i = 0; i < OPEN_MAX; i++) {
        if (served->opened[i].source.kind != NULL) {
            coxi_source_close(&served->opened[i].source);
        }
    }
    coxi_mutex_fini(&served->lock);
    (void)pthread_cond_destroy(&served->more);
    free(served);
    c->served = NULL;
}
