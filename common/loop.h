/*
 * An event loop over libuv, with a mailbox to which any thread may post, a tick, and
 * signals. A loop runs on one thread, its own (coxi_loop_start) or the caller's
 * (coxi_loop_run). Ticks and signals run on that thread, and mail and on_wake as well,
 * unless another thread takes a turn (coxi_loop_run_posted, _run_here, _wake_here). If
 * these functions are called for a loop, its mail and on_wake must not use
 * coxi_loop_uv(loop), which is for the loop's thread only.
 */
#ifndef COXI_COMMON_LOOP_H
#define COXI_COMMON_LOOP_H

#include <uv.h>

struct coxi_loop;

/* Something to run on the loop; embed it. It is taken out of the mailbox before it
 * runs. */
struct coxi_mail {
    struct coxi_mail *next;
    void (*run)(struct coxi_mail *mail);
};

/* A loop that calls `on_tick(arg)` every tick_ms (0: never). */
int coxi_loop_new(int tick_ms, void (*on_tick)(void *arg), void *arg,
                  struct coxi_loop **ret);

/* Posts mail. Mail runs in the order of posting, and not before the posting thread has
 * finished using the loop. Any thread. Never fails, never blocks. */
void coxi_loop_post(struct coxi_loop *loop, struct coxi_mail *mail);

/*
 * Posting in two halves, for a thread that has several mails: coxi_loop_put posts one
 * without waking the loop; after the last one, coxi_loop_run_posted makes all posted
 * mail run, in order. While the loop sleeps, the calling thread takes that turn, as in
 * coxi_loop_wake_here.
 */
void coxi_loop_put(struct coxi_loop *loop, struct coxi_mail *mail);
void coxi_loop_run_posted(struct coxi_loop *loop);

/* Posts mail that may run before earlier mail: while the loop sleeps, the calling
 * thread runs it, as in coxi_loop_wake_here. */
void coxi_loop_run_here(struct coxi_loop *loop, struct coxi_mail *mail);

/* coxi_loop_wake makes the loop call `on_wake(arg)`, once for all calls since its last
 * turn. Any thread. */
void coxi_loop_on_wake(struct coxi_loop *loop, void (*on_wake)(void *arg));
void coxi_loop_wake(struct coxi_loop *loop);

/*
 * Like coxi_loop_wake, but while the loop sleeps, the calling thread calls `on_wake`
 * itself. That saves the time of waking another thread. Only for an `on_wake` that may
 * run on any thread. It never runs on two threads at once, nor beside mail or a tick.
 */
void coxi_loop_wake_here(struct coxi_loop *loop);

/* Like coxi_loop_wake, but cheaper: only for mail that is being run. */
void coxi_loop_wake_after_mail(struct coxi_loop *loop);

/*
 * Fails (assert) within a turn: a tick, mail or a wake. Turns must not wait for a peer,
 * nor for a thread that may wait for one. Functions that wait for more than a lock call
 * this.
 */
void coxi_loop_assert_may_wait(void);

/* From now on calls `on_signal(arg, signum)` on the loop for each such signal. Call
 * before the loop runs, or on the loop. */
int coxi_loop_on_signal(struct coxi_loop *loop, int signum,
                        void (*on_signal)(void *arg, int signum));

int coxi_loop_start(struct coxi_loop *loop, const char *thread_name);
/* Returns after coxi_loop_stop; then the loop may be run again. */
void coxi_loop_run(struct coxi_loop *loop);
void coxi_loop_stop(
    struct coxi_loop *loop); /* any thread; mail posted before still runs */
uv_loop_t *coxi_loop_uv(struct coxi_loop *loop);

/*
 * Waits for the loop's own thread after coxi_loop_stop, and runs mail that was posted
 * meanwhile. Other threads may still post and wake, without effect, until the loop is
 * freed. Not on the loop.
 */
void coxi_loop_join(struct coxi_loop *loop);

/* Joins, closes every handle. Takes NULL. Not on the loop. */
void coxi_loop_free(struct coxi_loop *loop);

#endif
