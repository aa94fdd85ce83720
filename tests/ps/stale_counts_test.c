/* Histograms in which many threads count how stale gradients are. */
#include <pthread.h>

#include "common/histogram.h"
#include "ps/staleness.h"
#include "tests/common/histogram.h"
#include "tests/test.h"

enum { THREADS = 4, EACH = 2000 };

struct counter {
    pthread_t thread;
    struct coxi_stale_workers *workers;
};

static void *count(void *arg)
{
    const struct counter *counter = arg;
    for (uint64_t i = 0; i < EACH; i++) {
        coxi_stale_count(
            coxi_stale_of(counter->workers, coxi_maybe_of((uint32_t)i % 40)), i,
            i % 2 == 0);
    }
    return NULL;
}

TEST(staleness_is_counted_by_many_threads)
{
    struct counter counters[THREADS];
    struct coxi_stale_workers *workers;
    struct coxi_histogram h = {.sum = 0};
    assert_code(0, coxi_stale_workers_new(&workers));
    for (uint32_t i = 0; i < THREADS; i++) {
        counters[i].workers = workers;
        assert_int_equal(
            0, pthread_create(&counters[i].thread, NULL, count, &counters[i]));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(counters[i].thread, NULL));
    }
    coxi_stale_workers_add_all(workers, &h);
    assert_int_equal(THREADS * EACH, histogram_total(&h));
    assert_int_equal(THREADS * EACH / 2, h.dropped);
    assert_int_equal(THREADS * (EACH * (EACH - 1) / 2), h.sum);
    assert_int_equal(EACH - 1, h.max);
    coxi_stale_workers_free(workers);
}

TEST(histogram_has_a_bucket_for_each_power_of_two)
{
    assert_int_equal(0, coxi_histogram_bucket(0));
    assert_int_equal(1, coxi_histogram_bucket(1));
    assert_int_equal(2, coxi_histogram_bucket(2));
    assert_int_equal(2, coxi_histogram_bucket(3));
    assert_int_equal(3, coxi_histogram_bucket(4));
    assert_int_equal(COXI_STALE_BUCKETS - 2, coxi_histogram_bucket((1U << 30) - 1));
    assert_int_equal(COXI_STALE_BUCKETS - 1, coxi_histogram_bucket(1U << 30));
    assert_int_equal(COXI_STALE_BUCKETS - 1, coxi_histogram_bucket(UINT64_MAX));
}
