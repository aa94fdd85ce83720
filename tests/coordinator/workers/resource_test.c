/* Resources, which each worker makes once and keeps, as a client and its steps see
 * them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/coordinator/keeper.h"
#include "tests/test.h"

/* ---- making and using resources */

static void check_kept(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 1, options);
    (void)keeper_create(&crew, "n", "make",
                        &(struct keeper_ask){.number = "start", .n = 40});
    for (int64_t i = 41; i < 50; i++) {
        assert_int_equal(
            i, keeper_run(&crew, "bump", "count", &(struct keeper_ask){.name = "n"}));
    }
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(resource_is_kept_from_step_to_step)
{
    keeper_check(check_kept);
}

static void check_sum(const struct cox_options *options)
{
    enum { N = 400 };
    struct crew crew;
    keeper_open(&crew, 3, options);
    struct cox_variable *total = crew_counter(&crew, "c0");
    struct cox_value args[3];
    const struct keeper_ask ask = {.name = "n"};
    struct cox_call call = keeper_call(&ask, args);
    (void)keeper_create_plain(&crew, "n");
    for (int i = 0; i < N; i++) {
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "bump"), &call, NULL));
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(N, crew_read(&crew, total));
    assert_int_equal(N, keeper_peek(&crew, "n", 0) + keeper_peek(&crew, "n", 1) +
                            keeper_peek(&crew, "n", 2));
    crew_close(&crew);
}

TEST(counters_of_the_workers_sum_to_the_total)
{
    keeper_check(check_sum);
}

static void check_two(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 2, options);
    (void)keeper_create(&crew, "a", "make",
                        &(struct keeper_ask){.number = "start", .n = 10});
    (void)keeper_create(&crew, "b", "make",
                        &(struct keeper_ask){.number = "start", .n = 20});
    for (uint32_t w = 1; w <= 2; w++) {
        const struct keeper_ask ask = {.only_worker = w};
        assert_int_equal(11, keeper_run(&crew, "bump_two", "a", &ask));
        assert_int_equal(22, keeper_run(&crew, "bump_two", "b", &ask));
    }
    crew_close(&crew);
}

TEST(function_uses_two_resources)
{
    keeper_check(check_two);
}

static void deal(struct crew *crew, uint32_t index, int64_t ret_cards[16])
{
    struct cox_value value;
    struct cox_future *future = keeper_start(
        crew, "deal", &(struct keeper_ask){.name = "cards", .only_worker = 1 + index});
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, "cards", &value));
    assert_int_equal(16, value.shape[0]);
    memcpy(ret_cards, value.data, 16 * sizeof(int64_t));
    cox_future_free(future);
}

static void check_shuffled(const struct cox_options *options)
{
    struct crew crew;
    int64_t first[16];
    int64_t second[16];
    unsigned seen = 0;
    keeper_open(&crew, 2, options);
    (void)keeper_create_plain(&crew, "cards");
    deal(&crew, 0, first);
    deal(&crew, 1, second);
    assert_memory_not_equal(first, second, sizeof(first));
    for (int i = 0; i < 16; i++) {
        seen |= 1U << first[i];
    }
    assert_int_equal(0xffff, seen);

    /* Another process makes the same value, because the seed belongs to the
     * resource. */
    pid_t victim = crew_step_process(&crew, 0);
    crew_kill(victim);
    crew_wait_gone(victim);
    deal(&crew, 0, second);
    assert_memory_equal(first, second, sizeof(first));
    crew_close(&crew);
}

TEST(two_workers_shuffle_differently)
{
    keeper_check(check_shuffled);
}

static void check_file(const struct cox_options *options)
{
    struct crew crew;
    const char *path = coxi_test_path("start.txt");
    const struct keeper_ask ask = {.path = path};
    coxi_test_write(path, "1234\n", 5);
    keeper_open(&crew, 2, options);
    (void)keeper_create(&crew, "n", "make_from_file", &ask);
    assert_int_equal(1234, keeper_peek(&crew, "n", 0));
    assert_int_equal(1234, keeper_peek(&crew, "n", 1));

    /* When the resource is made again, it has the file's new content. */
    coxi_test_write(path, "77\n", 3);
    pid_t victim = crew_step_process(&crew, 1);
    crew_kill(victim);
    crew_wait_gone(victim);
    assert_int_equal(77,
                     keeper_run(&crew, "peek", "count",
                                &(struct keeper_ask){.name = "n", .only_worker = 2}));
    assert_int_equal(1234, keeper_peek(&crew, "n", 0));
    crew_close(&crew);
}

TEST(resource_is_read_from_a_file)
{
    keeper_check(check_file);
}

TEST(resource_function_does_what_steps_do_but_for_results_and_updates)
{
    struct crew crew;
    const int64_t seven = 7;
    keeper_open(&crew, 1, NULL);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    assert_code(0, cox_variable_assign(crew.c, c0, &seven, sizeof(seven)));
    (void)keeper_create(&crew, "n", "make_all", &(struct keeper_ask){0});
    assert_int_equal(7, keeper_peek(&crew, "n", 0));
    assert_int_equal(7, crew_read(&crew, c0));

    /* A resource function whose update is refused fails, even if it ignores that
     * error. */
    (void)keeper_create(&crew, "m", "make_update", &(struct keeper_ask){0});
    keeper_assert_unmade(&crew, "peek", "m", 0, "updates nothing");
    assert_code(COX_ERESOURCE, cox_join(crew.c, -1));
    (void)keeper_create(&crew, "a", "make_accumulated", &(struct keeper_ask){0});
    keeper_assert_unmade(&crew, "peek", "a", 0, "updates nothing");
    assert_code(COX_ERESOURCE, cox_join(crew.c, -1));
    (void)keeper_create(&crew, "l", "make_local", &(struct keeper_ask){0});
    keeper_assert_unmade(&crew, "peek", "l", 0, "makes no local steps");
    assert_code(COX_ERESOURCE, cox_join(crew.c, -1));
    assert_int_equal(7, crew_read(&crew, c0));
    crew_close(&crew);
}

TEST(resource_that_keeps_nothing_is_null)
{
    struct crew crew;
    keeper_open(&crew, 1, NULL);
    (void)keeper_create(&crew, "n", "make_nothing", &(struct keeper_ask){0});
    assert_int_equal(
        0, keeper_run(&crew, "ask", "code", &(struct keeper_ask){.name = "n"}));
    assert_int_equal(
        0, keeper_run(&crew, "ask", "value", &(struct keeper_ask){.name = "n"}));
    crew_close(&crew);
}

TEST(resource_of_an_unknown_name_is_enoent_to_the_step)
{
    struct crew crew;
    keeper_open(&crew, 1, NULL);
    (void)keeper_create_plain(&crew, "n");
    const struct keeper_ask ask = {.name = "other"};
    assert_int_equal(COX_ENOENT, keeper_run(&crew, "ask", "code", &ask));
    assert_int_equal(-1,
                     keeper_run(&crew, "ask", "value", &ask)); /* -1: value untouched */
    struct cox_future *future = keeper_start(&crew, "bump", &ask);
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    assert_error_names("'other'");
    cox_future_free(future);
    crew_close(&crew);
}

TEST(closure_keeps_nothing)
{
    struct crew crew;
    keeper_open(&crew, 1, NULL);
    assert_int_equal(COX_EINVAL,
                     keeper_run(&crew, "keep_anyway", "code", &(struct keeper_ask){0}));
    crew_close(&crew);
}

TEST(resource_may_use_those_that_were_created_before)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 3;
    keeper_open(&crew, 2, &options);
    (void)keeper_create(&crew, "a", "make",
                        &(struct keeper_ask){.number = "start", .n = 5});
    (void)keeper_create(&crew, "b", "make_after", &(struct keeper_ask){.name = "a"});
    assert_int_equal(50, keeper_peek(&crew, "b", 0));
    assert_int_equal(50, keeper_peek(&crew, "b", 1));
    crew_close(&crew);
}

/* ---- what the client refuses */

TEST(resource_create_refuses_what_is_wrong)
{
    struct crew crew;
    struct cox_resource *resource = NULL;
    char long_name[COX_NAME_MAX + 2];
    struct cox_call call = COX_CALL_INIT;
    keeper_open(&crew, 1, NULL);
    struct cox_function *make = crew_function(&crew, "make");
    memset(long_name, 'x', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    assert_code(COX_EINVAL, cox_resource_create(crew.c, "", make, NULL, &resource));
    assert_code(COX_EINVAL,
                cox_resource_create(crew.c, long_name, make, NULL, &resource));
    assert_code(COX_EINVAL, cox_resource_create(crew.c, NULL, make, NULL, &resource));
    assert_code(COX_EINVAL, cox_resource_create(crew.c, "n", NULL, NULL, &resource));
    assert_code(COX_EINVAL, cox_resource_create(NULL, "n", make, NULL, &resource));
    call.priority = 1;
    assert_code(COX_EINVAL, cox_resource_create(crew.c, "n", make, &call, &resource));
    assert_error_names("'n'");
    call.priority = 0;
    call.only_worker = 1;
    assert_code(COX_EINVAL, cox_resource_create(crew.c, "n", make, &call, &resource));
    assert_null(resource);

    assert_code(0, cox_resource_create(crew.c, long_name + 1, make, NULL, NULL));
    assert_code(COX_EEXIST,
                cox_resource_create(crew.c, long_name + 1, make, NULL, &resource));
    assert_error_names(long_name + 1);
    assert_null(resource);
    assert_int_equal(0, keeper_peek(&crew, long_name + 1, 0));
    crew_close(&crew);
}

TEST(resources_are_1024_at_most)
{
    struct crew crew;
    struct cox_resource *some[2];
    char name[32];
    keeper_open(&crew, 1, NULL);
    struct cox_function *make = crew_function(&crew, "make_nothing");
    for (int i = 0; i < 1024; i++) {
        (void)snprintf(name, sizeof(name), "r%d", i);
        assert_code(0, cox_resource_create(crew.c, name, make, NULL, &some[i % 2]));
    }
    assert_code(COX_ELIMIT, cox_resource_create(crew.c, "more", make, NULL, NULL));
    cox_resource_release(some[0]);
    assert_code(0, cox_resource_create(crew.c, "more", make, NULL, NULL));
    assert_int_equal(
        0, keeper_run(&crew, "ask", "code", &(struct keeper_ask){.name = "more"}));
    assert_int_equal(
        0, keeper_run(&crew, "ask", "code", &(struct keeper_ask){.name = "r0"}));
    assert_int_equal(COX_ENOENT, keeper_run(&crew, "ask", "code",
                                            &(struct keeper_ask){.name = "r1022"}));
    crew_close(&crew);
}

/* ---- releasing */

static void check_released(const struct cox_options *options)
{
    struct crew crew;
    keeper_open(&crew, 2, options);
    for (int i = 0; i < 20; i++) {
        struct cox_resource *resource = keeper_create(
            &crew, "n", "make", &(struct keeper_ask){.number = "start", .n = i});
        for (uint32_t w = 0; w < 2; w++) {
            assert_int_equal(i, keeper_peek(&crew, "n", w));
            assert_int_equal(1, keeper_count_alive(&crew, w));
        }
        cox_resource_release(resource);
    }
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(0, keeper_count_alive(&crew, w));
        assert_int_equal(
            COX_ENOENT,
            keeper_run(&crew, "ask", "code",
                       &(struct keeper_ask){.name = "n", .only_worker = 1 + w}));
    }
    crew_close(&crew);
}

TEST(released_resources_leave_nothing_alive)
{
    keeper_check(check_released);
}

TEST(release_waits_for_the_step_that_uses_the_resource)
{
    struct crew crew;
    struct crew_hold gate;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    keeper_open(&crew, 1, &options);
    gate.path = keeper_fifo();
    struct cox_resource *old = keeper_create(
        &crew, "n", "make", &(struct keeper_ask){.number = "start", .n = 1});
    struct cox_future *user = keeper_start(
        &crew, "peek", &(struct keeper_ask){.name = "n", .path = gate.path});
    crew_hold_wait(&gate);
    cox_resource_release(old);
    (void)keeper_create(&crew, "n", "make",
                        &(struct keeper_ask){.number = "start", .n = 2});
    assert_int_equal(2, keeper_peek(&crew, "n", 0));
    assert_int_equal(2, keeper_count_alive(&crew, 0));
    crew_hold_release(&gate);
    assert_int_equal(1, keeper_result(user, "count"));
    assert_int_equal(1, keeper_count_alive(&crew, 0));
    crew_close(&crew);
}

TEST(release_cancels_the_making)
{
    struct crew crew;
    struct crew_hold gate;
    keeper_open(&crew, 1, NULL);
    gate.path = keeper_fifo();
    struct cox_resource *slow =
        keeper_create(&crew, "n", "make_late", &(struct keeper_ask){.path = gate.path});
    crew_hold_wait(&gate);
    cox_resource_release(slow);
    cox_resource_release(NULL);
    assert_int_equal(COX_ENOENT, keeper_run(&crew, "ask", "code",
                                            &(struct keeper_ask){.name = "n"}));
    (void)keeper_create_plain(&crew, "n");
    assert_int_equal(0, keeper_peek(&crew, "n", 0));
    assert_int_equal(1, keeper_count_alive(&crew, 0));
    crew_hold_release(&gate);
    crew_close(&crew);
}

/* Closures do not wait for the worker's answer about the released resource. */
TEST(release_of_one_that_is_being_made_lets_the_others_go_on)
{
    struct crew crew;
    struct crew_hold gate;
    struct cox_options options = COX_OPTIONS_INIT;
    options.worker_slots = 2;
    options.cancel_grace_ms = 60000;
    keeper_open(&crew, 1, &options);
    gate.path = keeper_fifo();
    struct cox_resource *slow = keeper_create(&crew, "slow", "make_stubborn",
                                              &(struct keeper_ask){.path = gate.path});
    crew_hold_wait(&gate);
    cox_resource_release(slow);
    assert_int_equal(0, keeper_count_alive(&crew, 0));
    crew_hold_release(&gate);
    (void)keeper_create_plain(&crew, "next");
    assert_int_equal(0, keeper_peek(&crew, "next", 0));
    assert_int_equal(1, keeper_count_alive(&crew, 0));
    crew_close(&crew);
}

/* Long arguments are not copied into the connection, and may outlive the resource. */
TEST(arguments_of_many_bytes_reach_each_worker)
{
    enum { N = 1 << 20 };
    struct crew crew;
    int64_t start_at = 9;
    struct cox_call call = COX_CALL_INIT;
    char *ballast = calloc(1, N);
    struct cox_value args[] = {COX_SCALAR("start", COX_I64, &start_at),
                               COX_VECTOR("ballast", COX_U8, N, ballast)};
    call.args = args;
    call.n_args = 2;
    keeper_open(&crew, 2, NULL);
    for (int i = 0; i < 10; i++) {
        struct cox_resource *resource;
        assert_code(0, cox_resource_create(crew.c, "n", crew_function(&crew, "make"),
                                           &call, &resource));
        if (i % 2 == 0) {
            assert_int_equal(9, keeper_peek(&crew, "n", 0));
            assert_int_equal(9, keeper_peek(&crew, "n", 1));
        }
        cox_resource_release(resource);
    }
    free(ballast);
    crew_close(&crew);
}
