/* See paced.h. One thread asks, another one receives. */
#include "bench/paced.h"

#include <errno.h>
#include <time.h>

#include "common/sync.h"

enum { SAMPLES_MAX = 200000 };

static struct {
    double start; /* request i is due i / PACED_PER_SECOND later */
    size_t n;
    size_t n_answered; /* used by the receiving thread */
    double late_us[SAMPLES_MAX];
} paced;

/* Waits for a time of the monotonic clock, in seconds. */
static void await(double moment)
{
    struct timespec t = {.tv_sec = (time_t)moment};
    t.tv_nsec = (long)((moment - (double)t.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

static double due(size_t i)
{
    return paced.start + (double)i / PACED_PER_SECOND;
}

void paced_begin(double seconds)
{
    paced.n = (size_t)(seconds * PACED_PER_SECOND);
    paced.n = paced.n < SAMPLES_MAX ? paced.n : SAMPLES_MAX;
    paced.n_answered = 0;
    paced.start = bench_now();
}

void paced_ask(void (*ask)(void *arg), void *arg)
{
    for (size_t i = 0; i < paced.n; i++) {
        await(due(i));
        ask(arg);
    }
}

void paced_answered(void *arg)
{
    (void)arg;
    size_t i = paced.n_answered++;
    paced.late_us[i] = (bench_now() - due(i)) * 1e6;
}

bool paced_awaits(void)
{
    return paced.n_answered < paced.n;
}

static void ask_raw(void *arg)
{
    raw_ask(arg);
}

static void *receive_raw(void *arg)
{
    while (paced_awaits()) {
        raw_await(arg);
        paced_answered(NULL);
    }
    return NULL;
}

void paced_ask_raw(struct raw *raw)
{
    pthread_t receiver;
    bench_check(coxi_thread_start(&receiver, "receive", receive_raw, raw), "thread");
    paced_ask(ask_raw, raw);
    (void)pthread_join(receiver, NULL);
}

struct bench_sample paced_end(void)
{
    struct bench_sample sample = {.p50_us = bench_quantile(paced.late_us, paced.n, 0.5),
                                  .p99_us =
                                      bench_quantile(paced.late_us, paced.n, 0.99)};
    sample.value = sample.p99_us;
    return sample;
}
