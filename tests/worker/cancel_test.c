/* Attempts that are recalled, or run for too long. */
#include <stdio.h>
#include <string.h>

#include "common/sync.h"
#include "tests/steps/follow.h"
#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/rig.h"
#include "worker/slots_internal.h"

static void recall(struct rig *rig, const struct coxi_recall_head *heads, size_t n,
                   bool running)
{
    const struct coxi_recall wanted = {
        .closures = heads, .n_closures = n, .running = running, .grace_ms = 60000};
    assert_code(0, coxi_slots_recall(rig->slots, rig->run, &wanted));
}

static void recall_one(struct rig *rig, uint64_t closure, uint32_t attempt,
                       bool running)
{
    const struct coxi_recall_head head = {closure, attempt, 0};
    recall(rig, &head, 1, running);
}

/* Starts a step that waits at the gate `path` and adds 1 to `counter` at its end. The
 * step runs when this returns. Returns the descriptor to release. */
static int start(struct rig *rig, uint64_t closure, const char *step, const char *path,
                 uint32_t timeout_ms)
{
    struct rig_batch batch = {.timeout_ms = timeout_ms};
    const struct cox_value args[] = {COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
                                     COX_VECTOR("variable", COX_U8, 8, "counter")};
    rig_batch_add(rig, &batch, closure, 1, step, args, 2);
    assert_code(0, rig_batch_push(rig, &batch));
    return gate_pass(path);
}

/* Closures 2 to 6 in one dispatch, which add 1, 10, 100, 1000 and 10000. */
static void push_five(struct rig *rig)
{
    static const int64_t values[] = {1, 10, 100, 1000, 10000};
    const int64_t add = COXI_OP_ADD;
    struct rig_batch batch = {0};
    for (uint64_t i = 0; i < 5; i++) {
        const struct cox_value args[] = {COX_VECTOR("variable", COX_U8, 8, "counter"),
                                         COX_SCALAR("op", COX_I64, &add),
                                         COX_VECTOR("values", COX_I64, 1, &values[i])};
        rig_batch_add(rig, &batch, 2 + i, 1, "update", args, 3);
    }
    assert_code(0, rig_batch_push(rig, &batch));
}

/* ---- what has not started */

TEST(recall_takes_single_attempts_out_of_the_line)
{
    static const struct coxi_recall_head heads[] = {{7, 1, 0}, {5, 1, 0}, {3, 1, 0}};
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 1);
    int gate = start(&rig, 1, "wait_at", gate_make("gate"), 0);
    push_five(&rig);
    rig_push_add(&rig, 7, 1, "counter", 100000);
    rig_push_add(&rig, 8, 1, "counter", 1000000);
    recall(&rig, heads, 3, false);
    for (uint64_t closure = 3; closure <= 7; closure += 2) {
        struct rig_done done = rig_expect(&rig, closure, COX_ECANCELLED);
        assert_int_equal(0, done.head.touched_n);
        assert_string_equal("cancelled before it started", done.result);
    }
    gate_release(gate);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(0, rig_next(&rig).head.code);
    }
    assert_int_equal(1 + 1 + 100 + 10000 + 1000000, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(recall_may_take_all_that_a_dispatch_has_left)
{
    static const struct coxi_recall_head heads[] = {
        {2, 1, 0}, {3, 1, 0}, {4, 1, 0}, {5, 1, 0}, {6, 1, 0}};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    int gate = start(&rig, 1, "wait_at", gate_make("gate"), 0);
    push_five(&rig);
    recall(&rig, heads, 5, false);
    rig_push_add(&rig, 7, 1, "counter", 5); /* no closure is queued before it */
    gate_release(gate);
    for (uint64_t closure = 2; closure <= 6; closure++) {
        (void)rig_expect(&rig, closure, COX_ECANCELLED);
    }
    (void)rig_expect(&rig, 1, 0);
    (void)rig_expect(&rig, 7, 0);
    assert_int_equal(6, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(recall_ignores_what_is_not_there)
{
    static const struct coxi_recall_head heads[] = {
        {1, 2, 0}, {2, 2, 0}, {3, 0, 0}, {99, 1, 0}, {0, 0, 0}};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    int gate = start(&rig, 1, "wait_at", gate_make("gate"), 0);
    push_five(&rig);
    recall(&rig, heads, 5, true);
    recall(&rig, NULL, 0, true);
    gate_release(gate);
    for (uint64_t closure = 1; closure <= 6; closure++) {
        (void)rig_expect(&rig, closure, 0);
    }
    recall_one(&rig, 6, 1, true); /* not any more */
    rig_push_add(&rig, 7, 1, "counter", 5);
    (void)rig_expect(&rig, 7, 0);
    assert_int_equal(11111 + 6, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(recall_leaves_attempts_of_other_runs)
{
    struct rig rig;
    struct rig other;
    rig_open(&rig, 1, 1, 16);
    rig_open(&other, 1, 1, 16);
    (void)rig_counter(&rig, "counter", 0);
    struct coxi_slots *its_own = other.slots;
    other.slots = rig.slots;
    int gate = start(&rig, 1, "wait_at", gate_make("gate"), 0);
    rig_push(&rig, 2, 1, "identify", NULL, 0);
    recall_one(&other, 1, 1, true);
    recall_one(&other, 2, 1, true);
    gate_release(gate);
    assert_int_equal(0, rig_next(&rig).head.code);
    assert_int_equal(0, rig_next(&rig).head.code);
    other.slots = its_own;
    rig_close(&other);
    rig_close(&rig);
}

/* ---- what runs */

TEST(a_step_that_looks_returns_and_nothing_of_it_is_applied)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    int gate = start(&rig, 1, "wait_cancelled", gate_make("gate"), 0);
    recall_one(&rig, 1, 1, true);
    struct rig_done done = rig_expect(&rig, 1, COX_ECANCELLED);
    assert_int_equal(1, done.head.attempt);
    assert_int_equal(0, done.head.touched_n);
    assert_string_equal("the step 'wait_cancelled' was cancelled while it ran",
                        done.result);
    gate_release(gate);
    assert_int_equal(0, rig_read(&rig, counter));
    rig_push_add(&rig, 1, 2, "counter", 5); /* the slot can be used again */
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(5, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(a_cancelled_step_that_fails_is_cancelled)
{
    const int64_t seven = 7;
    const char *path = gate_make("gate");
    const struct cox_value args[] = {COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
                                     COX_SCALAR("result", COX_I64, &seven)};
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    rig_push(&rig, 1, 1, "wait_cancelled", args, 2);
    int gate = gate_pass(path);
    recall_one(&rig, 1, 1, true);
    assert_int_equal(0, rig_expect(&rig, 1, COX_ECANCELLED).head.step_code);
    gate_release(gate);
    rig_close(&rig);
}

TEST(a_cancelled_step_may_have_pulls_under_way)
{
    const int64_t n = 8;
    const int64_t how = 4; /* WAIT_CANCELLED of steps/probe.c */
    const char *path = gate_make("gate");
    const struct cox_value args[] = {COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
                                     COX_VECTOR("variable", COX_U8, 7, "spread"),
                                     COX_SCALAR("n", COX_I64, &n),
                                     COX_SCALAR("how", COX_I64, &how)};
    struct rig rig;
    rig_open(&rig, 3, 1, 16);
    (void)rig_spread(&rig, "spread");
    rig_push(&rig, 1, 1, "begin", args, 4);
    int gate = gate_pass(path);
    recall_one(&rig, 1, 1, true);
    (void)rig_expect(&rig, 1, COX_ECANCELLED);
    gate_release(gate);
    rig_close(&rig);
}

TEST(a_step_that_runs_is_left_alone_unless_it_is_meant_too)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    int gate = start(&rig, 1, "wait_at", gate_make("gate"), 0);
    recall_one(&rig, 1, 1, false);
    gate_release(gate);
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(1, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(recall_of_all_cancels_what_runs_in_every_slot)
{
    const struct coxi_recall all = {.all = true, .running = true, .grace_ms = 60000};
    struct rig rig;
    int gates[2];
    rig_open(&rig, 1, 2, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    gates[0] = start(&rig, 1, "wait_cancelled", gate_make("gate-1"), 0);
    gates[1] = start(&rig, 2, "wait_cancelled", gate_make("gate-2"), 0);
    rig_push(&rig, 3, 1, "identify", NULL, 0);
    assert_code(0, coxi_slots_recall(rig.slots, rig.run, &all));
    bool seen[4] = {false};
    for (int i = 0; i < 3; i++) {
        struct rig_done done = rig_next(&rig);
        assert_int_equal(COX_ECANCELLED, done.head.code);
        assert_false(seen[done.head.closure]);
        seen[done.head.closure] = true;
    }
    gate_release(gates[0]);
    gate_release(gates[1]);
    assert_int_equal(0, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(pulls_of_a_cancelled_step_fail)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "counter", 0);
    int gate = start(&rig, 1, "pull_until_it_fails", gate_make("gate"), 0);
    recall_one(&rig, 1, 1, true);
    (void)rig_expect(&rig, 1, COX_ECANCELLED);
    gate_release(gate);
    rig_close(&rig);
}

/* ---- commits */

static bool waits_for_place(void *arg)
{
    struct rig *rig = arg;
    return atomic_load(&rig->slots->threads[0].running.state) == COXI_RUN_RETURNED;
}

TEST(an_attempt_can_be_cancelled_until_its_commits_are_under_way)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 1);
    (void)rig_counter(&rig, "counter", 0);
    (void)rig_counter(&rig, "other", 1);
    coxi_ps_close(rig.ps[0]); /* a commit to it stays under way */
    rig.ps[0] = NULL;
    rig_push_add(&rig, 1, 1, "counter", 1);
    rig_push_add(&rig, 2, 1, "other", 1);
    rig_push_add(&rig, 3, 1, "other", 1);
    coxi_test_until(waits_for_place, &rig, "the end of the second step");
    recall_one(&rig, 1, 1, true);
    recall_one(&rig, 2, 1, true);
    struct rig_done done = rig_expect(&rig, 2, COX_ECANCELLED);
    assert_int_equal(0, done.head.touched_n);
    coxi_test_until(waits_for_place, &rig, "the end of the third step");
    rig.lost[0] = true;
    assert_code(0, rig_layout(&rig));
    (void)rig_expect(&rig, 1, COX_EPSLOST);
    (void)rig_expect(&rig, 3, 0);
    assert_int_equal(1, rig_read(&rig, 1));
    rig_close(&rig);
}

TEST(a_cancelled_step_reports_what_it_has_flushed_and_flushes_nothing_more)
{
    static const int64_t script[] = {1, FOLLOW_FLUSH, FOLLOW_WAIT, 0,
                                     FOLLOW_FLUSH_BLINDLY};
    const char *path = gate_make("gate");
    const struct cox_value args[] = {COX_VECTOR("path", COX_U8, strlen(path) + 1, path),
                                     COX_VECTOR("script", COX_I64, 5, script)};
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    uint32_t first = rig_counter(&rig, "c0", 0);
    uint32_t second = rig_counter(&rig, "c1", 1);
    rig_push(&rig, 1, 1, "follow", args, 2);
    int gate = gate_pass(path);
    recall_one(&rig, 1, 1, true);
    gate_release(gate);
    struct rig_done done = rig_expect(&rig, 1, COX_ECANCELLED);
    assert_int_equal(1, done.head.touched_n);
    assert_int_equal(1, done.touched[0]);
    assert_int_equal(0, rig_read(&rig, first));
    assert_int_equal(1, rig_read(&rig, second));
    rig_close(&rig);
}

/* ---- deadlines */

TEST(a_step_that_runs_for_too_long_has_overrun)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    for (uint64_t closure = 1; closure <= 3; closure++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "gate-%d", (int)closure);
        int gate = start(&rig, closure, "wait_cancelled", gate_make(name), 30);
        struct rig_done done = rig_expect(&rig, closure, COX_EOVERRUN);
        assert_string_equal("the step 'wait_cancelled' ran for more than 30 ms",
                            done.result);
        assert_int_equal(0, done.head.touched_n);
        assert_true(done.head.run_us >= 30000);
        gate_release(gate);
    }
    assert_int_equal(0, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(each_step_has_a_deadline_of_its_own)
{
    struct rig rig;
    int gates[3];
    rig_open(&rig, 1, 3, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    gates[0] = start(&rig, 1, "wait_at", gate_make("gate-1"), 0);
    gates[1] = start(&rig, 2, "wait_at", gate_make("gate-2"), 60000);
    gates[2] = start(&rig, 3, "wait_cancelled", gate_make("gate-3"), 30);
    (void)rig_expect(&rig, 3, COX_EOVERRUN);
    gate_release(gates[2]);
    gates[2] = start(&rig, 4, "wait_cancelled", gate_make("gate-4"), 40);
    (void)rig_expect(&rig, 4, COX_EOVERRUN);
    gate_release(gates[2]);
    gate_release(gates[1]);
    (void)rig_expect(&rig, 2, 0);
    gate_release(gates[0]);
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(2, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(the_deadline_after_the_nearest_one_is_kept_too)
{
    struct rig rig;
    int gates[2];
    rig_open(&rig, 1, 2, 16);
    (void)rig_counter(&rig, "counter", 0);
    gates[0] = start(&rig, 1, "wait_cancelled", gate_make("gate-1"), 1000);
    gates[1] = start(&rig, 2, "wait_cancelled", gate_make("gate-2"), 30);
    (void)rig_expect(&rig, 2, COX_EOVERRUN);
    (void)rig_expect(&rig, 1, COX_EOVERRUN);
    gate_release(gates[0]);
    gate_release(gates[1]);
    rig_close(&rig);
}

TEST(steps_in_time_do_not_wake_the_loop)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    for (uint64_t closure = 1; closure <= 200; closure++) {
        struct rig_batch batch = {.timeout_ms = 60000};
        rig_batch_add(&rig, &batch, closure, 1, "identify", NULL, 0);
        assert_code(0, rig_batch_push(&rig, &batch));
        (void)rig_expect(&rig, closure, 0);
        coxi_lock(&rig.slots->lock);
        bool posted_again = closure > 1 && rig.slots->watch.within_ms != 60000;
        coxi_unlock(&rig.slots->lock);
        assert_false(posted_again);
    }
    rig_close(&rig);
}
