/* How many closures a worker gets in advance: enough for its round trips, too. */
#include "coordinator/closures/seat.h"

#include "common/clock.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

TEST(a_slot_has_two_milliseconds_of_work_at_hand_within_a_host)
{
    assert_int_equal(3, coxi_ahead(1000, 0));
    assert_int_equal(3, coxi_ahead(1000, 700));
    assert_int_equal(21, coxi_ahead(100, 200));
    assert_int_equal(1, coxi_ahead(1000000, 600));
}

TEST(a_slot_has_what_is_on_its_ways_besides_the_work_at_hand)
{
    /* 10 ms each way, to the client and to the ps, are 40 ms in all: 40 closures of
     * 1 ms are under way. */
    assert_int_equal(52, coxi_ahead(1000, 40000));
    assert_int_equal(27, coxi_ahead(1000, 20000));
    /* of closures that take 1 s, one in advance is enough */
    assert_int_equal(1, coxi_ahead(1000000, 40000));
}

TEST(a_slot_has_a_few_at_hand_before_run_times_are_known_and_never_too_many)
{
    assert_int_equal(5, coxi_ahead(0, 0));
    assert_int_equal(5, coxi_ahead(0, 40000));
    assert_int_equal(1024, coxi_ahead(1, 40000));
    /* the time on the way counts as 0.5 s at most */
    assert_int_equal(627, coxi_ahead(1000, 1e9));
}

TEST(the_way_to_a_worker_is_what_its_echoes_took_less_what_it_held_them)
{
    struct coxi_ways ways = {0};
    struct coxi_done done = {.echo_us = coxi_now_us() - 30000, .held_us = 10000};
    coxi_ways_note(&ways, &done);
    double before = coxi_ways_us(&ways);
    assert_true(before >= 20000 && before < 10e6);
    coxi_ways_note(&ways, &(struct coxi_done){.commit_us = 7});
    assert_true(coxi_ways_us(&ways) == before + 7);
    done = (struct coxi_done){.echo_us =
                                  /* a time in the future is not from our clock */
                              coxi_now_us() + 1000000};
    coxi_ways_note(&ways, &done);
    assert_true(coxi_ways_us(&ways) == before);
}

/* The minimum counts, because a long round trip may only mean that the peer was
 * busy. */
TEST(the_least_of_the_last_seconds_counts_and_no_older_one)
{
    struct coxi_least least = {0};
    coxi_least_note(&least, 5000000, 50);
    coxi_least_note(&least, 5100000, 900);
    assert_true(coxi_least(&least) == 50);
    coxi_least_note(&least, 6100001, 800);
    assert_true(coxi_least(&least) == 50);
    coxi_least_note(&least, 7200002, 700);
    assert_true(coxi_least(&least) == 700);
}

static void answer(struct caller *worker, const struct coxi_closure_head *head)
{
    struct coxi_done_head done = {
        .closure = head->closure, .attempt = head->attempt, .run_us = 10000};
    struct coxi_message message = {.kind = COXI_DONE};
    message.done =
        (struct coxi_done){.closures = &done, .n_closures = 1, .commit_us = 400000};
    caller_send(worker, &message, NULL, 0);
}

TEST(a_worker_far_from_its_ps_gets_more_closures_of_the_same_run_time)
{
    enum { N = 200, FIRST = 6, HEADS_MAX = 256 };
    static struct coxi_closure_head heads[HEADS_MAX];
    struct yard yard;
    yard_open(&yard, NULL);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_wait_ready(&yard, 1);
    yard_count(&yard, N);
    size_t n = 0;
    while (n < FIRST) { /* as many as a worker gets before its speed is known */
        n += fake_worker_expect(anna, heads + n);
    }
    assert_int_equal(FIRST, n);
    size_t n_answered = 0;
    while (n < 30 && n_answered < n) { /* the average needs a few results */
        answer(anna, &heads[n_answered++]);
        n += fake_worker_expect(anna, heads + n);
    }
    assert_true(n - n_answered >= 20);
    caller_close(anna);
    (void)cox_close(yard.crew.c, 0);
    program_kill(&yard.ps, 9);
    (void)program_wait(&yard.ps);
    cox_cluster_free(yard.cluster);
}

static void schedule_at(struct yard *yard, int32_t priority, uint32_t only,
                        struct cox_future **ret)
{
    struct cox_call call = COX_CALL_INIT;
    call.priority = priority;
    call.only_worker = only;
    assert_code(0, cox_schedule(yard->crew.c, crew_function(&yard->crew, "nothing"),
                                &call, ret));
}

TEST(closures_of_a_higher_priority_precede_those_for_one_worker_only)
{
    enum { N = 4 };
    static const struct {
        int32_t priority;
        uint32_t only;
    } calls[N] = {{COX_PRIORITY_MIN, 1}, {0, 0}, {COX_PRIORITY_MAX, 0}, {0, 1}};
    static const int order[N] = {2, 3, 1, 0};
    struct yard yard;
    struct cox_future *futures[N];
    struct coxi_closure_head heads[N];
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = N; /* all fit in the first dispatch */
    yard_open(&yard, &options);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    for (int i = 0; i < N; i++) { /* before it is ready */
        schedule_at(&yard, calls[i].priority, calls[i].only, &futures[i]);
    }
    fake_worker_accept(anna, 0);
    assert_int_equal(N, fake_worker_expect(anna, heads));
    for (int i = 0; i < N; i++) {
        assert_int_equal(heads[0].closure - 2 + (uint64_t)order[i], heads[i].closure);
        fake_worker_answer(anna, &heads[i], 0);
    }
    for (int i = 0; i < N; i++) {
        assert_code(0, cox_future_wait(futures[i], 8000));
        cox_future_free(futures[i]);
    }
    caller_close(anna);
    yard_close(&yard);
}
