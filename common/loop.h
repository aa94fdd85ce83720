/*
 * An event loop over libuv: a mailbox that any thread posts to, a tick, signals. A loop
 * runs on one thread, its own (coxi_loop_start) or the caller's (coxi_loop_run); what
 * it calls runs there, and libuv handles may be added to coxi_loop_uv(loop) from there
 * only.
 */
#ifndef COXI_COMMON_LOOP_H
#define COXI_COMMON_LOOP_H

#include <uv.h>

struct coxi_loop;

/* Something to run on the loop; embed it. It is out of the mailbox when it runs. */
struct coxi_mail {
    struct coxi_mail *next;
    void (*run)(struct coxi_mail *mail);
};

/* A loop that calls `on_tick(arg)` every tick_ms (0: never). */
int coxi_loop_new(int tick_ms, void (*on_tick)(void *arg), void *arg,
                  struct coxi_loop **ret);

/* Posts; mail runs in the order of posting. Any thread. Never fails, never blocks. */
void coxi_loop_post(struct coxi_loop *loop, struct coxi_mail *mail);

/* The same for mail that need not run behind what was posted before: while the loop sleeps the
 * calling thread runs it, as in coxi_loop_wake_here. */
void coxi_loop_run_here(struct coxi_loop *loop, struct coxi_mail *mail);

/* Wakes the loop to call `on_wake(arg)` once, however often it is asked. Any thread. */
void coxi_loop_on_wake(struct coxi_loop *loop, void (*on_wake)(void *arg));
void coxi_loop_wake(struct coxi_loop *loop);

/*
 * The same, but while the loop sleeps the calling thread calls `on_wake` itself: that saves
 * the time that another thread takes to wake up. For an `on_wake` that does not care which
 * thread it is on; it never runs on two, nor beside mail or a tick.
 */
void coxi_loop_wake_here(struct coxi_loop *loop);

/* The same from mail that is being run: cheaper. */
void coxi_loop_wake_after_mail(struct coxi_loop *loop);

/*
 * Turns (ticks, mail and wakes) wait for no peer and no thread that may wait for one: what
 * waits for longer than a lock says so by this. Fails (assert) within a turn.
 */
void coxi_loop_assert_may_wait(void);

/* Calls `on_signal(arg, signum)` on the loop. Before it runs, or on it. */
int coxi_loop_on_signal(struct coxi_loop *loop, int signum,
                        void (*on_signal)(void *arg, int signum));

int coxi_loop_start(struct coxi_loop *loop, const char *thread_name);
void coxi_loop_run(struct coxi_loop *loop); /* until coxi_loop_stop */
void coxi_loop_stop(
    struct coxi_loop *loop); /* any thread; what is posted before runs */
uv_loop_t *coxi_loop_uv(struct coxi_loop *loop);

/*
 * Waits for the loop's own thread, which has been told to stop, and runs what was
 * posted meanwhile. Others may go on to post and wake, for nothing, until the loop is
 * freed. Not on the loop.
 */
void coxi_loop_join(struct coxi_loop *loop);

/* Joins, closes every handle. Takes NULL. Not on the loop. */
void coxi_loop_free(struct coxi_loop *loop);

#endif
