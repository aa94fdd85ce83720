/* The slots of a worker: the order of closures, and the end of those that do not
 * run. */
#include "worker/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/rig.h"

/* A closure that waits at its gate. */
static void push_waiting(struct rig *rig, uint64_t closure, const char *path)
{
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    rig_push(rig, closure, 1, "wait_at", &arg, 1);
}

/* Recalls all closures that have not started. */
static void recall_all(struct rig *rig)
{
    const struct coxi_recall recall = {.all = true};
    assert_code(0, coxi_slots_recall(rig->slots, rig->run, &recall));
}

static void push_plain(struct rig *rig, uint64_t first, uint64_t n)
{
    struct rig_batch batch = {0};
    for (uint64_t i = 0; i < n; i++) {
        rig_batch_add(rig, &batch, first + i, 1, "identify", NULL, 0);
    }
    assert_code(0, rig_batch_push(rig, &batch));
}

TEST(slots_run_closures_in_the_order_in_which_they_came)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    push_plain(&rig, 1, 300);
    push_plain(&rig, 301, 1);
    push_plain(&rig, 302, 99);
    for (uint64_t id = 1; id <= 400; id++) {
        struct rig_done done = rig_expect(&rig, id, 0);
        assert_int_equal(id, rig_result(&done, "closure"));
    }
    rig_close(&rig);
}

/* Of three slots two are free all the time. */
TEST(slots_run_nothing_beside_a_closure_that_is_to_run_alone)
{
    struct rig rig;
    struct rig_batch batch = {.alone = true};
    const char *first = gate_make("first");
    const char *alone = gate_make("alone");
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(alone) + 1, alone);
    rig_open(&rig, 1, 3, 16);
    push_waiting(&rig, 1, first);
    int gate = gate_pass(first);
    rig_batch_add(&rig, &batch, 2, 1, "wait_at", &arg, 1);
    assert_code(0, rig_batch_push(&rig, &batch));
    push_plain(&rig, 3, 20);
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    gate_release(gate_pass(alone));
    (void)rig_expect(&rig, 2, 0);
    for (int i = 0; i < 20; i++) {
        assert_true(rig_next(&rig).head.closure > 2);
    }
    rig_close(&rig);
}

/* Closures that are queued after it no longer wait for the running one. */
TEST(slots_go_on_when_what_is_to_run_alone_is_recalled)
{
    struct rig rig;
    struct rig_batch batch = {.alone = true};
    const struct coxi_recall_head head = {2, 1, 0};
    const struct coxi_recall recall = {.closures = &head, .n_closures = 1};
    const char *first = gate_make("first");
    rig_open(&rig, 1, 3, 16);
    push_waiting(&rig, 1, first);
    int gate = gate_pass(first);
    rig_batch_add(&rig, &batch, 2, 1, "identify", NULL, 0);
    assert_code(0, rig_batch_push(&rig, &batch));
    push_plain(&rig, 3, 1);
    assert_code(0, coxi_slots_recall(rig.slots, rig.run, &recall));
    for (int i = 0; i < 2; i++) { /* in any order */
        struct rig_done done = rig_next(&rig);
        assert_int_equal(done.head.closure == 2 ? COX_ECANCELLED : 0, done.head.code);
        assert_true(done.head.closure != 1);
    }
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    rig_close(&rig);
}

TEST(slots_run_as_many_closures_at_a_time_as_there_are_slots)
{
    struct rig rig;
    const char *paths[4];
    int gates[4];
    rig_open(&rig, 1, 3, 16);
    for (uint64_t i = 0; i < 4; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "gate-%d", (int)i);
        paths[i] = gate_make(name);
        push_waiting(&rig, i + 1, paths[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        gates[i] = gate_pass(paths[i]);
    }
    assert_int_equal(-1, open(paths[3], O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    /* no step is at the gate: the fourth closure has to wait */
    assert_int_equal(ENXIO, errno);
    gate_release(gates[1]);
    gate_release(gate_pass(paths[3]));
    (void)rig_expect(&rig, 2, 0);
    (void)rig_expect(&rig, 4, 0);
    gate_release(gates[0]);
    (void)rig_expect(&rig, 1, 0);
    gate_release(gates[2]);
    (void)rig_expect(&rig, 3, 0);
    rig_close(&rig);
}

TEST(slots_let_results_go_before_a_closure_that_may_take_long)
{
    struct rig rig;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    struct rig_batch batch = {0};
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    rig_batch_add(&rig, &batch, 1, 1, "identify", NULL, 0);
    rig_batch_add(&rig, &batch, 2, 1, "wait_at", &arg, 1);
    assert_code(0, rig_batch_push(&rig, &batch));
    int gate = gate_pass(path);
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(0, caller_waiting(rig.caller));
    gate_release(gate);
    (void)rig_expect(&rig, 2, 0);
    rig_close(&rig);
}

TEST(slots_refuse_a_dispatch_that_does_not_fit_its_payload)
{
    static const uint64_t payload[4];
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_closure_head heads[] = {{.closure = 1, .attempt = 1, .args_len = 9},
                                        {.closure = 2, .attempt = 1, .args_len = 8}};
    struct coxi_dispatch dispatch = {.closures = heads, .n_closures = 2};
    assert_code(COX_EPROTO,
                coxi_slots_push(rig.slots, rig.run, &dispatch, payload, 16));
    assert_code(COX_EPROTO,
                coxi_slots_push(rig.slots, rig.run, &dispatch, payload, 32));
    assert_code(COX_EPROTO, coxi_slots_push(rig.slots, rig.run, &dispatch, NULL, 0));
    heads[1].args_len = UINT32_MAX;
    assert_code(COX_EPROTO,
                coxi_slots_push(rig.slots, rig.run, &dispatch, payload, 24));
    assert_error_names("24");
    push_plain(&rig, 3, 1);
    (void)rig_expect(&rig, 3, 0); /* the first closure that runs */
    rig_close(&rig);
}

TEST(slots_take_an_empty_dispatch)
{
    struct rig rig;
    struct coxi_dispatch nothing = {0};
    rig_open(&rig, 1, 1, 16);
    assert_code(0, coxi_slots_push(rig.slots, rig.run, &nothing, NULL, 0));
    push_plain(&rig, 1, 1);
    (void)rig_expect(&rig, 1, 0);
    rig_close(&rig);
}

TEST(slots_refuse_more_closures_than_the_line_takes)
{
    enum { TOO_MANY = (1 << 20) + 1 };
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    struct coxi_closure_head *heads = calloc(TOO_MANY, sizeof(*heads));
    struct coxi_dispatch dispatch = {.closures = heads, .n_closures = TOO_MANY};
    assert_non_null(heads);
    assert_code(COX_EPROTO, coxi_slots_push(rig.slots, rig.run, &dispatch, NULL, 0));
    free(heads);
    push_plain(&rig, 1, 1);
    (void)rig_expect(&rig, 1, 0);
    rig_close(&rig);
}

TEST(slots_answer_what_is_recalled_as_cancelled)
{
    struct rig rig;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    push_waiting(&rig, 1, path);
    push_plain(&rig, 2, 3);
    push_plain(&rig, 5, 1);
    int gate = gate_pass(path);
    recall_all(&rig);
    bool seen[6] = {false};
    for (int i = 0; i < 4; i++) {
        struct rig_done done = rig_next(&rig);
        assert_int_equal(COX_ECANCELLED, done.head.code);
        assert_true(done.head.closure >= 2 && done.head.closure <= 5);
        assert_false(seen[done.head.closure]);
        seen[done.head.closure] = true;
        assert_int_equal(1, done.head.attempt);
        assert_int_equal(0, done.head.touched_n);
        assert_non_null(strstr(done.result, "cancelled"));
    }
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0); /* the running closure is not recalled */
    push_plain(&rig, 6, 1);
    (void)rig_expect(&rig, 6, 0);
    rig_close(&rig);
}

TEST(slots_recall_the_rest_of_a_dispatch_that_has_begun)
{
    struct rig rig;
    struct rig_batch batch = {0};
    const char *path = gate_make("gate");
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    rig_open(&rig, 1, 1, 16);
    rig_batch_add(&rig, &batch, 1, 1, "wait_at", &arg, 1);
    rig_batch_add(&rig, &batch, 2, 1, "identify", NULL, 0);
    rig_batch_add(&rig, &batch, 3, 1, "identify", NULL, 0);
    assert_code(0, rig_batch_push(&rig, &batch));
    int gate = gate_pass(path);
    recall_all(&rig);
    (void)rig_expect(&rig, 2, COX_ECANCELLED);
    (void)rig_expect(&rig, 3, COX_ECANCELLED);
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    rig_close(&rig);
}

TEST(slots_drop_without_an_answer_what_nobody_waits_for)
{
    struct rig rig;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    push_waiting(&rig, 1, path);
    push_plain(&rig, 2, 20);
    int gate = gate_pass(path);
    coxi_slots_drop(rig.slots, rig.run);
    gate_release(gate);
    (void)rig_expect(&rig, 1, COX_ECANCELLED); /* the running closure is cancelled */
    push_plain(&rig, 30, 1);
    (void)rig_expect(&rig, 30, 0);
    rig_close(&rig);
}

TEST(slots_drop_only_what_belongs_to_the_run)
{
    struct rig rig;
    struct rig other;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    rig_open(&other, 1, 1, 16);
    struct coxi_slots *its_own = other.slots;
    other.slots = rig.slots;
    push_waiting(&other, 1, path);
    push_plain(&rig, 2, 2);
    push_plain(&other, 100, 2);
    push_plain(&rig, 4, 1);
    push_plain(&other, 102, 1);
    int gate = gate_pass(path);
    coxi_slots_drop(rig.slots, rig.run);
    gate_release(gate);
    (void)rig_expect(&other, 1, 0);
    for (uint64_t id = 100; id <= 102; id++) {
        (void)rig_expect(&other, id, 0);
    }
    push_plain(&rig, 9, 1);
    (void)rig_expect(&rig, 9, 0);
    other.slots = its_own;
    rig_close(&other);
    rig_close(&rig);
}

TEST(slots_take_nothing_of_a_client_that_is_gone)
{
    struct rig rig;
    struct rig_batch batch = {0};
    rig_open(&rig, 1, 1, 16);
    coxi_run_close(rig.run);
    rig_batch_add(&rig, &batch, 1, 1, "identify", NULL, 0);
    assert_code(COX_EFENCED, rig_batch_push(&rig, &batch));
    rig_close(&rig);
}

static bool has_stopped(void *arg)
{
    return coxi_slots_stop(arg);
}

TEST(slots_that_stop_finish_what_runs_and_hand_back_the_rest)
{
    struct rig rig;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    push_waiting(&rig, 1, path);
    push_plain(&rig, 2, 5);
    int gate = gate_pass(path);
    assert_false(coxi_slots_stop(rig.slots));
    push_plain(&rig, 7, 2); /* and closures that come later */
    for (uint64_t id = 2; id <= 8; id++) {
        (void)rig_expect(&rig, id, COX_ECANCELLED);
    }
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    coxi_test_until(has_stopped, rig.slots, "the slots' end");
    rig_close(&rig);
}

TEST(slots_that_close_run_nothing_that_comes_later)
{
    struct rig rig;
    const char *path = gate_make("gate");
    rig_open(&rig, 1, 1, 16);
    push_waiting(&rig, 1, path);
    push_plain(&rig, 2, 1);
    int gate = gate_pass(path);
    coxi_slots_close(rig.slots);
    push_plain(&rig, 3, 1);
    (void)rig_expect(&rig, 3, COX_ECANCELLED); /* 2 is still in line */
    (void)coxi_slots_stop(rig.slots);
    (void)rig_expect(&rig, 2, COX_ECANCELLED);
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    coxi_test_until(has_stopped, rig.slots, "the slots' end");
    rig_close(&rig);
}

TEST(slots_come_in_sensible_numbers)
{
    struct coxi_slots *slots = NULL;
    struct coxi_slots_options options = {.n = 0};
    assert_code(COX_EINVAL, coxi_slots_new(&options, &slots));
    options.n = 1025;
    assert_code(COX_EINVAL, coxi_slots_new(&options, &slots));
    assert_null(slots);
    options.n = 8;
    assert_code(0, coxi_slots_new(&options, &slots));
    assert_true(coxi_slots_stop(slots));
    coxi_slots_free(slots);
    coxi_slots_free(NULL);
}

/* From these the client learns the worker's round trips to itself and to the ps. */
TEST(results_tell_once_when_the_last_dispatch_was_sent_and_how_long_commits_take)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "counter", 0);
    coxi_run_echo(rig.run, 4711);
    rig_push_add(&rig, 16, 1, "counter", 1); /* a commit that is measured */
    (void)rig_expect(&rig, 16, 0);
    rig_push_add(&rig, 32, 1, "counter", 1);
    const struct coxi_message *m = caller_expect(rig.caller, COXI_DONE);
    assert_int_equal(0, m->done.echo_us);
    assert_true(m->done.commit_us > 0);
    coxi_run_echo(rig.run, 4712);
    rig_push_add(&rig, 48, 1, "counter", 1);
    m = caller_expect(rig.caller, COXI_DONE);
    assert_int_equal(4712, m->done.echo_us);
    rig_close(&rig);
}
