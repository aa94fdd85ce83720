/* A crew that loses workers and ps, and the conditions that must hold all the same. */
#ifndef COXI_TESTS_CONFORMANCE_STORY_H
#define COXI_TESTS_CONFORMANCE_STORY_H

#include "tests/conformance/scene.h"

struct story {
    struct scene scene;
    int64_t counted; /* steps that have counted, on each ps */
    uint64_t n_lost; /* losses of workers */
};

/* Opens with n_each workers and n_each ps. */
void story_open(struct story *story, int n_each, uint32_t queue_max);
void story_close(struct story *story);

/* Opens, checks, closes. _each: once with two workers and two ps, and once with one of
 * each. */
void story_with(void (*check)(struct story *story), int n_each, uint32_t queue_max);
void story_with_each(void (*check)(struct story *story), uint32_t queue_max);

/* Runs n counting steps, one after the other. */
void story_count(struct story *story, int n);

/* Asserts that every worker is back, and that each step has counted once. */
void story_assert_recovered(struct story *story);

/* Kills with kill -9 a worker's step process (even i), or its supervisor, too (odd i);
 * counts it as a loss. See scene_kill. */
void story_kill(struct story *story, int i, int worker, struct crew_hold *held);

/* Asserts that an error's text names `lost`, and not `other`. */
void story_assert_names(const char *text, const char *lost, const char *other);

#endif
