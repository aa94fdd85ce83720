/* How requests are timed, with times that are made up. */
#include "ps/request_times.h"

#include "tests/test.h"

enum { TOOK_NS = 2000 };

struct stream {
    struct coxi_request_times times;
    uint64_t now_ns;
    uint64_t n_timed;
};

/* `n` requests come, each `every_ns` after the one before. */
static void come(struct stream *stream, uint64_t n, uint64_t every_ns)
{
    for (uint64_t i = 0; i < n; i++) {
        stream->now_ns += every_ns;
        unsigned stands_for = coxi_request_stands_for(&stream->times);
        if (stands_for > 0) {
            coxi_request_took(&stream->times, stands_for, stream->now_ns,
                              stream->now_ns + TOOK_NS);
            stream->n_timed++;
        }
    }
}

static uint64_t counted(const struct stream *stream)
{
    uint64_t n = 0;
    for (size_t i = 0; i < COXI_LATENCY_BUCKETS; i++) {
        n += atomic_load(&stream->times.took.counts[i]);
    }
    return n;
}

TEST(each_of_slow_requests_is_timed)
{
    enum { N = 100 };
    static struct stream stream;
    come(&stream, N, COXI_REQUESTS_FAST_NS);
    assert_int_equal(N, stream.n_timed);
    assert_int_equal(N, counted(&stream));
    assert_int_equal(N * TOOK_NS / 1000, atomic_load(&stream.times.took.sum_us));
}

TEST(one_in_thirteen_of_fast_requests_counts_for_all)
{
    enum { N = 100000, SLOW = 50 };
    static struct stream stream;
    come(&stream, N, COXI_REQUESTS_FAST_NS - 1);
    assert_true(stream.n_timed <= N / COXI_REQUESTS_TIMED + 2);
    assert_true(counted(&stream) <= N);
    assert_true(counted(&stream) > N - COXI_REQUESTS_TIMED);
    assert_int_equal(counted(&stream) * TOOK_NS / 1000,
                     atomic_load(&stream.times.took.sum_us));
    /* when they become slow, none is lost, and soon each is timed again */
    uint64_t before = stream.n_timed;
    come(&stream, SLOW, 1000000);
    assert_int_equal(N + SLOW, counted(&stream));
    assert_true(stream.n_timed - before > SLOW - COXI_REQUESTS_TIMED);
}

/* A step that pulls twice: both its pulls are timed. */
TEST(fast_requests_that_alternate_are_timed_in_turns)
{
    enum { N = 10000, KINDS = 2 };
    static struct coxi_request_times times;
    uint64_t n[KINDS] = {0};
    for (uint64_t i = 0; i < N; i++) {
        unsigned stands_for = coxi_request_stands_for(&times);
        if (stands_for > 0) {
            coxi_request_took(&times, stands_for, i * 1000, i * 1000 + TOOK_NS);
            n[i % KINDS]++;
        }
    }
    assert_true(n[0] > N / COXI_REQUESTS_TIMED / 3);
    assert_true(n[1] > N / COXI_REQUESTS_TIMED / 3);
}

/* Connections that share one of these: each begins before the others' have ended. */
TEST(requests_of_several_threads_count_once)
{
    enum { N = 5000, THREADS = 4, EVERY_NS = 100 };
    static struct stream stream;
    uint64_t came = 0;
    for (int i = 0; i < N; i++) {
        unsigned stand_for[THREADS];
        for (int k = 0; k < THREADS; k++, came++) {
            stand_for[k] = coxi_request_stands_for(&stream.times);
        }
        for (int k = 0; k < THREADS; k++) {
            if (stand_for[k] > 0) {
                uint64_t begun_ns = (came + (uint64_t)k) * EVERY_NS;
                coxi_request_took(&stream.times, stand_for[k], begun_ns,
                                  begun_ns + TOOK_NS);
            }
        }
    }
    assert_true(counted(&stream) <= came);
    assert_true(counted(&stream) + COXI_REQUESTS_TIMED > came);
}
