/* See trace_out.h. The lock is a leaf; it is never held while the disk is used. */
#include "coordinator/monitor/trace_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/sync.h"

enum {
    PIECE_BYTES = 1 << 20, /* written at once */
    BEHIND_BYTES = 4 << 20
};

struct coxi_trace_out {
    int fd; /* the thread's */
    pthread_t thread;
    struct coxi_mutex lock;
    pthread_cond_t changed;
    struct coxi_buffer waiting COXI_GUARDED_BY(lock);
    uint64_t
        moved_ms COXI_GUARDED_BY(lock); /* the thread has begun with a piece then */
    int error COXI_GUARDED_BY(lock);    /* errno of the first write that failed */
    bool ends COXI_GUARDED_BY(lock);    /* no text will be added */
    bool ended COXI_GUARDED_BY(lock);
    bool is_left COXI_GUARDED_BY(lock); /* the thread frees it */
};

static void destroy(struct coxi_trace_out *out)
{
    coxi_unshared(&out->lock);
    coxi_buffer_fini(&out->waiting);
    (void)pthread_cond_destroy(&out->changed);
    coxi_mutex_fini(&out->lock);
    free(out);
}

/* ---- the thread */

/* False: nothing more is written. */
static bool begin_piece(struct coxi_trace_out *out)
{
    coxi_lock(&out->lock);
    bool goes_on = out->error == 0 && !out->is_left;
    out->moved_ms = coxi_now_ms();
    coxi_unlock(&out->lock);
    return goes_on;
}

static void note_error(struct coxi_trace_out *out, int error)
{
    coxi_lock(&out->lock);
    out->error = out->error != 0 ? out->error : error;
    coxi_unlock(&out->lock);
}

static void write_text(struct coxi_trace_out *out, const struct coxi_buffer *text)
{
    for (size_t at = 0; at < text->len && begin_piece(out); at += PIECE_BYTES) {
        size_t left = text->len - at;
        if (coxi_fd_write(out->fd, text->data + at,
                          left < PIECE_BYTES ? left : PIECE_BYTES) != 0) {
            note_error(out, errno);
        }
    }
}

/* Takes what waits; false: there is nothing, and nothing comes any more. */
static bool take(struct coxi_trace_out *out, struct coxi_buffer *ret)
{
    coxi_lock(&out->lock);
    while (out->waiting.len == 0 && !out->ends) {
        coxi_wait_for_work(&out->changed, &out->lock);
    }
    *ret = out->waiting;
    out->waiting = (struct coxi_buffer){0};
    out->moved_ms = coxi_now_ms();
    coxi_unlock(&out->lock);
    return ret->len > 0;
}

static void *write_all(void *arg)
{
    struct coxi_trace_out *out = arg;
    struct coxi_buffer text;
    while (take(out, &text)) {
        write_text(out, &text);
        coxi_buffer_fini(&text);
    }
    if (close(out->fd) != 0) {
        note_error(out, errno);
    }
    coxi_lock(&out->lock);
    out->ended = true;
    bool is_left = out->is_left;
    (void)pthread_cond_broadcast(&out->changed);
    coxi_unlock(&out->lock);
    if (is_left) {
        destroy(out);
    }
    return NULL;
}

/* ---- the trace */

int coxi_trace_out_new(const char *path, int fd, struct coxi_trace_out **ret)
{
    if (path != NULL) {
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    }
    if (fd < 0) {
        return coxi_error_errno(COX_EIO, "cannot write the trace %s", path);
    }
    struct coxi_trace_out *out = calloc(1, sizeof(*out));
    if (out == NULL) {
        (void)close(fd);
        return coxi_error_memory("the file of a trace");
    }
    out->fd = fd;
    coxi_mutex_init(&out->lock);
    coxi_cond_init(&out->changed);
    int r = coxi_thread_start(&out->thread, "cox:trace-file", write_all, out);
    if (r != 0) {
        (void)close(fd);
        destroy(out);
        return r;
    }
    *ret = out;
    return 0;
}

void coxi_trace_out_add(struct coxi_trace_out *out, struct coxi_buffer *text)
{
    coxi_lock(&out->lock);
    if (out->error == 0 &&
        coxi_buffer_append_raw(&out->waiting, text->data, text->len) != 0) {
        out->error = ENOMEM;
    }
    (void)pthread_cond_broadcast(&out->changed);
    coxi_unlock(&out->lock);
    text->len = 0;
}

bool coxi_trace_out_is_behind(struct coxi_trace_out *out)
{
    coxi_lock(&out->lock);
    bool is = out->waiting.len > BEHIND_BYTES;
    coxi_unlock(&out->lock);
    return is;
}

bool coxi_trace_out_has_failed(struct coxi_trace_out *out)
{
    coxi_lock(&out->lock);
    bool has = out->error != 0;
    coxi_unlock(&out->lock);
    return has;
}

bool coxi_trace_out_end(struct coxi_trace_out *out, int ms, uint64_t *ret_silent_ms)
{
    struct timespec until = coxi_deadline(ms);
    coxi_lock(&out->lock);
    out->ends = true;
    (void)pthread_cond_broadcast(&out->changed);
    while (!out->ended && coxi_wait_until(&out->changed, &out->lock, &until)) {
    }
    bool ended = out->ended;
    *ret_silent_ms = coxi_now_ms() - out->moved_ms;
    coxi_unlock(&out->lock);
    return ended;
}

int coxi_trace_out_close(struct coxi_trace_out *out)
{
    char reason[128];
    coxi_lock(&out->lock);
    bool ended = out->ended;
    int error = out->error;
    pthread_t thread = out->thread;
    out->is_left = !ended;
    coxi_unlock(&out->lock);
    if (!ended) { /* from here on it is the thread's */
        (void)pthread_detach(thread);
        return coxi_error(COX_ETIMEDOUT,
                          "the trace could not be written: its disk does "
                          "not answer");
    }
    (void)pthread_join(thread, NULL);
    destroy(out);
    return error == 0 ? 0
                      : coxi_error(COX_EIO, "the trace could not be written: %s",
                                   strerror_r(error, reason, sizeof(reason)));
}
