/*
 * The part of libuv that the project's event loop uses (loop.c is the real one), on
 * virtual time: wake-ups, timers, signals. A uv_loop_t's `data` points to the
 * simulator's state of the loop.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <uv.h>

#include "tests/sim/sched.h"
#include "tests/sim/uv.h"

enum { TIMERS_MAX = 16, SIGNALS_MAX = 4 };

struct loop {
    uv_async_t *async;
    bool async_is_due;
    bool stop;
    uv_timer_t *timers[TIMERS_MAX]; /* that run */
    size_t n_timers;
    uv_signal_t *signals[SIGNALS_MAX];
    size_t n_signals;
    int signum; /* the signal that has come; 0: none */
    const struct sim_proc *proc;
    struct sim_fiber *waits;
    struct loop *next;
};

static struct loop *loops;

void sim_uv_begin(void)
{
    loops = NULL;
}

static struct loop *of(uv_loop_t *uv)
{
    return uv->data;
}

static void wake(struct loop *loop)
{
    (void)sim_wake(loop->waits);
}

int __wrap_uv_loop_init(uv_loop_t *uv)
{
    struct loop *loop = calloc(1, sizeof(*loop));
    loop->proc = sim_self_proc();
    loop->next = loops;
    loops = loop;
    uv->data = loop;
    return 0;
}

int __wrap_uv_loop_close(uv_loop_t *uv)
{
    struct loop **at = &loops;
    while (*at != of(uv)) {
        at = &(*at)->next;
    }
    *at = of(uv)->next;
    free(uv->data);
    return 0;
}

int __wrap_uv_async_init(uv_loop_t *uv, uv_async_t *async, uv_async_cb run)
{
    async->loop = uv;
    async->async_cb = run;
    of(uv)->async = async;
    return 0;
}

int __wrap_uv_async_send(uv_async_t *async)
{
    struct loop *loop = of(async->loop);
    loop->async_is_due = true;
    wake(loop);
    return 0;
}

/* ---- timers */

int __wrap_uv_timer_init(uv_loop_t *uv, uv_timer_t *timer)
{
    timer->loop = uv;
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *timer)
{
    struct loop *loop = of(timer->loop);
    for (size_t i = 0; i < loop->n_timers; i++) {
        if (loop->timers[i] == timer) {
            loop->timers[i] = loop->timers[--loop->n_timers];
            return 0;
        }
    }
    return 0;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb run, uint64_t timeout_ms,
                          uint64_t repeat_ms)
{
    struct loop *loop = of(timer->loop);
    (void)__wrap_uv_timer_stop(timer);
    if (loop->n_timers == TIMERS_MAX) {
        abort();
    }
    timer->timer_cb = run;
    timer->timeout = sim_now() + timeout_ms * SIM_MS;
    timer->repeat = repeat_ms;
    loop->timers[loop->n_timers++] = timer;
    return 0;
}

void __wrap_uv_update_time(uv_loop_t *uv)
{
    (void)uv;
}

static uint64_t next_time(const struct loop *loop)
{
    uint64_t next = SIM_NEVER;
    for (size_t i = 0; i < loop->n_timers; i++) {
        next = loop->timers[i]->timeout < next ? loop->timers[i]->timeout : next;
    }
    return next;
}

static void run_timers(struct loop *loop)
{
    uint64_t now = sim_now();
    for (size_t i = 0; i < loop->n_timers; i++) {
        uv_timer_t *timer = loop->timers[i];
        if (timer->timeout > now) {
            continue;
        }
        if (timer->repeat > 0) {
            timer->timeout = now + timer->repeat * SIM_MS;
        } else {
            (void)__wrap_uv_timer_stop(timer);
            i--;
        }
        timer->timer_cb(timer);
    }
}

/* ---- signals */

int __wrap_uv_signal_init(uv_loop_t *uv, uv_signal_t *handle)
{
    handle->loop = uv;
    return 0;
}

int __wrap_uv_signal_start(uv_signal_t *handle, uv_signal_cb run, int signum)
{
    struct loop *loop = of(handle->loop);
    handle->signal_cb = run;
    handle->signum = signum;
    if (loop->n_signals == SIGNALS_MAX) {
        abort();
    }
    loop->signals[loop->n_signals++] = handle;
    return 0;
}

void sim_uv_signal(const struct sim_proc *proc, int signum)
{
    for (struct loop *loop = loops; loop != NULL; loop = loop->next) {
        if (loop->proc == proc && loop->n_signals > 0) {
            loop->signum = signum;
            wake(loop);
        }
    }
}

static void run_signals(struct loop *loop)
{
    int signum = loop->signum;
    loop->signum = 0;
    for (size_t i = 0; i < loop->n_signals && signum != 0; i++) {
        if (loop->signals[i]->signum == signum) {
            loop->signals[i]->signal_cb(loop->signals[i], signum);
        }
    }
}

/* ---- the loop */

int __wrap_uv_run(uv_loop_t *uv, uv_run_mode mode)
{
    struct loop *loop = of(uv);
    (void)mode;
    loop->stop = loop->async == NULL; /* all is closed: there is nothing to wait for */
    while (!loop->stop) {
        if (!loop->async_is_due && loop->signum == 0 && next_time(loop) > sim_now()) {
            loop->waits = sim_self();
            (void)sim_wait(NULL, next_time(loop), "something for its loop");
            loop->waits = NULL;
        }
        if (loop->async_is_due) {
            loop->async_is_due = false;
            loop->async->async_cb(loop->async);
        }
        run_signals(loop);
        run_timers(loop);
    }
    return 0;
}

void __wrap_uv_stop(uv_loop_t *uv)
{
    of(uv)->stop = true;
}

void __wrap_uv_walk(uv_loop_t *uv, uv_walk_cb visit, void *arg)
{
    (void)visit;
    (void)arg;
    of(uv)->async = NULL; /* all of its handles are closed */
    of(uv)->n_timers = of(uv)->n_signals = 0;
}

int __wrap_uv_is_closing(const uv_handle_t *handle)
{
    (void)handle;
    return 0;
}

/* Only timers are closed by this function. */
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    (void)__wrap_uv_timer_stop((uv_timer_t *)handle);
    if (closed != NULL) {
        closed(handle);
    }
}
