/*
 * The queue: closures are put in, taken by a worker, put back when it dies, and
 * finished. Each behaviour is also tested with a queue of two; docs/conformance.md
 * lists them.
 */
#include <string.h>

#include "tests/conformance/scene.h"

static const struct setup plain = {.n_ps = 2, .n_workers = 2};
static const struct setup plain_2 = {.queue_max = 2, .n_ps = 2, .n_workers = 2};
static const struct setup alone = {.n_ps = 2, .n_workers = 1};
static const struct setup alone_2 = {.queue_max = 2, .n_ps = 2, .n_workers = 1};

/* ---- done and wait agree */

struct put_back {
    struct scene *scene;
    uint64_t n;
};

static bool are_put_back(void *arg)
{
    struct put_back *put_back = arg;
    return scene_stats(put_back->scene).put_back == put_back->n;
}

static void wait_put_back(struct scene *scene, uint64_t n)
{
    struct put_back put_back = {scene, n};
    coxi_test_until(are_put_back, &put_back, "closures that are put back");
}

static void check_agreement(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold hold;
    scene_open(&scene, setup);
    scene_assert_settled(&scene, true);
    crew_hold(&hold, &scene.crew, "hold_and_count", true); /* put */
    scene_assert_settled(&scene, false);
    struct cox_future *behind = scene_schedule(&scene, "count", 0);
    scene_assert_settled(&scene, false);
    crew_hold_wait(&hold); /* get */
    scene_wait_queued(&scene, 0);
    scene_assert_settled(&scene, false);
    scene_kill(&scene, 0, &hold);
    wait_put_back(&scene, 2);
    scene_assert_settled(&scene, false);
    crew_hold_wait(&hold); /* get again */
    scene_assert_settled(&scene, false);
    crew_hold_release(&hold);
    scene_end(hold.future, 0);
    scene_end(behind, 0); /* finish */
    scene_assert_settled(&scene, true);
    scene_assert_count(&scene, 2);
    scene_close(&scene);
}

TEST(done_and_wait_agree_through_put_get_put_back_and_finish)
{
    check_agreement(&alone);
}

TEST(done_and_wait_agree_through_put_get_put_back_and_finish_with_a_queue_of_2)
{
    check_agreement(&alone_2);
}

/* ---- put-back items */

static void check_put_back(const struct setup *setup)
{
    enum { BEHIND = 3 };
    struct scene scene;
    struct crew_hold hold;
    struct caller caller;
    struct cox_future *behind[BEHIND];
    scene_open(&scene, setup);
    crew_hold(&hold, &scene.crew, "hold_and_count", true);
    for (int i = 0; i < BEHIND; i++) {
        behind[i] = scene_schedule(&scene, "count", 0);
    }
    crew_hold_wait(&hold);
    scene_wait_queued(&scene, 1 + BEHIND - SCENE_HANDS);
    caller_start(&caller, &scene, scene_wait);
    scene_kill(&scene, 0, &hold);
    crew_hold_wait(&hold);
    assert_int_equal(SCENE_HANDS, scene_stats(&scene).put_back);
    assert_false(caller_has_returned(&caller));
    crew_hold_release(&hold);
    assert_code(0, caller_join(&caller));
    for (int i = 0; i < 3; i++) {
        assert_code(0, cox_join(scene.crew.c, -1));
    }
    scene_end(hold.future, 0);
    for (int i = 0; i < BEHIND; i++) {
        scene_end(behind[i], 0);
    }
    scene_assert_count(&scene, 1 + BEHIND);
    assert_int_equal(1 + BEHIND, scene_stats(&scene).done);
    scene_close(&scene);
}

TEST(put_back_items_are_processed_and_repeated_waits_return)
{
    check_put_back(&alone);
}

TEST(put_back_items_are_processed_and_repeated_waits_return_with_a_queue_of_2)
{
    check_put_back(&alone_2);
}

/* ---- wait */

static void check_wait_after_completion(const struct setup *setup)
{
    enum { N = 5 };
    struct scene scene;
    struct caller caller;
    struct cox_future *futures[N];
    scene_open(&scene, setup);
    for (int i = 0; i < N; i++) {
        futures[i] = scene_schedule(&scene, "count", 0);
    }
    for (int i = 0; i < N; i++) {
        scene_end(futures[i], 0);
    }
    caller_start(&caller, &scene, scene_wait);
    assert_code(0, caller_join(&caller));
    scene_assert_settled(&scene, true);
    scene_assert_count(&scene, N);
    scene_close(&scene);
}

TEST(wait_after_completion_returns)
{
    check_wait_after_completion(&plain);
}

TEST(wait_after_completion_returns_with_a_queue_of_2)
{
    check_wait_after_completion(&plain_2);
}

static void check_wait_blocks(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold hold;
    struct caller caller;
    scene_open(&scene, setup);
    crew_hold(&hold, &scene.crew, "hold_and_fail", false);
    crew_hold_wait(&hold);
    caller_start(&caller, &scene, scene_wait);
    assert_code(COX_ETIMEDOUT, cox_join(scene.crew.c, 10));
    assert_false(caller_has_returned(&caller));
    crew_hold_release(&hold);
    assert_code(COX_ESTEP, caller_join(&caller));
    assert_non_null(strstr(caller.text, hold.path));
    assert_non_null(strstr(caller.text, "hold_and_fail"));
    scene_assert_settled(&scene, true);
    scene_assert_count(&scene, 0);
    scene_close(&scene);
}

TEST(wait_blocks_until_a_failure_is_marked_and_raises_it)
{
    check_wait_blocks(&plain);
}

TEST(wait_blocks_until_a_failure_is_marked_and_raises_it_with_a_queue_of_2)
{
    check_wait_blocks(&plain_2);
}

/* ---- errors: which calls raise them, and what happens to other closures */

/*
 * Worker 0 has run a step that failed, and no call has raised that error yet. Worker 1
 * runs another step, and has one more closure in advance; two more are queued for it.
 */
enum { BEHIND = 3 };

struct trouble {
    struct scene *scene;
    struct crew_hold failed;
    struct crew_hold running;
    struct cox_future *behind[BEHIND];
};

static void trouble_begin(struct trouble *trouble, struct scene *scene,
                          const char *running)
{
    trouble->scene = scene;
    crew_hold_on(&trouble->failed, &scene->crew, "hold_and_fail", 1, true);
    crew_hold_on(&trouble->running, &scene->crew, running, 2, true);
    for (int i = 0; i < BEHIND; i++) {
        trouble->behind[i] = scene_schedule(scene, "count", 2);
    }
    crew_hold_wait(&trouble->failed);
    crew_hold_wait(&trouble->running);
    crew_hold_release(&trouble->failed);
    scene_end(trouble->failed.future, COX_ESTEP);
}

static bool are_cancelled(void *arg)
{
    const struct trouble *trouble = arg;
    bool cancelled = true;
    for (int i = 0; i < BEHIND; i++) {
        cancelled =
            cancelled && cox_future_wait(trouble->behind[i], 0) == COX_ECANCELLED;
    }
    return cancelled;
}

/*
 * Asserts that `call` raises the error when no step runs any more, and clears it.
 * Returns the code of the step that was running, which depends on whether the step
 * ended before its worker was told to cancel it.
 */
static int trouble_raise(struct trouble *trouble, int (*call)(struct scene *scene))
{
    struct caller caller;
    caller_start(&caller, trouble->scene, call);
    coxi_test_until(are_cancelled, trouble, "the end of what has not started");
    assert_code(COX_ETIMEDOUT, cox_future_wait(trouble->running.future, 0));
    assert_false(caller_has_returned(&caller));
    crew_hold_release(&trouble->running);
    assert_code(COX_ESTEP, caller_join(&caller));
    assert_non_null(strstr(caller.text, trouble->failed.path));
    int code = cox_future_wait(trouble->running.future, 0);
    assert_int_not_equal(COX_ETIMEDOUT, code);
    scene_assert_settled(trouble->scene, true);
    cox_future_free(trouble->running.future);
    for (int i = 0; i < BEHIND; i++) {
        scene_end(trouble->behind[i], COX_ECANCELLED);
    }
    return code;
}

/* As trouble_raise, while a counting step runs; returns 1 if it counted, else 0. */
static int raise_beside_success(struct scene *scene, int (*call)(struct scene *scene))
{
    struct trouble trouble;
    trouble_begin(&trouble, scene, "hold_and_count");
    int code = trouble_raise(&trouble, call);
    assert_true(code == 0 || code == COX_ECANCELLED);
    return code == 0;
}

static void check_raises(const struct setup *setup, int (*call)(struct scene *scene),
                         int (*other_call)(struct scene *scene))
{
    struct scene scene;
    scene_open(&scene, setup);
    int n = raise_beside_success(&scene, call);
    scene_assert_count(&scene, n);
    n += raise_beside_success(&scene, other_call);
    scene_assert_usable(&scene, n, 0);
    scene_close(&scene);
}

TEST(put_raises_a_pending_error_cancels_the_queued_and_clears_it)
{
    check_raises(&plain, scene_put, scene_try_put);
}

TEST(put_raises_a_pending_error_cancels_the_queued_and_clears_it_with_a_queue_of_2)
{
    check_raises(&plain_2, scene_put, scene_try_put);
}

TEST(wait_raises_a_pending_error_cancels_the_queued_and_clears_it)
{
    check_raises(&plain, scene_wait, scene_wait);
}

TEST(wait_raises_a_pending_error_cancels_the_queued_and_clears_it_with_a_queue_of_2)
{
    check_raises(&plain_2, scene_wait, scene_wait);
}

static int call_done(struct scene *scene)
{
    return cox_done(scene->crew.c);
}

TEST(done_raises_a_pending_error)
{
    check_raises(&plain, call_done, call_done);
}

TEST(done_raises_a_pending_error_with_a_queue_of_2)
{
    check_raises(&plain_2, call_done, call_done);
}

/* Two steps have failed, one after the other, before `call` raises the first error. */
static void fail_twice(struct scene *scene, int (*call)(struct scene *scene))
{
    struct crew_hold holds[2];
    struct caller caller;
    for (uint32_t i = 0; i < 2; i++) {
        crew_hold_on(&holds[i], &scene->crew, "hold_and_fail", 1 + i, true);
    }
    for (int i = 0; i < 2; i++) {
        crew_hold_wait(&holds[i]);
    }
    for (int i = 0; i < 2; i++) {
        crew_hold_release(&holds[i]);
        scene_end(holds[i].future, COX_ESTEP);
    }
    caller_start(&caller, scene, call);
    assert_code(COX_ESTEP, caller_join(&caller));
    assert_non_null(strstr(caller.text, holds[0].path));
    scene_assert_settled(scene, true);
}

/* Another step runs meanwhile and fails, too: only its future reports that error. Then
 * two steps fail one after the other. */
static void check_first_error(const struct setup *setup,
                              int (*call)(struct scene *scene))
{
    struct scene scene;
    struct trouble trouble;
    scene_open(&scene, setup);
    trouble_begin(&trouble, &scene, "hold_and_fail");
    int code = trouble_raise(&trouble, call);
    assert_true(code == COX_ESTEP || code == COX_ECANCELLED);
    scene_assert_count(&scene, 0);
    struct cox_stats stats = scene_stats(&scene);
    assert_int_equal(0, stats.done);
    assert_int_equal(2 + BEHIND, stats.failed);
    fail_twice(&scene, call);
    scene_assert_usable(&scene, 0, 4);
    scene_close(&scene);
}

TEST(wait_drains_what_runs_and_reports_the_first_error_only)
{
    check_first_error(&plain, scene_wait);
}

TEST(wait_drains_what_runs_and_reports_the_first_error_only_with_a_queue_of_2)
{
    check_first_error(&plain_2, scene_wait);
}

TEST(put_drains_what_runs_reports_the_first_error_and_is_refused)
{
    check_first_error(&plain, scene_put);
}

TEST(put_drains_what_runs_reports_the_first_error_and_is_refused_with_a_queue_of_2)
{
    check_first_error(&plain_2, scene_put);
}

static void check_put_after_error(const struct setup *setup)
{
    struct scene scene;
    scene_open(&scene, setup);
    for (int i = 0; i < 2; i++) {
        scene_end(scene_schedule_failure(&scene, i, 0), COX_ESTEP);
        assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
        scene_end(scene_schedule(&scene, "count", 0), 0);
        scene_assert_usable(&scene, 1 + (1 + 20) * i, 20);
    }
    scene_close(&scene);
}

TEST(put_works_after_a_raised_error)
{
    check_put_after_error(&plain);
}

TEST(put_works_after_a_raised_error_with_a_queue_of_2)
{
    check_put_after_error(&plain_2);
}

/* ---- ten threads: all schedule closures, and five kill a worker */

enum { PAIRS = 5, PUTS = 40 };

struct hand {
    pthread_t thread;
    struct scene *scene;
    struct cox_function *count;
    struct crew_hold *hold; /* a step on the worker that work() kills; NULL: none */
    int worker;
    int code;
};

/* On a thread of its own, a failed assertion ends the program, not only the test. */
static void *work(void *arg)
{
    struct hand *hand = arg;
    struct cox_coordinator *c = hand->scene->crew.c;
    for (int i = 0; hand->code == 0 && i < PUTS; i++) {
        hand->code = cox_schedule(c, hand->count, NULL, NULL);
        if (hand->hold != NULL && i == PUTS / 2) {
            scene_kill(hand->scene, hand->worker, hand->hold);
            crew_hold_wait(hand->hold); /* until it runs again */
            crew_hold_release(hand->hold);
        }
    }
    if (hand->code == 0) {
        hand->code = cox_join(c, -1);
    }
    return NULL;
}

static void check_ten_threads(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold holds[PAIRS];
    struct hand hands[2 * PAIRS] = {{0}};
    scene_open(&scene, setup);
    for (uint32_t i = 0; i < PAIRS; i++) {
        crew_hold_on(&holds[i], &scene.crew, "hold_and_count", 1 + i, true);
        crew_hold_wait(&holds[i]);
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        hands[i].scene = &scene;
        hands[i].count = crew_function(&scene.crew, "count");
        if (i < PAIRS) {
            hands[i].hold = &holds[i];
            hands[i].worker = i;
        }
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        assert_int_equal(0, pthread_create(&hands[i].thread, NULL, work, &hands[i]));
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        assert_int_equal(0, pthread_join(hands[i].thread, NULL));
        assert_int_equal(0, hands[i].code);
    }
    scene_assert_settled(&scene, true);
    scene_assert_count(&scene, PAIRS + 2 * PAIRS * PUTS);
    for (int i = 0; i < PAIRS; i++) {
        scene_end(holds[i].future, 0);
    }
    struct cox_stats stats = scene_stats(&scene);
    assert_int_equal(PAIRS, stats.workers_lost);
    assert_true(stats.put_back >= PAIRS);
    scene_close(&scene);
}

TEST(ten_threads_that_put_back_and_finish_end_done)
{
    const struct setup setup = {.n_ps = 2, .n_workers = PAIRS + 1};
    check_ten_threads(&setup);
}

TEST(ten_threads_that_put_back_and_finish_end_done_with_a_queue_of_2)
{
    const struct setup setup = {.queue_max = 2, .n_ps = 2, .n_workers = PAIRS + 1};
    check_ten_threads(&setup);
}

/* ---- work for one worker */

/* Lets both workers run a held step and have one more closure each. */
static void hold_both(struct scene *scene, struct crew_hold holds[2],
                      struct cox_future *next[2])
{
    for (uint32_t i = 0; i < 2; i++) {
        crew_hold_on(&holds[i], &scene->crew, "hold", 1 + i, true);
        crew_hold_wait(&holds[i]);
        next[i] = scene_schedule(scene, "number_off", 1 + i);
        scene_wait_queued(scene, 0);
    }
}

static void check_tags(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold holds[2];
    struct cox_future *next[2];
    scene_open(&scene, setup);
    hold_both(&scene, holds, next);

    /* Worker 0 runs `tagged` before `any`, although it is scheduled later: a worker
     * first runs the closures that no other worker may run. */
    struct cox_future *any = scene_schedule(&scene, "number_off", 0);
    struct cox_future *tagged = scene_schedule(&scene, "number_off", 1);
    scene_wait_queued(&scene, 2);
    crew_hold_release(&holds[0]);
    assert_int_equal(0, scene_result(next[0], "order"));
    assert_int_equal(1, scene_result(tagged, "order"));
    assert_int_equal(2, scene_result(any, "order"));
    assert_int_equal(0, scene_result(tagged, "worker"));
    assert_int_equal(0, scene_result(any, "worker"));
    cox_future_free(any);
    cox_future_free(tagged);

    /* A closure for the other worker waits there, and does not hold up others. */
    tagged = scene_schedule(&scene, "number_off", 2);
    for (int i = 0; i < 5; i++) {
        any = scene_schedule(&scene, "number_off", 0);
        assert_int_equal(0, scene_result(any, "worker"));
        cox_future_free(any);
    }
    assert_code(COX_ETIMEDOUT, cox_future_wait(tagged, 0));
    assert_code(COX_ETIMEDOUT, cox_future_wait(next[1], 0));
    crew_hold_release(&holds[1]);
    assert_int_equal(0, scene_result(next[1], "order"));
    assert_int_equal(1, scene_result(tagged, "order"));
    assert_int_equal(1, scene_result(tagged, "worker"));
    assert_code(0, cox_join(scene.crew.c, -1));
    cox_future_free(tagged);
    for (int i = 0; i < 2; i++) {
        cox_future_free(next[i]);
        cox_future_free(holds[i].future);
    }
    scene_close(&scene);
}

TEST(work_for_one_worker_goes_first_there_and_others_do_not_wait)
{
    check_tags(&plain);
}

TEST(work_for_one_worker_goes_first_there_and_others_do_not_wait_with_a_queue_of_2)
{
    check_tags(&plain_2);
}
