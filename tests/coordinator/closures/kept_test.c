/* Results that stay on the worker that made them, as arguments of later calls. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/coordinator/keep.h"
#include "tests/test.h"
#include "tests/worker/gate.h"

TEST(kept_result_is_taken_where_it_is_and_comes_when_it_is_fetched)
{
    struct keep keep;
    struct cox_value value;
    keep_open(&keep, 2, NULL);
    struct cox_future *made = keep_start(
        &keep, &(struct keep_call){.own = 7, .only_worker = 2, .keep = true});
    assert_code(0, cox_future_wait(made, -1));
    assert_code(COX_ENOTREADY, cox_future_result(made, "x", &value));
    assert_error_names("cox_future_fetch");
    for (int i = 0; i < 8; i++) {
        struct cox_future *took =
            keep_start(&keep, &(struct keep_call){.own = i, .takes = {made}});
        assert_code(0, cox_future_wait(took, -1));
        assert_int_equal(7 + i, keep_value(took, "x"));
        assert_int_equal(1, keep_value(took, "worker"));
        cox_future_free(took);
    }
    /* only the worker has it */
    assert_code(COX_ENOTREADY, cox_future_result(made, "x", &value));
    assert_code(0, cox_future_fetch(made, -1));
    assert_int_equal(7, keep_value(made, "x"));
    assert_code(0, cox_future_fetch(made, 0)); /* now the client has it */
    assert_int_equal(1,
                     keep_run(&keep, "worker", &(struct keep_call){.takes = {made}}));
    cox_future_free(made);
    assert_int_equal(10, keep_count(&keep));
    assert_int_equal(0, keep_made_again(&keep));
    keep_close(&keep);
}

TEST(step_sees_the_same_arguments_wherever_they_come_from)
{
    struct keep keep;
    struct cox_value names[2];
    keep_open(&keep, 2, NULL);
    struct cox_future *a = keep_start(&keep, &(struct keep_call){.own = 1});
    struct cox_future *b = keep_start(
        &keep, &(struct keep_call){.own = 2, .only_worker = 2, .keep = true});
    struct cox_future *c = keep_start(&keep, &(struct keep_call){.own = 3});
    for (uint32_t i = 0; i < 2; i++) {
        struct cox_future *took = keep_start(
            &keep,
            &(struct keep_call){.own = 4, .only_worker = 1 + i, .takes = {a, b, c, b}});
        assert_code(0, cox_future_wait(took, -1));
        assert_int_equal(i, keep_value(took, "worker"));
        assert_int_equal(4 + 1 + 2 + 3 + 2, keep_value(took, "x"));
        assert_code(0, cox_future_result(took, "names", &names[i]));
        assert_string_equal("own a b c d ", names[i].data);
        cox_future_free(took);
    }
    cox_future_free(a);
    cox_future_free(b);
    cox_future_free(c);
    keep_close(&keep);
}

TEST(results_of_two_workers_are_brought_together)
{
    struct keep keep;
    keep_open(&keep, 3, NULL);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.own = 1, .only_worker = 1, .keep = true});
    struct cox_future *b = keep_start(
        &keep, &(struct keep_call){.own = 2, .only_worker = 2, .keep = true});
    assert_int_equal(3, keep_run(&keep, "x", &(struct keep_call){.takes = {a, b}}));
    struct cox_future *sum = keep_start(
        &keep,
        &(struct keep_call){.own = 3, .only_worker = 3, .takes = {b, a}, .keep = true});
    assert_int_equal(6, keep_fetch(sum, "x"));
    cox_future_free(a);
    cox_future_free(b);
    assert_int_equal(4, keep_count(&keep));
    keep_close(&keep);
}

TEST(kept_result_outlives_its_future_for_calls_that_take_it)
{
    struct keep keep;
    const char *gate = gate_make("gate");
    keep_open(&keep, 1, NULL);
    struct cox_future *held =
        keep_start(&keep, &(struct keep_call){.step = "add", .fifo = gate});
    int fd = gate_pass(gate);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 1, .keep = true});
    struct cox_future *b =
        keep_start(&keep, &(struct keep_call){.own = 2, .takes = {a}, .keep = true});
    struct cox_future *c =
        keep_start(&keep, &(struct keep_call){.own = 3, .takes = {b}, .keep = true});
    cox_future_free(a);
    cox_future_free(b);
    gate_release(fd);
    assert_int_equal(6, keep_fetch(c, "x"));
    assert_int_equal(3, keep_count(&keep));
    cox_future_free(held);
    keep_close(&keep);
}

TEST(input_that_was_not_returned_fails_the_call_as_ever)
{
    struct keep keep;
    struct cox_options options = COX_OPTIONS_INIT;
    options.keep_going = 1;
    keep_open(&keep, 1, &options);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 1, .keep = true});
    struct cox_input input = {"y", a, "other"};
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *took;
    call.inputs = &input;
    call.n_inputs = 1;
    assert_code(
        0, cox_schedule(keep.crew.c, crew_function(&keep.crew, "sum"), &call, &took));
    assert_code(COX_ENOENT, cox_future_wait(took, -1));
    assert_error_names("closure 2 returned no 'other'");
    struct cox_future *empty =
        keep_start(&keep, &(struct keep_call){.step = "nothing", .keep = true});
    input.future = empty;
    cox_future_free(took);
    assert_code(
        0, cox_schedule(keep.crew.c, crew_function(&keep.crew, "sum"), &call, &took));
    assert_code(COX_ENOENT, cox_future_wait(took, -1));
    assert_code(0, cox_future_fetch(empty, -1));
    cox_future_free(took);
    cox_future_free(empty);
    cox_future_free(a);
    keep_close(&keep);
}

/* A step that returns `n` bytes, each `byte`. */
static struct cox_future *start_blob(struct keep *keep, size_t n, uint8_t byte)
{
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    memset(bytes, byte, n);
    struct cox_value arg = COX_VECTOR("blob", COX_U8, n, bytes);
    struct cox_call call = COX_CALL_INIT;
    struct cox_future *future;
    call.args = &arg;
    call.n_args = 1;
    call.keep = 1;
    assert_code(0, cox_schedule(keep->crew.c, crew_function(&keep->crew, "sum"), &call,
                                &future));
    free(bytes);
    return future;
}

static void assert_blob(struct cox_future *future, size_t n, uint8_t byte)
{
    struct cox_value value;
    assert_code(0, cox_future_result(future, "blob", &value));
    assert_int_equal(n, value.shape[0]);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(byte, ((const uint8_t *)value.data)[i]);
    }
}

TEST(what_finds_no_room_on_the_worker_comes_to_the_client)
{
    enum { N = 300000 };
    struct keep keep;
    struct cox_value value;
    assert_int_equal(0, setenv("COX_WORKER_KEPT_MAX", "1M", 1));
    keep_open(&keep, 1, NULL);
    assert_int_equal(0, unsetenv("COX_WORKER_KEPT_MAX"));
    struct cox_future *blobs[5];
    size_t n_here = 0;
    for (uint8_t i = 0; i < 5; i++) {
        blobs[i] = start_blob(&keep, N, i);
        assert_code(0, cox_future_wait(blobs[i], -1));
        if (cox_future_result(blobs[i], "blob", &value) == 0) {
            n_here++;
            assert_blob(blobs[i], N, i);
        }
    }
    assert_in_range(n_here, 2, 4); /* how many fit depends on how buffers grow */
    for (uint8_t i = 0; i < 5; i++) {
        assert_code(0, cox_future_fetch(blobs[i], -1));
        assert_blob(blobs[i], N, i);
        cox_future_free(blobs[i]);
    }
    assert_int_equal(5, keep_count(&keep));
    /* The client has told the worker to drop the blobs, so there is room again. */
    struct cox_future *next = start_blob(&keep, N, 9);
    assert_code(0, cox_future_wait(next, -1));
    assert_code(COX_ENOTREADY, cox_future_result(next, "blob", &value));
    cox_future_free(next);
    keep_close(&keep);
}

TEST(call_that_takes_a_kept_result_is_cancelled_and_the_result_stays)
{
    struct keep keep;
    const char *gate = gate_make("gate");
    keep_open(&keep, 1, NULL);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 1, .keep = true});
    assert_code(0, cox_future_wait(a, -1));
    struct cox_future *held =
        keep_start(&keep, &(struct keep_call){.step = "add", .fifo = gate});
    int fd = gate_pass(gate);
    struct cox_future *b =
        keep_start(&keep, &(struct keep_call){.own = 2, .takes = {a}});
    assert_code(0, cox_future_cancel(b));
    assert_code(COX_ECANCELLED, cox_future_wait(b, -1));
    gate_release(fd);
    assert_int_equal(4,
                     keep_run(&keep, "x", &(struct keep_call){.own = 3, .takes = {a}}));
    assert_int_equal(1, keep_fetch(a, "x"));
    cox_future_free(b);
    cox_future_free(held);
    assert_int_equal(2, keep_count(&keep));
    keep_close(&keep);
}

TEST(error_elsewhere_leaves_what_is_kept)
{
    struct keep keep;
    keep_open(&keep, 1, NULL);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 1, .keep = true});
    assert_code(0, cox_join(keep.crew.c, -1));
    struct cox_input input = {"y", a, "other"};
    struct cox_call call = COX_CALL_INIT;
    call.inputs = &input;
    call.n_inputs = 1;
    assert_code(
        0, cox_schedule(keep.crew.c, crew_function(&keep.crew, "sum"), &call, NULL));
    assert_code(COX_ENOENT, cox_join(keep.crew.c, -1));
    assert_int_equal(3,
                     keep_run(&keep, "x", &(struct keep_call){.own = 2, .takes = {a}}));
    assert_int_equal(1, keep_fetch(a, "x"));
    keep_close(&keep);
}

TEST(futures_of_kept_results_may_be_freed_after_close)
{
    struct keep keep;
    struct cox_value value;
    keep_open(&keep, 2, NULL);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 1, .keep = true});
    struct cox_future *b =
        keep_start(&keep, &(struct keep_call){.own = 1, .takes = {a}, .keep = true});
    assert_code(0, cox_future_wait(b, -1));
    keep_close(&keep);
    assert_code(COX_ENOTREADY, cox_future_result(b, "x", &value));
    assert_code(COX_ECLOSED, cox_future_fetch(b, -1));
    cox_future_free(a);
    cox_future_free(b);
}

static void fetch_and_tell(void *arg, struct cox_future *future)
{
    assert_code(0, cox_future_fetch(future, -1));
    atomic_store((atomic_int *)arg, (int)keep_value(future, "x"));
}

static bool is_told(void *arg)
{
    return atomic_load((atomic_int *)arg) != 0;
}

TEST(callback_has_the_kept_result_of_a_future_that_was_freed)
{
    struct keep keep;
    atomic_int x = 0;
    keep_open(&keep, 1, NULL);
    struct cox_future *a =
        keep_start(&keep, &(struct keep_call){.own = 5, .keep = true});
    assert_code(0, cox_future_then(a, fetch_and_tell, &x));
    cox_future_free(a);
    coxi_test_until(is_told, &x, "the callback");
    assert_int_equal(5, atomic_load(&x));
    assert_int_equal(1, keep_count(&keep)); /* it was not made again */
    keep_close(&keep);
}

TEST(worker_that_leaves_hands_over_what_it_keeps)
{
    struct keep keep;
    keep_open(&keep, 2, NULL);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.own = 5, .only_worker = 1, .keep = true});
    struct cox_future *b = keep_start(
        &keep,
        &(struct keep_call){.own = 1, .only_worker = 1, .takes = {a}, .keep = true});
    assert_code(0, cox_join(keep.crew.c, -1));
    keep_end_worker(&keep, 0);
    assert_int_equal(8,
                     keep_run(&keep, "x", &(struct keep_call){.own = 2, .takes = {b}}));
    assert_int_equal(5, keep_fetch(a, "x"));
    assert_int_equal(6, keep_fetch(b, "x"));
    assert_int_equal(0, keep_made_again(&keep));
    assert_int_equal(3, keep_count(&keep));
    keep_close(&keep);
}

TEST(call_does_not_wait_for_ever_behind_a_long_one_where_its_input_is)
{
    struct keep keep;
    const char *gate = gate_make("gate");
    keep_open(&keep, 2, NULL);
    struct cox_future *a = keep_start(
        &keep, &(struct keep_call){.own = 5, .only_worker = 1, .keep = true});
    assert_code(0, cox_future_wait(a, -1));
    struct cox_future *held = keep_start(
        &keep, &(struct keep_call){.step = "add", .fifo = gate, .only_worker = 1});
    int fd = gate_pass(gate);
    assert_int_equal(1, keep_run(&keep, "worker", &(struct keep_call){.takes = {a}}));
    gate_release(fd);
    cox_future_free(held);
    cox_future_free(a);
    assert_int_equal(2, keep_count(&keep));
    keep_close(&keep);
}

TEST(of_two_attempts_the_one_that_ends_the_closure_keeps_its_result)
{
    enum { SAMPLES = 30 };
    struct keep keep;
    const char *gate = gate_make("gate");
    keep_open(&keep, 2, NULL);
    for (int i = 0; i < SAMPLES; i++) {
        cox_future_free(keep_start(&keep, &(struct keep_call){.step = "add"}));
    }
    assert_code(0, cox_join(keep.crew.c, -1));
    struct cox_future *a = keep_start(
        &keep,
        &(struct keep_call){.step = "add", .own = 7, .fifo = gate, .keep = true});
    int fd = gate_pass(gate);
    assert_code(0, cox_future_wait(a, -1)); /* by its second attempt */
    assert_int_equal(7, keep_run(&keep, "x", &(struct keep_call){.takes = {a}}));
    gate_release(fd);
    assert_int_equal(7, keep_fetch(a, "x"));
    assert_int_equal(0, keep_made_again(&keep));
    assert_int_equal(8, keep_count(&keep));
    keep_close(&keep);
}
