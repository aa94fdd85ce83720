/*
 * See trace_asked.h. GET /api/trace?seconds=N answers with a trace of the next N seconds,
 * while it is being taken. A thread takes it into a temporary file without a name, and the
 * server's thread sends what is there. So the server never waits, and a slow reader costs
 * room on the disk only; what was sent is taken from the file.
 *
 * The first bytes tell that the trace has begun. What goes wrong later is told in the last
 * entry, `coxswain`, because the answer's status is already sent.
 *
 *   FREE -> (a request) TAKEN -> (time is over, the reader is gone, or the run ends;
 *   then the file is whole) WRITTEN -> (the reader has all, or is gone) FREE
 *
 * Threads: the server's (the route); one for each trace, from TAKEN to FREE; stop: that of
 * cox_close. The lock guards what they share; nothing is called under it.
 */
#include "coordinator/monitor/trace_asked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json_text.h"
#include "common/sync.h"
#include "coordinator/monitor/exposed.h"
#include "coordinator/monitor/trace.h"
#include "coordinator/monitor/trace_write.h"

enum {
    SECONDS_MAX = 300,
    WAKE_MS = 100,         /* how often what is new is sent */
    LEAVE_MS = 1000,       /* how long cox_close waits for the reader */
    PIECE_BYTES = 1 << 18, /* sent at once */
};

enum state { FREE, TAKEN, WRITTEN };

struct coxi_trace_asked {
    struct cox_coordinator *c;
    struct coxi_mutex lock; /* guards what follows, up to the next comment; leaf */
    pthread_cond_t changed;
    enum state state;
    bool is_read;  /* the reader is there */
    bool is_ended; /* cox_close has begun */
    int ms;        /* how long it takes */
    int code;      /* of the trace, once it is WRITTEN */
    char text[COXI_TEXT_MAX];

    /* set in FREE only */
    int fd; /* the file; -1: none */
    pthread_t thread;
    bool has_thread;
};

/* ---- taking it */

/* Waits until the time is over or nobody wants it any more, and has what is new sent. */
static void pass_time(struct coxi_trace_asked *asked)
{
    struct timespec end = coxi_deadline(asked->ms);
    bool goes_on = true;
    while (goes_on) {
        struct timespec next = coxi_deadline(WAKE_MS);
        bool is_last = coxi_before(&end, &next);
        coxi_lock(&asked->lock);
        while (asked->is_read && !asked->is_ended &&
               coxi_wait_until(&asked->changed, &asked->lock, is_last ? &end : &next)) {
        }
        goes_on = asked->is_read && !asked->is_ended && !is_last;
        coxi_unlock(&asked->lock);
        coxi_exposed_wake(asked->c);
    }
}

static int take(struct coxi_trace_asked *asked)
{
    int fd = fcntl(asked->fd, F_DUPFD_CLOEXEC, 0);
    int r = fd < 0 ? coxi_error_errno(COX_EIO, "a trace")
                   : coxi_tracing_begin(asked->c, fd);
    if (r != 0) {
        return r;
    }
    pass_time(asked);
    return coxi_tracing_end(asked->c);
}

static void *asked_thread(void *arg)
{
    struct coxi_trace_asked *asked = arg;
    int r = take(asked);
    coxi_lock(&asked->lock);
    asked->code = r;
    (void)snprintf(asked->text, sizeof(asked->text), "%s",
                   r != 0 ? coxi_error_text() : "");
    asked->state = WRITTEN;
    (void)pthread_cond_broadcast(&asked->changed);
    coxi_unlock(&asked->lock);
    coxi_exposed_wake(asked->c);
    coxi_lock(&asked->lock);
    while (asked->is_read) {
        coxi_wait_for_work(&asked->changed, &asked->lock);
    }
    (void)close(asked->fd);
    asked->fd = -1;
    asked->state = FREE;
    (void)pthread_cond_broadcast(&asked->changed);
    coxi_unlock(&asked->lock);
    return NULL;
}

/* ---- the route (the server's thread) */

static const char is_over_text[] = "the run is over";

/* Why there can be no trace now, as a status with its text; 0: there can. */
static int why_not(struct coxi_trace_asked *asked, uint64_t seconds,
                   const char **ret_text)
{
    struct cox_coordinator *c = asked->c;
    coxi_lock(&c->lock);
    bool is_open = c->life.opened;
    bool is_over = c->life.fatal != 0 || c->life.closing;
    coxi_unlock(&c->lock);
    coxi_lock(&asked->lock);
    is_over = is_over || asked->is_ended;
    bool is_taken = asked->state != FREE;
    coxi_unlock(&asked->lock);
    if (seconds < 1 || seconds > SECONDS_MAX) {
        *ret_text = "seconds= takes a number from 1 to 300";
        return 400;
    }
    if (is_over || !is_open) {
        *ret_text = is_over ? is_over_text : "cox_open has not returned yet";
        return 503;
    }
    if (is_taken || coxi_tracing_is_on(c)) {
        *ret_text = is_taken
                        ? "somebody else takes a trace of this run: ask again when "
                          "that has ended"
                        : "the program takes a trace itself (cox_options.trace, "
                          "$COX_TRACE or cox_trace_start)";
        return 409;
    }
    return 0;
}

/* A file that nobody else sees, in $TMPDIR or /tmp. */
static int make_file(int *ret_fd)
{
    char path[PATH_MAX];
    const char *dir = getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
    int r = coxi_path(path, "%s/coxswain-trace-XXXXXX",
                      dir != NULL && *dir != '\0' ? dir : "/tmp");
    if (r != 0) {
        return r;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "a file for a trace, %s", path);
    }
    (void)unlink(path);
    *ret_fd = fd;
    return 0;
}

static void join(struct coxi_trace_asked *asked)
{
    if (asked->has_thread) {
        (void)pthread_join(asked->thread, NULL);
        asked->has_thread = false;
    }
}

static void set_state(struct coxi_trace_asked *asked, enum state state)
{
    coxi_lock(&asked->lock);
    asked->state = state;
    (void)pthread_cond_broadcast(&asked->changed);
    coxi_unlock(&asked->lock);
}

static int begin_thread(struct coxi_trace_asked *asked, uint64_t seconds)
{
    join(asked); /* it has ended */
    coxi_lock(&asked->lock);
    int r = asked->is_ended ? coxi_error(COX_ECLOSED, "%s", is_over_text) : 0;
    asked->state = r == 0 ? TAKEN : FREE;
    asked->is_read = r == 0;
    asked->ms = (int)seconds * 1000;
    coxi_unlock(&asked->lock);
    if (r != 0) {
        return r;
    }
    r = make_file(&asked->fd);
    if (r == 0) {
        r = coxi_thread_start(&asked->thread, "cox:asked-trace", asked_thread, asked);
    }
    asked->has_thread = r == 0;
    if (r != 0) {
        if (asked->fd >= 0) {
            (void)close(asked->fd);
        }
        asked->fd = -1;
        set_state(asked, FREE);
    }
    return r;
}

static int begin(void *context, const struct coxi_http_request *request,
                 struct coxi_http_reply *reply)
{
    struct coxi_trace_asked *asked = context;
    const char *text = NULL;
    reply->status = why_not(asked, request->seconds, &text);
    int r = reply->status == 0 ? begin_thread(asked, request->seconds) : 0;
    if (r != 0) {
        reply->status = r == COX_ECLOSED ? 503 : 500;
        text = coxi_error_text();
    }
    return text != NULL ? coxi_buffer_printf(&reply->body, "%s\n", text) : 0;
}

/* Appends the end of a trace that has failed. */
static int tell_failure(struct coxi_trace_asked *asked, uint64_t at,
                        struct coxi_buffer *out)
{
    int r = coxi_buffer_printf(out,
                               "%s{\"ph\":\"M\",\"name\":\"coxswain\",\"pid\":%d,"
                               "\"tid\":0,\"args\":{\"error\":",
                               at == 0 ? "[\n" : ",\n", COXI_TRACE_CLIENT);
    r = r == 0 ? coxi_json_text(out, asked->text) : r;
    return r == 0 ? coxi_buffer_printf(out, "}}\n]\n") : r;
}

static int more(void *context, uint64_t *cursor, struct coxi_buffer *out)
{
    struct coxi_trace_asked *asked = context;
    coxi_lock(&asked->lock);
    bool is_whole = asked->state == WRITTEN; /* so nothing is written after this read */
    int code = asked->code;
    coxi_unlock(&asked->lock);
    int r = coxi_buffer_reserve(out, PIECE_BYTES);
    ssize_t n =
        r == 0 ? coxi_fd_read_at(asked->fd, *cursor, out->data + out->len, PIECE_BYTES)
               : 0;
    if (r != 0 || n < 0) {
        return r != 0 ? r : coxi_error_errno(COX_EIO, "the file of a trace");
    }
    out->len += (size_t)n;
    *cursor += (uint64_t)n;
    if (n > 0) { /* where the file system can */
        (void)fallocate(asked->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                        (off_t)*cursor);
    }
    if (!is_whole || n == PIECE_BYTES) {
        return 0;
    }
    r = code != 0 ? tell_failure(asked, *cursor, out) : 0;
    return r == 0 ? COXI_HTTP_LAST : r;
}

static void end(void *context)
{
    struct coxi_trace_asked *asked = context;
    coxi_lock(&asked->lock);
    asked->is_read = false;
    (void)pthread_cond_broadcast(&asked->changed);
    coxi_unlock(&asked->lock);
}

static const struct coxi_http_work work = {
    .type = "application/json", .begin = begin, .more = more, .end = end};

struct coxi_http_route coxi_trace_asked_route(struct coxi_trace_asked *asked)
{
    return (struct coxi_http_route){
        .path = "/api/trace", .context = asked, .work = &work};
}

/* ---- life */

int coxi_trace_asked_new(struct cox_coordinator *c, struct coxi_trace_asked **ret)
{
    struct coxi_trace_asked *asked = calloc(1, sizeof(*asked));
    if (asked == NULL) {
        return coxi_error_memory("traces");
    }
    asked->c = c;
    asked->fd = -1;
    coxi_mutex_init(&asked->lock);
    coxi_cond_init(&asked->changed);
    *ret = asked;
    return 0;
}

void coxi_trace_asked_stop(struct coxi_trace_asked *asked)
{
    if (asked == NULL) {
        return;
    }
    coxi_lock(&asked->lock);
    asked->is_ended = true;
    (void)pthread_cond_broadcast(&asked->changed);
    bool is_taken = asked->state == TAKEN;
    coxi_unlock(&asked->lock);
    if (is_taken) {
        coxi_tracing_hurry(asked->c);
    }
    coxi_lock(&asked->lock);
    while (asked->state == TAKEN) { /* its waits have deadlines */
        coxi_wait_for_end(&asked->changed, &asked->lock);
    }
    struct timespec until = coxi_deadline(LEAVE_MS);
    while (asked->state == WRITTEN &&
           coxi_wait_until(&asked->changed, &asked->lock, &until)) {
    }
    coxi_unlock(&asked->lock);
}

void coxi_trace_asked_free(struct coxi_trace_asked *asked)
{
    if (asked != NULL) {
        join(asked);
        (void)pthread_cond_destroy(&asked->changed);
        coxi_mutex_fini(&asked->lock);
        free(asked);
    }
}
