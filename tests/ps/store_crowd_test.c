/* The store, used by several threads at a time. */
#include <pthread.h>
#include <stdatomic.h>

#include "ps/store_internal.h"
#include "tests/ps/stock.h"
#include "tests/test.h"

enum { N_THREADS = 4, N_CLOSURES = 6000 };

struct crowd {
    struct stock stock;
    uint32_t variable;
    atomic_uint n_applied;
    atomic_uint n_duplicate;
};

/* Every thread commits every closure. */
static void *commit_all(void *arg)
{
    struct crowd *crowd = arg;
    for (uint64_t id = 1; id <= N_CLOSURES; id++) {
        bool duplicate = false;
        if (stock_count(&crowd->stock, crowd->variable, 100 + id, &duplicate) == 0) {
            atomic_fetch_add(duplicate ? &crowd->n_duplicate : &crowd->n_applied, 1);
        }
    }
    return NULL;
}

TEST(store_counts_concurrent_commits_exactly)
{
    struct crowd crowd = {0};
    struct coxi_counts found;
    pthread_t threads[N_THREADS];
    stock_open(&crowd.stock);
    crowd.variable = stock_dense(&crowd.stock, "v", COX_I64, 1);
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_create(&threads[i], NULL, commit_all, &crowd));
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(0, pthread_join(threads[i], NULL));
    }
    assert_int_equal(N_CLOSURES, stock_number(&crowd.stock, crowd.variable));
    assert_int_equal(N_CLOSURES, atomic_load(&crowd.n_applied));
    assert_int_equal((N_THREADS - 1) * N_CLOSURES, atomic_load(&crowd.n_duplicate));
    coxi_store_counts(crowd.stock.store,
                      &(struct coxi_count){.table = coxi_maybe_none()}, &found);
    assert_int_equal(N_CLOSURES, found.all.commits);
    assert_int_equal((N_THREADS - 1) * N_CLOSURES, found.all.duplicates);
    stock_close(&crowd.stock);
}

/* ---- restores that are abandoned */

static atomic_bool is_abandoned;

static void *abandon(void *arg)
{
    struct stock *stock = arg;
    coxi_store_abandon_restore(stock->store);
    atomic_store(&is_abandoned, true);
    return NULL;
}

static bool has_abandoned(void *arg)
{
    (void)arg;
    return atomic_load(&is_abandoned);
}

/* The thread that ticks abandons restores, and must not wait for a store. */
TEST(nobody_waits_to_abandon_a_restore)
{
    struct stock stock;
    pthread_t thread;
    stock_open(&stock);
    coxi_read_lock(&stock.store->registry);
    assert_int_equal(0, pthread_create(&thread, NULL, abandon, &stock));
    coxi_test_until(has_abandoned, NULL, "the end of coxi_store_abandon_restore");
    coxi_rw_unlock(&stock.store->registry);
    assert_int_equal(0, pthread_join(thread, NULL));
    stock_close(&stock);
}
