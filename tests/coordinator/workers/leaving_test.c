/* Workers that report that they leave, and do. */
#include <pthread.h>
#include <signal.h>

#include "net/message.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/test.h"

enum { COUNT = 4000 };

static bool is_queued(void *arg)
{
    return yard_stats(arg).queued == 1;
}

TEST(worker_that_leaves_gets_nothing_more_and_is_no_loss)
{
    struct yard yard;
    struct coxi_closure_head head[8];
    struct cox_future *futures[2];
    struct coxi_message leaving = {.kind = COXI_LEAVING};
    yard_open(&yard, NULL);
    struct cox_function *nothing = crew_function(&yard.crew, "nothing");
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_wait_ready(&yard, 1);
    for (int i = 0; i < 2; i++) {
        assert_code(0, cox_schedule(yard.crew.c, nothing, NULL, &futures[i]));
        assert_int_equal(1, fake_worker_expect(anna, head + i));
    }
    caller_send(anna, &leaving, NULL, 0);
    yard_wait_ready(&yard, 0);

    /* The worker finishes one closure and hands the other one back, which then
     * waits. */
    fake_worker_answer(anna, &head[0], 0);
    assert_code(0, cox_future_wait(futures[0], 8000));
    cox_future_free(futures[0]);
    fake_worker_answer(anna, &head[1], COX_ECANCELLED);
    coxi_test_until(is_queued, &yard, "the return of a closure");
    caller_expect_end(anna); /* no closure is sent before the end */
    caller_close(anna);

    struct caller *berta = fake_worker(&yard, "berta", 8, 1);
    fake_worker_accept(berta, 0);
    assert_int_equal(1, fake_worker_expect(berta, head));
    fake_worker_answer(berta, head, 0);
    assert_code(0, cox_future_wait(futures[1], 8000));
    cox_future_free(futures[1]);
    struct cox_stats stats = yard_stats(&yard);
    assert_int_equal(2, stats.workers);
    assert_int_equal(0, stats.workers_lost);
    caller_close(berta);
    yard_close(&yard);
}

/* Expects closures until there are `n` of them. */
static void expect_closures(struct caller *caller, struct coxi_closure_head *ret,
                            size_t n)
{
    size_t have = 0;
    while (have < n) {
        have += fake_worker_expect(caller, ret + have);
    }
    assert_int_equal(n, have);
}

/* A closure that is handed back took no time. If that counted as a very short step, the
 * worker would get a thousand closures in advance. */
TEST(closures_that_are_handed_back_do_not_count_as_short_ones)
{
    enum { MANY = 200, AT_HAND = 6 };
    struct yard yard;
    struct program berta;
    struct coxi_closure_head heads[MANY + AT_HAND];
    struct coxi_message leaving = {.kind = COXI_LEAVING};
    yard_open(&yard, NULL);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_count(&yard, MANY);
    for (int round = 0; round < 3; round++) {
        expect_closures(anna, heads, AT_HAND);
        if (round == 2) {
            caller_send(anna, &leaving, NULL, 0);
        }
        fake_worker_answers(anna, heads, AT_HAND, COX_ECANCELLED);
    }
    caller_expect_end(anna); /* it was sent no more than it was to have */
    caller_close(anna);
    yard_worker(&yard, &berta, "berta");
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(MANY, crew_read(&yard.crew, yard.counter));
    assert_int_equal(0, yard_stats(&yard).put_back);
    yard_close(&yard);
    yard_kill(&berta);
}

/* Closures that the worker has not answered run again, and no loss is counted. */
TEST(worker_that_has_left_may_return_under_its_name)
{
    struct yard yard;
    struct coxi_closure_head head[8];
    struct cox_future *future;
    struct coxi_message leaving = {.kind = COXI_LEAVING};
    yard_open(&yard, NULL);
    struct caller *anna = NULL;
    assert_code(0, cox_schedule(yard.crew.c, crew_function(&yard.crew, "nothing"), NULL,
                                &future));
    /* More times than a closure may lose its worker. */
    for (uint32_t i = 1; i <= 20; i++) {
        anna = fake_worker(&yard, "anna", i, 0);
        fake_worker_accept(anna, 0);
        assert_int_equal(1, fake_worker_expect(anna, head));
        assert_int_equal(i, head->attempt);
        caller_send(anna, &leaving, NULL, 0);
        yard_wait_ready(&yard, 0);
        caller_close(anna);
        coxi_test_until(is_queued, &yard, "the return of a closure");
    }
    anna = fake_worker(&yard, "anna", 21, 0);
    fake_worker_accept(anna, 0);
    assert_int_equal(1, fake_worker_expect(anna, head));
    fake_worker_answer(anna, head, 0);
    assert_code(0, cox_future_wait(future, 8000));
    cox_future_free(future);
    assert_int_equal(0, yard_stats(&yard).workers_lost);
    assert_int_equal(1, yard_stats(&yard).workers);
    caller_close(anna);
    yard_close(&yard);
}

static void *load(void *arg)
{
    struct yard *yard = arg;
    struct cox_module *module;
    assert_code(0, cox_module_load(yard->crew.c, coxi_test_module("counter"), &module));
    return NULL;
}

/* The leaving worker has not answered for the module, and has a closure to finish. */
TEST(module_does_not_wait_for_a_worker_that_leaves)
{
    struct yard yard;
    struct coxi_closure_head head[8];
    pthread_t loading;
    struct coxi_message leaving = {.kind = COXI_LEAVING};
    yard_open(&yard, NULL);
    struct caller *anna = fake_worker(&yard, "anna", 7, 0);
    fake_worker_accept(anna, 0);
    yard_count(&yard, 1);
    assert_int_equal(1, fake_worker_expect(anna, head));
    assert_int_equal(0, pthread_create(&loading, NULL, load, &yard));
    (void)caller_expect(anna, COXI_MODULE);
    caller_send(anna, &leaving, NULL, 0);
    assert_int_equal(0, pthread_join(loading, NULL));
    fake_worker_accept(anna, 1); /* too late, but not a breach of the protocol */
    fake_worker_answer(anna, head, 0);
    caller_expect_end(anna);
    caller_close(anna);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(0, yard_stats(&yard).workers_lost);
    yard_close(&yard);
}

/* ---- workers that are told to end */

struct done {
    struct yard *yard;
    uint64_t n;
};

static bool are_done(void *arg)
{
    struct done *done = arg;
    return yard_stats(done->yard).done >= done->n;
}

static void wait_done(struct yard *yard, uint64_t n)
{
    coxi_test_until(are_done, &(struct done){yard, n}, "the end of closures");
}

TEST(worker_that_is_told_to_end_finishes_its_step_and_hands_back_the_rest)
{
    struct yard yard;
    struct program workers[2];
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = 64;
    options.speculate = -1;
    yard_open(&yard, &options);
    yard_worker(&yard, &workers[0], "anna");
    crew_hold(&hold, &yard.crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    /* the worker has all of them, queued after the one that runs */
    yard_count(&yard, 50);
    yard_worker(&yard, &workers[1], "berta");
    yard_wait_ready(&yard, 2);
    assert_int_equal(0, yard_stats(&yard).done);
    program_kill(&workers[0], SIGTERM);
    wait_done(&yard, 50);
    assert_int_equal(1, yard_stats(&yard).workers_ready);
    assert_int_equal(1, yard_stats(&yard).in_flight);
    crew_hold_release(&hold);
    assert_code(0, cox_join(yard.crew.c, 8000));
    assert_int_equal(128 + SIGTERM, program_wait(&workers[0]));
    struct cox_stats stats = yard_stats(&yard);
    assert_int_equal(51, crew_read(&yard.crew, yard.counter));
    assert_int_equal(51, stats.done);
    assert_int_equal(0, stats.workers_lost);
    assert_int_equal(0, stats.put_back);
    assert_int_equal(0, stats.commits_duplicate);
    yard_close(&yard);
    yard_kill(&workers[1]);
}

TEST(workers_that_end_and_return_amidst_many_closures_lose_and_repeat_none)
{
    enum { ROUNDS = 4 };
    struct yard yard;
    struct program workers[2];
    static const char *const names[] = {"anna", "berta"};
    yard_open(&yard, NULL);
    for (int i = 0; i < 2; i++) {
        yard_worker(&yard, &workers[i], names[i]);
        yard_wait_ready(&yard, (uint64_t)i + 1);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int i = round % 2;
        uint64_t before = yard_stats(&yard).done;
        yard_count(&yard, COUNT);
        wait_done(&yard, before + 50);
        program_kill(&workers[i], SIGTERM);
        assert_int_equal(128 + SIGTERM, program_wait(&workers[i]));
        yard_worker(&yard, &workers[i], names[i]);
        yard_wait_ready(&yard, 2);
    }
    assert_code(0, cox_join(yard.crew.c, 30000));
    struct cox_stats stats = yard_stats(&yard);
    assert_int_equal(ROUNDS * COUNT, crew_read(&yard.crew, yard.counter));
    assert_int_equal(ROUNDS * COUNT, stats.done);
    assert_int_equal(ROUNDS * COUNT, stats.commits);
    assert_int_equal(2, stats.workers);
    assert_int_equal(0, stats.workers_lost);
    assert_int_equal(0, stats.put_back);
    assert_int_equal(0, stats.commits_duplicate);
    yard_close(&yard);
    yard_kill(&workers[0]);
    yard_kill(&workers[1]);
}

/* The client dials a listed worker again, which the launcher has started again. */
TEST(listed_worker_that_is_told_to_end_is_no_loss_and_returns)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    crew_open(&crew, 1, 1, "hold", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    struct yard yard = {.crew = crew};
    crew_hold(&hold, &crew, "hold_and_count", false);
    crew_hold_wait(&hold);
    assert_int_equal(0, kill(crew_supervisor(&crew, 0), SIGTERM));
    yard_wait_ready(&yard, 0);
    yard_count(&yard, 100);
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, 8000));
    assert_int_equal(101, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(0, stats.workers_lost);
    assert_int_equal(0, stats.put_back);
    crew_close(&crew);
}
