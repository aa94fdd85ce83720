#include "common/sync.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"

struct visit {
    pthread_barrier_t named;
    char name[64];
    sigset_t blocked;
    void *arg;
};

/* Looks at its own thread once coxi_thread_start has returned. */
static void *visit(void *arg)
{
    struct visit *v = arg;
    (void)pthread_barrier_wait(&v->named);
    (void)pthread_getname_np(pthread_self(), v->name, sizeof(v->name));
    (void)pthread_sigmask(SIG_SETMASK, NULL, &v->blocked);
    return v;
}

static void start_and_visit(const char *name, struct visit *v)
{
    pthread_t thread;
    void *returned = NULL;
    assert_int_equal(0, pthread_barrier_init(&v->named, NULL, 2));
    assert_int_equal(0, coxi_thread_start(&thread, name, visit, v));
    (void)pthread_barrier_wait(&v->named);
    assert_int_equal(0, pthread_join(thread, &returned));
    assert_ptr_equal(v, returned);
    (void)pthread_barrier_destroy(&v->named);
}

TEST(a_thread_has_its_name)
{
    struct visit v = {0};
    start_and_visit("cox-loop", &v);
    assert_string_equal("cox-loop", v.name);
}

TEST(a_long_thread_name_is_cut)
{
    struct visit v = {0};
    start_and_visit("coxswain-callbacks-of-a-client", &v);
    assert_string_equal("coxswain-callba", v.name);
}

TEST(signals_are_left_to_the_program_s_own_threads)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGUSR1};
    struct visit v = {0};
    sigset_t before;
    sigset_t after;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &before);
    start_and_visit("signals", &v);
    (void)pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        assert_int_equal(1, sigismember(&v.blocked, signals[i]));
        assert_int_equal(sigismember(&before, signals[i]),
                         sigismember(&after, signals[i]));
    }
}

TEST(a_wait_ends_at_its_monotonic_deadline)
{
    struct coxi_mutex lock = COXI_MUTEX_INIT;
    pthread_cond_t cond;
    coxi_cond_init(&cond);
    uint64_t start_ns = coxi_now_ns();
    struct timespec deadline = coxi_deadline(30);
    coxi_lock(&lock);
    while (coxi_wait_until(&cond, &lock, &deadline)) {
    }
    coxi_unlock(&lock);
    uint64_t waited_ns = coxi_now_ns() - start_ns;
    assert_true(waited_ns >= 30000000u);
    assert_true(waited_ns < 5000000000u); /* a deadline of another clock is far off */
    (void)pthread_cond_destroy(&cond);
}

static int64_t ms_away(struct timespec t)
{
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 - (int64_t)coxi_now_ms();
}

TEST(deadlines_are_as_far_off_as_asked_and_well_formed)
{
    static const int timeouts_ms[] = {0, 1, 999, 1000, 1001, 1999, 60000, INT_MAX};
    for (size_t i = 0; i < sizeof(timeouts_ms) / sizeof(*timeouts_ms); i++) {
        for (int again = 0; again < 100; again++) {
            struct timespec t = coxi_deadline(timeouts_ms[i]);
            assert_true(t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
            int64_t away = ms_away(t);
            assert_true(away <= timeouts_ms[i]);
            assert_true(away >= (int64_t)timeouts_ms[i] - 2000);
        }
    }
}

TEST(a_negative_timeout_never_passes)
{
    struct timespec t = coxi_deadline(-1);
    assert_true(ms_away(t) > (int64_t)INT_MAX * 10);
    t = coxi_deadline(INT_MIN);
    assert_true(ms_away(t) > (int64_t)INT_MAX * 10);
}

TEST(time_goes_forward)
{
    uint64_t last = coxi_now_ns();
    for (int i = 0; i < 10000; i++) {
        uint64_t now = coxi_now_ns();
        assert_true(now >= last);
        last = now;
    }
    uint64_t ms = coxi_now_ms();
    assert_true(ms >= last / 1000000 && ms < last / 1000000 + 60000);
}

/* ---- patience */

TEST(a_wait_says_so_after_10_s_and_then_ever_more_seldom)
{
    struct coxi_patience patience = {0};
    uint64_t said[8];
    size_t n = 0;
    for (uint64_t now_ms = 1000; now_ms <= 101000; now_ms += 100) {
        if (coxi_patience_ends(&patience, now_ms)) {
            said[n++] = coxi_patience_seconds(&patience, now_ms);
        }
    }
    assert_int_equal(4, n);
    assert_int_equal(10, said[0]);
    assert_int_equal(20, said[1]);
    assert_int_equal(40, said[2]);
    assert_int_equal(80, said[3]);
}

TEST(a_wait_that_has_not_begun_has_lasted_no_time)
{
    struct coxi_patience patience = {0};
    assert_int_equal(0, coxi_patience_seconds(&patience, 5000));
}

TEST(a_wait_that_nobody_ends_ends_with_patience)
{
    struct coxi_mutex lock = COXI_MUTEX_INIT;
    struct coxi_patience patience = {0};
    pthread_cond_t never;
    unsigned before = atomic_exchange(&coxi_patience_ms, 30);
    coxi_cond_init(&never);
    uint64_t start_ms = coxi_now_ms();
    uint64_t latest_ms = start_ms + 8000;
    coxi_lock(&lock);
    bool ended = false;
    while (!ended && coxi_now_ms() < latest_ms) { /* the wait may end spuriously */
        ended = coxi_patience_wait(&patience, &never, &lock);
    }
    coxi_unlock(&lock);
    assert_true(ended);
    assert_true(coxi_patience_has_ended(&patience));
    assert_true(coxi_now_ms() - start_ms >= 30);
    (void)pthread_cond_destroy(&never);
    atomic_store(&coxi_patience_ms, before);
}

/* ---- polls before a sleep */

static const struct coxi_linger_limits limits = {1000, 4000, true};

struct looked {
    int n;
    int found_at; /* 0: never */
};

static bool look(void *arg)
{
    struct looked *looked = arg;
    looked->n++;
    return looked->found_at != 0 && looked->n >= looked->found_at;
}

TEST(linger_finds_what_is_there_with_one_look)
{
    struct coxi_linger linger = {0};
    struct looked looked = {.found_at = 1};
    assert_true(coxi_linger(&linger, &limits, look, &looked));
    assert_int_equal(1, looked.n);
}

/* The second poll succeeds even on a slow machine. */
TEST(linger_waits_for_what_comes_soon)
{
    struct coxi_linger linger = {0};
    const struct coxi_linger_limits patient = {UINT32_MAX, UINT32_MAX, true};
    struct looked looked = {.found_at = 3};
    assert_true(coxi_linger(&linger, &patient, look, &looked));
    assert_int_equal(3, looked.n);
}

TEST(linger_looks_longer_while_that_helps_but_not_without_end)
{
    struct coxi_linger linger = {0};
    for (int i = 0; i < 10; i++) {
        struct looked looked = {.found_at = 1};
        assert_true(coxi_linger(&linger, &limits, look, &looked));
        assert_true(linger.ns <= limits.most_ns);
    }
    assert_int_equal(limits.most_ns, linger.ns);
}

TEST(linger_that_finds_nothing_looks_once_in_64_times)
{
    struct coxi_linger linger = {0};
    struct looked looked = {0};
    int n_looks = 0;
    while (linger.n < 1 || linger.ns > 0) { /* polls that find nothing grow shorter */
        assert_false(coxi_linger(&linger, &limits, look, &looked));
    }
    for (int i = 0; i < 128; i++) {
        int before = looked.n;
        linger.ns = 0; /* as after several looks that found nothing */
        assert_false(coxi_linger(&linger, &limits, look, &looked));
        n_looks += looked.n > before;
    }
    assert_int_equal(2, n_looks);
}

static void *tell_stack(void *arg)
{
    pthread_attr_t attr;
    assert_int_equal(0, pthread_getattr_np(pthread_self(), &attr));
    assert_int_equal(0, pthread_attr_getstacksize(&attr, arg));
    (void)pthread_attr_destroy(&attr);
    return NULL;
}

TEST(a_small_thread_has_a_small_stack)
{
    pthread_t thread;
    size_t bytes = 0;
    assert_code(0, coxi_thread_start_small(&thread, "small", tell_stack, &bytes));
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_in_range(bytes, 64 << 10, COXI_STACK_SMALL + (64 << 10));
}
