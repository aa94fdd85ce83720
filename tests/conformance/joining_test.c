/* Workers that join, and come back, while a coordinator lives. Each behaviour is also
 * tested with a queue of two; docs/conformance.md lists them. */
#include <signal.h>
#include <stdio.h>

#include "tests/conformance/scene.h"
#include "tests/coordinator/yard.h"

static const struct setup pair = {.n_ps = 2, .n_workers = 2, .late = true};
static const struct setup pair_2 = {
    .queue_max = 2, .n_ps = 2, .n_workers = 2, .late = true};
static const struct setup single = {.n_ps = 1, .n_workers = 1, .late = true};
static const struct setup single_2 = {
    .queue_max = 2, .n_ps = 1, .n_workers = 1, .late = true};

/* Opens, and lets the workers come one after the other: worker i is called "late-i". */
static void open_with_workers(struct scene *scene, const struct setup *setup)
{
    scene_open(scene, setup);
    for (int i = 0; i < setup->n_workers; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "late-%d", i);
        (void)scene_start_worker(scene, name);
        scene_wait_ready(scene, (uint64_t)i + 1);
    }
}

/* Asserts that there are n workers, and that each of them runs closures. */
static void assert_workers(struct scene *scene, int n)
{
    scene_wait_ready(scene, (uint64_t)n);
    assert_int_equal(n, scene_stats(scene).workers);
    for (int i = 0; i < n; i++) {
        scene_assert_works(scene, i);
    }
}

/* Kills both processes of a worker with kill -9 while it runs a held step. */
static void end_worker(struct scene *scene, int i, struct crew_hold *held)
{
    struct program *worker = &scene->workers[i];
    pid_t steps = yard_step_process(worker, 0);
    program_pause(worker); /* so that no next attempt begins */
    crew_kill(steps);
    crew_hold_release(held);
    program_kill(worker, SIGKILL);
    assert_int_equal(256 + SIGKILL, program_wait(worker));
    worker->pid = 0;
    crew_wait_gone(steps);
}

static void check_added_between(const struct setup *setup)
{
    struct scene scene;
    open_with_workers(&scene, setup);
    scene_assert_usable(&scene, 0, 20);
    (void)scene_start_worker(&scene, "added");
    assert_workers(&scene, setup->n_workers + 1);
    scene_assert_usable(&scene, 20, 20);
    assert_int_equal(0, scene_stats(&scene).workers_lost);
    scene_close(&scene);
}

TEST(worker_added_between_functions_works)
{
    check_added_between(&pair);
    check_added_between(&single);
}

TEST(worker_added_between_functions_works_with_a_queue_of_2)
{
    check_added_between(&pair_2);
    check_added_between(&single_2);
}

/* All other workers are held, so only the added worker can run the rest. */
static void check_added_within(const struct setup *setup)
{
    enum { N = 50, HOLDS_MAX = 2 };
    struct scene scene;
    struct crew_hold holds[HOLDS_MAX];
    open_with_workers(&scene, setup);
    for (int i = 0; i < setup->n_workers; i++) {
        crew_hold_on(&holds[i], &scene.crew, "hold_and_count", 1 + (uint32_t)i, true);
        crew_hold_wait(&holds[i]);
    }
    (void)scene_start_worker(&scene, "added");
    for (int i = 0; i < N; i++) {
        scene_end(scene_schedule(&scene, "count", 0), 0);
    }
    scene_assert_count(&scene, N);
    for (int i = 0; i < setup->n_workers; i++) {
        assert_code(COX_ETIMEDOUT, cox_future_wait(holds[i].future, 0));
        crew_hold_release(&holds[i]);
        scene_end(holds[i].future, 0);
    }
    assert_workers(&scene, setup->n_workers + 1);
    scene_assert_usable(&scene, N + setup->n_workers, 20);
    assert_int_equal(0, scene_stats(&scene).workers_lost);
    assert_int_equal(0, scene_stats(&scene).put_back);
    scene_close(&scene);
}

TEST(worker_added_within_a_function_does_the_rest)
{
    check_added_within(&pair);
    check_added_within(&single);
}

TEST(worker_added_within_a_function_does_the_rest_with_a_queue_of_2)
{
    check_added_within(&pair_2);
    check_added_within(&single_2);
}

/* The last worker dies while it runs a step, and a worker joins as `name`: the step
 * runs again there, and counts once. `n_workers`: how many workers are known then. */
static void lose_and_return(struct scene *scene, const char *name, int n_workers)
{
    int last = scene->setup.n_workers - 1;
    struct crew_hold hold;
    struct crew_hold other;
    if (last > 0) {
        crew_hold_on(&other, &scene->crew, "hold_and_count", 1, true);
        crew_hold_wait(&other);
    }
    crew_hold(&hold, &scene->crew, "hold_and_count", true);
    crew_hold_wait(&hold);
    end_worker(scene, last, &hold);
    (void)scene_start_worker(scene, name);
    crew_hold_wait(&hold); /* it runs again on that worker */
    crew_hold_release(&hold);
    scene_end(hold.future, 0);
    if (last > 0) {
        crew_hold_release(&other);
        scene_end(other.future, 0);
    }
    assert_int_equal(n_workers, scene_stats(scene).workers);
    assert_int_equal(1, scene_stats(scene).workers_lost);
    scene_wait_ready(scene, (uint64_t)scene->setup.n_workers);
    scene_assert_usable(scene, scene->setup.n_workers, 20);
}

static void check_same_name(const struct setup *setup)
{
    struct scene scene;
    char name[32];
    open_with_workers(&scene, setup);
    (void)snprintf(name, sizeof(name), "late-%d", setup->n_workers - 1);
    lose_and_return(&scene, name, setup->n_workers);
    assert_workers(&scene, setup->n_workers); /* under the same indices */
    scene_close(&scene);
}

TEST(worker_that_returns_under_its_name_is_the_same)
{
    check_same_name(&pair);
    check_same_name(&single);
}

TEST(worker_that_returns_under_its_name_is_the_same_with_a_queue_of_2)
{
    check_same_name(&pair_2);
    check_same_name(&single_2);
}

static void check_other_name(const struct setup *setup)
{
    struct scene scene;
    open_with_workers(&scene, setup);
    lose_and_return(&scene, "another", setup->n_workers + 1);
    scene_assert_works(&scene, setup->n_workers);
    scene_close(&scene);
}

TEST(worker_that_returns_under_another_name_is_a_new_one)
{
    check_other_name(&pair);
    check_other_name(&single);
}

TEST(worker_that_returns_under_another_name_is_a_new_one_with_a_queue_of_2)
{
    check_other_name(&pair_2);
    check_other_name(&single_2);
}
