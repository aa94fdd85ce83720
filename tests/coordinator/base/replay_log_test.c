/* The replay log: which calls it keeps, and when it drops them. */
#include "coordinator/base/replay_log.h"

#include "coordinator/closures/closure.h"
#include "coordinator/closures/futures.h"
#include "coordinator/closures/settle.h"
#include "coordinator/variables/load.h"
#include "tests/test.h"

enum { BYTES_MAX = 1 << 20, N_TOUCHED = 3 };

/* Makes a log for calls, like a coordinator's. */
static void log_new(uint32_t n_ps, uint64_t bytes_max, struct coxi_replay_log **ret)
{
    const struct coxi_replay_refs refs = {
        .call_bytes = coxi_closure_logged_bytes,
        .call_forgotten = coxi_closure_forgotten,
        .loading_bytes = coxi_loading_bytes,
        .loading_ref = coxi_loading_ref,
        .loading_unref = coxi_loading_unref,
    };
    assert_code(0, coxi_replay_log_new(n_ps, bytes_max, &refs, ret));
}

/* Makes a call without a coordinator, which the log can keep. */
static struct coxi_closure *call_new(uint64_t id)
{
    struct coxi_closure *call = NULL;
    assert_code(0, coxi_closure_new(NULL, &(struct coxi_closure_spec){0}, &call));
    call->future.id = coxi_closure_id(id);
    return call;
}

struct kept {
    uint32_t n_ps;
    const uint32_t *touched;
    int n; /* calls that were visited */
};

static int check_touched(void *arg, const struct coxi_replay_entry *entry)
{
    struct kept *kept = arg;
    for (uint32_t ps = 0; ps < kept->n_ps; ps++) {
        bool is = false;
        for (int i = 0; i < N_TOUCHED; i++) {
            is = is || kept->touched[i] == ps;
        }
        assert_true(coxi_replay_touched(entry, ps) == is);
    }
    kept->n++;
    return 0;
}

/* Asserts that the log keeps two calls that touched these ps, and drops them when told
 * to. */
static void assert_kept(uint32_t n_ps, const uint32_t touched[N_TOUCHED])
{
    struct coxi_replay_log *log;
    struct kept kept = {.n_ps = n_ps, .touched = touched};
    log_new(n_ps, BYTES_MAX, &log);
    for (uint64_t id = 1; id <= 2; id++) {
        struct coxi_closure *call = call_new(id);
        assert_code(0, coxi_closure_log(log, call, touched, N_TOUCHED));
        coxi_future_unref(&call->future);
    }
    assert_code(0, coxi_replay_log_each(log, check_touched, &kept));
    assert_int_equal(2, kept.n);
    coxi_replay_log_forget(log, 1);
    assert_code(0, coxi_replay_log_each(log, check_touched, &kept));
    assert_int_equal(3, kept.n);
    coxi_replay_log_free(log);
}

TEST(log_knows_which_of_a_few_ps_a_call_touched)
{
    assert_kept(3, (const uint32_t[]){0, 1, 2});
    assert_kept(64, (const uint32_t[]){0, 31, 63});
}

TEST(log_knows_which_of_many_ps_a_call_touched)
{
    assert_kept(65, (const uint32_t[]){0, 63, 64});
    assert_kept(COXI_PS_MAX, (const uint32_t[]){1, 64, COXI_PS_MAX - 1});
}

TEST(log_is_full_when_its_bytes_or_its_ids_are)
{
    struct coxi_replay_log *log;
    const uint32_t touched[] = {0};
    struct coxi_closure *call = call_new(7);
    log_new(1, 128, &log);
    /* an empty log is never full */
    assert_false(coxi_replay_log_is_full(log, UINT64_MAX));
    assert_code(0, coxi_replay_log_barred(log, coxi_closure_id(5)));
    assert_false(coxi_replay_log_is_due(log, 6));
    assert_true(coxi_replay_log_is_full(log, UINT64_MAX));
    assert_code(0, coxi_closure_log(log, call, touched, 1));
    assert_true(coxi_replay_log_is_due(log, 8));
    assert_true(coxi_replay_log_is_full(log, 8));
    coxi_replay_log_forget(log, coxi_replay_log_mark(log));
    assert_false(coxi_replay_log_is_full(log, UINT64_MAX));
    coxi_future_unref(&call->future);
    coxi_replay_log_free(log);
}

/* Calls are logged in the order in which they are settled, not in that of their ids. */
TEST(log_knows_its_oldest_call)
{
    static const uint64_t ids[] = {7, 4, 9};
    struct coxi_replay_log *log;
    const uint32_t touched[] = {0};
    log_new(1, BYTES_MAX, &log);
    assert_int_equal(UINT64_MAX, coxi_replay_log_oldest_call(log));
    assert_code(0, coxi_replay_log_barred(log, coxi_closure_id(1))); /* not a call */
    for (size_t i = 0; i < 3; i++) {
        struct coxi_closure *call = call_new(ids[i]);
        assert_code(0, coxi_closure_log(log, call, touched, 1));
        coxi_future_unref(&call->future);
    }
    assert_int_equal(4, coxi_replay_log_oldest_call(log));
    coxi_replay_log_forget(log, 2);
    assert_int_equal(4, coxi_replay_log_oldest_call(log));
    coxi_replay_log_forget(log, 3);
    assert_int_equal(9, coxi_replay_log_oldest_call(log));
    coxi_replay_log_forget(log, coxi_replay_log_mark(log));
    assert_int_equal(UINT64_MAX, coxi_replay_log_oldest_call(log));
    coxi_replay_log_free(log);
}

/* ---- operations */

static int count(void *arg, const struct coxi_replay_entry *entry)
{
    (void)entry;
    ++*(int *)arg;
    return 0;
}

static int n_entries(struct coxi_replay_log *log)
{
    int n = 0;
    assert_code(0, coxi_replay_log_each(log, count, &n));
    return n;
}

/* Two ps with two rows each. */
static struct coxi_shard shards[] = {{.ps = 0, .begin = 0, .count = 2},
                                     {.ps = 1, .begin = 2, .count = 2}};
static const struct coxi_variable variable = {.kind = COXI_KIND_DENSE,
                                              .dtype = COX_I64,
                                              .rank = 1,
                                              .shape = {4},
                                              .shards = shards,
                                              .n_shards = 2};

static void begin(struct coxi_replay_log *log, uint64_t id)
{
    static const int64_t data[] = {1, 2, 3, 4};
    struct coxi_replay_entry what = {.id = coxi_closure_id(id),
                                     .kind = COXI_REPLAY_UPDATE,
                                     .state = COXI_REPLAY_OPEN};
    what.update = coxi_replay_update_new(&variable, COXI_OP_ASSIGN, 0, 4, data);
    assert_non_null(what.update);
    assert_code(0, coxi_replay_log_operation(log, &what));
}

TEST(the_mark_passes_no_operation_that_is_not_done)
{
    struct coxi_replay_log *log;
    log_new(2, BYTES_MAX, &log);
    assert_code(0, coxi_replay_log_barred(log, coxi_closure_id(1)));
    begin(log, 2);
    begin(log, 3);
    coxi_replay_log_set(log, coxi_closure_id(3), COXI_REPLAY_DONE);
    uint64_t mark = coxi_replay_log_mark(log);
    coxi_replay_log_set(log, coxi_closure_id(2),
                        /* too late for the mark, which stays before operation 2 */
                        COXI_REPLAY_DONE);
    coxi_replay_log_forget(log, mark);
    assert_int_equal(2, n_entries(log));
    begin(log, 4);
    coxi_replay_log_set(log, coxi_closure_id(4), COXI_REPLAY_HELD);
    coxi_replay_log_forget(log, coxi_replay_log_mark(log));
    assert_int_equal(1, n_entries(log));
    coxi_replay_log_retract(log, coxi_closure_id(4));
    coxi_replay_log_forget(log, coxi_replay_log_mark(log));
    assert_int_equal(0, n_entries(log));
    coxi_replay_log_free(log);
}

/* A checkpoint would not let the log drop anything. */
TEST(an_operation_that_is_not_done_makes_no_checkpoint_due)
{
    struct coxi_replay_log *log;
    log_new(2, 200, &log);
    begin(log, 1);
    begin(log, 2);
    assert_false(coxi_replay_log_is_due(log, 3));
    assert_true(coxi_replay_log_is_full(log, 3));
    coxi_replay_log_set(log, coxi_closure_id(1), COXI_REPLAY_DONE);
    assert_true(coxi_replay_log_is_due(log, 3));
    coxi_replay_log_free(log);
}

/* Otherwise the held operation might wait for a call that waits for room in the log. */
TEST(an_operation_that_is_held_makes_no_log_full)
{
    struct coxi_replay_log *log;
    log_new(2, 200, &log);
    begin(log, 1);
    begin(log, 2);
    assert_true(coxi_replay_log_is_full(log, 3));
    coxi_replay_log_set(log, coxi_closure_id(1), COXI_REPLAY_HELD);
    assert_false(coxi_replay_log_is_full(log, 3));
    coxi_replay_log_set(log, coxi_closure_id(1), COXI_REPLAY_OPEN);
    assert_true(coxi_replay_log_is_full(log, 3));
    coxi_replay_log_free(log);
}

static int check_narrow(void *arg, const struct coxi_replay_entry *entry)
{
    static const int64_t row_of[] = {1, 2, 3, 4};
    ++*(int *)arg;
    assert_int_equal(COXI_REPLAY_DONE, entry->state);
    assert_int_equal(1, entry->update->count);
    assert_memory_equal(&row_of[entry->update->begin], entry->update->data,
                        sizeof(*row_of));
    assert_true(coxi_replay_update_is_on(entry->update, entry->update->begin / 2 == 1));
    assert_false(
        coxi_replay_update_is_on(entry->update, entry->update->begin / 2 == 0));
    return 0;
}

TEST(an_update_that_was_written_in_part_is_logged_as_its_rows)
{
    struct coxi_replay_log *log;
    int n = 0;
    const struct coxi_range ranges[] = {{1, 1}, {3, 1}};
    log_new(2, BYTES_MAX, &log);
    begin(log, 1);
    coxi_replay_log_set(log, coxi_closure_id(1), COXI_REPLAY_HELD);
    assert_code(0, coxi_replay_log_narrow(log, coxi_closure_id(1), 0, ranges, 2));
    assert_code(0, coxi_replay_log_each(log, check_narrow, &n));
    assert_int_equal(2, n);
    coxi_replay_log_forget(log, coxi_replay_log_mark(log));
    assert_int_equal(0, n_entries(log));
    coxi_replay_log_free(log);
}
