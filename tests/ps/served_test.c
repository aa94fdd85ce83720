/* A store remembers which clients it has served. */
#include "ps/served.h"

#include "tests/ps/stock.h"
#include "tests/test.h"

static const struct coxi_session run2 = {.run = 2, .generation = 1, .token = 22};

TEST(store_refuses_an_older_client_also_when_it_is_idle_or_has_served_others_since)
{
    struct stock s;
    const struct coxi_session newer = {.run = 1, .generation = 2, .token = 12};
    stock_open(&s);
    assert_code(0, coxi_store_claim(s.store, &newer, NULL));
    assert_code(0, coxi_store_release(s.store, &newer));
    assert_code(COX_EFENCED, coxi_store_claim(s.store, &s.session, &s.session));
    assert_code(COX_EFENCED, coxi_store_greeted(s.store, &s.session));
    for (uint64_t run = 2; run < COXI_SERVED_MAX; run++) {
        const struct coxi_session other = {run, 1, run};
        assert_code(0, coxi_store_claim(s.store, &other, NULL));
        assert_code(0, coxi_store_release(s.store, &other));
    }
    assert_code(COX_EFENCED, coxi_store_claim(s.store, &s.session, &s.session));
    assert_error_names("generation 2");
    assert_code(0, coxi_store_claim(s.store, &newer, NULL));
    stock_close(&s);
}

TEST(store_is_another_incarnation_for_all_but_the_client_that_it_has)
{
    struct stock s;
    stock_open(&s);
    assert_int_equal(STOCK_INCARNATION, coxi_store_incarnation(s.store));
    assert_code(0, coxi_store_claim(s.store, &s.session, NULL));
    assert_int_equal(STOCK_INCARNATION, coxi_store_incarnation(s.store));
    assert_code(0, coxi_store_claim(s.store, &run2, &s.session));
    assert_true(coxi_store_incarnation(s.store) != STOCK_INCARNATION);
    stock_close(&s);
}
