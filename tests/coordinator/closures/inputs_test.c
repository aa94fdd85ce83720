/* Futures as arguments: calls that take results of other calls. */
#include <string.h>

#include "tests/coordinator/crew.h"
#include "tests/test.h"

static struct cox_future *schedule(struct crew *crew, const char *name,
                                   const struct cox_call *call)
{
    struct cox_future *future;
    assert_code(0, cox_schedule(crew->c, crew_function(crew, name), call, &future));
    return future;
}

/* A step that returns x = `value`; on worker `only` - 1, if not 0. */
static struct cox_future *schedule_x(struct crew *crew, int64_t value, uint32_t only)
{
    struct cox_value arg = COX_SCALAR("x", COX_I64, &value);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    call.only_worker = only;
    return schedule(crew, "echo", &call);
}

/* A step that returns the result `result` of `source` under the name `name`. */
static struct cox_future *schedule_behind(struct crew *crew, const char *name,
                                          struct cox_future *source, const char *result)
{
    struct cox_input input = {name, source, result};
    struct cox_call call = COX_CALL_INIT;
    call.inputs = &input;
    call.n_inputs = 1;
    return schedule(crew, "echo", &call);
}

static int64_t result(struct cox_future *future, const char *name)
{
    struct cox_value value;
    assert_code(0, cox_future_wait(future, -1));
    assert_code(0, cox_future_result(future, name, &value));
    assert_int_equal(COX_I64, value.dtype);
    assert_int_equal(0, value.rank);
    return *(const int64_t *)value.data;
}

TEST(input_waits_for_the_future_and_takes_its_value_along)
{
    struct crew crew;
    struct crew_hold hold;
    struct cox_stats stats = COX_STATS_INIT;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    struct cox_future *a = schedule_x(&crew, 42, 0);
    struct cox_future *b = schedule_behind(&crew, "y", a, "x");
    assert_code(COX_ETIMEDOUT, cox_future_wait(b, 1));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_in_range(stats.queued, 1, 2);
    crew_hold_release(&hold);
    assert_int_equal(42, result(b, "y"));
    assert_int_equal(42, result(a, "x"));
    assert_code(0, cox_join(crew.c, -1));
    assert_code(0, cox_stats(crew.c, &stats));
    assert_int_equal(0, stats.queued);
    assert_int_equal(0, stats.in_flight);
    cox_future_free(a);
    cox_future_free(b);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(inputs_come_behind_the_arguments_from_several_futures_freed_or_not)
{
    struct crew crew;
    int64_t own = 1;
    struct cox_value arg = COX_SCALAR("own", COX_I64, &own);
    struct cox_call call = COX_CALL_INIT;
    crew_open(&crew, 1, 2, "hold", NULL);
    struct cox_future *a = schedule_x(&crew, 2, 0);
    struct cox_future *b = schedule_x(&crew, 3, 0);
    assert_code(0, cox_future_wait(a, -1)); /* `a` is done, `b` may not be */
    struct cox_input inputs[3] = {{"a", a, "x"}, {"b", b, "x"}, {"again", b, "x"}};
    call.args = &arg;
    call.n_args = 1;
    call.inputs = inputs;
    call.n_inputs = 3;
    struct cox_future *sum = schedule(&crew, "echo", &call);
    cox_future_free(a);
    cox_future_free(b);
    assert_int_equal(1, result(sum, "own"));
    assert_int_equal(2, result(sum, "a"));
    assert_int_equal(3, result(sum, "b"));
    assert_int_equal(3, result(sum, "again"));
    cox_future_free(sum);
    crew_close(&crew);
}

TEST(input_that_fails_fails_what_waits_for_it_and_is_named)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    struct cox_future *bad = schedule(&crew, "fail", NULL);
    struct cox_future *next = schedule_behind(&crew, "y", bad, "x");
    struct cox_future *last = schedule_behind(&crew, "z", next, "y");
    assert_code(COX_ESTEP, cox_future_wait(last, -1));
    assert_error_names("its input 'z'");
    assert_error_names("no luck");
    assert_code(COX_ESTEP, cox_future_wait(next, -1));
    assert_error_names("its input 'y', closure 1 (fail)");
    /* The same for a call that is scheduled when all others have ended. */
    struct cox_future *late = schedule_behind(&crew, "y", bad, "x");
    assert_code(COX_ESTEP, cox_future_wait(late, -1));
    assert_code(0, cox_join(crew.c, -1));
    cox_future_free(bad);
    cox_future_free(next);
    cox_future_free(last);
    cox_future_free(late);
    crew_close(&crew);
}

TEST(input_that_is_not_returned_fails_the_call)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 1, 1, "hold", &options);
    struct cox_future *a = schedule_x(&crew, 5, 0);
    struct cox_future *b = schedule_behind(&crew, "y", a, "other");
    assert_code(COX_ENOENT, cox_future_wait(b, -1));
    assert_error_names("returned no 'other'; it returned: x");
    cox_future_free(a);
    cox_future_free(b);
    crew_close(&crew);
}

TEST(input_that_is_cancelled_cancels_what_waits_for_it)
{
    struct crew crew;
    struct crew_hold hold;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    struct cox_call call = COX_CALL_INIT;
    call.only_worker = 1;
    struct cox_future *queued = schedule(&crew, "nothing", &call);
    struct cox_future *next = schedule_behind(&crew, "y", queued, "x");
    struct cox_future *last = schedule_behind(&crew, "z", next, "y");
    struct cox_future *other = schedule_x(&crew, 1, 0);
    struct cox_future *alone = schedule_behind(&crew, "z", other, "x");
    assert_code(0, cox_future_cancel(queued));
    assert_code(0, cox_future_cancel(alone)); /* while it waits for `other` */
    assert_code(COX_ECANCELLED, cox_future_wait(last, -1));
    assert_code(COX_ECANCELLED, cox_future_wait(next, -1));
    assert_code(COX_ECANCELLED, cox_future_wait(alone, -1));
    crew_hold_release(&hold);
    assert_int_equal(1, result(other, "x"));
    assert_code(0, cox_join(crew.c, -1)); /* a cancellation is no error */
    cox_future_free(queued);
    cox_future_free(next);
    cox_future_free(last);
    cox_future_free(other);
    cox_future_free(alone);
    cox_future_free(hold.future);
    crew_close(&crew);
}

/* A chain of calls, each of which takes the result of the previous one. */
static void run_chain(struct crew *crew, const char *first, int n, int code)
{
    int64_t value = 7;
    struct cox_value arg = COX_SCALAR("x", COX_I64, &value);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    struct cox_future *last = schedule(crew, first, &call);
    for (int i = 1; i < n; i++) {
        struct cox_future *next = schedule_behind(crew, "x", last, "x");
        cox_future_free(last);
        last = next;
    }
    assert_code(code, cox_future_wait(last, -1));
    if (code == 0) {
        assert_int_equal(7, result(last, "x"));
    }
    cox_future_free(last);
}

TEST(chain_of_inputs_of_any_length_is_run_or_given_up)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    crew_open(&crew, 1, 2, "hold", &options);
    run_chain(&crew, "echo", 500, 0);
    run_chain(&crew, "fail", 50000, COX_ESTEP);
    assert_code(0, cox_join(crew.c, -1));
    crew_close(&crew);
}

TEST(chain_of_inputs_runs_in_a_queue_of_two)
{
    struct crew crew;
    struct cox_options options = COX_OPTIONS_INIT;
    options.queue_max = 2;
    crew_open(&crew, 1, 1, "hold", &options);
    run_chain(&crew, "echo", 50, 0);
    crew_close(&crew);
}

TEST(close_cancels_what_waits_for_inputs)
{
    enum { CHAIN = 50000 };
    struct crew crew;
    struct crew_hold hold;
    struct cox_future *chain[CHAIN];
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true);
    crew_hold_wait(&hold);
    chain[0] = hold.future;
    for (int i = 1; i < CHAIN; i++) {
        chain[i] = schedule_behind(&crew, "x", chain[i - 1], "x");
    }
    crew_hold_release(&hold);
    crew_close(&crew);
    for (int i = 1; i < CHAIN; i++) {
        int code = cox_future_wait(chain[i], 0);
        /* COX_ENOENT: the held step ended before the close, and it returns no x. */
        assert_true(code == COX_ECANCELLED || code == COX_ENOENT);
    }
    for (int i = 0; i < CHAIN; i++) {
        cox_future_free(chain[i]);
    }
}

TEST(input_goes_along_when_its_call_is_tried_again)
{
    struct crew crew;
    struct crew_hold hold;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_hold(&hold, &crew, "hold", true); /* makes the FIFO */
    crew_hold_wait(&hold);
    struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(hold.path) + 1, hold.path);
    struct cox_call call = COX_CALL_INIT;
    call.args = &arg;
    call.n_args = 1;
    struct cox_future *path = schedule(&crew, "echo", &call);
    struct cox_input input = {"fifo", path, "path"};
    call = (struct cox_call)COX_CALL_INIT;
    call.inputs = &input;
    call.n_inputs = 1;
    struct cox_future *held = schedule(&crew, "hold", &call);
    cox_future_free(path);
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(hold.future, -1));
    crew_hold_wait(&hold); /* the step that gets the path of its FIFO from an input */
    pid_t victim = crew_step_process(&crew, 0);
    crew_kill(victim);
    crew_wait_gone(victim);
    crew_hold_release(&hold);
    crew_hold_wait(&hold);
    crew_hold_release(&hold);
    assert_code(0, cox_future_wait(held, -1));
    cox_future_free(held);
    cox_future_free(hold.future);
    crew_close(&crew);
}

TEST(inputs_are_checked)
{
    struct crew crew;
    struct crew other;
    struct cox_future *future = NULL;
    struct cox_call call = COX_CALL_INIT;
    crew_open(&crew, 1, 1, "hold", NULL);
    crew_open(&other, 1, 1, "hold", NULL);
    struct cox_function *echo = crew_function(&crew, "echo");
    struct cox_future *foreign = schedule_x(&other, 1, 0);
    struct cox_input input = {"y", NULL, "x"};
    call.n_inputs = 1;
    assert_code(COX_EINVAL, cox_schedule(crew.c, echo, &call, &future));
    call.inputs = &input;
    assert_code(COX_EINVAL, cox_schedule(crew.c, echo, &call, &future));
    assert_error_names("'y'");
    input.future = foreign;
    assert_code(COX_EINVAL, cox_schedule(crew.c, echo, &call, &future));
    input.future = schedule_x(&crew, 1, 0);
    const int64_t y = 1;
    const struct cox_value arg = COX_SCALAR("y", COX_I64, &y);
    call.args = &arg;
    call.n_args = 1;
    assert_code(COX_EINVAL, cox_schedule(crew.c, echo, &call, &future));
    assert_error_names("two arguments or inputs called 'y'");
    cox_future_free(input.future);
    call.n_inputs = 65;
    assert_code(COX_EINVAL, cox_schedule(crew.c, echo, &call, &future));
    assert_null(future);
    cox_future_free(foreign);
    crew_close(&other);
    crew_close(&crew);
}
