/* Results that stay on the worker, and steps that take them. */
#include "worker/results.h"

#include <stdlib.h>
#include <string.h>

#include "common/dtype.h"
#include "tests/test.h"
#include "tests/worker/gate.h"
#include "tests/worker/rig.h"

/* ---- what is kept */

static struct coxi_buffer bytes_of(const char *text)
{
    struct coxi_buffer buffer = {0};
    assert_code(0, coxi_buffer_append(&buffer, text, strlen(text) + 1));
    return buffer;
}

static void assert_kept(struct coxi_results *results, uint64_t closure,
                        const char *text)
{
    struct coxi_held *held = coxi_results_get(results, closure);
    assert_non_null(held);
    assert_string_equal(text, (const char *)held->values.data);
    coxi_held_unref(held);
}

TEST(results_are_found_by_closure_until_they_are_dropped)
{
    struct coxi_results results;
    coxi_results_init(&results, 1 << 20);
    for (uint64_t i = 1; i <= 3; i++) {
        /* All three closures are in one bucket of the table. */
        struct coxi_buffer values = bytes_of(i == 2 ? "two" : "other");
        assert_true(coxi_results_keep(&results, i * COXI_RESULTS_BUCKETS, 1, &values));
        assert_null(values.data);
    }
    assert_kept(&results, 2 * COXI_RESULTS_BUCKETS, "two");
    struct coxi_held *used = coxi_results_get(&results, 2 * COXI_RESULTS_BUCKETS);
    /* names another attempt, so nothing is dropped */
    coxi_results_drop(&results, 2 * COXI_RESULTS_BUCKETS, 2);
    assert_kept(&results, 2 * COXI_RESULTS_BUCKETS, "two");
    coxi_results_drop(&results, 2 * COXI_RESULTS_BUCKETS, 1);
    coxi_results_drop(&results, 2 * COXI_RESULTS_BUCKETS, 1);
    assert_null(coxi_results_get(&results, 2 * COXI_RESULTS_BUCKETS));
    assert_string_equal("two", (const char *)used->values.data); /* a step uses it */
    coxi_held_unref(used);
    assert_kept(&results, 1 * COXI_RESULTS_BUCKETS, "other");
    assert_kept(&results, 3 * COXI_RESULTS_BUCKETS, "other");
    coxi_results_fini(&results);
}

TEST(results_of_another_attempt_take_the_place_of_the_first)
{
    struct coxi_results results;
    coxi_results_init(&results, 1 << 20);
    struct coxi_buffer first = bytes_of("first");
    struct coxi_buffer second = bytes_of("second");
    assert_true(coxi_results_keep(&results, 7, 1, &first));
    assert_true(coxi_results_keep(&results, 7, 2, &second));
    coxi_results_drop(&results, 7, 1);
    assert_kept(&results, 7, "second");
    coxi_results_fini(&results);
}

TEST(results_take_no_more_memory_than_they_may_and_no_more_than_they_need)
{
    struct coxi_results results;
    struct coxi_buffer values = {0};
    coxi_results_init(&results, 1 << 16);
    assert_code(0, coxi_buffer_append(&values, NULL, 1 << 17));
    assert_false(coxi_results_keep(&results, 1, 1, &values));
    assert_int_equal(1 << 17, values.len); /* as it was */
    values.len = 100; /* a short result in the memory of a long one */
    assert_true(coxi_results_keep(&results, 1, 1, &values));
    assert_in_range(results.bytes, 100, 4096);
    assert_code(0, coxi_buffer_append(&values, NULL, 1 << 16));
    assert_false(coxi_results_keep(&results, 2, 1, &values));
    coxi_results_drop(&results, 1, 1);
    assert_int_equal(0, results.bytes);
    coxi_buffer_fini(&values);
    coxi_results_fini(&results);
}

/* ---- steps */

/* Dispatches the batch in the form of a message. */
static int push(struct rig *rig, struct rig_batch *batch, const uint32_t *keep,
                size_t n_keep, const struct coxi_kept_input *inputs, size_t n_inputs)
{
    struct coxi_message message = {.kind = COXI_DISPATCH};
    struct coxi_message decoded;
    const void *encoded;
    size_t len;
    message.dispatch = (struct coxi_dispatch){
        .closures = (const struct coxi_closure_head *)(void *)batch->heads.data,
        .n_closures = batch->heads.len / sizeof(struct coxi_closure_head),
        .grace_ms = 60000,
        .keep = keep,
        .n_keep = n_keep,
        .inputs = inputs,
        .n_inputs = n_inputs,
    };
    assert_true(coxi_message_encode(&message, &encoded, &len));
    assert_true(coxi_message_decode(encoded, len, &decoded));
    int r = coxi_slots_push(rig->slots, rig->run, &decoded.dispatch, batch->args.data,
                            batch->args.len);
    coxi_buffer_fini(&batch->heads);
    coxi_buffer_fini(&batch->args);
    *batch = (struct rig_batch){0};
    return r;
}

static void open_kept(struct rig *rig)
{
    rig_open(rig, 1, 1, 16);
    (void)rig_counter(rig, "c0", 0);
    assert_int_equal(0, rig_load(rig, 1, "kept", true));
}

static void add_sum(struct rig *rig, struct rig_batch *batch, uint64_t closure,
                    int64_t own)
{
    const struct cox_value args[] = {COX_SCALAR("own", COX_I64, &own),
                                     COX_SCALAR("last", COX_I64, &own)};
    rig_batch_add(rig, batch, closure, 1, "sum", args, 2);
}

/* Runs closure 1, whose result x = 2 * own is kept. */
static void keep_one(struct rig *rig, int64_t own)
{
    static const uint32_t first = 0;
    struct rig_batch batch = {0};
    uint64_t bytes;
    add_sum(rig, &batch, 1, own);
    assert_code(0, push(rig, &batch, &first, 1, NULL, 0));
    struct rig_done done = rig_expect(rig, 1, 0);
    assert_true(done.kept);
    assert_int_equal(sizeof(bytes), done.head.result_len);
    memcpy(&bytes, done.result, sizeof(bytes));
    assert_in_range(bytes, 1, 4096);
}

TEST(step_that_takes_what_is_kept_finds_it_in_its_place)
{
    struct rig rig;
    struct rig_batch batch = {0};
    static const struct coxi_kept_input inputs[] = {
        {0, 1, 1, "kept", "x"}, {0, 3, 1, "who", "worker"}, {1, 0, 1, "", "x"}};
    open_kept(&rig);
    keep_one(&rig, 5);
    add_sum(&rig, &batch, 2, 1);
    rig_batch_add(&rig, &batch, 3, 1, "sum", NULL, 0);
    assert_code(0, push(&rig, &batch, NULL, 0, inputs, 3));
    struct rig_done done = rig_expect(&rig, 2, 0);
    assert_false(done.kept);
    assert_int_equal(1 + 10 + 1 + 4, rig_result(&done, "x"));
    assert_string_equal("own kept last who ", rig_value(&done, "names").data);
    done = rig_expect(&rig, 3, 0);
    assert_int_equal(10, rig_result(&done, "x"));
    rig_close(&rig);
}

TEST(step_whose_argument_is_not_kept_or_has_no_place_is_not_run)
{
    struct rig rig;
    struct rig_batch batch = {0};
    static const struct coxi_kept_input inputs[] = {
        {0, 0, 9, "kept", "x"}, {1, 0, 1, "kept", "other"}, {2, 7, 1, "kept", "x"}};
    open_kept(&rig);
    keep_one(&rig, 5);
    for (uint64_t i = 2; i <= 4; i++) {
        add_sum(&rig, &batch, i, 1);
    }
    assert_code(0, push(&rig, &batch, NULL, 0, inputs, 3));
    struct rig_done done = rig_expect(&rig, 2, COX_ENOENT);
    assert_non_null(strstr(done.result, "closure 9 are not kept on worker 4"));
    done = rig_expect(&rig, 3, COX_ENOENT);
    assert_non_null(strstr(done.result, "closure 1 returned no 'other'"));
    (void)rig_expect(&rig, 4, COX_EPROTO);
    assert_int_equal(1, rig_read(&rig, 0)); /* only one of these closures has run */
    rig_close(&rig);
}

TEST(inputs_that_are_out_of_order_are_refused)
{
    struct rig rig;
    struct rig_batch batch = {0};
    static const struct coxi_kept_input swapped[] = {{1, 0, 1, "a", "x"},
                                                     {0, 0, 1, "a", "x"}};
    static const struct coxi_kept_input twice[] = {{0, 1, 1, "a", "x"},
                                                   {0, 1, 1, "b", "x"}};
    static const struct coxi_kept_input beyond[] = {{2, 0, 1, "a", "x"}};
    static const struct {
        const struct coxi_kept_input *inputs;
        size_t n;
    } cases[] = {{swapped, 2}, {twice, 2}, {beyond, 1}};
    open_kept(&rig);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        add_sum(&rig, &batch, 2, 1);
        add_sum(&rig, &batch, 3, 1);
        assert_code(COX_EPROTO,
                    push(&rig, &batch, NULL, 0, cases[i].inputs, cases[i].n));
    }
    rig_close(&rig);
}

TEST(recalled_closures_leave_the_others_what_they_take)
{
    struct rig rig;
    struct rig_batch batch = {0};
    const char *path = gate_make("gate");
    const struct cox_value arg = COX_VECTOR("path", COX_U8, strlen(path) + 1, path);
    static const struct coxi_kept_input inputs[] = {{1, 2, 1, "gone", "x"},
                                                    {2, 2, 1, "kept", "x"}};
    static const uint32_t keep = 2;
    static const struct coxi_recall_head recalled = {3, 1, 0};
    open_kept(&rig);
    keep_one(&rig, 5);
    rig_batch_add(&rig, &batch, 2, 1, "wait_at", &arg, 1);
    add_sum(&rig, &batch, 3, 1);
    add_sum(&rig, &batch, 4, 2);
    add_sum(&rig, &batch, 5, 3);
    assert_code(0, push(&rig, &batch, &keep, 1, inputs, 2));
    int gate = gate_pass(path);
    assert_code(0, coxi_slots_recall(
                       rig.slots, rig.run,
                       &(struct coxi_recall){.closures = &recalled, .n_closures = 1}));
    (void)rig_expect(&rig, 3, COX_ECANCELLED);
    gate_release(gate);
    (void)rig_expect(&rig, 2, 0);
    assert_true(rig_expect(&rig, 4, 0).kept);
    struct rig_done done = rig_expect(&rig, 5, 0);
    assert_int_equal(6, rig_result(&done, "x"));
    struct coxi_held *held = coxi_results_get(&rig.run->results, 4);
    struct cox_value values[COXI_VALUES_MAX];
    size_t n;
    assert_non_null(held);
    assert_code(0, coxi_values_unpack(held->values.data, held->values.len, values, &n));
    assert_int_equal(14, *(const int64_t *)values[0].data);
    coxi_held_unref(held);
    rig_close(&rig);
}

TEST(kept_results_are_sent_when_the_client_wants_them)
{
    struct rig rig;
    struct cox_value values[COXI_VALUES_MAX];
    size_t n = 0;
    size_t len = 0;
    open_kept(&rig);
    keep_one(&rig, 5);
    for (int i = 0; i < 2; i++) { /* it stays, so it can be sent twice */
        assert_code(0,
                    coxi_run_send_result(rig.run, &(struct coxi_result){1, 1, 0, ""}));
        const struct coxi_message *answer = caller_expect(rig.caller, COXI_RESULT);
        assert_int_equal(0, answer->result.code);
        assert_int_equal(1, answer->result.closure);
        const void *payload = caller_payload(rig.caller, &len);
        assert_code(0, coxi_values_unpack(payload, len, values, &n));
        assert_int_equal(10, *(const int64_t *)values[0].data);
    }
    assert_code(0, coxi_run_send_result(rig.run, &(struct coxi_result){2, 1, 0, ""}));
    const struct coxi_message *answer = caller_expect(rig.caller, COXI_RESULT);
    assert_int_equal(COX_ENOENT, answer->result.code);
    assert_non_null(strstr(answer->result.message, "nothing of closure 2"));
    rig_close(&rig);
}
