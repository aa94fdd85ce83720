/* An attempt: its commits and its report. */
#include <string.h>

#include "tests/ps/caller.h"
#include "tests/test.h"
#include "tests/worker/rig.h"

/* Arguments of the step `update` and its like. */
struct update {
    struct cox_value args[4];
    size_t n;
};

static void update_init(struct update *update, const char *variable, const int64_t *op)
{
    const struct cox_value args[] = {
        COX_VECTOR("variable", COX_U8, strlen(variable) + 1, variable),
        COX_SCALAR("op", COX_I64, op)};
    update->args[0] = args[0];
    update->args[1] = args[1];
    update->n = 2;
}

static void update_add(struct update *update, struct cox_value value)
{
    update->args[update->n++] = value;
}

static const int64_t gradient = COXI_OP_GRADIENT;
static const int64_t add = COXI_OP_ADD;

TEST(attempt_reports_exactly_the_ps_that_it_has_touched)
{
    static const float ones[] = {1, 1, 1};
    const struct cox_value values = COX_VECTOR("values", COX_F32, 3, ones);
    struct rig rig;
    struct update update;
    rig_open(&rig, 3, 1, 16);
    uint32_t second = rig_counter(&rig, "second", 1);
    (void)rig_spread(&rig, "spread");
    rig_push_add(&rig, 1, 1, "second", 5);
    struct rig_done done = rig_expect(&rig, 1, 0);
    assert_int_equal(1, done.head.touched_n);
    assert_int_equal(1, done.touched[0]);
    assert_int_equal(5, rig_read(&rig, second)); /* applied before it was reported */
    update_init(&update, "spread", &add);
    update_add(&update, values);
    rig_push(&rig, 2, 1, "update", update.args, update.n);
    done = rig_expect(&rig, 2, 0);
    const uint32_t all[] = {0, 1, 2};
    assert_int_equal(3, done.head.touched_n);
    assert_memory_equal(all, done.touched, sizeof(all));
    rig_push(&rig, 3, 1, "identify", NULL, 0);
    done = rig_expect(&rig, 3, 0);
    assert_int_equal(0, done.head.touched_n);
    rig_close(&rig);
}

TEST(attempt_that_fails_after_pushing_leaves_no_trace)
{
    const int64_t one = 1;
    const struct cox_value values = COX_VECTOR("values", COX_I64, 1, &one);
    struct rig rig;
    struct update update;
    rig_open(&rig, 2, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 1);
    update_init(&update, "counter", &add);
    update_add(&update, values);
    rig_push(&rig, 1, 1, "update_and_fail", update.args, update.n);
    struct rig_done done = rig_expect(&rig, 1, COX_ESTEP);
    assert_int_equal(42, done.head.step_code);
    assert_string_equal("line 7 is odd", done.result);
    assert_int_equal(0, done.head.touched_n);
    assert_int_equal(0, rig_read(&rig, counter));
    /* The next attempt does not send the updates of the failed one. */
    rig_push_add(&rig, 2, 1, "counter", 10);
    (void)rig_expect(&rig, 2, 0);
    assert_int_equal(10, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(attempt_cannot_succeed_with_an_update_that_was_refused)
{
    static const float ones[] = {1, 1};
    const struct cox_value values = COX_VECTOR("values", COX_F32, 2, ones);
    struct rig rig;
    struct update update;
    rig_open(&rig, 2, 1, 16);
    (void)rig_spread(&rig, "spread");
    update_init(&update, "spread", &gradient);
    update_add(&update, values);
    rig_push(&rig, 1, 1, "update_blindly", update.args, update.n);
    struct rig_done done = rig_expect(&rig, 1, COX_ESTEP);
    assert_int_equal(COX_EINVAL, done.head.step_code);
    assert_non_null(strstr(done.result, "spread"));
    assert_int_equal(0, done.head.touched_n);
    rig_close(&rig);
}

TEST(attempt_says_what_a_step_returned_that_gave_no_message)
{
    const int64_t one = 1;
    const int64_t result = 17;
    const struct cox_value values = COX_VECTOR("values", COX_I64, 1, &one);
    const struct cox_value returned = COX_SCALAR("result", COX_I64, &result);
    struct rig rig;
    struct update update;
    rig_open(&rig, 1, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 0);
    update_init(&update, "counter", &add);
    update_add(&update, values);
    update_add(&update, returned);
    rig_push(&rig, 1, 1, "update", update.args, update.n);
    struct rig_done done = rig_expect(&rig, 1, COX_ESTEP);
    assert_int_equal(17, done.head.step_code);
    assert_non_null(strstr(done.result, "returned 17"));
    assert_int_equal(0, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(attempts_of_one_closure_count_once)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 1);
    for (uint32_t attempt = 1; attempt <= 3; attempt++) {
        rig_push_add(&rig, 8, attempt, "counter", 1);
        struct rig_done done = rig_expect(&rig, 8, 0);
        assert_int_equal(attempt, done.head.attempt);
        assert_int_equal(1, done.head.touched_n);
    }
    assert_int_equal(1, rig_read(&rig, counter));
    rig_close(&rig);
}

TEST(attempts_of_one_closure_have_one_seed_which_other_closures_have_not)
{
    enum { N = 50 };
    struct rig rig;
    int64_t seeds[N];
    rig_open(&rig, 1, 1, 16);
    for (uint64_t id = 1; id <= N; id++) {
        rig_push(&rig, id, 1, "identify", NULL, 0);
        rig_push(&rig, id, 2, "identify", NULL, 0);
        struct rig_done done = rig_expect(&rig, id, 0);
        seeds[id - 1] = rig_result(&done, "seed");
        assert_int_equal(1, rig_result(&done, "attempt"));
        assert_int_equal(4, rig_result(&done, "worker"));
        done = rig_expect(&rig, id, 0);
        assert_int_equal(2, rig_result(&done, "attempt"));
        assert_int_equal(id, rig_result(&done, "closure"));
        assert_true(seeds[id - 1] == rig_result(&done, "seed"));
        for (uint64_t other = 1; other < id; other++) {
            assert_true(seeds[other - 1] != seeds[id - 1]);
        }
    }
    rig_close(&rig);
}

/* ---- parameter servers that refuse the attempt */

TEST(attempt_reports_a_ps_that_has_been_restarted_as_lost)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    uint32_t counter = rig_counter(&rig, "counter", 1);
    uint32_t other = rig_counter(&rig, "other", 0);
    rig.incarnations[1]++;
    assert_code(0, rig_layout(&rig));
    rig_push_add(&rig, 1, 1, "counter", 1);
    struct rig_done done = rig_expect(&rig, 1, COX_EPSLOST);
    assert_non_null(strstr(done.result, "ps 1"));
    rig_push_add(&rig, 2, 1, "other", 1);
    (void)rig_expect(&rig, 2, 0);
    rig.incarnations[1]--;
    assert_code(0, rig_layout(&rig));
    rig_push_add(&rig, 1, 2, "counter", 1);
    (void)rig_expect(&rig, 1, 0);
    assert_int_equal(1, rig_read(&rig, counter));
    assert_int_equal(1, rig_read(&rig, other));
    rig_close(&rig);
}

/* Runs pull_blindly, which returns `result`. */
static struct rig_done pull_blindly(struct rig *rig, uint64_t closure, int64_t result,
                                    int code)
{
    const int64_t n = 1;
    const struct cox_value args[] = {COX_VECTOR("variable", COX_U8, 8, "counter"),
                                     COX_SCALAR("n", COX_I64, &n),
                                     COX_SCALAR("result", COX_I64, &result)};
    rig_push(rig, closure, 1, "pull_blindly", args, 3);
    return rig_expect(rig, closure, code);
}

TEST(attempt_takes_no_number_of_a_step_for_an_error_of_ours)
{
    const int64_t results[] = {COX_EPSLOST, COX_EFENCED, COX_ETIMEDOUT, COX_ELOST};
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    (void)rig_counter(&rig, "counter", 1);
    for (uint64_t i = 0; i < sizeof(results) / sizeof(*results); i++) {
        struct rig_done done = pull_blindly(&rig, i + 1, results[i], COX_ESTEP);
        assert_int_equal(results[i], done.head.step_code);
    }
    rig_close(&rig);
}

TEST(attempt_that_fails_after_a_ps_was_lost_to_it_has_lost_a_ps)
{
    struct rig rig;
    rig_open(&rig, 2, 1, 16);
    (void)rig_counter(&rig, "counter", 1);
    rig.incarnations[1]++;
    assert_code(0, rig_layout(&rig));
    (void)pull_blindly(&rig, 1, 5, COX_EPSLOST);
    /* a step that ignores the loss and returns 0 has not failed */
    (void)pull_blindly(&rig, 2, 0, 0);
    rig_close(&rig);
}

TEST(attempt_of_an_older_client_is_fenced)
{
    struct rig rig;
    rig_open(&rig, 1, 1, 16);
    (void)rig_counter(&rig, "counter", 0);
    const struct coxi_session newer = {.run = 1, .generation = 2, .token = 10};
    const struct coxi_hello hello = {.role = COXI_ROLE_CLIENT, .session = newer};
    const struct coxi_message claim = {.kind = COXI_CLAIM, .claim = {.session = newer}};
    struct caller *client = caller_join(rig.addresses[0], &hello);
    caller_send(client, &claim, NULL, 0);
    assert_int_equal(0, caller_expect(client, COXI_STATUS)->status.code);
    rig_push_add(&rig, 1, 1, "counter", 1);
    (void)rig_expect(&rig, 1, COX_EFENCED);
    const struct cox_value arg = COX_VECTOR("variable", COX_U8, 8, "counter");
    rig_push(&rig, 2, 1, "pull", &arg, 1);
    /* reported as the worker's error, not as the step's */
    (void)rig_expect(&rig, 2, COX_EFENCED);
    caller_close(client);
    rig_close(&rig);
}

/* ---- many */

static void count_many(uint32_t n_slots, uint32_t commit_window)
{
    enum { N = 600 };
    static const char *const names[] = {"a", "b"};
    static bool seen[N + 1];
    struct rig rig;
    uint32_t counters[2];
    rig_open(&rig, 2, n_slots, commit_window);
    counters[0] = rig_counter(&rig, names[0], 0);
    counters[1] = rig_counter(&rig, names[1], 1);
    for (uint64_t id = 1; id <= N; id++) {
        rig_push_add(&rig, id, 1, names[id % 2], 1);
    }
    for (uint64_t i = 1; i <= N; i++) {
        struct rig_done done = rig_next(&rig);
        assert_int_equal(0, done.head.code);
        assert_true(done.head.closure <= N && !seen[done.head.closure]);
        seen[done.head.closure] = true;
        assert_int_equal(done.head.closure % 2, done.touched[0]);
    }
    assert_int_equal(N / 2, rig_read(&rig, counters[0]));
    assert_int_equal(N / 2, rig_read(&rig, counters[1]));
    rig_close(&rig);
}

TEST(attempts_count_exactly_with_one_commit_under_way_at_a_time)
{
    count_many(1, 1);
}

TEST(attempts_count_exactly_on_several_slots)
{
    count_many(3, 4);
}

TEST(attempts_count_exactly_with_a_wide_window)
{
    count_many(2, 256);
}
