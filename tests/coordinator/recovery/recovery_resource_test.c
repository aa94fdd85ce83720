/* Resources and recovery: each resource is made in its turn of the replay, and a
 * released one stays until no step that used it can be replayed. */
#include <stdio.h>

#include "tests/coordinator/keeper.h"
#include "tests/coordinator/recovery/gated.h"
#include "tests/coordinator/writing.h"
#include "tests/test.h"

static int64_t peek(struct gated *s)
{
    return keeper_peek(&s->other, "r", 0);
}

/* Asserts that a lost resource is made after the replay of an older step and before
 * that of a later step that uses it. */
static void check_made_in_its_turn(struct gated *s)
{
    gated_pass(s);
    gated_assign(s, s->c0, 42);
    (void)keeper_create(&s->other, "r", "make_from_c0", &(struct keeper_ask){0});
    assert_int_equal(
        43, keeper_run(&s->other, "bump", "count", &(struct keeper_ask){.name = "r"}));
    gated_lose_worker(s, 0, 1);
    gated_lose_ps(s, 0, 1);
    crew_hold_wait(&s->gate);
    crew_hold_end(&s->gate);
    assert_int_equal(43, crew_read(&s->crew, s->c0));
    assert_int_equal(43, peek(s)); /* the replay counted on from 42 */
    crew_close(&s->crew);
}

TEST(a_resource_is_made_when_what_came_before_it_has_been_done_again)
{
    struct gated s;
    gated_open(&s, 1, 1, "resource", NULL);
    check_made_in_its_turn(&s);
}

/* The write that the previous client left was done while this client opened, so nothing
 * that the previous client left can still need the resource. */
TEST(a_resource_is_made_in_its_turn_where_a_client_before_has_left_only_a_write)
{
    const int64_t seven = 7;
    struct gated s;
    gated_open(&s, 1, 1, NULL, NULL);
    struct writing write;
    writing_begin(&write, s.crew.c, s.c0, &seven);
    gated_assign(&s, s.c0,
                 8); /* a later write, so that the checkpoint's backlog has both */
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    writing_end(&write, true);
    crew_close(&s.crew);
    gated_open(&s, 1, 1, "resource", NULL);
    check_made_in_its_turn(&s);
}

TEST(a_resource_whose_making_met_a_lost_ps_is_made_again)
{
    struct gated s;
    gated_open(&s, 1, 1, "resource", NULL);
    gated_assign(&s, s.c0, 42);
    struct crew_hold making = {.path = keeper_fifo()};
    (void)keeper_create(&s.other, "r", "make_from_c0",
                        &(struct keeper_ask){.path = making.path});
    crew_hold_wait(&making);
    gated_lose_ps(&s, 0, 1);
    crew_hold_end(&making);
    assert_int_equal(42, peek(&s));
    crew_close(&s.crew);
}

TEST(a_replay_waits_for_a_resource_as_long_as_that_may_take)
{
    struct gated s;
    struct cox_options options = COX_OPTIONS_INIT;
    options.ps_recovery_ms = 3000;
    gated_open(&s, 1, 1, "resource", &options);
    struct crew_hold making = {.path = keeper_fifo()};
    (void)keeper_create(&s.other, "r", "make_from_c0",
                        &(struct keeper_ask){.path = making.path});
    crew_hold_wait(&making);
    crew_hold_release(&making);
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    gated_lose_worker(&s, 0, 1);
    gated_lose_ps(&s, 0, 1);
    crew_hold_wait(&making);
    assert_code(COX_ETIMEDOUT, cox_join(s.crew.c, 4500));
    crew_hold_end(&making);
    gated_join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

/* ---- resources that are released */

static struct cox_resource *create_from(struct gated *s, int64_t start)
{
    return keeper_create(&s->other, "r", "make",
                         &(struct keeper_ask){.number = "start", .n = start});
}

/* Runs a step that adds the value of resource r to c0. */
static void add_count(struct gated *s)
{
    cox_future_free(
        keeper_start(&s->other, "add_count", &(struct keeper_ask){.name = "r"}));
    gated_join(s);
}

TEST(a_step_that_used_a_resource_is_replayed_when_that_has_been_released)
{
    struct gated s;
    gated_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = keeper_create_plain(&s.other, "r");
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    cox_resource_release(r);
    gated_lose_ps(&s, 0, 1);
    gated_join(&s);
    assert_int_equal(1, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

/* Two resources have one name: steps before the release find the first, later steps the
 * second. */
static void check_reused_name(bool lose_the_worker)
{
    struct gated s;
    gated_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = create_from(&s, 100);
    add_count(&s);
    cox_resource_release(r);
    (void)create_from(&s, 1);
    add_count(&s);
    if (lose_the_worker) {
        gated_lose_worker(&s, 0, 1);
    }
    gated_lose_ps(&s, 0, 1);
    gated_join(&s);
    assert_int_equal(101, crew_read(&s.crew, s.c0));
    add_count(&s);
    assert_int_equal(102, crew_read(&s.crew, s.c0));
    crew_close(&s.crew);
}

TEST(replayed_steps_find_what_they_used_and_later_ones_the_next_of_its_name)
{
    check_reused_name(false);
}

TEST(a_worker_that_comes_back_in_a_recovery_makes_released_resources_too)
{
    check_reused_name(true);
}

static bool none_is_alive(void *arg)
{
    return keeper_count_alive(&((struct gated *)arg)->other, 0) == 0;
}

TEST(a_released_resource_goes_with_the_checkpoint_that_has_its_steps)
{
    struct gated s;
    gated_open(&s, 1, 1, "resource", NULL);
    struct cox_resource *r = keeper_create_plain(&s.other, "r");
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = "r"});
    cox_resource_release(r);
    assert_int_equal(COX_ENOENT, keeper_run(&s.other, "ask", "code",
                                            &(struct keeper_ask){.name = "r"}));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    gated_lose_worker(&s, 0, 1);
    assert_int_equal(COX_ENOENT, keeper_run(&s.other, "ask", "code",
                                            &(struct keeper_ask){.name = "r"}));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    assert_code(0, cox_checkpoint_save(s.crew.c, NULL, NULL));
    coxi_test_until(none_is_alive, &s, "the end of what was released");
    crew_close(&s.crew);
}

/* The next creation waits for a checkpoint, which the library takes by itself. */
TEST(released_resources_that_take_up_all_the_room_go_with_a_checkpoint)
{
    enum { N = 1024 };
    struct gated s;
    struct cox_resource *resources[N];
    char name[16];
    gated_open(&s, 1, 1, "resource", NULL);
    for (int i = 0; i < N; i++) {
        (void)snprintf(name, sizeof(name), "%d", i);
        resources[i] = keeper_create_plain(&s.other, name);
    }
    (void)keeper_run(&s.other, "bump", "count", &(struct keeper_ask){.name = name});
    for (int i = 0; i < N; i++) {
        cox_resource_release(resources[i]);
    }
    (void)keeper_create_plain(&s.other, "r");
    assert_int_equal(0, peek(&s));
    assert_int_equal(1, keeper_count_alive(&s.other, 0));
    crew_close(&s.crew);
}
