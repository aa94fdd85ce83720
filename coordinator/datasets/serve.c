/*
 * See serve.h. The thread starts with the first request. Files stay open: OPEN_MAX of
 * them, the least recently used one is closed first.
 *
 * Each worker that has asked for something has an entry with its requests. The thread
 * takes one request of each in turn, and leaves out those that have enough under way.
 * An entry is known by its link, which stays as long as the entry has requests, or
 * bytes under way.
 *
 * Nobody can interrupt a read of a file on a dead disk. So the state has references: of
 * the coordinator, of the thread, and of bytes under way. The coordinator leaves a thread
 * that does not end in STOP_MS to itself.
 */
#include "coordinator/datasets/serve.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/sync.h"
#include "coordinator/datasets/dataset.h"
#include "coordinator/workers/conn.h"
#include "coordinator/workers/worker.h"
#include "data/name.h"
#include "data/sources.h"
#include "net/message.h"

enum {
    WAITING_MAX = 4096, /* requests of a worker */
    OPEN_MAX = 16,
    READ_MAX = 1 << 20,      /* bytes of a request */
    WORKER_BYTES = 16 << 20, /* under way to a worker */
    ALL_WORKERS_BYTES =
        256 << 20, /* the same of all; beyond it, each has one request */
    STOP_MS = 500,
};

struct request {
    struct request *next;
    struct coxi_link *link; /* of the worker that asks */
    uint64_t number;
    char *file;
    uint64_t offset;
    size_t len;
};

/* A worker's requests. */
struct asker {
    struct asker *next;
    const struct coxi_link *link;
    struct request *first;
    struct request *last;
    size_t n_waiting;
    size_t bytes; /* under way */
};

struct opened {
    char *file;                /* its name; NULL: free */
    struct coxi_source source; /* closed, if it is free */
    uint64_t used;             /* when, in requests */
};

struct coxi_served {
    struct coxi_mutex lock; /* comes before those of sources */
    pthread_cond_t changed;
    unsigned refs COXI_GUARDED_BY(lock);
    struct asker *askers COXI_GUARDED_BY(lock); /* the next one in turn first */
    size_t bytes COXI_GUARDED_BY(lock);         /* of all askers */
    bool closing COXI_GUARDED_BY(lock);
    bool ended COXI_GUARDED_BY(lock); /* the thread needs no more time */
    /* what the thread reads now, so that it can be cancelled; or none */
    struct coxi_source reading COXI_GUARDED_BY(lock);
    bool started; /* loop; and free, after it */
    pthread_t thread;

    /* ---- only for the thread */
    struct opened opened[OPEN_MAX];
    uint64_t n_served;
};

/* Bytes under way to a worker. */
struct sent {
    struct coxi_served *served;
    const struct coxi_link *link;
    size_t len; /* that count */
    uint8_t bytes[];
};

/* ---- life of the state */

static void request_free(struct request *request)
{
    if (request != NULL) {
        coxi_link_unref(request->link);
        free(request->file);
        free(request);
    }
}

static void close_file(struct opened *opened)
{
    coxi_source_close(&opened->source);
    free(opened->file);
    *opened = (struct opened){0};
}

static void unref(struct coxi_served *served)
{
    coxi_lock(&served->lock);
    bool last = --served->refs == 0;
    coxi_unlock(&served->lock);
    if (!last) {
        return;
    }
    for (size_t i = 0; i < OPEN_MAX; i++) {
        close_file(&served->opened[i]);
    }
    coxi_mutex_fini(&served->lock);
    (void)pthread_cond_destroy(&served->changed);
    free(served);
}

/* ---- whose turn it is */

static struct asker **find(struct coxi_served *served, const struct coxi_link *link)
    COXI_REQUIRES(served->lock)
{
    struct asker **at = &served->askers;
    while (*at != NULL && (*at)->link != link) {
        at = &(*at)->next;
    }
    return at;
}

static struct asker *unlink_at(struct asker **at)
{
    struct asker *asker = *at;
    *at = asker->next;
    asker->next = NULL;
    return asker;
}

/* Frees the asker if nothing of it is left. False: it stays. */
static bool tidy(struct asker **at)
{
    bool gone = (*at)->first == NULL && (*at)->bytes == 0;
    if (gone) {
        free(unlink_at(at));
    }
    return gone;
}

/* True if the asker's first request may be served now. */
static bool may_go(const struct coxi_served *served, const struct asker *asker)
    COXI_REQUIRES(served->lock)
{
    return asker->first != NULL &&
           (asker->bytes == 0 ||
            (asker->bytes < WORKER_BYTES && served->bytes < ALL_WORKERS_BYTES) ||
            coxi_link_closed(asker->first->link));
}

/* Takes a request, and the room for its bytes; its asker goes to the end of the list. */
static struct request *take(struct coxi_served *served) COXI_REQUIRES(served->lock)
{
    struct asker **at = &served->askers;
    while (*at != NULL && !may_go(served, *at)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        return NULL;
    }
    struct asker *asker = unlink_at(at);
    struct request *request = asker->first;
    asker->first = request->next;
    asker->n_waiting--;
    asker->bytes += request->len;
    served->bytes += request->len;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = asker;
    return request;
}

/* Gives the room for bytes back. */
static void give_back(struct coxi_served *served, const struct coxi_link *link,
                      size_t len)
{
    coxi_lock(&served->lock);
    struct asker **at = find(served, link);
    served->bytes -= len;
    (*at)->bytes -= len;
    (void)tidy(at);
    (void)pthread_cond_broadcast(&served->changed);
    coxi_unlock(&served->lock);
}

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
        if (o->file != NULL && strcmp(o->file, file) == 0) {
            *ret = o;
            return 0;
        }
        oldest = o->used < oldest->used ? o : oldest;
    }
    close_file(oldest);
    oldest->file = strdup(file);
    int r = oldest->file != NULL ? coxi_source_open(file, &oldest->source)
                                 : coxi_error_memory("a file for a worker");
    if (r != 0) {
        close_file(oldest);
        return r;
    }
    *ret = oldest;
    return 0;
}

/* Reads, and looks at size and time before and after: the bytes are of one version. */
static int read_version(const struct coxi_source *source, const struct request *request,
                        void *to, size_t *ret_len, struct coxi_file_mark *ret)
{
    struct coxi_file_mark after = {0};
    int r = source->kind->stat(source->self, ret);
    r = r == 0 ? coxi_source_read(source, request->offset, to, request->len, ret_len)
               : r;
    r = r == 0 ? source->kind->stat(source->self, &after) : r;
    return r == 0 && (after.bytes != ret->bytes || after.changed_ns != ret->changed_ns)
               ? coxi_error(COX_ECONFLICT, "%s changed while it was read",
                            coxi_name_shown(request->file).text)
               : r;
}

/* Tells what the thread reads. False: the coordinator is being closed. */
static bool set_reading(struct coxi_served *served, struct coxi_source source)
{
    const struct coxi_source nothing = {0};
    coxi_lock(&served->lock);
    bool closing = served->closing;
    served->reading = closing ? nothing : source;
    coxi_unlock(&served->lock);
    return !closing;
}

static int read_file(struct coxi_served *served, const struct request *request,
                     void *to, size_t *ret_len, struct coxi_file_mark *ret)
{
    struct opened *opened = NULL;
    int r = open_file(served, request->file, &opened);
    if (r != 0) {
        return r;
    }
    opened->used = ++served->n_served;
    r = set_reading(served, opened->source)
            ? read_version(&opened->source, request, to, ret_len, ret)
            : coxi_error(COX_ECLOSED, "the client is being closed");
    (void)set_reading(served, (struct coxi_source){0});
    if (r != 0) {
        close_file(opened);
    }
    return r;
}

static void release(void *arg)
{
    struct sent *sent = arg;
    struct coxi_served *served = sent->served;
    give_back(served, sent->link, sent->len);
    free(sent);
    unref(served);
}

static struct sent *sent_new(struct coxi_served *served, const struct request *request)
{
    struct sent *sent = malloc(sizeof(*sent) + request->len);
    if (sent == NULL) {
        (void)coxi_error_memory("a file for a worker");
        return NULL;
    }
    sent->served = served;
    sent->link = request->link;
    sent->len = request->len;
    coxi_lock(&served->lock);
    served->refs++;
    coxi_unlock(&served->lock);
    return sent;
}

static void serve(struct coxi_served *served, const struct request *request)
{
    struct coxi_message message = {.request = request->number, .kind = COXI_FILE_BYTES};
    struct coxi_file_mark mark = {0};
    size_t len = 0;
    struct sent *sent = sent_new(served, request);
    if (sent == NULL) {
        refuse(request->link, request->number, COX_ENOMEM, coxi_error_text());
        give_back(served, request->link, request->len);
        return;
    }
    int r = coxi_link_closed(request->link)
                ? coxi_error(COX_ECLOSED, "the worker is gone")
                : read_file(served, request, sent->bytes, &len, &mark);
    if (r != 0) {
        refuse(request->link, request->number, r, coxi_error_text());
        release(sent);
        return;
    }
    const struct iovec segment = {sent->bytes, len};
    const struct coxi_payload payload = {&segment, len > 0, release, sent};
    message.file_bytes = (struct coxi_file_bytes){0, NULL, mark.bytes, mark.changed_ns};
    (void)coxi_message_send(request->link, &message, &payload, false);
}

static struct request *next_request(struct coxi_served *served)
{
    struct request *request = NULL;
    coxi_lock(&served->lock);
    while (!served->closing && (request = take(served)) == NULL) {
        coxi_wait_for_work(&served->changed, &served->lock);
    }
    coxi_unlock(&served->lock);
    return request;
}

static void *run(void *arg)
{
    struct coxi_served *served = arg;
    struct request *request;
    while ((request = next_request(served)) != NULL) {
        serve(served, request);
        request_free(request);
    }
    coxi_lock(&served->lock);
    served->ended = true;
    (void)pthread_cond_broadcast(&served->changed);
    coxi_unlock(&served->lock);
    unref(served);
    return NULL;
}

/* ---- on the loop */

/* True if a task of the data set has the file. If the program has not created the data
 * set yet, only tasks of an older client's closures are under way. */
static bool has_file(const struct cox_dataset *dataset,
                     const struct coxi_file_read *wanted) COXI_REQUIRES_C_LOCK
{
    if (dataset->spec.source != COX_SOURCE_CLIENT) {
        return false;
    }
    if (!dataset->created) {
        return coxi_dataset_has_adopted(dataset, wanted->file);
    }
    return wanted->place < dataset->files.n_tasks &&
           strcmp(coxi_files_task(&dataset->files, wanted->place).file->name,
                  wanted->file) == 0;
}

static int check_wanted(struct cox_coordinator *c, const struct coxi_file_read *wanted)
{
    int r = 0;
    coxi_lock(&c->lock);
    const struct cox_dataset *dataset = coxi_dataset_find(c, wanted->dataset);
    if (dataset == NULL) {
        r = coxi_error(COX_ENOTREADY, "%s: the program has not created data set '%s'",
                       coxi_name_shown(wanted->file).text, wanted->dataset);
    } else if (!has_file(dataset, wanted)) {
        r = coxi_error(COX_EREFUSED, "%s is no file of the client in data set '%s'",
                       coxi_name_shown(wanted->file).text, wanted->dataset);
    }
    coxi_unlock(&c->lock);
    return r == 0 && (wanted->len == 0 || wanted->len > READ_MAX)
               ? coxi_error(COX_EINVAL, "%s: %u bytes at once",
                            coxi_name_shown(wanted->file).text, wanted->len)
               : r;
}

static int start(struct coxi_served *served)
{
    if (served->started) {
        return 0;
    }
    coxi_lock(&served->lock);
    served->refs++;
    coxi_unlock(&served->lock);
    int r = coxi_thread_start(&served->thread, "cox:files", run, served);
    if (r != 0) {
        unref(served);
    }
    served->started = r == 0;
    return r;
}

static int request_new(struct coxi_link *link, uint64_t number,
                       const struct coxi_file_read *wanted, struct request **ret)
{
    struct request *request = calloc(1, sizeof(*request));
    char *name = strdup(wanted->file);
    if (request == NULL || name == NULL) {
        free(request);
        free(name);
        return coxi_error_memory("a file for a worker");
    }
    *request = (struct request){NULL, coxi_link_ref(link), number,
                                name, wanted->offset,      wanted->len};
    *ret = request;
    return 0;
}

/* The entry of the request's worker. */
static int find_asker(struct coxi_served *served, const struct request *request,
                      struct asker **ret) COXI_REQUIRES(served->lock)
{
    struct asker **at = find(served, request->link);
    if (*at == NULL) {
        *at = calloc(1, sizeof(**at));
        if (*at == NULL) {
            return coxi_error_memory("a file for a worker");
        }
        (*at)->link = request->link;
    }
    *ret = *at;
    return (*ret)->n_waiting < WAITING_MAX
               ? 0
               : coxi_error(COX_EAGAIN, "%s: the worker waits for %d parts of files",
                            coxi_name_shown(request->file).text, WAITING_MAX);
}

/* Takes the request on success. */
static int put(struct coxi_served *served, struct request *request)
{
    struct asker *asker = NULL;
    coxi_lock(&served->lock);
    int r = find_asker(served, request, &asker);
    if (r == 0) {
        if (asker->first != NULL) {
            asker->last->next = request;
        } else {
            asker->first = request;
        }
        asker->last = request;
        asker->n_waiting++;
        (void)pthread_cond_broadcast(&served->changed);
    }
    coxi_unlock(&served->lock);
    return r;
}

void coxi_served_want(struct coxi_worker *worker, uint64_t request,
                      const struct coxi_file_read *wanted)
{
    struct coxi_served *served = worker->c->served;
    struct coxi_link *link = coxi_conn_link(worker->control);
    struct request *made = NULL;
    int r = check_wanted(worker->c, wanted);
    r = r == 0 ? start(served) : r;
    r = r == 0 ? request_new(link, request, wanted, &made) : r;
    r = r == 0 ? put(served, made) : r;
    if (r != 0) {
        refuse(link, request, r, coxi_error_text());
        request_free(made);
    }
}

/* ---- life */

int coxi_served_new(struct cox_coordinator *c)
{
    struct coxi_served *served = calloc(1, sizeof(*served));
    if (served == NULL) {
        return coxi_error_memory("files for workers");
    }
    coxi_mutex_init(&served->lock);
    coxi_cond_init(&served->changed);
    coxi_unshared(&served->lock);
    served->refs = 1;
    c->served = served;
    return 0;
}

/* Takes all requests; the askers with bytes under way stay until these are sent. */
static struct request *take_all(struct coxi_served *served) COXI_REQUIRES(served->lock)
{
    struct request *all = NULL;
    struct asker **at = &served->askers;
    while (*at != NULL) {
        struct asker *asker = *at;
        if (asker->first != NULL) {
            asker->last->next = all;
            all = asker->first;
            asker->first = NULL;
            asker->n_waiting = 0;
        }
        at = tidy(at) ? at : &(*at)->next;
    }
    return all;
}

/* Ends the thread; false: it has not ended in time. */
static bool stop(struct coxi_served *served)
{
    struct timespec until = coxi_deadline(STOP_MS);
    coxi_lock(&served->lock);
    served->closing = true;
    (void)pthread_cond_broadcast(&served->changed);
    if (served->reading.kind != NULL) {
        coxi_source_cancel(&served->reading);
    }
    while (served->started && !served->ended &&
           coxi_wait_until(&served->changed, &served->lock, &until)) {
    }
    bool ended = served->ended;
    struct request *request = take_all(served);
    coxi_unlock(&served->lock);
    while (request != NULL) {
        struct request *next = request->next;
        request_free(request);
        request = next;
    }
    return ended;
}

void coxi_served_free(struct cox_coordinator *c)
{
    struct coxi_served *served = c->served;
    if (served == NULL) {
        return;
    }
    bool ended = stop(served);
    if (served->started) {
        (void)(ended ? pthread_join(served->thread, NULL)
                     : pthread_detach(served->thread));
    }
    unref(served);
    c->served = NULL;
}
