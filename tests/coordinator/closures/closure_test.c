/* Closures and futures: results, errors, deadlines, the bounded queue. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

static struct cox_future *schedule(struct crew *crew, const char *name,
                                   const struct cox_value *args, size_t n_args)
{
    struct cox_future *future;
    struct cox_call call = COX_CALL_INIT;
    call.args = args;
    call.n_args = n_args;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), &call, &future));
    return future;
}

TEST(future_returns_values_of_every_type_and_shape_by_name)
{
    struct crew crew;
    const double f64 = 2.5;
    const uint8_t bytes[3] = {1, 2, 255};
    const int32_t matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
    struct cox_value args[4] = {
        COX_SCALAR("f64", COX_F64, &f64),
        COX_VECTOR("bytes", COX_U8, 3, bytes),
        {"matrix", COX_I32, 2, {2, 3}, matrix},
        COX_VECTOR("none", COX_F32, 0, NULL),
    };
    struct cox_value value;
    crew_open(&crew, 1, 1, "counter", NULL);
    struct cox_future *future = schedule(&crew, "echo", args, 4);
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, "matrix", &value));
    assert_int_equal(COX_I32, value.dtype);
    assert_int_equal(2, value.rank);
    assert_int_equal(3, value.shape[1]);
    assert_memory_equal(matrix, value.data, sizeof(matrix));
    assert_code(0, cox_future_result(future, "f64", &value));
    assert_int_equal(0, value.rank);
    assert_memory_equal(&f64, value.data, sizeof(f64));
    assert_code(0, cox_future_result(future, "bytes", &value));
    assert_memory_equal(bytes, value.data, sizeof(bytes));
    assert_code(0, cox_future_result(future, "none", &value));
    assert_int_equal(0, value.shape[0]);
    assert_code(COX_ENOENT, cox_future_result(future, "other", &value));
    assert_error_names("returned no 'other'; it returned: f64, bytes, matrix, none");
    crew_close(&crew);
    /* The future outlives its coordinator. */
    assert_code(0, cox_future_result(future, "bytes", &value));
    assert_memory_equal(bytes, value.data, sizeof(bytes));
    cox_future_free(future);
}

TEST(future_carries_megabytes_both_ways)
{
    enum { N = 1 << 20 };
    struct crew crew;
    struct cox_value value;
    uint64_t *numbers = malloc(N * sizeof(*numbers));
    assert_non_null(numbers);
    for (uint64_t i = 0; i < N; i++) {
        numbers[i] = i * i;
    }
    struct cox_value arg = COX_VECTOR("n", COX_I64, N, numbers);
    crew_open(&crew, 1, 1, "counter", NULL);
    struct cox_future *future = schedule(&crew, "echo", &arg, 1);
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, "n", &value));
    assert_memory_equal(numbers, value.data, N * sizeof(*numbers));
    cox_future_free(future);
    free(numbers);
    crew_close(&crew);
}

TEST(future_that_is_not_settled_says_so)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_value value;
    struct cox_error error = COX_ERROR_INIT;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 0));
    assert_code(COX_ETIMEDOUT, cox_future_wait(hold.future, 1));
    assert_code(COX_ENOTREADY, cox_future_result(hold.future, "x", &value));
    assert_code(COX_ENOTREADY, cox_future_error(hold.future, &error));
    assert_code(COX_ETIMEDOUT, cox_join(crew.c, 1));
    assert_int_equal(0, cox_done(crew.c));
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    assert_code(0, cox_future_error(hold.future, &error));
    assert_int_equal(0, error.code);
    assert_int_equal(1, cox_done(crew.c));
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(step_that_fails_names_itself_and_leaves_nothing_applied)
{
    struct crew crew;
    struct cox_error error = COX_ERROR_INIT;
    crew_open(&crew, 2, 2, "counter", NULL);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    struct cox_future *future = schedule(&crew, "count_and_fail", NULL, 0);
    assert_code(COX_ESTEP, cox_future_wait(future, -1));
    assert_error_names("count_and_fail");
    assert_error_names("line 7 is odd");
    assert_code(0, cox_future_error(future, &error));
    assert_int_equal(COX_ESTEP, error.code);
    assert_int_equal(42, error.step_code);
    assert_string_equal("count_and_fail", error.function);
    assert_string_equal("line 7 is odd", error.message);
    cox_future_free(future);
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    assert_error_names("line 7 is odd");
    assert_int_equal(0, crew_read(&crew, counter));
    crew_close(&crew);
}

TEST(first_error_cancels_the_rest_is_told_once_and_all_is_usable_after)
{
    enum { BEHIND = 500 };
    struct crew crew;
    struct crew_hold hold;
    struct crew_hold last;
    struct cox_future *behind[BEHIND];
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = 8;
    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_module *counter_module = crew.module;
    struct cox_variable *counter = crew_counter(&crew, "c0");
    struct cox_future *failing = schedule(&crew, "count_and_fail", NULL, 0);
    assert_code(0, cox_module_load(crew.c, coxi_test_module("hold"), &crew.module));
    assert_code(COX_ESTEP, cox_future_wait(failing, -1));

    /* The next cox_schedule reports the error, and schedules nothing. */
    struct cox_future *refused = NULL;
    assert_code(COX_ESTEP,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), NULL, &refused));
    assert_null(refused);
    assert_code(0, cox_join(crew.c, -1));

    /*
     * The same with closures queued after the one that fails. They are cancelled only
     * when the join reports the error; until then `last` keeps them from starting.
     */
    struct crew holding = crew;
    crew.module = counter_module;
    crew_hold(&hold, &holding, "hold_and_count", true);
    crew_hold_wait(&hold);
    struct cox_future *second = schedule(&crew, "count_and_fail", NULL, 0);
    crew_hold(&last, &holding, "watch_and_count", true);
    int64_t one = 1;
    struct cox_value arg = COX_SCALAR("n", COX_I64, &one);
    for (int i = 0; i < BEHIND; i++) {
        behind[i] = schedule(&crew, "count", &arg, 1);
    }
    crew_hold_release(&hold);
    crew_hold_wait(&last); /* `second` has failed */
    assert_code(COX_ESTEP, cox_join(crew.c, -1));
    assert_code(0, cox_future_wait(hold.future, 0));
    assert_code(COX_ECANCELLED, cox_future_wait(last.future, 0));
    for (int i = 0; i < BEHIND; i++) {
        assert_code(COX_ECANCELLED, cox_future_wait(behind[i], 0));
        cox_future_free(behind[i]);
    }
    assert_int_equal(1, crew_read(&crew, counter));
    crew_hold_release(&last);

    crew_schedule(&crew, crew_function(&crew, "count"), 100, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(101, crew_read(&crew, counter));
    cox_future_free(last.future);
    cox_future_free(failing);
    cox_future_free(second);
    cox_future_free(hold.future);
    crew_close(&crew);
}

struct filler {
    struct crew *crew;
    atomic_int scheduled;
    int n;
};

static void *fill(void *arg)
{
    struct filler *filler = arg;
    struct cox_function *nothing = crew_function(filler->crew, "nothing");
    for (int i = 0; i < filler->n; i++) {
        if (cox_schedule(filler->crew->c, nothing, NULL, NULL) != 0) {
            break;
        }
        atomic_fetch_add(&filler->scheduled, 1);
    }
    return NULL;
}

static bool is_full(void *arg)
{
    return atomic_load(&((struct filler *)arg)->scheduled) == 3;
}

TEST(full_queue_makes_schedule_wait_and_loses_nothing)
{
    struct crew crew;
    struct crew_hold hold;
    pthread_t thread;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    struct filler filler = {.crew = &crew, .n = 50};
    options.queue_max = 2;
    options.prefetch = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    crew_hold(&hold, &crew, "hold", false);
    crew_hold_wait(&hold);
    assert_int_equal(0, pthread_create(&thread, NULL, fill, &filler));
    /* One is prefetched by the worker, two are queued; the fourth has to wait. */
    coxi_test_until(is_full, &filler, "a full queue");
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(2, stats.queued);
    assert_int_equal(2, stats.in_flight);
    assert_int_equal(3, atomic_load(&filler.scheduled));
    crew_hold_release(&hold);
    assert_int_equal(0, pthread_join(thread, NULL));
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(51, stats.done);
    assert_int_equal(0, stats.queued + stats.in_flight);
    crew_close(&crew);
}

static void *count_from_a_thread(void *arg)
{
    struct crew *crew = arg;
    crew_schedule(crew, crew_function(crew, "count"), 2000, 2);
    return NULL;
}

TEST(many_threads_schedule_at_once)
{
    enum { THREADS = 4 };
    struct crew crew;
    pthread_t threads[THREADS];
    crew_open(&crew, 2, 2, "counter", NULL);
    struct cox_variable *c0 = crew_counter(&crew, "c0");
    struct cox_variable *c1 = crew_counter(&crew, "c1");
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0,
                         pthread_create(&threads[i], NULL, count_from_a_thread, &crew));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_code(0, cox_join(crew.c, -1));
    assert_int_equal(2000 * THREADS, crew_read(&crew, c0));
    assert_int_equal(2000 * THREADS, crew_read(&crew, c1));
    crew_close(&crew);
}

TEST(bad_calls_are_refused_before_anything_runs)
{
    struct crew crew;
    struct crew other;
    struct cox_future *future = NULL;
    struct cox_call call = COX_CALL_INIT;
    struct cox_value args[65] = {{0}};
    crew_open(&crew, 1, 1, "counter", NULL);
    crew_open(&other, 1, 1, "counter", NULL);
    struct cox_function *nothing = crew_function(&crew, "nothing");
    for (int i = 0; i < 65; i++) {
        args[i] = (struct cox_value)COX_VECTOR("x", COX_U8, 0, NULL);
    }
    call.n_args = 1;
    assert_code(COX_EINVAL, cox_schedule(crew.c, nothing, &call, &future));
    call.args = args;
    call.n_args = 65;
    assert_code(COX_ELIMIT, cox_schedule(crew.c, nothing, &call, &future));
    call.n_args = 2;
    assert_code(COX_EINVAL, cox_schedule(crew.c, nothing, &call, &future));
    assert_error_names("two arguments or inputs called 'x'");
    call.n_args = 1;
    args[0].dtype = 0;
    assert_code(COX_EINVAL, cox_schedule(crew.c, nothing, &call, &future));
    assert_error_names("'x'");
    args[0] = (struct cox_value){"x", COX_F32, 1, {4}, NULL};
    assert_code(COX_EINVAL, cox_schedule(crew.c, nothing, &call, &future));
    assert_code(COX_EINVAL, cox_schedule(other.c, nothing, NULL, &future));
    assert_code(COX_EINVAL, cox_schedule(crew.c, NULL, NULL, &future));
    assert_null(future);
    assert_int_equal(1, cox_done(crew.c));
    crew_close(&other);
    crew_close(&crew);
}

TEST(closing_cancels_what_has_not_run_and_futures_still_tell)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *queued;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    queued = schedule(&crew, "nothing", NULL, 0);
    /* The held step does not end: cox_close says so, and ends everything all the
     * same. */
    assert_code(COX_ETIMEDOUT, cox_close(crew.c, 50));
    assert_code(COX_ECANCELLED, cox_future_wait(queued, 0));
    assert_code(COX_ECANCELLED, cox_future_wait(hold.future, 0));
    cox_future_free(queued);
    cox_future_free(hold.future);
    crew_hold_release(&hold);
    assert_code(0, cox_close(NULL, 0));
}

/* ---- the order of closures, and the workers that run them */

static int64_t result_of(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, name, &value));
    return *(const int64_t *)value.data;
}

TEST(higher_priority_comes_first_and_equal_ones_in_order)
{
    enum { N = 6 };
    static const int32_t priorities[N] = {0, -8, 7, 0, 7, 3};
    static const int in_order[N] = {2, 4, 5, 0, 3, 1};
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *futures[N];
    struct cox_call call = COX_CALL_INIT;
    struct cox_options options = COX_OPTIONS_INIT;
    options.prefetch = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    (void)crew_counter(&crew, "c0");
    /* The worker runs one and has one in advance; the others are in the queue. */
    crew_hold(&hold, &crew, "hold", false);
    crew_hold_wait(&hold);
    crew_schedule(&crew, crew_function(&crew, "nothing"), 1, 0);
    for (int i = 0; i < N; i++) {
        call.priority = priorities[i];
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "number_off"), &call,
                                    &futures[i]));
    }
    crew_hold_release(&hold);
    /* A step may pull before the commit of the previous step is applied: two steps may
     * see the same number, but a later one never sees a lower number. */
    int64_t last = 0;
    for (int i = 0; i < N; i++) {
        int64_t order = result_of(futures[in_order[i]], "order");
        assert_true(order >= last);
        last = order;
    }
    for (int i = 0; i < N; i++) {
        cox_future_free(futures[i]);
    }
    call.priority = COX_PRIORITY_MAX + 1;
    assert_code(COX_EINVAL,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), &call, NULL));
    assert_error_names("priority");
    crew_close(&crew);
}

enum { N_EACH = 10 };

/* True if all even futures are settled, or all odd ones. */
static bool is_half_done(void *arg)
{
    struct cox_future **futures = arg;
    bool done[2] = {true, true};
    for (int i = 0; i < 2 * N_EACH; i++) {
        done[i % 2] = done[i % 2] && cox_future_wait(futures[i], 0) == 0;
    }
    return done[0] || done[1];
}

TEST(closure_for_one_worker_runs_there_and_nobody_else_waits_for_it)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *futures[2 * N_EACH];
    struct cox_call call = COX_CALL_INIT;
    crew_open(&crew, 1, 2, "hold", NULL);
    (void)crew_counter(&crew, "c0");
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    for (int i = 0; i < 2 * N_EACH; i++) {
        call.only_worker = 1 + (uint32_t)i % 2;
        assert_code(0, cox_schedule(crew.c, crew_function(&crew, "number_off"), &call,
                                    &futures[i]));
    }
    /* One of the two workers is held; the closures for the other one end. */
    coxi_test_until(is_half_done, futures, "the steps of the worker that is free");
    crew_hold_release(&hold);
    for (int i = 0; i < 2 * N_EACH; i++) {
        assert_int_equal(i % 2, result_of(futures[i], "worker"));
        cox_future_free(futures[i]);
    }
    cox_future_free(hold.future);
    call.only_worker = 3;
    assert_code(COX_EINVAL,
                cox_schedule(crew.c, crew_function(&crew, "nothing"), &call, NULL));
    assert_error_names("only_worker is 3, but there is no worker 2: there are 2");
    crew_close(&crew);
}

TEST(try_schedule_does_not_wait_for_room)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *future = NULL;
    struct cox_options options = COX_OPTIONS_INIT;
    options.queue_max = 1;
    options.prefetch = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    struct cox_function *nothing = crew_function(&crew, "nothing");
    crew_hold(&hold, &crew, "hold", false);
    crew_hold_wait(&hold);
    crew_schedule(&crew, nothing, 2,
                  0); /* the worker has one in advance, and one is in the queue */
    assert_code(COX_EAGAIN, cox_try_schedule(crew.c, nothing, NULL, &future));
    assert_error_names("the queue is full, with 1 closure");
    assert_null(future);
    crew_hold_release(&hold);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_try_schedule(crew.c, nothing, NULL, &future));
    assert_code(0, cox_future_wait(future, -1));
    cox_future_free(future);
    crew_close(&crew);
}

TEST(keep_going_leaves_errors_to_their_futures_and_counts_them)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    struct cox_stats stats = COX_STATS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 1, 1, "counter", &options);
    struct cox_variable *counter = crew_counter(&crew, "c0");
    struct cox_future *failing = schedule(&crew, "count_and_fail", NULL, 0);
    crew_schedule(&crew, crew_function(&crew, "count"), 100, 1);
    assert_code(0, cox_join(crew.c, -1));
    assert_code(COX_ESTEP, cox_future_wait(failing, 0));
    assert_int_equal(100, crew_read(&crew, counter));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(1, stats.failed);
    assert_int_equal(100, stats.done);
    cox_future_free(failing);
    crew_close(&crew);
}
