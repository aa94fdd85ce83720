/*
 * See loop.h. The mailbox is a list under a leaf lock; one wake-up (uv_async) serves
 * all mail posted since the loop last looked.
 *
 * A turn (mail and on_wake, or a tick) has the turn's lock, so that another thread may
 * take one while the loop sleeps (coxi_loop_wake_here).
 */
#include "common/loop.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/sync.h"
#include "common/trace.h"

enum { SIGNALS_MAX = 4 };

struct loop_signal {
    uv_signal_t handle;
    void (*on_signal)(void *arg, int signum);
};

struct coxi_loop {
    uv_loop_t uv;
    uv_async_t async;
    uv_timer_t tick;
    struct loop_signal signals[SIGNALS_MAX];
    int n_signals;
    void (*on_tick)(void *arg);
    void (*on_wake)(void *arg);
    void *arg;
    atomic_bool wake;
    atomic_bool stop;
    bool threaded;
    pthread_t thread;
    struct coxi_mutex turn; /* guards what turns work on; comes before all others */
    struct coxi_mutex lock; /* leaf */
    struct coxi_mail *first COXI_GUARDED_BY(lock);
    struct coxi_mail *last COXI_GUARDED_BY(lock);
};

static _Thread_local bool in_turn;
static _Thread_local uint64_t begun_ns; /* of a trace */

static void enter_turn(void)
{
    in_turn = true;
    begun_ns = coxi_trace_begin();
}

static void begin_turn(struct coxi_loop *loop) COXI_ACQUIRES(loop->turn)
{
    coxi_lock(&loop->turn);
    enter_turn();
}

static void end_turn(struct coxi_loop *loop) COXI_RELEASES(loop->turn)
{
    coxi_trace_end(begun_ns, &(struct coxi_trace_of){.kind = COXI_TRACE_TURN});
    in_turn = false;
    coxi_unlock(&loop->turn);
}

void coxi_loop_assert_may_wait(void)
{
    assert(!in_turn);
}

static void run_mail(struct coxi_loop *loop)
{
    coxi_lock(&loop->lock);
    struct coxi_mail *mail = loop->first;
    loop->first = loop->last = NULL;
    coxi_unlock(&loop->lock);
    while (mail != NULL) {
        struct coxi_mail *next = mail->next;
        mail->run(mail);
        mail = next;
    }
}

/* Does the work of a turn: runs the mail, then calls on_wake. Call it with the turn's
 * lock. */
static void run_turn(struct coxi_loop *loop)
{
    run_mail(loop);
    if (atomic_exchange(&loop->wake, false) && loop->on_wake != NULL) {
        loop->on_wake(loop->arg);
    }
}

static void on_async(uv_async_t *async)
{
    struct coxi_loop *loop = async->data;
    bool stop = atomic_load(&loop->stop);
    begin_turn(loop);
    run_turn(loop);
    end_turn(loop);
    if (stop) {
        uv_stop(&loop->uv);
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct coxi_loop *loop = timer->data;
    begin_turn(loop);
    loop->on_tick(loop->arg);
    end_turn(loop);
}

int coxi_loop_new(int tick_ms, void (*on_tick)(void *arg), void *arg,
                  struct coxi_loop **ret)
{
    struct coxi_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL) {
        return coxi_error_memory("an event loop");
    }
    int failed = uv_loop_init(&loop->uv);
    if (failed != 0) {
        free(loop);
        return coxi_error(COX_ENOMEM, "cannot start an event loop: %s",
                          uv_strerror(failed));
    }
    coxi_mutex_init(&loop->turn);
    coxi_mutex_init(&loop->lock);
    loop->arg = arg;
    loop->on_tick = on_tick;
    loop->async.data = loop;
    loop->tick.data = loop;
    failed = uv_async_init(&loop->uv, &loop->async, on_async);
    if (failed == 0 && tick_ms > 0) {
        (void)uv_timer_init(&loop->uv, &loop->tick);
        (void)uv_timer_start(&loop->tick, on_timer, (uint64_t)tick_ms,
                             (uint64_t)tick_ms);
    }
    if (failed != 0) {
        (void)uv_loop_close(&loop->uv);
        free(loop);
        return coxi_error(COX_ENOMEM, "cannot start an event loop: %s",
                          uv_strerror(failed));
    }
    *ret = loop;
    return 0;
}

/* Puts mail into the mailbox. True: the mailbox was empty before. */
static bool put(struct coxi_loop *loop, struct coxi_mail *mail)
    COXI_REQUIRES(loop->lock)
{
    mail->next = NULL;
    bool first = loop->first == NULL;
    if (first) {
        loop->first = mail;
    } else {
        loop->last->next = mail;
    }
    loop->last = mail;
    return first;
}

/* Sends the wake-up under the lock. Mail is taken out only under that lock, and mail
 * may end the loop, so the posting thread is done with the loop before its mail
 * runs. */
void coxi_loop_post(struct coxi_loop *loop, struct coxi_mail *mail)
{
    coxi_lock(&loop->lock);
    /* The thread that posts into an empty mailbox makes sure that a turn runs. */
    if (put(loop, mail)) {
        (void)uv_async_send(&loop->async);
    }
    coxi_unlock(&loop->lock);
}

void coxi_loop_put(struct coxi_loop *loop, struct coxi_mail *mail)
{
    coxi_lock(&loop->lock);
    (void)put(loop, mail);
    coxi_unlock(&loop->lock);
}

void coxi_loop_run_posted(struct coxi_loop *loop)
{
    if (!coxi_trylock(&loop->turn)) {
        (void)uv_async_send(&loop->async);
        return;
    }
    enter_turn();
    run_turn(loop);
    end_turn(loop);
}

void coxi_loop_on_wake(struct coxi_loop *loop, void (*on_wake)(void *arg))
{
    loop->on_wake = on_wake;
}

void coxi_loop_wake(struct coxi_loop *loop)
{
    if (!atomic_exchange(&loop->wake, true)) {
        (void)uv_async_send(&loop->async);
    }
}

/* Takes a turn on the calling thread: runs `mail` (or NULL) and on_wake. False: the
 * loop is not asleep. */
static bool turn_here(struct coxi_loop *loop, struct coxi_mail *mail)
{
    if (!coxi_trylock(&loop->turn)) {
        return false;
    }
    enter_turn();
    if (mail != NULL) {
        mail->run(mail);
        atomic_store(&loop->wake, false); /* on_wake is called next */
    }
    loop->on_wake(loop->arg);
    bool again = atomic_load(&loop->wake);
    end_turn(loop);
    if (again) {
        /* another turn was asked for, but nobody has woken the loop for it */
        (void)uv_async_send(&loop->async);
    }
    return true;
}

void coxi_loop_wake_here(struct coxi_loop *loop)
{
    if (!turn_here(loop, NULL)) {
        coxi_loop_wake(loop);
    }
}

void coxi_loop_run_here(struct coxi_loop *loop, struct coxi_mail *mail)
{
    if (!turn_here(loop, mail)) {
        coxi_loop_post(loop, mail);
    }
}

void coxi_loop_wake_after_mail(struct coxi_loop *loop)
{
    atomic_store(&loop->wake, true); /* on_async checks it after the mail has run */
}

static void on_uv_signal(uv_signal_t *handle, int signum)
{
    struct coxi_loop *loop = handle->data;
    for (int i = 0; i < loop->n_signals; i++) {
        if (&loop->signals[i].handle == handle) {
            loop->signals[i].on_signal(loop->arg, signum);
        }
    }
}

int coxi_loop_on_signal(struct coxi_loop *loop, int signum,
                        void (*on_signal)(void *arg, int signum))
{
    if (loop->n_signals == SIGNALS_MAX) {
        return coxi_error(COX_ELIMIT, "too many signals on one loop");
    }
    struct loop_signal *slot = &loop->signals[loop->n_signals];
    slot->on_signal = on_signal;
    slot->handle.data = loop;
    int failed = uv_signal_init(&loop->uv, &slot->handle);
    if (failed == 0) {
        loop->n_signals++;
        failed = uv_signal_start(&slot->handle, on_uv_signal, signum);
    }
    return failed == 0 ? 0
                       : coxi_error(COX_EINVAL, "cannot handle signal %d: %s", signum,
                                    uv_strerror(failed));
}

void coxi_loop_run(struct coxi_loop *loop)
{
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    atomic_store(&loop->stop, false); /* it may run again, until it is stopped again */
}

static void *loop_thread(void *arg)
{
    coxi_loop_run(arg);
    return NULL;
}

int coxi_loop_start(struct coxi_loop *loop, const char *thread_name)
{
    int r = coxi_thread_start(&loop->thread, thread_name, loop_thread, loop);
    loop->threaded = r == 0;
    return r;
}

void coxi_loop_stop(struct coxi_loop *loop)
{
    atomic_store(&loop->stop, true);
    (void)uv_async_send(&loop->async);
}

uv_loop_t *coxi_loop_uv(struct coxi_loop *loop)
{
    return &loop->uv;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void coxi_loop_join(struct coxi_loop *loop)
{
    if (loop->threaded) {
        (void)pthread_join(loop->thread, NULL);
        loop->threaded = false;
    }
    run_mail(loop);
}

void coxi_loop_free(struct coxi_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    coxi_loop_join(loop);
    uv_walk(&loop->uv, close_handle, NULL);
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop->uv);
    coxi_mutex_fini(&loop->lock);
    coxi_mutex_fini(&loop->turn);
    free(loop);
}
