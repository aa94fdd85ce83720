/*
 * How a coordinator handles functions and their results. Each behaviour is also tested
 * with a queue of two, and with workers that come only after closures were scheduled;
 * docs/conformance.md lists them.
 */
#include <stdio.h>
#include <string.h>

#include "tests/conformance/scene.h"

static const struct setup plain = {.n_ps = 2, .n_workers = 2};
static const struct setup queue_of_2 = {.queue_max = 2, .n_ps = 2, .n_workers = 2};
static const struct setup late = {.n_ps = 2, .n_workers = 2, .late = true};

/* ---- what functions return */

static struct cox_future *schedule_with(struct scene *scene, const char *step,
                                        int64_t n)
{
    struct cox_value arg = COX_SCALAR("n", COX_I64, &n);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future = NULL;
    call.args = &arg;
    call.n_args = 1;
    assert_code(0, cox_schedule(scene->crew.c, crew_function(&scene->crew, step), &call,
                                &future));
    return future;
}

static void assert_value(struct cox_future *future, const struct cox_value *expected,
                         size_t len)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, expected->name, &value));
    assert_string_equal(expected->name, value.name);
    assert_int_equal(expected->dtype, value.dtype);
    assert_int_equal(expected->rank, value.rank);
    for (uint32_t i = 0; i < expected->rank; i++) {
        assert_int_equal(expected->shape[i], value.shape[i]);
    }
    if (len > 0) {
        assert_memory_equal(expected->data, value.data, len);
    }
}

static void assert_nested(struct cox_future *future, int64_t n)
{
    const float loss = (float)n / 2;
    const double accuracy[3] = {(double)n, 0.5, -1};
    const int64_t confusion[2][3] = {{n, 1, 2}, {3, 4, n}};
    const uint8_t cube[2][1][2] = {{{1, 2}}, {{3, (uint8_t)n}}};
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_value(future, &(struct cox_value)COX_SCALAR("loss", COX_F32, &loss),
                 sizeof(loss));
    assert_value(
        future, &(struct cox_value)COX_VECTOR("metrics/accuracy", COX_F64, 3, accuracy),
        sizeof(accuracy));
    assert_value(
        future, &(struct cox_value){"metrics/confusion", COX_I64, 2, {2, 3}, confusion},
        sizeof(confusion));
    assert_value(future,
                 &(struct cox_value){"metrics/deep/cube", COX_U8, 3, {2, 1, 2}, cube},
                 sizeof(cube));
    assert_value(future,
                 &(struct cox_value)COX_VECTOR("metrics/none", COX_I32, 0, NULL), 0);
    assert_code(COX_ENOENT, cox_future_result(future, "metrics", &value));
    assert_code(COX_ENOENT, cox_future_result(future, "accuracy", &value));
}

static void check_nested(const struct setup *setup)
{
    enum { N = 10 };
    struct scene scene;
    struct cox_future *futures[N];
    scene_open(&scene, setup);
    for (int i = 0; i < N; i++) {
        futures[i] = schedule_with(&scene, "nest", i);
    }
    scene_let_come(&scene);
    for (int i = 0; i < N; i++) {
        assert_nested(futures[i], i);
    }
    assert_code(0, cox_join(scene.crew.c, -1));
    scene_close(&scene);
    for (int i = 0; i < N; i++) {
        assert_nested(futures[i], i); /* also after the coordinator is closed */
        cox_future_free(futures[i]);
    }
}

TEST(nested_return_values_keep_their_structure)
{
    check_nested(&plain);
}

TEST(nested_return_values_keep_their_structure_with_a_queue_of_2)
{
    check_nested(&queue_of_2);
}

TEST(nested_return_values_keep_their_structure_when_workers_come_late)
{
    check_nested(&late);
}

/* ---- join */

static void check_joins(const struct setup *setup)
{
    enum { ROUNDS = 3, EACH = 50 };
    struct scene scene;
    scene_open(&scene, setup);
    for (int i = 0; i < 3; i++) {
        scene_assert_settled(&scene, true); /* nothing was put */
        assert_code(0, cox_join(scene.crew.c, -1));
    }
    for (int i = 0; i < ROUNDS; i++) {
        scene_count(&scene, EACH);
        if (i == 0) {
            scene_let_come(&scene);
        }
        for (int k = 0; k < 3; k++) {
            assert_code(0, cox_join(scene.crew.c, -1));
            scene_assert_settled(&scene, true);
            scene_assert_count(&scene, EACH * (i + 1));
        }
    }
    assert_int_equal(ROUNDS * EACH, scene_stats(&scene).done);
    scene_close(&scene);
}

TEST(joins_of_nothing_and_repeated_ones_return_with_exact_totals)
{
    check_joins(&plain);
}

TEST(joins_of_nothing_and_repeated_ones_return_with_exact_totals_with_a_queue_of_2)
{
    check_joins(&queue_of_2);
}

TEST(joins_of_nothing_and_repeated_ones_return_with_exact_totals_when_workers_come_late)
{
    check_joins(&late);
}

/* ---- functions that this coordinator does not have */

static void check_unregistered(const struct setup *setup)
{
    struct scene scene;
    struct scene other;
    struct cox_function *function = NULL;
    struct cox_future *future = NULL;
    scene_open(&scene, setup);
    scene_open(&other, &plain);
    assert_code(COX_ENOENT, cox_function_get(scene.crew.module, "launch", &function));
    assert_error_names("'launch'");
    assert_error_names("number_off"); /* the text lists the steps that exist */
    assert_null(function);
    assert_code(COX_EINVAL, cox_schedule(scene.crew.c, NULL, NULL, &future));
    function = crew_function(&other.crew, "count");
    assert_code(COX_EINVAL, cox_schedule(scene.crew.c, function, NULL, &future));
    assert_code(COX_EINVAL, cox_try_schedule(scene.crew.c, function, NULL, &future));
    assert_null(future);
    scene_assert_settled(&scene, true);
    scene_count(&scene, 10);
    scene_let_come(&scene);
    assert_code(0, cox_join(scene.crew.c, -1));
    scene_assert_count(&scene, 10);
    scene_assert_count(&other, 0);
    scene_close(&other);
    scene_close(&scene);
}

TEST(function_that_is_not_registered_is_refused)
{
    check_unregistered(&plain);
}

TEST(function_that_is_not_registered_is_refused_with_a_queue_of_2)
{
    check_unregistered(&queue_of_2);
}

TEST(function_that_is_not_registered_is_refused_when_workers_come_late)
{
    check_unregistered(&late);
}

/* ---- data sets: resources that each worker makes and keeps */

enum { WORKERS = 2, STEPS = 40 };

/* Schedules steps that take the next element of their worker's data set; the workers
 * come later. */
static void schedule_next(struct scene *scene, const char *step,
                          struct cox_future *futures[STEPS])
{
    for (int i = 0; i < STEPS; i++) {
        futures[i] = scene_schedule(scene, step, 0);
        if (i == 0) {
            scene_let_come(scene);
        }
    }
}

/* Asserts that each worker has returned start, start + 1, ... as result `name`, in any
 * order; returns the number of all these results. */
static int64_t assert_consecutive(struct cox_future *futures[STEPS], const char *name,
                                  int64_t start)
{
    bool seen[WORKERS][STEPS] = {{false}};
    int64_t n[WORKERS] = {0};
    for (int i = 0; i < STEPS; i++) {
        int64_t worker = scene_result(futures[i], "worker");
        int64_t element = scene_result(futures[i], name) - start;
        assert_in_range(worker, 0, WORKERS - 1);
        assert_in_range(element, 0, STEPS - 1);
        assert_false(seen[worker][element]);
        seen[worker][element] = true;
        n[worker]++;
    }
    for (int i = 0; i < WORKERS; i++) {
        for (int64_t k = 0; k < n[i]; k++) {
            assert_true(seen[i][k]);
        }
    }
    return n[0] + n[1];
}

static void free_futures(struct cox_future *futures[STEPS])
{
    for (int i = 0; i < STEPS; i++) {
        cox_future_free(futures[i]);
    }
}

static void check_iterator(const struct setup *setup)
{
    struct scene scene;
    struct cox_future *futures[STEPS];
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", "start", 100);
    schedule_next(&scene, "next", futures);
    assert_code(0, cox_join(scene.crew.c, -1));
    assert_int_equal(STEPS, assert_consecutive(futures, "element", 100));
    scene_assert_count(&scene, STEPS);
    free_futures(futures);
    scene_close(&scene);
}

TEST(steps_take_from_an_iterator_and_update_a_shared_variable)
{
    check_iterator(&plain);
}

TEST(steps_take_from_an_iterator_and_update_a_shared_variable_with_a_queue_of_2)
{
    check_iterator(&queue_of_2);
}

TEST(steps_take_from_an_iterator_and_update_a_shared_variable_when_workers_come_late)
{
    check_iterator(&late);
}

static void check_two_iterators(const struct setup *setup)
{
    struct scene scene;
    struct cox_future *futures[STEPS];
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", NULL, 0);
    (void)scene_resource(&scene, "more", "iterator", "start", 1000);
    schedule_next(&scene, "next_of_both", futures);
    assert_code(0, cox_join(scene.crew.c, -1));
    assert_int_equal(STEPS, assert_consecutive(futures, "element", 0));
    assert_int_equal(STEPS, assert_consecutive(futures, "other", 1000));
    free_futures(futures);
    scene_close(&scene);
}

TEST(function_takes_from_two_iterators)
{
    check_two_iterators(&plain);
}

TEST(function_takes_from_two_iterators_with_a_queue_of_2)
{
    check_two_iterators(&queue_of_2);
}

TEST(function_takes_from_two_iterators_when_workers_come_late)
{
    check_two_iterators(&late);
}

static void check_local_counters(const struct setup *setup)
{
    struct scene scene;
    struct cox_future *futures[STEPS];
    int64_t total = 0;
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", NULL, 0);
    schedule_next(&scene, "next", futures);
    assert_code(0, cox_join(scene.crew.c, -1));
    scene_wait_ready(&scene, WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct cox_future *future = scene_schedule(&scene, "look", 1 + i);
        total += scene_result(future, "taken");
        cox_future_free(future);
    }
    assert_int_equal(STEPS, total);
    free_futures(futures);
    scene_close(&scene);
}

TEST(counters_of_the_workers_sum_to_the_total)
{
    check_local_counters(&plain);
}

TEST(counters_of_the_workers_sum_to_the_total_with_a_queue_of_2)
{
    check_local_counters(&queue_of_2);
}

TEST(counters_of_the_workers_sum_to_the_total_when_workers_come_late)
{
    check_local_counters(&late);
}

enum { CARDS = 16 };

/* Reads the cards that a step has dealt: each once, in any order. Returns the step's
 * worker. */
static int64_t read_cards(struct cox_future *future, int64_t ret_cards[CARDS])
{
    struct cox_value value;
    unsigned seen = 0;
    int64_t worker = scene_result(future, "worker");
    assert_code(0, cox_future_result(future, "cards", &value));
    assert_int_equal(CARDS, value.shape[0]);
    memcpy(ret_cards, value.data, CARDS * sizeof(*ret_cards));
    for (int i = 0; i < CARDS; i++) {
        seen |= 1U << ret_cards[i];
    }
    assert_int_equal((1U << CARDS) - 1, seen);
    return worker;
}

static void check_shuffle(const struct setup *setup)
{
    struct scene scene;
    struct crew_hold holds[WORKERS];
    int64_t cards[WORKERS][CARDS];
    int64_t again[CARDS];
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", NULL, 0);
    for (int i = 0; i < WORKERS; i++) {
        crew_hold(&holds[i], &scene.crew, "hold_and_deal", true);
    }
    scene_let_come(&scene);
    for (int i = 0; i < WORKERS; i++) {
        crew_hold_wait(&holds[i]); /* both run: one on each worker */
    }
    for (int i = 0; i < WORKERS; i++) {
        crew_hold_release(&holds[i]);
    }
    int64_t first = read_cards(holds[0].future, cards[0]);
    assert_int_equal(1 - first, read_cards(holds[1].future, cards[1]));
    assert_memory_not_equal(cards[0], cards[1], sizeof(cards[0]));
    for (int i = 0; i < WORKERS; i++) {
        cox_future_free(holds[i].future);
    }

    /* The resource stays on that worker from step to step. */
    crew_hold_on(&holds[0], &scene.crew, "hold_and_deal", 1 + (uint32_t)first, true);
    crew_hold_wait(&holds[0]);
    crew_hold_release(&holds[0]);
    assert_int_equal(first, read_cards(holds[0].future, again));
    assert_memory_equal(cards[0], again, sizeof(again));
    cox_future_free(holds[0].future);
    scene_close(&scene);
}

TEST(two_workers_shuffle_differently)
{
    check_shuffle(&plain);
}

TEST(two_workers_shuffle_differently_with_a_queue_of_2)
{
    check_shuffle(&queue_of_2);
}

TEST(two_workers_shuffle_differently_when_workers_come_late)
{
    check_shuffle(&late);
}

/* ---- data sets that cannot be made */

/* Asserts that the step fails because "data" could not be made, for `reason`, and that
 * both its future and cox_join report that error. */
static void assert_input_error(struct scene *scene, struct cox_future *future,
                               const char *reason)
{
    struct cox_error error = COX_ERROR_INIT;
    struct cox_value value;
    assert_code(COX_ERESOURCE, cox_future_wait(future, -1));
    assert_error_names("'data'");
    assert_error_names("worker ");
    assert_error_names(reason);
    assert_code(COX_ERESOURCE, cox_future_result(future, "element", &value));
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(COX_ERESOURCE, error.code);
    assert_code(COX_ERESOURCE, cox_join(scene->crew.c, -1));
    assert_error_names("'data'");
    assert_error_names(reason);
    scene_assert_settled(scene, true);
    cox_future_free(future);
}

/* The resource can be made on worker 0, but not on worker 1. */
static void check_bad_resource(const struct setup *setup)
{
    struct scene scene;
    scene_open(&scene, setup);
    (void)scene_resource(&scene, "data", "iterator", "fail_on", 1);
    scene_count(&scene, 20); /* these do not use it */
    scene_let_come(&scene);
    assert_code(0, cox_join(scene.crew.c, -1));
    scene_wait_ready(&scene, WORKERS);
    for (int i = 0; i < 2; i++) {
        assert_input_error(&scene, scene_schedule(&scene, "next", 2),
                           "there are no files");
        scene_assert_works(&scene, 1);
    }
    struct cox_future *good = scene_schedule(&scene, "next", 1);
    assert_int_equal(0, scene_result(good, "element"));
    cox_future_free(good);
    scene_assert_usable(&scene, 21, 20);
    scene_close(&scene);
}

TEST(bad_resource_is_raised_by_join_and_fetch_where_it_is_used)
{
    check_bad_resource(&plain);
}

TEST(bad_resource_is_raised_by_join_and_fetch_where_it_is_used_with_a_queue_of_2)
{
    check_bad_resource(&queue_of_2);
}

TEST(bad_resource_is_raised_by_join_and_fetch_where_it_is_used_when_workers_come_late)
{
    check_bad_resource(&late);
}

/* Only the client creates variables; steps update them. */
static void check_variable_inside(const struct setup *setup)
{
    static const struct {
        const char *function;
        const char *reason;
    } cases[] = {{"iterator_with_variable", "made_inside"},
                 {"iterator_that_counts", "update"}};
    struct scene scene;
    struct cox_variable *variable = NULL;
    scene_open(&scene, setup);
    for (int i = 0; i < 2; i++) {
        struct cox_resource *resource =
            scene_resource(&scene, "data", cases[i].function, NULL, 0);
        struct cox_future *future = scene_schedule(&scene, "next", 0);
        if (i == 0) {
            scene_let_come(&scene);
        }
        assert_input_error(&scene, future, cases[i].reason);
        cox_resource_release(resource);
    }
    assert_code(COX_ENOENT, cox_variable_get(scene.crew.c, "made_inside", &variable));
    scene_assert_usable(&scene, 0, 20);
    scene_close(&scene);
}

TEST(variable_that_is_created_inside_a_data_set_is_refused)
{
    check_variable_inside(&plain);
}

TEST(variable_that_is_created_inside_a_data_set_is_refused_with_a_queue_of_2)
{
    check_variable_inside(&queue_of_2);
}

TEST(variable_that_is_created_inside_a_data_set_is_refused_when_workers_come_late)
{
    check_variable_inside(&late);
}

/* ---- data sets that are released */

static int64_t count_alive(struct scene *scene, uint32_t worker)
{
    struct cox_future *future = scene_schedule(scene, "alive", 1 + worker);
    int64_t n = scene_result(future, "alive");
    cox_future_free(future);
    return n;
}

static bool none_is_alive(void *arg)
{
    struct scene *scene = arg;
    return count_alive(scene, 0) == 0 && count_alive(scene, 1) == 0;
}

static void check_release(const struct setup *setup)
{
    struct scene scene;
    struct cox_error error = COX_ERROR_INIT;
    struct cox_future *futures[STEPS];
    scene_open(&scene, setup);
    for (int round = 0; round < 3; round++) {
        struct cox_resource *data = scene_resource(&scene, "data", "iterator", NULL, 0);
        struct cox_resource *more = scene_resource(&scene, "more", "iterator", NULL, 0);
        for (int i = 0; i < STEPS; i++) {
            futures[i] = scene_schedule(&scene, "next_of_both", 0);
            if (i == 0 && round == 0) {
                scene_let_come(&scene);
            }
        }
        assert_code(0, cox_join(scene.crew.c, -1));
        scene_wait_ready(&scene, WORKERS);
        for (uint32_t i = 0; i < WORKERS; i++) {
            assert_int_equal(2, count_alive(&scene, i));
        }
        free_futures(futures);
        cox_resource_release(data);
        cox_resource_release(more);
        coxi_test_until(none_is_alive, &scene, "the end of what was released");
    }
    /* There is no resource of that name, so the step gets an error, and fails. */
    struct cox_future *future = scene_schedule(&scene, "next", 0);
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    assert_error_names("'data'");
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(COX_ENOENT, error.step_code);
    assert_code(COX_ESTEP, cox_join(scene.crew.c, -1));
    cox_future_free(future);
    scene_assert_usable(&scene, 0, 20);
    scene_close(&scene);
}

TEST(released_iterators_leave_nothing_alive)
{
    check_release(&plain);
}

TEST(released_iterators_leave_nothing_alive_with_a_queue_of_2)
{
    check_release(&queue_of_2);
}

TEST(released_iterators_leave_nothing_alive_when_workers_come_late)
{
    check_release(&late);
}
