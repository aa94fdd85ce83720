/* The replay log: what it keeps of calls, and forgets. */
#include "coordinator/log.h"

#include "tests/client/inside.h"
#include "tests/test.h"

enum { BYTES_MAX = 1 << 20, N_TOUCHED = 3 };

struct kept {
    uint32_t n_ps;
    const uint32_t *touched;
    int n; /* calls that were visited */
};

static int check_touched(void *arg, const struct coxi_log_entry *entry)
{
    struct kept *kept = arg;
    for (uint32_t ps = 0; ps < kept->n_ps; ps++) {
        bool is = false;
        for (int i = 0; i < N_TOUCHED; i++) {
            is = is || kept->touched[i] == ps;
        }
        assert_true(coxi_log_touched(entry, ps) == is);
    }
    kept->n++;
    return 0;
}

/* Two calls that touched these ps are in the log, and then are not. */
static void assert_kept(uint32_t n_ps, const uint32_t touched[N_TOUCHED])
{
    struct coxi_log *log;
    struct kept kept = {.n_ps = n_ps, .touched = touched};
    assert_code(0, coxi_log_new(n_ps, BYTES_MAX, &log));
    for (uint64_t id = 1; id <= 2; id++) {
        struct cox_future *call = inside_call(id);
        assert_non_null(call);
        assert_code(0, coxi_log_call(log, call, touched, N_TOUCHED));
        inside_let_go(call);
    }
    assert_code(0, coxi_log_each(log, check_touched, &kept));
    assert_int_equal(2, kept.n);
    coxi_log_forget(log, 1);
    assert_code(0, coxi_log_each(log, check_touched, &kept));
    assert_int_equal(3, kept.n);
    coxi_log_free(log);
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
    struct coxi_log *log;
    const uint32_t touched[] = {0};
    struct cox_future *call = inside_call(7);
    assert_non_null(call);
    assert_code(0, coxi_log_new(1, 128, &log));
    assert_false(coxi_log_is_full(log, UINT64_MAX)); /* there is nothing in it */
    assert_code(0, coxi_log_barred(log, 5));
    assert_false(coxi_log_is_due(log, 6));
    assert_true(coxi_log_is_full(log, UINT64_MAX));
    assert_code(0, coxi_log_call(log, call, touched, 1));
    assert_true(coxi_log_is_due(log, 8));
    assert_true(coxi_log_is_full(log, 8));
    coxi_log_forget(log, coxi_log_mark(log));
    assert_false(coxi_log_is_full(log, UINT64_MAX));
    inside_let_go(call);
    coxi_log_free(log);
}
