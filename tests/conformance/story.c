/* See story.h. */
#include "tests/conformance/story.h"

#include <string.h>

void story_open(struct story *story, int n_each, uint32_t queue_max)
{
    const struct setup setup = {
        .queue_max = queue_max, .n_ps = n_each, .n_workers = n_each};
    memset(story, 0, sizeof(*story));
    scene_open(&story->scene, &setup);
}

void story_close(struct story *story)
{
    scene_close(&story->scene);
}

void story_with(void (*check)(struct story *story), int n_each, uint32_t queue_max)
{
    struct story story;
    story_open(&story, n_each, queue_max);
    check(&story);
    story_close(&story);
}

void story_with_each(void (*check)(struct story *story), uint32_t queue_max)
{
    story_with(check, 2, queue_max);
    story_with(check, 1, queue_max);
}

void story_count(struct story *story, int n)
{
    for (int i = 0; i < n; i++) {
        scene_end(scene_schedule(&story->scene, "count", 0), 0);
    }
    story->counted += n;
    scene_assert_count(&story->scene, story->counted);
}

void story_assert_recovered(struct story *story)
{
    assert_code(0, cox_join(story->scene.crew.c, -1));
    scene_assert_count(&story->scene, story->counted);
    scene_wait_back(&story->scene, story->n_lost);
    for (int i = 0; i < story->scene.setup.n_workers; i++) {
        scene_assert_works(&story->scene, i);
    }
    scene_assert_settled(&story->scene, true);
}

void story_kill(struct story *story, int i, int worker, struct crew_hold *held)
{
    (i % 2 == 0 ? scene_kill : scene_kill_host)(&story->scene, worker, held);
    story->n_lost++;
}

void story_assert_names(const char *text, const char *lost, const char *other)
{
    if (strstr(text, lost) == NULL || strstr(text, other) != NULL) {
        fail_msg("'%s' does not name '%s', or '%s'", text, lost, other);
    }
}
