/* A crew that loses workers and ps, and what must be true of it all the same. */
#ifndef COXI_TESTS_CONFORMANCE_STORY_H
#define COXI_TESTS_CONFORMANCE_STORY_H

#include "tests/conformance/scene.h"

struct story {
    struct scene scene;
    int64_t counted; /* on each ps */
    uint64_t n_lost; /* workers */
};

/* With n_each workers and as many ps. */
void story_open(struct story *story, int n_each, uint32_t queue_max);
void story_close(struct story *story);

/* Opens, checks, closes; with two workers and two ps, and with one of each. */
void story_with(void (*check)(struct story *story), int n_each, uint32_t queue_max);
void story_with_each(void (*check)(struct story *story), uint32_t queue_max);

/* Runs steps that count, one after the other. */
void story_count(struct story *story, int n);

/* Every worker is there again, and all has counted once. */
void story_assert_recovered(struct story *story);

/* kill -9 of a worker's steps (even i), or of its supervisor, too (odd i); counted as a
 * loss. See scene_kill. */
void story_kill(struct story *story, int i, int worker, struct crew_hold *held);

/* An error's text names what is lost, and not the `other`. */
void story_assert_names(const char *text, const char *lost, const char *other);

#endif
