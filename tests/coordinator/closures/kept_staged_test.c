/*
 * Results that a worker keeps of a closure that is done but not settled, because its
 * round is not complete. The worker leaves: calls that take the results wait for the
 * round, and get them then.
 */
#include "common/dtype.h"
#include "tests/coordinator/fake_worker.h"
#include "tests/coordinator/inside.h"
#include "tests/test.h"

enum { MEMBERS = 2 };

struct scene {
    struct yard yard;
    struct caller *anna; /* has done the first closure, and is asked for its result */
    struct caller *berta;
    struct coxi_closure_head last; /* the other closure, which berta has */
    struct cox_future *members[MEMBERS];
    struct cox_future *end;
    struct cox_future *taker; /* a call that takes the result */
};

/* Reports that a closure is done, with a result of `len` bytes; or, with `keeps`, that
 * the worker keeps as many. */
static void be_done(struct caller *caller, const struct coxi_closure_head *head,
                    const struct coxi_buffer *result, bool keeps)
{
    static const uint32_t first;
    uint64_t bytes = result->len;
    const struct coxi_done_head done = {.closure = head->closure,
                                        .attempt = head->attempt,
                                        .result_len = keeps ? (uint32_t)sizeof(bytes)
                                                            : (uint32_t)result->len};
    const struct coxi_message message = {
        .kind = COXI_DONE, .done = {&done, 1, keeps ? &first : NULL, keeps ? 1 : 0}};
    caller_send(caller, &message, keeps ? (const void *)&bytes : result->data,
                keeps ? sizeof(bytes) : result->len);
}

static void start_round(struct scene *scene)
{
    struct cox_function *nothing = crew_function(&scene->yard.crew, "nothing");
    const struct cox_rounds_spec spec = COX_ROUNDS_SPEC_INIT;
    struct cox_rounds *rounds;
    struct cox_call calls[MEMBERS];
    struct cox_round_call members[MEMBERS];
    for (uint32_t i = 0; i < MEMBERS; i++) {
        calls[i] = (struct cox_call)COX_CALL_INIT;
        calls[i].only_worker = 1 + i;
        calls[i].keep = i == 0;
        members[i] = (struct cox_round_call){nothing, &calls[i]};
    }
    assert_code(0, cox_rounds_create(scene->yard.crew.c, &spec, &rounds));
    assert_code(
        0, cox_round_schedule(rounds, members, MEMBERS, scene->members, &scene->end));
}

static void take_result(struct scene *scene)
{
    struct cox_input input = {"x", scene->members[0], "x"};
    struct cox_call call = COX_CALL_INIT;
    call.inputs = &input;
    call.n_inputs = 1;
    assert_code(0, cox_schedule(scene->yard.crew.c,
                                crew_function(&scene->yard.crew, "nothing"), &call,
                                &scene->taker));
}

/* A turn of the loop has begun after this call: it has taken in what was scheduled. */
static void look(void *arg)
{
    (void)arg;
}

static void scene_open(struct scene *scene, const struct coxi_buffer *result)
{
    const struct coxi_message leaving = {.kind = COXI_LEAVING};
    struct coxi_closure_head head;
    yard_open(&scene->yard, NULL);
    scene->anna = fake_worker(&scene->yard, "anna", 7, 0);
    fake_worker_accept(scene->anna, 0);
    scene->berta = fake_worker(&scene->yard, "berta", 8, 1);
    fake_worker_accept(scene->berta, 0);
    start_round(scene);
    assert_int_equal(1, fake_worker_expect(scene->anna, &head));
    assert_int_equal(1, fake_worker_expect(scene->berta, &scene->last));
    take_result(scene);
    inside_run(scene->yard.crew.c, look, NULL);
    be_done(scene->anna, &head, result, true);
    caller_send(scene->anna, &leaving, NULL, 0);
    const struct coxi_message *message = caller_expect(scene->anna, COXI_RESULT_WANT);
    assert_int_equal(head.closure, message->result.closure);
}

/* The last closure of the round is done. */
static void complete(struct scene *scene)
{
    fake_worker_answer(scene->berta, &scene->last, 0);
    assert_code(0, cox_future_wait(scene->end, 8000));
    assert_code(0, cox_future_wait(scene->members[0], 8000));
}

/* Berta runs the call that takes the result; closes. */
static void scene_close(struct scene *scene)
{
    struct coxi_closure_head head;
    assert_int_equal(1, fake_worker_expect(scene->berta, &head));
    assert_int_equal(scene->last.closure + 2, head.closure); /* behind the end */
    assert_true(head.args_len > 0);
    fake_worker_answer(scene->berta, &head, 0);
    assert_code(0, cox_future_wait(scene->taker, 8000));
    cox_future_free(scene->taker);
    for (int i = 0; i < MEMBERS; i++) {
        cox_future_free(scene->members[i]);
    }
    cox_future_free(scene->end);
    caller_close(scene->berta);
    yard_close(&scene->yard);
}

static struct coxi_buffer result_of(int64_t x)
{
    struct coxi_buffer result = {0};
    const struct cox_value value = COX_SCALAR("x", COX_I64, &x);
    assert_code(0, coxi_values_add(&result, &value));
    return result;
}

TEST(call_takes_a_result_that_a_leaving_worker_sent_before_the_round_was_complete)
{
    struct scene scene;
    struct coxi_buffer result = result_of(5);
    scene_open(&scene, &result);
    const struct coxi_message message = {
        .kind = COXI_RESULT,
        .result = {.closure = scene.last.closure - 1, .attempt = 1, .message = ""}};
    caller_send(scene.anna, &message, result.data, result.len);
    caller_expect_end(scene.anna);
    caller_close(scene.anna);
    complete(&scene);
    scene_close(&scene);
    coxi_buffer_fini(&result);
}

TEST(result_that_a_leaving_worker_did_not_send_is_made_again_after_the_round)
{
    struct scene scene;
    struct coxi_closure_head head;
    struct coxi_buffer result = result_of(5);
    scene_open(&scene, &result);
    caller_close(scene.anna);
    yard_wait_ready(&scene.yard, 1);
    complete(&scene);
    assert_int_equal(1, fake_worker_expect(scene.berta, &head));
    assert_int_equal(scene.last.closure - 1, head.closure);
    assert_int_equal(2, head.attempt);
    be_done(scene.berta, &head, &result, false);
    scene_close(&scene);
    coxi_buffer_fini(&result);
}
