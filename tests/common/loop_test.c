#include "common/loop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"
#include "tests/test.h"

/* Counts events of another thread; a test waits for them at most 8 s. */
struct gate {
    struct coxi_mutex lock; /* guards n */
    pthread_cond_t cond;
    int n;
};

static void gate_init(struct gate *gate)
{
    coxi_mutex_init(&gate->lock);
    coxi_cond_init(&gate->cond);
    gate->n = 0;
}

static void gate_pass(struct gate *gate)
{
    coxi_lock(&gate->lock);
    gate->n++;
    (void)pthread_cond_broadcast(&gate->cond);
    coxi_unlock(&gate->lock);
}

/* Waits until the gate has been passed `n` times; false: not in time. */
static bool gate_wait(struct gate *gate, int n)
{
    struct timespec deadline = coxi_deadline(8000);
    coxi_lock(&gate->lock);
    while (gate->n < n && coxi_wait_until(&gate->cond, &gate->lock, &deadline)) {
    }
    bool passed = gate->n >= n;
    coxi_unlock(&gate->lock);
    return passed;
}

static void gate_fini(struct gate *gate)
{
    (void)pthread_cond_destroy(&gate->cond);
    coxi_mutex_fini(&gate->lock);
}

/* ---- mail */

enum { N_THREADS = 4, N_EACH = 5000 };

struct letter {
    struct coxi_mail mail;
    struct office *office;
    int thread;
    int number;
};

struct office {
    struct coxi_loop *loop;
    struct gate all;
    pthread_t runs_on;
    int next[N_THREADS];
    int n_run;
    bool wrong;
    struct letter letters[N_THREADS][N_EACH];
};

static void run_letter(struct coxi_mail *mail)
{
    struct letter *letter = (struct letter *)mail;
    struct office *office = letter->office;
    if (office->n_run++ == 0) {
        office->runs_on = pthread_self();
    }
    if (!pthread_equal(office->runs_on, pthread_self()) ||
        office->next[letter->thread]++ != letter->number) {
        office->wrong = true;
    }
    if (office->n_run == N_THREADS * N_EACH) {
        gate_pass(&office->all);
    }
}

static void *post_all(void *arg)
{
    struct letter *letters = arg;
    for (int i = 0; i < N_EACH; i++) {
        coxi_loop_post(letters[i].office->loop, &letters[i].mail);
    }
    return NULL;
}

TEST(mail_of_many_threads_runs_in_order_on_the_loop_s_thread)
{
    struct office *office = calloc(1, sizeof(*office));
    pthread_t threads[N_THREADS];
    assert_non_null(office);
    gate_init(&office->all);
    assert_code(0, coxi_loop_new(0, NULL, NULL, &office->loop));
    assert_code(0, coxi_loop_start(office->loop, "loop"));
    for (int t = 0; t < N_THREADS; t++) {
        for (int i = 0; i < N_EACH; i++) {
            office->letters[t][i] = (struct letter){{NULL, run_letter}, office, t, i};
        }
        assert_int_equal(
            0, pthread_create(&threads[t], NULL, post_all, office->letters[t]));
    }
    for (int t = 0; t < N_THREADS; t++) {
        assert_int_equal(0, pthread_join(threads[t], NULL));
    }
    assert_true(gate_wait(&office->all, 1));
    coxi_loop_stop(office->loop);
    coxi_loop_free(office->loop);
    assert_false(office->wrong);
    assert_int_equal(N_THREADS * N_EACH, office->n_run);
    assert_false(pthread_equal(office->runs_on, pthread_self()));
    gate_fini(&office->all);
    free(office);
}

TEST(what_is_posted_before_stop_runs)
{
    struct office *office = calloc(1, sizeof(*office));
    assert_non_null(office);
    gate_init(&office->all);
    assert_code(0, coxi_loop_new(0, NULL, NULL, &office->loop));
    for (int i = 0; i < N_EACH; i++) {
        office->letters[0][i] = (struct letter){{NULL, run_letter}, office, 0, i};
        coxi_loop_post(office->loop, &office->letters[0][i].mail);
    }
    coxi_loop_stop(office->loop);
    coxi_loop_run(office->loop);
    assert_int_equal(N_EACH, office->n_run);
    assert_false(office->wrong);
    assert_true(pthread_equal(office->runs_on, pthread_self()));
    coxi_loop_free(office->loop);
    gate_fini(&office->all);
    free(office);
}

struct echo {
    struct coxi_mail mail;
    struct coxi_loop *loop;
    int n;
};

static void run_echo(struct coxi_mail *mail)
{
    struct echo *echo = (struct echo *)mail;
    if (++echo->n < 1000) {
        coxi_loop_post(echo->loop, mail);
    } else {
        coxi_loop_stop(echo->loop);
    }
}

TEST(mail_may_post_itself_again)
{
    struct echo echo = {.mail.run = run_echo};
    assert_code(0, coxi_loop_new(0, NULL, NULL, &echo.loop));
    coxi_loop_post(echo.loop, &echo.mail);
    coxi_loop_run(echo.loop);
    assert_int_equal(1000, echo.n);
    coxi_loop_free(echo.loop);
}

TEST(loop_that_was_stopped_runs_again_until_it_is_stopped_again)
{
    struct echo echo = {.mail.run = run_echo};
    assert_code(0, coxi_loop_new(0, NULL, NULL, &echo.loop));
    coxi_loop_stop(echo.loop);
    coxi_loop_run(echo.loop);
    coxi_loop_post(echo.loop, &echo.mail);
    coxi_loop_run(echo.loop);
    assert_int_equal(1000, echo.n);
    coxi_loop_free(echo.loop);
}

/* ---- wake */

struct sleeper {
    struct coxi_loop *loop;
    struct coxi_mail mail;
    struct gate busy;
    struct gate go;
    struct gate woken;
    atomic_int n_wakes;
};

static void on_wake(void *arg)
{
    struct sleeper *sleeper = arg;
    atomic_fetch_add(&sleeper->n_wakes, 1);
    gate_pass(&sleeper->woken);
}

static void keep_busy(struct coxi_mail *mail)
{
    struct sleeper *sleeper =
        (struct sleeper *)((char *)mail - offsetof(struct sleeper, mail));
    gate_pass(&sleeper->busy);
    (void)gate_wait(&sleeper->go, 1);
}

static void sleeper_init(struct sleeper *sleeper)
{
    gate_init(&sleeper->busy);
    gate_init(&sleeper->go);
    gate_init(&sleeper->woken);
    atomic_init(&sleeper->n_wakes, 0);
    assert_code(0, coxi_loop_new(0, NULL, sleeper, &sleeper->loop));
    coxi_loop_on_wake(sleeper->loop, on_wake);
}

static void sleeper_fini(struct sleeper *sleeper)
{
    coxi_loop_free(sleeper->loop);
    gate_fini(&sleeper->busy);
    gate_fini(&sleeper->go);
    gate_fini(&sleeper->woken);
}

TEST(many_wakes_make_one_call)
{
    struct sleeper s;
    sleeper_init(&s);
    s.mail = (struct coxi_mail){NULL, keep_busy};
    assert_code(0, coxi_loop_start(s.loop, "loop"));
    coxi_loop_post(s.loop, &s.mail);
    assert_true(gate_wait(&s.busy, 1));
    for (int i = 0; i < 1000; i++) {
        coxi_loop_wake(s.loop);
    }
    gate_pass(&s.go);
    assert_true(gate_wait(&s.woken, 1));
    /* When this mail has run, the loop has handled the thousand. */
    coxi_loop_post(s.loop, &s.mail);
    assert_true(gate_wait(&s.busy, 2));
    assert_int_equal(1, atomic_load(&s.n_wakes));
    coxi_loop_stop(s.loop);
    sleeper_fini(&s);
    assert_int_equal(1, atomic_load(&s.n_wakes));
}

TEST(a_wake_after_a_call_makes_another)
{
    struct sleeper s;
    sleeper_init(&s);
    assert_code(0, coxi_loop_start(s.loop, "loop"));
    for (int i = 1; i <= 200; i++) {
        coxi_loop_wake(s.loop);
        assert_true(gate_wait(&s.woken, i));
    }
    coxi_loop_stop(s.loop);
    sleeper_fini(&s);
    assert_int_equal(200, atomic_load(&s.n_wakes));
}

TEST(a_wake_here_is_a_call_on_this_thread_while_the_loop_sleeps)
{
    struct sleeper s;
    sleeper_init(&s);
    /* the loop does not run yet, so this thread may call */
    for (int i = 1; i <= 3; i++) {
        coxi_loop_wake_here(s.loop);
        assert_int_equal(i, atomic_load(&s.n_wakes));
    }
    coxi_loop_stop(s.loop);
    sleeper_fini(&s);
}

TEST(a_wake_here_waits_for_no_turn_and_is_not_lost_in_one)
{
    struct sleeper s;
    sleeper_init(&s);
    s.mail = (struct coxi_mail){NULL, keep_busy};
    assert_code(0, coxi_loop_start(s.loop, "loop"));
    coxi_loop_post(s.loop, &s.mail);
    assert_true(gate_wait(&s.busy, 1)); /* the loop is in a turn, until told to go on */
    coxi_loop_wake_here(s.loop);
    assert_int_equal(0, atomic_load(&s.n_wakes));
    gate_pass(&s.go);
    assert_true(gate_wait(&s.woken, 1));
    coxi_loop_stop(s.loop);
    sleeper_fini(&s);
    assert_int_equal(1, atomic_load(&s.n_wakes));
}

static void note_wakes(struct coxi_mail *mail)
{
    struct sleeper *s =
        (struct sleeper *)((char *)mail - offsetof(struct sleeper, mail));
    assert_int_equal(0, atomic_load(&s->n_wakes));
    coxi_loop_wake_after_mail(s->loop);
}

TEST(mail_runs_here_while_the_loop_sleeps_and_a_wake_follows)
{
    struct sleeper s;
    sleeper_init(&s);
    s.mail = (struct coxi_mail){NULL, note_wakes};
    coxi_loop_run_here(s.loop,
                       &s.mail); /* the loop does not run yet, so this thread may */
    assert_int_equal(1, atomic_load(&s.n_wakes));
    coxi_loop_stop(s.loop);
    coxi_loop_run(s.loop);
    assert_int_equal(1, atomic_load(&s.n_wakes));
    sleeper_fini(&s);
}

static struct sleeper *wakes_later;
static int seen_by_mail[3];

static void wake_later(struct coxi_mail *mail)
{
    static int n;
    (void)mail;
    seen_by_mail[n++ % 3] = atomic_load(&wakes_later->n_wakes);
    coxi_loop_wake_after_mail(wakes_later->loop);
}

TEST(a_wake_from_mail_comes_once_behind_all_mail)
{
    struct sleeper s;
    struct coxi_mail mail[3];
    sleeper_init(&s);
    wakes_later = &s;
    for (int i = 0; i < 3; i++) {
        mail[i] = (struct coxi_mail){NULL, wake_later};
        coxi_loop_post(s.loop, &mail[i]);
    }
    coxi_loop_stop(s.loop);
    coxi_loop_run(s.loop);
    assert_int_equal(1, atomic_load(&s.n_wakes));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(0, seen_by_mail[i]);
    }
    sleeper_fini(&s);
}

/* Mail that notes its place in the order in which mails run. */
struct numbered {
    struct coxi_mail mail;
    struct sleeper *sleeper;
    int *n_run;
    int ran_as;
};

static void run_numbered(struct coxi_mail *mail)
{
    struct numbered *numbered = (struct numbered *)mail;
    numbered->ran_as = (*numbered->n_run)++;
    coxi_loop_wake_after_mail(numbered->sleeper->loop);
}

TEST(put_mail_runs_here_behind_what_was_posted)
{
    struct sleeper s;
    struct numbered mail[3];
    int n_run = 0;
    sleeper_init(&s);
    for (int i = 0; i < 3; i++) {
        mail[i] = (struct numbered){{NULL, run_numbered}, &s, &n_run, -1};
    }
    coxi_loop_post(s.loop, &mail[0].mail);
    coxi_loop_put(s.loop, &mail[1].mail);
    coxi_loop_put(s.loop, &mail[2].mail);
    assert_int_equal(0, n_run);
    coxi_loop_run_posted(s.loop); /* the loop does not run yet, so this thread may */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(i, mail[i].ran_as);
    }
    assert_int_equal(1, atomic_load(&s.n_wakes));
    coxi_loop_stop(s.loop);
    coxi_loop_run(s.loop);
    assert_int_equal(3, n_run);
    assert_int_equal(1, atomic_load(&s.n_wakes));
    sleeper_fini(&s);
}

TEST(put_mail_waits_for_no_turn_and_is_not_lost_in_one)
{
    struct sleeper s;
    int n_run = 0;
    sleeper_init(&s);
    struct numbered mail = {{NULL, run_numbered}, &s, &n_run, -1};
    s.mail = (struct coxi_mail){NULL, keep_busy};
    assert_code(0, coxi_loop_start(s.loop, "loop"));
    coxi_loop_post(s.loop, &s.mail);
    assert_true(gate_wait(&s.busy, 1)); /* the loop is in a turn, until told to go on */
    coxi_loop_put(s.loop, &mail.mail);
    coxi_loop_run_posted(s.loop);
    assert_int_equal(-1, mail.ran_as);
    gate_pass(&s.go);
    assert_true(gate_wait(&s.woken, 1));
    coxi_loop_stop(s.loop);
    sleeper_fini(&s);
    assert_int_equal(0, mail.ran_as);
}

/* ---- tick and signals */

struct clockwork {
    struct coxi_loop *loop;
    int n_ticks;
    uint64_t last_ms;
    int n_signals[65];
    pthread_t runs_on;
};

static void on_tick(void *arg)
{
    struct clockwork *clockwork = arg;
    clockwork->runs_on = pthread_self();
    clockwork->last_ms = coxi_now_ms();
    if (++clockwork->n_ticks == 5) {
        coxi_loop_stop(clockwork->loop);
    }
}

TEST(ticks_come_again_and_again_on_the_loop)
{
    enum { TICK_MS = 4 };
    struct clockwork clockwork = {0};
    uint64_t start_ms = coxi_now_ms();
    assert_code(0, coxi_loop_new(TICK_MS, on_tick, &clockwork, &clockwork.loop));
    coxi_loop_run(clockwork.loop);
    assert_true(clockwork.n_ticks >= 5);
    assert_true(pthread_equal(pthread_self(), clockwork.runs_on));
    /* libuv counts whole milliseconds: each tick may come up to 1 ms early */
    assert_true(clockwork.last_ms - start_ms >= (uint64_t)5 * (TICK_MS - 1) - 1);
    coxi_loop_free(clockwork.loop);
}

static void on_signal(void *arg, int signum)
{
    struct clockwork *clockwork = arg;
    clockwork->runs_on = pthread_self();
    clockwork->n_signals[signum]++;
    if (signum == SIGUSR2) {
        coxi_loop_stop(clockwork->loop);
    }
}

TEST(a_signal_is_handled_on_the_loop)
{
    struct clockwork clockwork = {0};
    assert_code(0, coxi_loop_new(0, NULL, &clockwork, &clockwork.loop));
    assert_code(0, coxi_loop_on_signal(clockwork.loop, SIGUSR1, on_signal));
    assert_code(0, coxi_loop_on_signal(clockwork.loop, SIGUSR2, on_signal));
    assert_code(0, coxi_loop_start(clockwork.loop, "loop"));
    assert_int_equal(0, kill(getpid(), SIGUSR1));
    assert_int_equal(0, kill(getpid(), SIGUSR2));
    coxi_loop_free(clockwork.loop); /* waits for the stop */
    assert_int_equal(1, clockwork.n_signals[SIGUSR1]);
    assert_int_equal(1, clockwork.n_signals[SIGUSR2]);
    assert_false(pthread_equal(pthread_self(), clockwork.runs_on));
}

TEST(a_loop_has_few_signals_and_no_impossible_ones)
{
    struct clockwork clockwork = {0};
    assert_code(0, coxi_loop_new(0, NULL, &clockwork, &clockwork.loop));
    assert_code(COX_EINVAL, coxi_loop_on_signal(clockwork.loop, 0, on_signal));
    assert_error_names("signal 0");
    assert_code(0, coxi_loop_on_signal(clockwork.loop, SIGUSR1, on_signal));
    assert_code(0, coxi_loop_on_signal(clockwork.loop, SIGUSR2, on_signal));
    assert_code(0, coxi_loop_on_signal(clockwork.loop, SIGHUP, on_signal));
    assert_code(COX_ELIMIT, coxi_loop_on_signal(clockwork.loop, SIGALRM, on_signal));
    coxi_loop_free(clockwork.loop);
}

/* ---- the moment between mail and its wake-up */

/* A thread that posts, and stays in its wake-up for a while. */
struct slow_post {
    struct coxi_mail mail; /* must be the first member */
    struct coxi_loop *loop;
    struct gate wakes; /* passed in the wake-up */
    struct gate ran;
    bool ran_meanwhile;
};

/* the post whose thread is in its wake-up; or NULL */
static struct slow_post *_Atomic slow_post;

int __real_uv_async_send(uv_async_t *async);
int __wrap_uv_async_send(uv_async_t *async);

int __wrap_uv_async_send(uv_async_t *async)
{
    struct slow_post *slow = atomic_exchange(&slow_post, NULL);
    if (slow != NULL) {
        struct timespec until = coxi_deadline(100);
        gate_pass(&slow->wakes);
        coxi_lock(&slow->ran.lock);
        while (slow->ran.n == 0 &&
               coxi_wait_until(&slow->ran.cond, &slow->ran.lock, &until)) {
        }
        slow->ran_meanwhile = slow->ran.n > 0;
        coxi_unlock(&slow->ran.lock);
    }
    return __real_uv_async_send(async);
}

static void run_slow(struct coxi_mail *mail)
{
    gate_pass(&((struct slow_post *)mail)->ran);
}

static void *post_slowly(void *arg)
{
    struct slow_post *slow = arg;
    atomic_store(&slow_post, slow);
    coxi_loop_post(slow->loop, &slow->mail);
    return NULL;
}

TEST(no_mail_runs_while_its_poster_uses_the_loop)
{
    struct slow_post slow = {.mail.run = run_slow};
    pthread_t thread;
    gate_init(&slow.wakes);
    gate_init(&slow.ran);
    assert_code(0, coxi_loop_new(0, NULL, NULL, &slow.loop));
    assert_code(0, coxi_thread_start(&thread, "post", post_slowly, &slow));
    assert_true(gate_wait(&slow.wakes, 1));
    /* waits until the poster has left the loop, because the mail could free it */
    coxi_loop_run_posted(slow.loop);
    assert_true(gate_wait(&slow.ran, 1));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_false(slow.ran_meanwhile);
    coxi_loop_free(slow.loop);
    gate_fini(&slow.wakes);
    gate_fini(&slow.ran);
}

TEST(a_loop_that_never_ran_is_freed)
{
    struct clockwork clockwork = {0};
    assert_code(0, coxi_loop_new(1, on_tick, &clockwork, &clockwork.loop));
    coxi_loop_free(clockwork.loop);
    assert_int_equal(0, clockwork.n_ticks);
    coxi_loop_free(NULL);
}
