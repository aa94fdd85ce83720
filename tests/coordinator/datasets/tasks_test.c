/*
 * The tasks of a data set without a coordinator: random hand-outs, ends and checkpoints.
 *
 * The model of a checkpoint is that of the manifest: it covers closures up to the
 * highest one that is settled or applied anywhere; of these it has the effect, or they
 * are in its backlog.
 */
#include "coordinator/datasets/tasks.h"

#include <stdio.h>

#include "common/rand.h"
#include "coordinator/closures/closure.h"
#include "coxswain/dataset.h"
#include "tests/test.h"

enum { N = 17, EPOCHS = 3, POSITIONS = N * EPOCHS, UNDER_WAY = 12, FAILURES_MAX = 3 };

/* A client: closures under way, and what became of each position. */
struct client {
    struct coxi_tasks tasks;
    struct coxi_closure *under_way[UNDER_WAY];
    size_t n;
    uint64_t next_id;
    uint64_t now_ms;
    uint64_t settled; /* the highest id that is settled */
    uint8_t done[POSITIONS];
    uint8_t failed[POSITIONS];
    uint64_t seed;
};

static uint64_t pick(struct client *client, uint64_t n)
{
    return coxi_rand(&client->seed) % n;
}

static struct coxi_closure *closure_of(struct coxi_handout *handout, uint64_t id)
{
    struct coxi_closure *closure = calloc(1, sizeof(*closure));
    assert_non_null(closure);
    closure->future.id = coxi_closure_id(id);
    closure->task = handout;
    handout->closure = closure;
    return closure;
}

/* Takes a task; false: there is none. Now and then it cannot be scheduled. */
static bool give(struct client *client)
{
    struct coxi_handout *spare = calloc(1, sizeof(*spare));
    assert_non_null(spare);
    struct coxi_handout *handout =
        coxi_tasks_take(&client->tasks, POSITIONS, client->now_ms, spare);
    if (handout != spare) {
        free(spare);
    }
    if (handout == NULL) {
        return false;
    }
    if (pick(client, 10) == 0) {
        free(coxi_tasks_untake(&client->tasks, handout));
        return true;
    }
    client->under_way[client->n++] = closure_of(handout, client->next_id++);
    return true;
}

/* Ends a closure that is under way: done, failed or cancelled. */
static void end(struct client *client, size_t i)
{
    struct coxi_closure *closure = client->under_way[i];
    struct coxi_handout *handout = closure->task;
    uint64_t id = closure->future.id.n;
    client->under_way[i] = client->under_way[--client->n];
    client->settled = id > client->settled ? id : client->settled;
    uint64_t how = pick(client, 8);
    bool cancelled = how == 1;
    if (cancelled || (how == 0 && ++handout->failures < FAILURES_MAX)) {
        uint64_t due_ms = client->now_ms + (cancelled ? 0 : pick(client, 20));
        coxi_tasks_return(&client->tasks, handout, due_ms);
    } else {
        bool failed = how == 0;
        coxi_tasks_over(&client->tasks, handout);
        client->failed[handout->position] += failed;
        client->done[handout->position] += !failed;
        free(handout);
    }
    free(closure);
}

/* Some random hand-outs and ends; false: all tasks are over. */
static bool go_on(struct client *client, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++, client->now_ms++) {
        bool room = client->n < UNDER_WAY;
        if (room && pick(client, 2) == 0 && give(client)) {
            continue;
        }
        if (client->n > 0) {
            end(client, pick(client, client->n));
        } else if (client->tasks.waiting.n > 0) {
            client->now_ms =
                coxi_positions_next_due(&client->tasks.waiting, UINT64_MAX);
        } else if (!give(client)) {
            return false;
        }
    }
    return true;
}

static void drop(struct client *client)
{
    for (size_t i = 0; i < client->n; i++) {
        coxi_tasks_over(&client->tasks, client->under_way[i]->task);
        free(client->under_way[i]->task);
        free(client->under_way[i]);
    }
    coxi_tasks_fini(&client->tasks);
}

/* The client as of a checkpoint taken now: what it covers is under way again. Some ps
 * may have applied a closure that is not settled. */
static struct client resume(struct client *old)
{
    struct client client = {.seed = old->seed + 1};
    struct coxi_manifest_ranges again;
    uint64_t next;
    uint64_t covered = old->settled;
    for (size_t i = 0; i < old->n; i++) {
        uint64_t id = old->under_way[i]->future.id.n;
        covered = id > covered && pick(old, 4) == 0 ? id : covered;
    }
    assert_code(0, coxi_tasks_save(&old->tasks, covered, &next, &again));
    assert_code(0, coxi_tasks_init(&client.tasks, N, EPOCHS));
    assert_code(0, coxi_tasks_load(&client.tasks, next, &again));
    coxi_manifest_ranges_fini(&again);
    memcpy(client.done, old->done, sizeof(client.done));
    memcpy(client.failed, old->failed, sizeof(client.failed));
    for (size_t i = 0; i < old->n; i++) {
        const struct coxi_closure *closure = old->under_way[i];
        if (closure->future.id.n <= covered) {
            struct coxi_handout *handout = calloc(1, sizeof(*handout));
            assert_non_null(handout);
            handout->position = closure->task->position;
            handout->failures = closure->task->failures;
            client.under_way[client.n++] = closure_of(handout, closure->future.id.n);
            coxi_tasks_adopt(&client.tasks, handout);
        }
    }
    client.settled = covered;
    client.next_id = covered + 1;
    return client;
}

static void assert_once(const struct client *client, uint64_t seed)
{
    for (size_t i = 0; i < POSITIONS; i++) {
        if (client->done[i] + client->failed[i] != 1) {
            fail_msg("seed %llu: task %zu was done %d times and failed %d times",
                     (unsigned long long)seed, i, client->done[i], client->failed[i]);
        }
    }
    assert_int_equal(coxi_tasks_floor(&client->tasks), POSITIONS);
}

TEST(each_task_is_over_once_whatever_happens_when)
{
    const char *more = getenv("COX_TEST_SEEDS");
    uint64_t seeds = more != NULL ? strtoull(more, NULL, 10) : 2000;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        struct client client = {.seed = seed, .next_id = 1};
        assert_code(0, coxi_tasks_init(&client.tasks, N, EPOCHS));
        /* clients that die, after any number of tasks */
        for (uint64_t deaths = pick(&client, 5); deaths > 0; deaths--) {
            (void)go_on(&client, pick(&client, 80));
            struct client heir = resume(&client);
            drop(&client);
            client = heir;
        }
        assert_false(go_on(&client, UINT64_MAX));
        assert_once(&client, seed);
        drop(&client);
    }
}

/* Takes a task, which must be the one at `position`. */
static struct coxi_handout *take(struct coxi_tasks *tasks, uint64_t now_ms,
                                 uint64_t position)
{
    struct coxi_handout *spare = calloc(1, sizeof(*spare));
    struct coxi_handout *handout = coxi_tasks_take(tasks, UINT64_MAX, now_ms, spare);
    if (handout != spare) {
        free(spare);
    }
    assert_non_null(handout);
    assert_int_equal(handout->position, position);
    return handout;
}

TEST(tasks_that_were_taken_and_have_no_closure_will_not_come)
{
    struct coxi_tasks tasks;
    assert_code(0, coxi_tasks_init(&tasks, 2, 2));
    assert_true(coxi_tasks_may_come(&tasks, 2));
    struct coxi_handout *first = take(&tasks, 0, 0);
    assert_true(coxi_tasks_may_come(&tasks, 2));
    struct coxi_handout *second = take(&tasks, 0, 1);
    assert_false(coxi_tasks_may_come(&tasks, 2));
    assert_true(coxi_tasks_may_come(&tasks, 3));
    struct coxi_closure *closure = closure_of(first, 1);
    assert_true(coxi_tasks_may_come(&tasks, 2)); /* it may fail */
    coxi_tasks_return(&tasks, first, 1000);
    free(closure);
    assert_true(coxi_tasks_may_come(&tasks, 2));
    first = take(&tasks, 1000, 0);
    assert_false(coxi_tasks_may_come(&tasks, 2));
    closure = closure_of(first, 2);
    assert_true(coxi_tasks_may_come(&tasks, 2));
    coxi_tasks_over(&tasks, first);
    coxi_tasks_over(&tasks, second);
    assert_false(coxi_tasks_may_come(&tasks, 2));
    free(closure);
    free(first);
    free(second);
    coxi_tasks_fini(&tasks);
}

TEST(a_task_that_rests_keeps_no_other_waiting)
{
    struct coxi_tasks tasks;
    struct coxi_handout *first[3];
    assert_code(0, coxi_tasks_init(&tasks, 5, 1));
    for (uint64_t i = 0; i < 3; i++) {
        first[i] = take(&tasks, 0, i);
    }
    coxi_tasks_return(&tasks, first[1], 100);
    coxi_tasks_return(&tasks, first[2], 50);
    coxi_tasks_return(&tasks, first[0], 200);
    assert_int_equal(coxi_positions_next_due(&tasks.waiting, UINT64_MAX), 50);
    assert_int_equal(coxi_positions_next_due(&tasks.waiting, 2), 100);
    assert_int_equal(coxi_positions_next_due(&tasks.waiting, 1), 200);
    assert_int_equal(coxi_positions_next_due(&tasks.waiting, 0), COXI_NEVER_DUE);
    struct coxi_handout *third = take(&tasks, 49, 3);
    assert_ptr_equal(first[2], take(&tasks, 50, 2));
    struct coxi_handout *fourth = take(&tasks, 99, 4);
    assert_null(coxi_tasks_take(&tasks, UINT64_MAX, 99, NULL));
    assert_ptr_equal(first[0], take(&tasks, 200, 0));
    assert_ptr_equal(first[1], take(&tasks, 200, 1));
    assert_int_equal(coxi_positions_next_due(&tasks.waiting, UINT64_MAX),
                     COXI_NEVER_DUE);
    struct coxi_handout *all[] = {first[0], first[1], first[2], third, fourth};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(coxi_tasks_floor(&tasks), i);
        coxi_tasks_over(&tasks, all[i]);
        free(all[i]);
    }
    assert_int_equal(coxi_tasks_floor(&tasks), 5);
}

TEST(a_task_that_came_late_rests_while_there_are_others)
{
    struct coxi_tasks tasks;
    struct coxi_handout *all[3];
    assert_code(0, coxi_tasks_init(&tasks, 3, 1));
    for (uint64_t i = 0; i < 2; i++) {
        all[i] = take(&tasks, 0, i);
        coxi_tasks_return(&tasks, all[i], 100);
    }
    all[1]->late = true;
    all[2] = take(&tasks, 0, 2);
    assert_null(coxi_tasks_take(&tasks, 1, 0, NULL));
    assert_ptr_equal(all[1], take(&tasks, 0, 1));
    assert_null(coxi_tasks_take(&tasks, 3, 0, NULL)); /* the other has failed */
    coxi_tasks_return(&tasks, all[1], 100);
    assert_null(coxi_tasks_take(&tasks, 3, 0, NULL)); /* so has this one now */
    assert_ptr_equal(all[0], take(&tasks, 100, 0));
    assert_ptr_equal(all[1], take(&tasks, 100, 1));
    for (size_t i = 0; i < 3; i++) {
        coxi_tasks_over(&tasks, all[i]);
        free(all[i]);
    }
}

/* Walking past other tasks that wait would take hours. */
TEST(tasks_come_back_in_any_order)
{
    enum { MANY = 300000, STRIDE = 7919 };
    struct coxi_tasks tasks;
    struct coxi_handout **all = calloc(MANY, sizeof(struct coxi_handout *));
    struct coxi_manifest_ranges again;
    uint64_t next;
    assert_non_null(all);
    assert_code(0, coxi_tasks_init(&tasks, MANY, 1));
    for (uint64_t i = 0; i < MANY; i++) {
        all[i] = take(&tasks, 0, i);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        coxi_tasks_return(&tasks, all[i * STRIDE % MANY], i % 3);
    }
    assert_code(0, coxi_tasks_save(&tasks, 0, &next, &again));
    assert_int_equal(next, MANY);
    assert_int_equal(again.n, 1);
    assert_int_equal(again.all[0].last, MANY - 1);
    coxi_manifest_ranges_fini(&again);
    for (uint64_t i = 0; i < MANY; i++) {
        assert_ptr_equal(all[i], take(&tasks, 2, i));
    }
    for (uint64_t i = 0; i < MANY; i++) {
        coxi_tasks_over(&tasks, all[i * STRIDE % MANY]);
        free(all[i * STRIDE % MANY]);
    }
    assert_int_equal(coxi_tasks_floor(&tasks), MANY);
    free(all);
}

TEST(no_more_tasks_are_under_way_and_waiting_than_a_manifest_can_list)
{
    struct coxi_tasks tasks;
    assert_code(0, coxi_tasks_init(&tasks, UINT32_MAX, 1));
    for (uint64_t i = 0; i < COXI_AHEAD_MAX; i++) {
        coxi_tasks_return(&tasks, take(&tasks, 0, i), 1);
    }
    assert_null(coxi_tasks_take(&tasks, UINT64_MAX, 0, NULL));
    struct coxi_handout *first = take(&tasks, 1, 0);
    coxi_tasks_over(&tasks, first);
    free(first);
    struct coxi_handout *fresh = take(&tasks, 0, COXI_AHEAD_MAX);
    coxi_tasks_over(&tasks, fresh);
    free(fresh);
    coxi_tasks_fini(&tasks);
}

TEST(tasks_for_ever_have_no_end)
{
    struct coxi_tasks tasks;
    assert_code(0, coxi_tasks_init(&tasks, N, COX_EPOCHS_FOREVER));
    for (uint64_t i = 0; i < 10 * (uint64_t)N; i++) {
        struct coxi_handout *handout =
            coxi_tasks_take(&tasks, UINT64_MAX, 0, calloc(1, sizeof(*handout)));
        assert_non_null(handout);
        assert_int_equal(handout->position, i);
        coxi_tasks_over(&tasks, handout);
        free(handout);
    }
    assert_code(COX_EINVAL, coxi_tasks_init(&tasks, N, UINT64_MAX - 1));
    assert_code(0, coxi_tasks_init(&tasks, 0, COX_EPOCHS_FOREVER));
    assert_null(coxi_tasks_take(&tasks, UINT64_MAX, 0, NULL));
}

TEST(progress_that_is_nearly_in_order_takes_few_ranges)
{
    struct coxi_tasks tasks;
    struct coxi_closure *late[5] = {0};
    struct coxi_manifest_ranges again;
    uint64_t next;
    assert_code(0, coxi_tasks_init(&tasks, 1000000, 1));
    for (uint64_t i = 0; i < 1000000; i++) {
        struct coxi_handout *handout =
            coxi_tasks_take(&tasks, UINT64_MAX, 0, calloc(1, sizeof(*handout)));
        if (i % 200000 == 7) {
            late[i / 200000] = closure_of(handout, i + 1);
        } else {
            coxi_tasks_over(&tasks, handout);
            free(handout);
        }
    }
    for (size_t i = 0; i < 5; i++) {
        coxi_tasks_return(&tasks, late[i]->task, 0);
        free(late[i]);
    }
    assert_code(0, coxi_tasks_save(&tasks, 1000000, &next, &again));
    assert_int_equal(next, 1000000);
    assert_int_equal(again.n, 5);
    assert_int_equal(coxi_tasks_floor(&tasks), 7);
    coxi_manifest_ranges_fini(&again);
    coxi_tasks_fini(&tasks);
}

TEST(a_checkpoint_with_a_task_that_was_never_given_out_is_refused)
{
    struct coxi_tasks tasks;
    struct coxi_manifest_range wrong = {3, 5, 0};
    const struct coxi_manifest_ranges again = {&wrong, 1, 1};
    assert_code(0, coxi_tasks_init(&tasks, N, 1));
    assert_code(COX_EFORMAT, coxi_tasks_load(&tasks, 5, &again));
    wrong.last = UINT64_MAX - 1;
    assert_code(0, coxi_tasks_init(&tasks, N, 1));
    assert_code(COX_EFORMAT, coxi_tasks_load(&tasks, UINT64_MAX, &again));
}
