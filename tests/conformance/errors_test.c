/* Errors of steps: which calls raise them, how often, and what is usable afterwards.
 * Each behaviour is also tested with a queue of two; docs/conformance.md lists them. */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/scene.h"

static const struct setup plain = {.n_ps = 2, .n_workers = 2};
static const struct setup queue_of_2 = {.queue_max = 2, .n_ps = 2, .n_workers = 2};

/* Asserts that the error is not raised again, and that only `counted` steps have
 * counted. */
static void assert_over(struct scene *scene, int64_t counted)
{
    scene_assert_settled(scene, true);
    scene_assert_count(scene, counted);
}

/* ---- which calls raise an error */

static void check_join_raises(const struct setup *setup)
{
    enum { BEFORE = 30 };
    struct scene scene;
    scene_open(&scene, setup);
    scene_count(&scene, BEFORE);
    cox_future_free(scene_schedule_failure(&scene, 7, 0));
    assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
    assert_error_names("(fail): no luck with 7");
    struct cox_stats stats = scene_stats(&scene);
    assert_int_equal(BEFORE + 1, stats.done + stats.failed);
    assert_over(&scene, (int64_t)stats.done);
    scene_assert_usable(&scene, (int64_t)stats.done, 20);
    scene_close(&scene);
}

TEST(join_raises_the_error_of_a_step)
{
    check_join_raises(&plain);
}

TEST(join_raises_the_error_of_a_step_with_a_queue_of_2)
{
    check_join_raises(&queue_of_2);
}

static void check_schedule_raises(const struct setup *setup)
{
    struct scene scene;
    scene_open(&scene, setup);
    scene_end(scene_schedule_failure(&scene, 3, 0), COX_ESTEP);
    assert_code(COX_ESTEP, scene_put(&scene));
    assert_error_names("(fail): no luck with 3");
    assert_over(&scene, 0); /* the call that raised it has scheduled nothing */
    scene_end(scene_schedule_failure(&scene, 4, 0), COX_ESTEP);
    assert_code(COX_ESTEP, scene_try_put(&scene));
    assert_error_names("(fail): no luck with 4");
    assert_over(&scene, 0);
    scene_assert_usable(&scene, 0, 20);
    scene_close(&scene);
}

TEST(later_schedule_raises_the_error_of_a_step)
{
    check_schedule_raises(&plain);
}

TEST(later_schedule_raises_the_error_of_a_step_with_a_queue_of_2)
{
    check_schedule_raises(&queue_of_2);
}

/* Asserts that the future reports its own error. Called before and after a join has
 * raised that error. */
static void assert_failed_with_5(struct cox_future *future)
{
    struct cox_value value;
    struct cox_error error = COX_ERROR_INIT;
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    assert_error_names("(fail): no luck with 5");
    assert_code(COX_ESTEP, cox_future_result(future, "n", &value));
    assert_error_names("(fail): no luck with 5");
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(COX_ESTEP, error.code);
    assert_int_equal(42, error.step_code);
    assert_string_equal("fail", error.function);
    assert_string_equal("no luck with 5", error.message);
}

static void check_fetch_raises(const struct setup *setup)
{
    struct scene scene;
    scene_open(&scene, setup);
    struct cox_future *good = scene_schedule(&scene, "count", 0);
    assert_code(0, cox_future_wait(good, -1));
    struct cox_future *bad = scene_schedule_failure(&scene, 5, 0);
    assert_failed_with_5(bad);
    assert_failed_with_5(bad);
    assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
    assert_failed_with_5(bad);
    scene_end(good, 0); /* another closure's error does not concern it */
    assert_over(&scene, 1);
    scene_assert_usable(&scene, 1, 20);
    scene_close(&scene);
    assert_failed_with_5(bad);
    cox_future_free(bad);
}

TEST(fetch_raises_the_error_of_its_step)
{
    check_fetch_raises(&plain);
}

TEST(fetch_raises_the_error_of_its_step_with_a_queue_of_2)
{
    check_fetch_raises(&queue_of_2);
}

/* ---- how often an error is raised */

/* Schedules four failures before the first of them, number 0, fails. */
static void fail_four_times(struct scene *scene)
{
    enum { FAILURES = 4 };
    struct crew_hold holds[2];
    struct cox_future *failures[FAILURES];
    for (int i = 0; i < 2; i++) {
        crew_hold_on(&holds[i], &scene->crew, "hold", 1 + (uint32_t)i, true);
        crew_hold_wait(&holds[i]);
    }
    for (int i = 0; i < FAILURES; i++) {
        failures[i] = scene_schedule_failure(scene, i, 1 + (uint32_t)i / 2);
    }
    for (int i = 0; i < FAILURES; i++) {
        if (i % 2 == 0) {
            crew_hold_release(&holds[i / 2]);
            scene_end(holds[i / 2].future, 0);
        }
        scene_end(failures[i], COX_ESTEP);
    }
}

static void check_raise_once(const struct setup *setup)
{
    struct scene scene;
    scene_open(&scene, setup);
    fail_four_times(&scene);
    assert_int_equal(4, scene_stats(&scene).failed);
    assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
    assert_error_names("(fail): no luck with 0");
    for (int i = 0; i < 3; i++) {
        assert_code(0, cox_join(scene.crew.c, -1));
    }
    assert_over(&scene, 0);
    scene_assert_usable(&scene, 0, 20);
    scene_close(&scene);
}

TEST(several_failures_raise_once_and_then_join_is_clean)
{
    check_raise_once(&plain);
}

TEST(several_failures_raise_once_and_then_join_is_clean_with_a_queue_of_2)
{
    check_raise_once(&queue_of_2);
}

static void check_second_round(const struct setup *setup)
{
    enum { ROUNDS = 3, EACH = 10 };
    struct scene scene;
    scene_open(&scene, setup);
    for (int i = 0; i < ROUNDS; i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "(fail): no luck with %d", i);
        scene_assert_usable(&scene, EACH * i, EACH);
        cox_future_free(scene_schedule_failure(&scene, i, 0));
        assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
        assert_error_names(text); /* of this round */
        assert_over(&scene, EACH * (i + 1));
    }
    scene_assert_usable(&scene, EACH * ROUNDS, EACH);
    scene_close(&scene);
}

TEST(second_round_of_failures_raises_anew)
{
    check_second_round(&plain);
}

TEST(second_round_of_failures_raises_anew_with_a_queue_of_2)
{
    check_second_round(&queue_of_2);
}

/* ---- long steps */

/* Starts a step on worker 0 that would run for ever. */
static void hold_long(struct scene *scene, const char *step, struct crew_hold *hold)
{
    crew_hold_on(hold, &scene->crew, step, 1, true);
    crew_hold_wait(hold);
}

/* Asserts that the held step was cancelled, and that its worker still runs closures. */
static void assert_cancelled(struct scene *scene, struct crew_hold *hold)
{
    scene_end(hold->future, COX_ECANCELLED);
    scene_assert_settled(scene, true);
    crew_hold_release(hold);
    scene_assert_works(scene, 0);
}

static void cancel_long(const struct setup *setup, const char *step, int grace_ms,
                        uint64_t n_lost)
{
    struct scene scene;
    struct crew_hold hold;
    struct cox_options options = COX_OPTIONS_INIT;
    options.cancel_grace_ms = grace_ms;
    scene_open_with(&scene, setup, &options);
    /* cancelled by the error of another step, which put or join raises */
    for (int i = 0; i < 2; i++) {
        hold_long(&scene, step, &hold);
        scene_end(scene_schedule_failure(&scene, i, 0), COX_ESTEP);
        assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 0));
        assert_code(COX_ESTEP, i == 0 ? scene_put(&scene) : scene_wait(&scene));
        assert_cancelled(&scene, &hold);
        scene_assert_usable(&scene, 20 * i, 20);
    }
    hold_long(&scene, step, &hold); /* cancelled by its user */
    assert_code(0, cox_future_cancel(hold.future));
    assert_code(0, cox_join(scene.crew.c, -1));
    assert_cancelled(&scene, &hold);
    scene_assert_usable(&scene, 40, 20);
    assert_int_equal(n_lost, scene_stats(&scene).workers_lost);
    scene_close(&scene);
}

/* A cancelled step returns if it calls cox_step_cancelled. Otherwise its process is
 * ended. */
static void check_long(const struct setup *setup)
{
    cancel_long(setup, "watch_and_count", 60000, 0);
    cancel_long(setup, "hold_and_count", 50, 3);
}

TEST(long_step_is_cancelled_and_work_continues)
{
    check_long(&plain);
}

TEST(long_step_is_cancelled_and_work_continues_with_a_queue_of_2)
{
    check_long(&queue_of_2);
}

/* A worker still has its resources after a step was cancelled, because its process went
 * on. */
static void check_resources_survive(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold hold;
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", NULL, 0);
    for (int i = 0; i < 3; i++) {
        for (uint32_t worker = 0; worker < 2; worker++) {
            struct cox_future *next = scene_schedule(&scene, "next", 1 + worker);
            assert_int_equal(i, scene_result(next, "element"));
            cox_future_free(next);
        }
        hold_long(&scene, "watch_and_count", &hold);
        if (i == 0) { /* by its user */
            assert_code(0, cox_future_cancel(hold.future));
            assert_code(0, cox_join(scene.crew.c, -1));
        } else { /* by an error of another step */
            scene_end(scene_schedule_failure(&scene, i, 0), COX_ESTEP);
            assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
        }
        assert_cancelled(&scene, &hold);
        scene_assert_count(&scene, 2 * (i + 1));
    }
    assert_int_equal(0, scene_stats(&scene).workers_lost);
    scene_close(&scene);
}

TEST(resources_survive_a_cancellation)
{
    check_resources_survive(&plain);
}

TEST(resources_survive_a_cancellation_with_a_queue_of_2)
{
    check_resources_survive(&queue_of_2);
}
