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
