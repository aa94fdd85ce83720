#include "common/trace.h"

#include <pthread.h>
#include <stdatomic.h>

#include "common/error.h"
#include "tests/test.h"

enum {
    RUN = 7,
    OTHER = 8,
    MOST = 2 * COXI_TRACE_RING_SPANS,
    WRITERS = 3,
    MANY = 50000
};

static struct coxi_trace_span spans[MOST];

/* Drains; returns how many spans came, and adds what was lost to *lost. */
static size_t drain(uint64_t run, uint64_t *lost)
{
    size_t n;
    uint64_t dropped;
    bool more;
    assert_code(0, coxi_trace_drain(run, spans, MOST, &n, &dropped, &more));
    *lost += dropped;
    return n;
}

static void note(uint64_t number, uint64_t run)
{
    coxi_trace_note(coxi_now_ns(), coxi_now_ns(),
                    &(struct coxi_trace_of){
                        .kind = COXI_TRACE_STEP, .run = run, .closure = number});
}

TEST(without_a_trace_nothing_is_noted)
{
    uint64_t lost = 0;
    assert_int_equal(0, coxi_trace_begin());
    assert_int_equal(0, coxi_trace_flow(0));
    note(1, 0);
    assert_int_equal(0, drain(RUN, &lost));
    assert_true(coxi_trace_is_on());
    assert_true(coxi_trace_begin() > 0);
    uint64_t flow = coxi_trace_flow(1);
    assert_true(flow != 0 && flow != coxi_trace_flow(1));
    coxi_trace_stop(RUN);
    assert_false(coxi_trace_is_on());
    assert_int_equal(0, lost);
}

TEST(a_span_is_told_once_to_the_run_that_it_belongs_to)
{
    struct coxi_trace_thread threads[COXI_TRACE_RINGS];
    uint64_t lost = 0;
    assert_int_equal(0, drain(RUN, &lost));
    note(1, RUN);
    note(2, OTHER);
    note(3, 0);
    assert_int_equal(2, drain(RUN, &lost));
    assert_int_equal(1, spans[0].closure);
    assert_int_equal(3, spans[1].closure);
    assert_int_equal(COXI_TRACE_STEP, spans[0].kind);
    assert_int_equal(0, drain(RUN, &lost));
    assert_int_equal(1, coxi_trace_threads(threads));
    assert_int_equal(threads[0].id, spans[0].thread);
    coxi_trace_stop(RUN);
}

TEST(only_one_run_traces_a_process_at_a_time)
{
    size_t n;
    uint64_t lost = 0;
    bool more;
    assert_int_equal(0, drain(RUN, &lost));
    assert_code(COX_EBUSY, coxi_trace_drain(OTHER, spans, MOST, &n, &lost, &more));
    coxi_trace_stop(OTHER); /* it has none */
    assert_true(coxi_trace_is_on());
    note(1, 0);
    coxi_trace_stop(RUN);
    assert_int_equal(0, drain(OTHER, &lost)); /* that span is of the older trace */
    coxi_trace_stop(OTHER);
}

TEST(a_full_ring_loses_spans_until_it_has_room_again_and_counts_them)
{
    enum { N = 3 * COXI_TRACE_RING_SPANS };
    uint64_t lost = 0;
    uint64_t room_ns = coxi_now_ns();
    (void)drain(RUN, &lost);
    for (uint64_t i = 1; i <= N; i++) {
        note(i, RUN);
    }
    assert_int_equal(0, coxi_trace_begin()); /* is lost, too */
    assert_int_equal(COXI_TRACE_RING_SPANS, drain(RUN, &lost));
    assert_int_equal(N - COXI_TRACE_RING_SPANS + 1, lost);
    for (size_t i = 0; i < COXI_TRACE_RING_SPANS; i++) {
        assert_int_equal(i + 1, spans[i].closure);
    }
    while (coxi_trace_begin() == 0) { /* it rests */
        assert_int_equal(0, drain(RUN, &lost));
    }
    assert_true(coxi_now_ns() - room_ns >= (uint64_t)COXI_TRACE_REST_MS * 1000000);
    note(1, RUN);
    assert_int_equal(1, drain(RUN, &lost));
    coxi_trace_stop(RUN);
}

TEST(a_ring_that_was_not_full_has_room_for_as_much_again)
{
    enum { N = COXI_TRACE_RING_SPANS - 1, TIMES = 5 };
    uint64_t lost = 0;
    (void)drain(RUN, &lost);
    for (int k = 0; k < TIMES; k++) {
        for (uint64_t i = 1; i <= N; i++) {
            note(i, RUN);
        }
        assert_int_equal(N, drain(RUN, &lost));
        assert_int_equal(0, lost);
    }
    coxi_trace_stop(RUN);
}

static void *fill_a_ring(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i <= COXI_TRACE_RING_SPANS; i++) {
        note(1, RUN);
    }
    return NULL;
}

static void *note_one(void *arg)
{
    (void)arg;
    note(2, RUN);
    return NULL;
}

static void run_thread(void *(*function)(void *))
{
    pthread_t thread;
    assert_int_equal(0, pthread_create(&thread, NULL, function, NULL));
    assert_int_equal(0, pthread_join(thread, NULL));
}

TEST(a_thread_that_gets_the_ring_of_another_one_need_not_rest)
{
    uint64_t lost = 0;
    (void)drain(RUN, &lost);
    run_thread(fill_a_ring);
    assert_int_equal(COXI_TRACE_RING_SPANS, drain(RUN, &lost));
    run_thread(note_one);
    assert_int_equal(1, drain(RUN, &lost));
    assert_int_equal(2, spans[0].closure);
    coxi_trace_stop(RUN);
}

TEST(a_ring_that_was_not_read_rests_no_longer_for_that)
{
    uint64_t lost = 0;
    size_t n;
    bool more;
    (void)drain(RUN, &lost);
    (void)fill_a_ring(NULL);
    uint64_t rested_ns =
        coxi_now_ns() + (uint64_t)COXI_TRACE_REST_MS * 1000000; /* at the latest */
    while (coxi_now_ns() < rested_ns) {
    }
    assert_code(0, coxi_trace_drain(RUN, spans, 0, &n, &lost, &more)); /* nothing */
    assert_true(more);
    assert_int_equal(COXI_TRACE_RING_SPANS, drain(RUN, &lost));
    assert_true(coxi_trace_begin() > 0);
    coxi_trace_stop(RUN);
}

/* ---- while threads write */

static atomic_int n_writing;

static void *write_many(void *arg)
{
    uint64_t first = *(uint64_t *)arg * MANY;
    for (uint64_t i = 1; i <= MANY; i++) {
        note(first + i, RUN);
    }
    (void)atomic_fetch_sub(&n_writing, 1);
    return NULL;
}

TEST(spans_that_are_read_while_threads_write_are_whole_and_in_order)
{
    pthread_t threads[WRITERS];
    uint64_t numbers[WRITERS];
    uint64_t last[WRITERS] = {0};
    uint64_t lost = 0;
    uint64_t n = 0;
    (void)drain(RUN, &lost);
    atomic_store(&n_writing, WRITERS);
    for (size_t i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        assert_int_equal(0, pthread_create(&threads[i], NULL, write_many, &numbers[i]));
    }
    for (bool ends = false; !ends;) {
        ends = atomic_load(&n_writing) == 0;
        size_t got = drain(RUN, &lost);
        n += got;
        for (size_t i = 0; i < got; i++) {
            uint64_t writer = (spans[i].closure - 1) / MANY;
            assert_true(writer < WRITERS && spans[i].closure > last[writer]);
            assert_int_equal(COXI_TRACE_STEP, spans[i].kind);
            last[writer] = spans[i].closure;
        }
    }
    for (size_t i = 0; i < WRITERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    n += drain(RUN, &lost);
    assert_int_equal((uint64_t)WRITERS * MANY, n + lost);
    coxi_trace_stop(RUN);
}
