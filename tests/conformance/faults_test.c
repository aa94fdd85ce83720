/*
 * Workers and ps that are killed by kill -9, and what the client sees. Each behaviour
 * is tested with two workers and two ps, with one of each if that makes sense, and then
 * again with a queue of two; docs/conformance.md lists the behaviours.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/conformance/story.h"

/* ---- the client closes */

static void *wait_for(void *arg)
{
    struct cox_future **future = arg;
    int code = cox_future_wait(*future, -1);
    cox_future_free(*future);
    *future = NULL;
    return code == COX_ECANCELLED ? arg : NULL;
}

/* Closes while a step runs, others are queued, and a thread waits for one of them. */
static void close_amidst(struct story *story)
{
    struct scene *scene = &story->scene;
    struct crew_hold hold;
    struct cox_future *behind[3];
    pthread_t thread;
    void *ended;
    pid_t pids[2] = {crew_step_process(&scene->crew, 0),
                     crew_ps_process(&scene->crew, 0)};
    crew_hold_on(&hold, &scene->crew, "hold", 1, true);
    crew_hold_wait(&hold);
    for (int i = 0; i < 3; i++) {
        behind[i] = scene_schedule(scene, "count", 1);
    }
    assert_int_equal(0, pthread_create(&thread, NULL, wait_for, &behind[2]));
    assert_code(COX_ETIMEDOUT, cox_close(scene->crew.c, 10));
    crew_hold_release(&hold);
    assert_int_equal(0, pthread_join(thread, &ended));
    assert_ptr_equal(&behind[2], ended);
    scene_end(hold.future, COX_ECANCELLED);
    for (int i = 0; i < 2; i++) {
        scene_end(behind[i], COX_ECANCELLED);
    }
    for (int i = 0; i < 2; i++) {
        crew_wait_gone(pids[i]);
    }
}

static void check_closing(uint32_t queue_max)
{
    struct story story;
    /* Play it once before counting threads, because libraries start some only once. */
    story_with(story_assert_recovered, 2, queue_max);
    int n_threads = coxi_test_threads();
    story_open(&story, 2, queue_max);
    assert_true(coxi_test_threads() > n_threads);
    scene_count(&story.scene, 100);
    story_close(&story);
    coxi_test_until(coxi_test_has_threads, &n_threads, "the end of every thread");
    story_open(&story, 2, queue_max);
    close_amidst(&story);
    coxi_test_until(coxi_test_has_threads, &n_threads, "the end of every thread");
}

TEST(closing_the_coordinator_ends_its_threads)
{
    check_closing(0);
}

TEST(closing_the_coordinator_ends_its_threads_with_a_queue_of_2)
{
    check_closing(2);
}

/* ---- a worker is killed */

static void kill_between(struct story *story)
{
    for (int i = 0; i < 2; i++) {
        story_count(story, 2);
        story_kill(story, i, 0, NULL);
        story_count(story, 2); /* two more, after the kill */
        story_assert_recovered(story);
    }
}

TEST(worker_killed_between_functions_loses_nothing)
{
    story_with_each(kill_between, 0);
}

TEST(worker_killed_between_functions_loses_nothing_with_a_queue_of_2)
{
    story_with_each(kill_between, 2);
}

/* Begins a counting step on worker 0, although any worker may run it. */
static void hold_on_first(struct story *story, struct crew_hold *hold)
{
    struct scene *scene = &story->scene;
    struct crew_hold other;
    bool alone = scene->setup.n_workers == 1;
    if (!alone) {
        crew_hold_on(&other, &scene->crew, "hold", 2, true);
        crew_hold_wait(&other);
    }
    crew_hold(hold, &scene->crew, "hold_and_count", true);
    crew_hold_wait(hold);
    if (!alone) {
        crew_hold_release(&other);
        scene_end(other.future, 0);
    }
}

static void kill_within(struct story *story)
{
    for (int i = 0; i < 2; i++) {
        struct scene *scene = &story->scene;
        struct crew_hold hold;
        uint64_t n_put_back = scene_stats(scene).put_back;
        hold_on_first(story, &hold);
        scene_count(scene, 2);
        story_kill(story, i, 0, &hold);
        crew_hold_wait(&hold); /* it runs again */
        assert_true(scene_stats(scene).put_back > n_put_back);
        assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 0));
        crew_hold_release(&hold);
        scene_end(hold.future, 0);
        story->counted += 3;
        story_assert_recovered(story);
    }
}

TEST(worker_killed_within_a_function_has_it_run_again)
{
    story_with_each(kill_within, 0);
}

TEST(worker_killed_within_a_function_has_it_run_again_with_a_queue_of_2)
{
    story_with_each(kill_within, 2);
}

static void kill_twice(struct story *story)
{
    struct scene *scene = &story->scene;
    struct crew_hold hold;
    uint64_t n_put_back = scene_stats(scene).put_back;
    crew_hold_on(&hold, &scene->crew, "hold_and_count", 1, true);
    for (int i = 0; i < 2; i++) {
        crew_hold_wait(&hold);
        story_kill(story, i, 0, &hold);
    }
    crew_hold_wait(&hold);
    crew_hold_release(&hold);
    scene_end(hold.future, 0);
    assert_int_equal(n_put_back + 2, scene_stats(scene).put_back);
    story->counted++;
    story_assert_recovered(story);
}

TEST(worker_killed_twice_returns_twice)
{
    story_with_each(kill_twice, 0);
}

TEST(worker_killed_twice_returns_twice_with_a_queue_of_2)
{
    story_with_each(kill_twice, 2);
}

static void kill_both(struct story *story)
{
    struct scene *scene = &story->scene;
    struct crew_hold holds[2];
    for (uint32_t i = 0; i < 2; i++) {
        crew_hold_on(&holds[i], &scene->crew, "hold_and_count", 1 + i, true);
        crew_hold_wait(&holds[i]);
    }
    for (int i = 0; i < 2; i++) {
        story_kill(story, i, i, &holds[i]);
    }
    scene_count(scene, 2);
    for (int i = 0; i < 2; i++) {
        crew_hold_wait(&holds[i]);
    }
    for (int i = 0; i < 2; i++) {
        crew_hold_release(&holds[i]);
        scene_end(holds[i].future, 0);
    }
    story->counted += 4;
    story_assert_recovered(story);
}

TEST(two_workers_killed_return_both)
{
    story_with(kill_both, 2, 0);
}

TEST(two_workers_killed_return_both_with_a_queue_of_2)
{
    story_with(kill_both, 2, 2);
}

/* ---- a worker is killed, and its data sets are lost */

/* Asserts that the next element of worker `index`'s data set is `element`. */
static void take_next(struct story *story, int index, int64_t element)
{
    struct cox_future *future =
        scene_schedule(&story->scene, "next", 1 + (uint32_t)index);
    assert_int_equal(element, scene_result(future, "element"));
    assert_int_equal(index, scene_result(future, "worker"));
    cox_future_free(future);
    story->counted++;
}

static void rebuild(struct story *story)
{
    enum { EACH = 2 };
    int last = story->scene.setup.n_workers - 1;
    (void)scene_resource(&story->scene, "data", "iterator", NULL, 0);
    for (int64_t round = 0; round < 3; round++) {
        for (int64_t i = 0; i < EACH; i++) {
            take_next(story, 0, i); /* starts anew */
            if (last > 0) {
                take_next(story, last, EACH * round + i); /* was not killed */
            }
        }
        if (round < 2) {
            story_kill(story, (int)round, 0, NULL);
        }
    }
    story_assert_recovered(story);
}

/* Kills the worker while it makes the data set; asserts that no step runs there before
 * the data set is made. */
static void rebuild_amidst(struct story *story)
{
    struct scene *scene = &story->scene;
    struct crew_hold making = {.path = coxi_test_path("making"), .fd = -1};
    struct cox_value arg =
        COX_VECTOR("fifo", COX_U8, strlen(making.path) + 1, making.path);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    assert_int_equal(0, mkfifo(making.path, 0600));
    assert_code(0, cox_resource_create(scene->crew.c, "data",
                                       crew_function(&scene->crew, "iterator_held"),
                                       &call, NULL));
    struct cox_future *next = scene_schedule(scene, "next", 0);
    for (int i = 0; i < 2; i++) {
        crew_hold_wait(&making);
        assert_code(COX_ETIMEDOUT, cox_future_wait(next, 0));
        story_kill(story, i, 0, &making);
    }
    crew_hold_wait(&making);
    assert_code(COX_ETIMEDOUT, cox_future_wait(next, 0));
    crew_hold_release(&making);
    assert_int_equal(0, scene_result(next, "element"));
    cox_future_free(next);
    story->counted++;
    story_assert_recovered(story);
}

static void check_rebuild(uint32_t queue_max)
{
    story_with_each(rebuild, queue_max);
    story_with(rebuild_amidst, 1, queue_max);
}

TEST(data_sets_of_a_worker_are_rebuilt_before_it_goes_on)
{
    check_rebuild(0);
}

TEST(data_sets_of_a_worker_are_rebuilt_before_it_goes_on_with_a_queue_of_2)
{
    check_rebuild(2);
}

/* ---- a worker is killed, and a step fails on another */

/* Releases a held step whenever it runs again, until the caller has returned. */
struct straggler {
    struct caller *caller;
    struct crew_hold *hold;
};

static bool caller_is_back(void *arg)
{
    struct straggler *straggler = arg;
    int fd = open(straggler->hold->path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) {
        (void)close(fd);
    }
    return caller_has_returned(straggler->caller);
}

static void fail_beside_a_loss(struct story *story, bool lost_first)
{
    struct scene *scene = &story->scene;
    struct crew_hold lost;
    struct crew_hold failing;
    struct caller caller;
    struct straggler straggler = {&caller, &lost};
    crew_hold_on(&lost, &scene->crew, "hold_and_count", 1, true);
    crew_hold_on(&failing, &scene->crew, "hold_and_fail", 2, true);
    crew_hold_wait(&lost);
    crew_hold_wait(&failing);
    caller_start(&caller, scene, scene_wait);
    if (!lost_first) {
        crew_hold_release(&failing);
    }
    story_kill(story, 0, 0, &lost);
    if (lost_first) {
        crew_hold_release(&failing);
    }
    coxi_test_until(caller_is_back, &straggler, "the end of join");
    assert_code(COX_ESTEP, caller_join(&caller));
    assert_non_null(strstr(caller.text, failing.path));
    scene_end(failing.future, COX_ESTEP);
    /* The lost closure is cancelled, or was done again before that. */
    int code = cox_future_wait(lost.future, 0);
    assert_true(code == 0 || code == COX_ECANCELLED);
    cox_future_free(lost.future);
    story->counted += code == 0;
    story_assert_recovered(story);
    story_count(story, 2);
}

static void lose_and_fail(struct story *story)
{
    fail_beside_a_loss(story, true);
    fail_beside_a_loss(story, false);
}

TEST(error_of_a_step_wins_over_a_worker_killed_meanwhile)
{
    story_with(lose_and_fail, 2, 0);
}

TEST(error_of_a_step_wins_over_a_worker_killed_meanwhile_with_a_queue_of_2)
{
    story_with(lose_and_fail, 2, 2);
}

/* ---- results and reads */

static void outlive(struct story *story)
{
    struct scene *scene = &story->scene;
    struct cox_value before;
    struct cox_value after;
    struct cox_future *fetched = scene_schedule(scene, "number_off", 1);
    struct cox_future *done = scene_schedule(scene, "number_off", 1);
    assert_int_equal(0, scene_result(fetched, "order"));
    assert_code(0, cox_future_result(fetched, "order", &before));
    assert_code(0, cox_join(scene->crew.c, -1)); /* it is done, but not fetched */
    story_kill(story, 1, 0, NULL);
    for (int i = 0; i < 2; i++) {
        assert_code(0, cox_future_result(fetched, "order", &after));
        assert_ptr_equal(before.data, after.data);
        assert_int_equal(0, scene_result(fetched, "order"));
        assert_int_equal(1, scene_result(done, "order"));
        assert_int_equal(0, scene_result(done, "worker"));
        story_assert_recovered(story);
    }
    cox_future_free(fetched);
    cox_future_free(done);
}

TEST(result_that_was_fetched_survives_its_worker)
{
    story_with_each(outlive, 0);
}

TEST(result_that_was_fetched_survives_its_worker_with_a_queue_of_2)
{
    story_with_each(outlive, 2);
}

static bool reads_and_is_back(void *arg)
{
    struct story *story = arg;
    for (int i = 0; i < 20; i++) {
        scene_assert_count(&story->scene, story->counted);
    }
    struct cox_stats stats = scene_stats(&story->scene);
    return stats.workers_lost == story->n_lost && stats.workers_ready == stats.workers;
}

static void read_while_recovering(struct story *story)
{
    story_count(story, 3);
    for (int i = 0; i < 4; i++) {
        story_kill(story, i, 0, NULL);
        coxi_test_until(reads_and_is_back, story, "the return of the worker");
    }
    story_assert_recovered(story);
}

TEST(reads_from_a_ps_never_fail_while_a_worker_recovers)
{
    story_with_each(read_while_recovering, 0);
}

TEST(reads_from_a_ps_never_fail_while_a_worker_recovers_with_a_queue_of_2)
{
    story_with_each(read_while_recovering, 2);
}

/* ---- errors name the worker or ps that is lost */

static bool is_away(void *arg)
{
    struct cox_stats stats = scene_stats(arg);
    return stats.workers_ready < stats.workers;
}

/* Kills worker `index` and stops its supervisor, so that it stays away. Returns the
 * supervisor, which the caller continues. */
static pid_t keep_away(struct story *story, int index)
{
    pid_t supervisor = crew_supervisor(&story->scene.crew, index);
    pid_t steps = crew_step_process(&story->scene.crew, index);
    assert_int_equal(0, kill(supervisor, SIGSTOP));
    crew_kill(steps);
    coxi_test_until(is_away, &story->scene, "the loss of the worker");
    story->n_lost++;
    return supervisor;
}

/* Asserts that a closure fails if the only worker that may run it stays away. */
static void lose_worker(struct story *story, int index)
{
    struct scene *scene = &story->scene;
    char name[32];
    (void)snprintf(name, sizeof(name), "worker %d at ", index);
    pid_t supervisor = keep_away(story, index);
    struct cox_future *future = scene_schedule(scene, "count", 1 + (uint32_t)index);
    assert_code(COX_ENOWORKER, cox_join(scene->crew.c, -1));
    story_assert_names(cox_error_last(), name, "ps ");
    scene_end(future, COX_ENOWORKER);
    assert_int_equal(0, kill(supervisor, SIGCONT));
    scene_wait_back(scene, story->n_lost);
    story_count(story, 4);
}

/* Kills a ps while a step runs whose worker has used its connection to that ps, and
 * while another closure is queued. */
static void lose_ps(struct story *story, int index)
{
    struct scene *scene = &story->scene;
    struct crew_hold hold;
    char name[32];
    (void)snprintf(name, sizeof(name), "ps %d ", index);
    crew_hold_on(&hold, &scene->crew, "hold_and_count", 1, true);
    crew_hold_wait(&hold);
    struct cox_future *behind = scene_schedule(scene, "count", 1);
    scene_wait_queued(scene, 0);
    crew_kill(crew_ps_process(&scene->crew, index));
    assert_code(COX_EPSLOST, cox_future_wait(behind, -1));
    story_assert_names(cox_error_last(), name, "worker");
    cox_future_free(behind);
    crew_hold_release(&hold);
    assert_code(COX_EPSLOST, cox_join(scene->crew.c, -1));
    story_assert_names(cox_error_last(), name, "worker");
    assert_code(COX_EPSLOST, cox_future_wait(hold.future, 0));
    assert_non_null(strstr(cox_error_last(), name));
    cox_future_free(hold.future);
    assert_code(COX_EPSLOST, scene_put(scene));
    story_assert_names(cox_error_last(), name, "worker");
    assert_code(COX_EPSLOST, cox_done(scene->crew.c));
    story_assert_names(cox_error_last(), name, "worker");
}

static void check_names(uint32_t queue_max)
{
    for (int n_each = 1; n_each <= 2; n_each++) {
        const struct setup setup = {
            .queue_max = queue_max, .n_ps = n_each, .n_workers = n_each};
        struct story story = {0};
        struct cox_options options = COX_OPTIONS_INIT;
        options.worker_wait_ms = 300;
        scene_open_with(&story.scene, &setup, &options);
        story_count(&story, 4);
        for (int i = 0; i < n_each; i++) {
            lose_worker(&story, i);
        }
        /* The loss of a ps is recognized even after the workers were connected anew. */
        lose_ps(&story, n_each - 1);
        story_close(&story);
    }
}

TEST(loss_of_a_worker_names_the_worker_and_loss_of_a_ps_the_ps)
{
    check_names(0);
}

TEST(loss_of_a_worker_names_the_worker_and_loss_of_a_ps_the_ps_with_a_queue_of_2)
{
    check_names(2);
}

static void lose_ps_while_recovering(struct story *story)
{
    struct scene *scene = &story->scene;
    struct crew_hold hold;
    struct caller caller;
    struct straggler straggler = {&caller, &hold};
    crew_hold_on(&hold, &scene->crew, "hold_and_count", 1, true);
    crew_hold_wait(&hold);
    pid_t supervisor = keep_away(story, 0);
    crew_hold_release(&hold);
    crew_kill(crew_ps_process(&scene->crew, 0));
    assert_int_equal(0, kill(supervisor, SIGCONT));
    caller_start(&caller, scene, scene_wait);
    coxi_test_until(caller_is_back, &straggler, "the end of join");
    assert_code(COX_EPSLOST, caller_join(&caller));
    story_assert_names(caller.text, "ps 0 ", "worker");
    scene_end(hold.future, COX_EPSLOST);
    assert_code(COX_EPSLOST, scene_put(scene));
    assert_code(COX_EPSLOST, cox_join(scene->crew.c, -1));
}

TEST(ps_lost_while_a_worker_recovers_is_told)
{
    story_with_each(lose_ps_while_recovering, 0);
}

TEST(ps_lost_while_a_worker_recovers_is_told_with_a_queue_of_2)
{
    story_with_each(lose_ps_while_recovering, 2);
}

/* ---- losses one after the other */

static void tell_all(struct story *story)
{
    kill_between(story);
    kill_within(story);
    kill_twice(story);
    if (story->scene.setup.n_workers > 1) {
        kill_both(story);
        lose_and_fail(story);
    }
    scene_assert_usable(&story->scene, story->counted, 100);
}

TEST(scenarios_one_after_the_other_leave_the_crew_usable)
{
    story_with_each(tell_all, 0);
}

TEST(scenarios_one_after_the_other_leave_the_crew_usable_with_a_queue_of_2)
{
    story_with_each(tell_all, 2);
}
