#include "common/patience.h"

#include "tests/test.h"

TEST(a_wait_says_so_after_10_s_and_then_ever_more_seldom)
{
    struct coxi_patience patience = {0};
    uint64_t said[8];
    size_t n = 0;
    for (uint64_t now_ms = 1000; now_ms <= 101000; now_ms += 100) {
        if (coxi_patience_ends(&patience, now_ms)) {
            said[n++] = coxi_patience_seconds(&patience, now_ms);
        }
    }
    assert_int_equal(4, n);
    assert_int_equal(10, said[0]);
    assert_int_equal(20, said[1]);
    assert_int_equal(40, said[2]);
    assert_int_equal(80, said[3]);
}

TEST(a_wait_that_has_not_begun_has_lasted_no_time)
{
    struct coxi_patience patience = {0};
    assert_int_equal(0, coxi_patience_seconds(&patience, 5000));
}

TEST(a_wait_that_nobody_ends_ends_with_patience)
{
    struct coxi_mutex lock = COXI_MUTEX_INIT;
    struct coxi_patience patience = {0};
    pthread_cond_t never;
    unsigned before = atomic_exchange(&coxi_patience_ms, 30);
    coxi_cond_init(&never);
    uint64_t start_ms = coxi_now_ms();
    uint64_t latest_ms = start_ms + 8000;
    coxi_lock(&lock);
    bool ended = false;
    while (!ended && coxi_now_ms() < latest_ms) { /* it may wake for nothing */
        ended = coxi_patience_wait(&patience, &never, &lock);
    }
    coxi_unlock(&lock);
    assert_true(ended);
    assert_true(coxi_patience_has_ended(&patience));
    assert_true(coxi_now_ms() - start_ms >= 30);
    (void)pthread_cond_destroy(&never);
    atomic_store(&coxi_patience_ms, before);
}
