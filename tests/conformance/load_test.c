/*
 * Thousands of queued closures while workers die, while a ps dies, and without losses:
 * with two workers and two ps, with one of each, and all that with a queue of two;
 * docs/conformance.md lists the behaviours.
 */
#include <stdio.h>

#include "tests/conformance/story.h"

enum { MANY = 5000 };

static int put_many(struct scene *scene)
{
    int r = 0;
    for (int i = 0; r == 0 && i < MANY; i++) {
        r = scene_put(scene);
    }
    return r;
}

struct progress {
    struct story *story;
    int64_t count;
};

static bool has_counted(void *arg)
{
    struct progress *progress = arg;
    struct scene *scene = &progress->story->scene;
    return crew_read(&scene->crew, scene->counters[0]) >= progress->count;
}

static void wait_counted(struct story *story, int64_t count)
{
    struct progress progress = {story, count};
    coxi_test_until(has_counted, &progress, "steps that count");
}

/* Schedules many closures while no worker is free, so that they are queued; then frees
 * the workers. */
static void begin_many(struct story *story, struct caller *caller)
{
    struct scene *scene = &story->scene;
    struct crew_hold holds[2];
    int n = scene->setup.n_workers;
    uint64_t room = scene->setup.queue_max;
    for (int i = 0; i < n; i++) {
        crew_hold_on(&holds[i], &scene->crew, "hold", 1 + (uint32_t)i, true);
        crew_hold_wait(&holds[i]);
    }
    caller_start(caller, scene, put_many);
    scene_wait_queued(scene,
                      room > 0 ? room : (uint64_t)(MANY - n * (SCENE_HANDS - 1)));
    for (int i = 0; i < n; i++) {
        crew_hold_release(&holds[i]);
        scene_end(holds[i].future, 0);
    }
}

static void run_many(struct story *story)
{
    struct caller caller;
    begin_many(story, &caller);
    assert_code(0, caller_join(&caller));
    story->counted += MANY;
    story_assert_recovered(story);
}

TEST(many_closures_in_line_count_once)
{
    story_with_each(run_many, 0);
}

TEST(many_closures_in_line_count_once_with_a_queue_of_2)
{
    story_with_each(run_many, 2);
}

static void run_many_while_killing(struct story *story)
{
    struct caller caller;
    begin_many(story, &caller);
    for (int i = 0; i < 4; i++) {
        wait_counted(story, MANY / 8 * (i + 1));
        scene_wait_back(&story->scene, story->n_lost); /* so that each kill is a loss */
        story_kill(story, i, i / 2 % story->scene.setup.n_workers, NULL);
    }
    assert_code(0, caller_join(&caller));
    story->counted += MANY;
    story_assert_recovered(story);
}

TEST(many_closures_in_line_count_once_while_workers_are_killed)
{
    story_with_each(run_many_while_killing, 0);
}

TEST(many_closures_in_line_count_once_while_workers_are_killed_with_a_queue_of_2)
{
    story_with_each(run_many_while_killing, 2);
}

/* True once the client knows of the loss. Before that, with a short queue, cox_join may
 * return 0 between two closures, because all that are scheduled then are settled. */
static bool join_fails(void *arg)
{
    return cox_join(((struct scene *)arg)->crew.c, -1) != 0;
}

static void run_many_and_lose_ps(struct story *story)
{
    struct scene *scene = &story->scene;
    struct caller caller;
    int last = scene->setup.n_ps - 1;
    char name[32];
    (void)snprintf(name, sizeof(name), "ps %d ", last);
    begin_many(story, &caller);
    wait_counted(story, MANY / 8);
    crew_kill(crew_ps_process(&scene->crew, last));
    coxi_test_until(join_fails, scene, "the loss of a ps");
    story_assert_names(cox_error_last(), name, "worker");
    assert_code(COX_EPSLOST, cox_join(scene->crew.c, -1));
    int code = caller_join(&caller);
    assert_true(code == 0 || code == COX_EPSLOST);
    assert_code(COX_EPSLOST, cox_done(scene->crew.c));
    assert_code(COX_EPSLOST, scene_put(scene));
}

TEST(many_closures_in_line_end_when_a_ps_is_killed)
{
    story_with_each(run_many_and_lose_ps, 0);
}

TEST(many_closures_in_line_end_when_a_ps_is_killed_with_a_queue_of_2)
{
    story_with_each(run_many_and_lose_ps, 2);
}
